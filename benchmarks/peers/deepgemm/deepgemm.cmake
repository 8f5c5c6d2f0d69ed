# libmxcheck_deepgemm.so: DeepGEMM's kernels for Hopper as a candidate library, for mxcheck_sm90_gemm_bench --beside. Built
# where the folders of both checkouts are given; nothing of them is in this tree (docs/peers.md).
set(MXCHECK_DEEPGEMM "" CACHE PATH "A checkout of DeepGEMM, whose kernels benchmarks time beside ours")
set(MXCHECK_CUTLASS "" CACHE PATH "A checkout of CUTLASS, which DeepGEMM's headers include")
if(NOT MXCHECK_DEEPGEMM AND NOT MXCHECK_CUTLASS)
  return()
endif()
foreach(needed "DEEPGEMM deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh" "CUTLASS include/cutlass/cutlass.h")
  separate_arguments(needed)
  list(GET needed 0 name)
  list(GET needed 1 file)
  if(NOT EXISTS "${MXCHECK_${name}}/${file}")
    message(FATAL_ERROR "MXCHECK_${name} is \"${MXCHECK_${name}}\": it must be a folder with ${file} in it, a checkout as docs/peers.md says")
  endif()
endforeach()

set(deepgemm_version "commit unknown")
execute_process(
  COMMAND git -C ${MXCHECK_DEEPGEMM} describe --always --dirty
  OUTPUT_VARIABLE described
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  RESULT_VARIABLE failed)
if(NOT failed)
  set(deepgemm_version "${described}")
endif()
message(STATUS "mxcheck: libmxcheck_deepgemm.so of DeepGEMM ${deepgemm_version}")

file(GLOB deepgemm_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cc ${CMAKE_CURRENT_LIST_DIR}/*.cu)
# A call's arguments are read by the sources that our own library reads them with.
add_library(mxcheck_deepgemm SHARED ${deepgemm_sources}
            "$<FILTER:$<TARGET_OBJECTS:mxcheck_sm90_gemm_objects>,INCLUDE,/common/[^/]*$|/gemm/candidate/(call|check|pad)[^/]*$>")
target_link_libraries(mxcheck_deepgemm PRIVATE mxcheck_options mxcheck::dlpack CUDA::cudart_static)
target_include_directories(mxcheck_deepgemm SYSTEM PRIVATE ${MXCHECK_DEEPGEMM}/deep_gemm/include ${MXCHECK_CUTLASS}/include)
target_compile_definitions(mxcheck_deepgemm
                           PRIVATE MXCHECK_DEEPGEMM_VERSION="${deepgemm_version}, nvcc ${CMAKE_CUDA_COMPILER_VERSION}, sm_90a")
# What DeepGEMM compiles its kernels with, and warnings of its headers off.
target_compile_options(
  mxcheck_deepgemm
  PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--expt-extended-lambda;--diag-suppress=39,161,174,177,186,940;--ptxas-options=--register-usage-level=10>"
)
set(deepgemm_exports ${CMAKE_CURRENT_LIST_DIR}/exports.map)
target_link_options(mxcheck_deepgemm PRIVATE -Wl,--version-script=${deepgemm_exports} -Wl,--no-undefined -s -static-libstdc++ -static-libgcc)
set_target_properties(
  mxcheck_deepgemm
  PROPERTIES CUDA_STANDARD 20
             CUDA_ARCHITECTURES 90a-real
             CUDA_RUNTIME_LIBRARY Static
             CXX_VISIBILITY_PRESET hidden
             CUDA_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON
             LINKER_LANGUAGE CXX
             LINK_DEPENDS ${deepgemm_exports})

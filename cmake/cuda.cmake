# Finds the CUDA that this build can use. Everything but the GPU kernels builds and runs without it.
# Sets MXCHECK_CUDA_INCLUDE_DIR to the folder of cuda_fp8.h, or to nothing: tests take it as a third opinion on formats.
# Sets MXCHECK_SM90 where there is an nvcc that knows Hopper's own instructions: libmxcheck_sm90.so is built.
set(MXCHECK_CUDA_INCLUDE_DIR "")
set(MXCHECK_SM90 OFF)
if(MXCHECK_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off (MXCHECK_CUDA=OFF)")
  return()
endif()
find_package(CUDAToolkit 12.0 QUIET)
if(CUDAToolkit_FOUND)
  find_path(
    MXCHECK_CUDA_FP8_DIR cuda_fp8.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS}
    NO_DEFAULT_PATH)
  mark_as_advanced(MXCHECK_CUDA_FP8_DIR)
endif()
if(MXCHECK_CUDA_FP8_DIR)
  set(MXCHECK_CUDA_INCLUDE_DIR ${MXCHECK_CUDA_FP8_DIR})
  message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, cuda_fp8.h in ${MXCHECK_CUDA_INCLUDE_DIR}")
  find_program(MXCHECK_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR})
  mark_as_advanced(MXCHECK_NVCC)
  if(MXCHECK_NVCC AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.4 AND TARGET CUDA::cudart_static)
    set(CMAKE_CUDA_COMPILER ${MXCHECK_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
    set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -Xfatbin=-compress-all")
    enable_language(CUDA)
    foreach(kind STANDARD EXTENSION)  # CMake 3.25 does not know that nvcc 12 and later have C++20
      if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
      endif()
    endforeach()
    set(MXCHECK_SM90 ON)
    message(STATUS "CUDA: libmxcheck_sm90.so is built with ${MXCHECK_NVCC}")
  else()
    message(STATUS "CUDA: no nvcc 12.4 or later with a static runtime; libmxcheck_sm90.so is left out")
  endif()
elseif(MXCHECK_CUDA STREQUAL "ON")
  message(FATAL_ERROR "MXCHECK_CUDA=ON, but no CUDA Toolkit 12.0 or later with cuda_fp8.h was found; "
                      "set CUDAToolkit_ROOT, or MXCHECK_CUDA to AUTO or OFF")
else()
  message(STATUS "CUDA: no toolkit found; tests against cuda_fp8.h are left out")
endif()

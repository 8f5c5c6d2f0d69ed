# mxcheck_sm90_library(NAME FOLDERS ... HEADERS ...): libmxcheck_NAME.so from every source in these folders of kernels/
# (globs), with the headers of the candidate interface that it implements. The CUDA runtime is inside it, and machine
# code for Hopper alone: there is no PTX that a driver could compile into something else.
#
# mxcheck_NAME_objects are the same sources as objects, for tests and for tests/faults. The library exports the digests
# of all that it is built from, for records: a source, header or flag that changes, changes them.
function(mxcheck_sm90_library NAME)
  cmake_parse_arguments(ARG "" "" "FOLDERS;HEADERS" ${ARGN})
  set(kernels ${PROJECT_SOURCE_DIR}/kernels)
  set(patterns)
  foreach(folder ${ARG_FOLDERS})
    foreach(ending cc cu h cuh)
      list(APPEND patterns ${kernels}/${folder}/*.${ending})
    endforeach()
  endforeach()
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  set(sources ${files})
  list(FILTER sources INCLUDE REGEX "\\.(cc|cu)$")

  add_library(mxcheck_${NAME}_objects OBJECT ${sources})
  target_link_libraries(mxcheck_${NAME}_objects PRIVATE mxcheck_options mxcheck::dlpack CUDA::cudart_static)
  target_compile_definitions(
    mxcheck_${NAME}_objects
    PRIVATE MXCHECK_SM90_VERSION="${PROJECT_VERSION}, nvcc ${CMAKE_CUDA_COMPILER_VERSION}, sm_90a")
  set_target_properties(
    mxcheck_${NAME}_objects
    PROPERTIES CUDA_STANDARD 20
               CUDA_ARCHITECTURES 90a-real
               CXX_VISIBILITY_PRESET hidden
               CUDA_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON)

  set(exports ${kernels}/sm90/common/exports.map)
  list(TRANSFORM ARG_HEADERS PREPEND ${kernels}/ OUTPUT_VARIABLE headers)
  # kernels/CMakeLists.txt names folders alone, and what is in them is listed: it may gain a library.
  list(APPEND files ${headers} ${exports} ${PROJECT_SOURCE_DIR}/cmake/cuda.cmake
       ${PROJECT_SOURCE_DIR}/cmake/sm90_library.cmake)
  list(TRANSFORM files REPLACE "^${PROJECT_SOURCE_DIR}/" "" OUTPUT_VARIABLE names)
  set(manifest ${CMAKE_CURRENT_BINARY_DIR}/${NAME}_sources.c)
  add_custom_command(
    OUTPUT ${manifest}
    COMMAND mxcheck_source_digest --c ${PROJECT_SOURCE_DIR} ${names} > ${manifest}
    DEPENDS mxcheck_source_digest ${files}
    VERBATIM)

  add_library(mxcheck_${NAME} SHARED $<TARGET_OBJECTS:mxcheck_${NAME}_objects> ${manifest})
  target_link_libraries(mxcheck_${NAME} PRIVATE mxcheck_options CUDA::cudart_static)
  target_link_options(mxcheck_${NAME} PRIVATE -Wl,--version-script=${exports} -Wl,--no-undefined)
  set_target_properties(mxcheck_${NAME} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
endfunction()

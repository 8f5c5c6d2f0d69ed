# mxcheck_version: the header mxcheck_version.h, written anew at each build but touched only when its content changes,
# so that a new commit recompiles the one or two files that include it. Without git the commit is "unknown".
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}" flags)
set(header ${PROJECT_BINARY_DIR}/generated/mxcheck_version.h)
add_custom_target(
  mxcheck_version_header
  COMMAND
    ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D HEADER=${header} -D VERSION=${PROJECT_VERSION} -D
    "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" -D "FLAGS=${flags}" -D
    BUILD_TYPE=${CMAKE_BUILD_TYPE} -P ${CMAKE_CURRENT_LIST_DIR}/write_version.cmake
  BYPRODUCTS ${header}
  COMMENT ""
  VERBATIM)
add_library(mxcheck_version INTERFACE)
target_include_directories(mxcheck_version INTERFACE ${PROJECT_BINARY_DIR}/generated)
add_dependencies(mxcheck_version mxcheck_version_header)

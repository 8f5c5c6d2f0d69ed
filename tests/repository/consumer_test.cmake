# Builds and runs consumer/ against the installation in PREFIX.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/must.cmake)
set(build ${WORK}/consumer_build)
must_build(${CMAKE_CURRENT_LIST_DIR}/consumer ${build})
must(${build}/consumer)
if(NOT output STREQUAL "448 BF16 1\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()

# The warnings of this build are no business of its users, and neither are headers of what only the archives call.
file(READ ${build}/compile_commands.json commands)
if(commands MATCHES "-Wconversion|-ffp-contract|hdf5|eigen|XXH_")
  message(FATAL_ERROR "what is this build's own leaks into the consumer:\n${commands}")
endif()

# A kernel library asks for candidate alone and gets by without the others' libraries. A component that there is not,
# and a library that the machine lacks, are answers to find_package, not the end of the user's configuration.
must_build(${CMAKE_CURRENT_LIST_DIR}/consumer ${WORK}/consumer_build_candidate -D COMPONENT=candidate -D
           CMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
must_build(${CMAKE_CURRENT_LIST_DIR}/consumer ${WORK}/consumer_build_missing -D COMPONENT=gate)
must_build(${CMAKE_CURRENT_LIST_DIR}/consumer ${WORK}/consumer_build_missing -D COMPONENT=reference -D
           CMAKE_DISABLE_FIND_PACKAGE_fmt=ON)

# Configures examples/ci/fetchcontent with this tree as mxcheck and builds its candidate: mxcheck brings no tests, no
# warnings of its own as errors and nothing to install.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/../../repository/must.cmake)
set(build ${WORK}/fetchcontent_build)
file(REMOVE_RECURSE ${build})
must(${CMAKE_COMMAND} -S ${SOURCE}/examples/ci/fetchcontent -B ${build} -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER} -D
     CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D CMAKE_EXPORT_COMPILE_COMMANDS=ON -D
     FETCHCONTENT_SOURCE_DIR_MXCHECK=${SOURCE})
must(${CMAKE_COMMAND} --build ${build} --target my_candidate)

file(STRINGS ${build}/CMakeCache.txt cache REGEX "^MXCHECK_(WERROR|TESTS|INSTALL|CUDA):")
foreach(option WERROR TESTS INSTALL CUDA)
  if(NOT cache MATCHES "MXCHECK_${option}:[A-Z]+=OFF")
    message(SEND_ERROR "MXCHECK_${option} is not off in another project: ${cache}")
  endif()
endforeach()
file(READ ${build}/compile_commands.json commands)
if(commands MATCHES "-Werror|_test\\.cc|/benchmarks/host/")
  message(SEND_ERROR "another project gets -Werror, tests or benchmarks: ${CMAKE_MATCH_0}")
endif()

must(${CMAKE_CTEST_COMMAND} --test-dir ${build} -N)
if(NOT output MATCHES "Test #1: gate\n+Total Tests: 1\n")
  message(SEND_ERROR "the project's tests are not its gate alone:\n${output}")
endif()
must(${CMAKE_COMMAND} --install ${build} --prefix ${build}/prefix)
file(GLOB installed ${build}/prefix/*)
if(installed)
  message(SEND_ERROR "another project installs ${installed}")
endif()

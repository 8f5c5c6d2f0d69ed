# must(COMMAND ...): runs it, leaves what it printed in `output`; what fails ends the test with that.
function(must)
  execute_process(
    COMMAND ${ARGN}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "exit ${result}: ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# must_build(SOURCE BINARY): configures and builds a project against the installation in PREFIX alone.
function(must_build SOURCE BINARY)
  file(REMOVE_RECURSE ${BINARY})
  must(${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${PREFIX} -D
       CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D "CMAKE_CXX_FLAGS=${FLAGS}" -D
       CMAKE_BUILD_TYPE=Release -D CMAKE_EXPORT_COMPILE_COMMANDS=ON ${ARGN})
  must(${CMAKE_COMMAND} --build ${BINARY} --parallel 2)
endfunction()

# Installs the build into an empty prefix, then builds and runs consumer/ against that prefix alone.
set(prefix ${WORK}/consumer_prefix)
set(build ${WORK}/consumer_build)
file(REMOVE_RECURSE ${prefix} ${build})

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

must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
must(${CMAKE_COMMAND} -S ${CONSUMER} -B ${build} -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${prefix} -D
     CMAKE_CXX_COMPILER=${COMPILER} -D "CMAKE_CXX_FLAGS=${FLAGS}" -D CMAKE_BUILD_TYPE=Release -D
     CMAKE_EXPORT_COMPILE_COMMANDS=ON)
must(${CMAKE_COMMAND} --build ${build})
must(${build}/consumer)
if(NOT output STREQUAL "448 BF16 1\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()

# The warnings of this build are no business of its users, and nothing may point back into the source tree.
file(READ ${build}/compile_commands.json commands)
if(commands MATCHES "-Wconversion|-ffp-contract")
  message(FATAL_ERROR "flags of this build leak into the consumer:\n${commands}")
endif()
file(GLOB_RECURSE package ${prefix}/*.cmake)
get_filename_component(source ${CONSUMER}/../../.. ABSOLUTE)
foreach(file ${package})
  file(READ ${file} text)
  string(FIND "${text}" "${source}/" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} points into ${source}")
  endif()
endforeach()

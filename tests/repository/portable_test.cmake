# Installs a portable build, copies it, and runs it with an empty environment. Only the C library may come from outside.
set(prefix ${WORK}/portable_prefix)
set(copy "${WORK}/portable copy")
file(REMOVE_RECURSE ${prefix} "${copy}")
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${prefix} "${copy}")

set(of_the_c_library "^(linux-vdso\\.so\\.1|libc\\.so\\.6|libm\\.so\\.6|libdl\\.so\\.2|libpthread\\.so\\.0|.*/ld-linux.*)$")
file(GLOB_RECURSE kernels "${copy}/lib/*libmxcheck_*.so")
if(NOT kernels)
  message(FATAL_ERROR "no kernel library was installed")
endif()
foreach(file "${copy}/bin/mxcheck" ${kernels})
  execute_process(COMMAND env -i /usr/bin/ldd ${file} OUTPUT_VARIABLE needs COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${needs}")
  foreach(line ${lines})
    string(REGEX REPLACE "^[ \t]*([^ ]+).*$" "\\1" name "${line}")
    string(FIND "${line}" "=> ${copy}/" carried)
    if(NOT name MATCHES "${of_the_c_library}" AND carried EQUAL -1)
      message(FATAL_ERROR "${file} needs from outside: ${line}")
    endif()
  endforeach()
endforeach()

foreach(arguments "--version" "gate;--candidate;cpu;--suite;quick;--only;dequantize_inverts*")
  execute_process(
    COMMAND env -i "${copy}/bin/mxcheck" ${arguments}
    WORKING_DIRECTORY ${WORK}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "mxcheck ${arguments}: exit ${result}\n${output}")
  endif()
endforeach()

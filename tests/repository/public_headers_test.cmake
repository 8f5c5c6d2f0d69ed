# cmake/write_public_headers.cmake on a planted tree.
cmake_minimum_required(VERSION 3.22)
set(tree ${WORK}/planted)
get_filename_component(script ${CMAKE_CURRENT_LIST_DIR}/../../cmake/write_public_headers.cmake ABSOLUTE)
file(REMOVE_RECURSE ${tree})
file(WRITE ${tree}/lists.cmake "set(mxcheck_public_folders numerics kernels)\nset(mxcheck_public_numerics a.h x/b.h)\n"
                               "set(mxcheck_public_kernels c.h d.h)\n"
                               "set(mxcheck_public_includes_of_others dlpack/dlpack.h)\n")
file(WRITE ${tree}/numerics/x/b.h "#pragma once\n")
file(WRITE ${tree}/kernels/c.h "#include <dlpack/dlpack.h>\n")
file(WRITE ${tree}/kernels/d.h "#include \"kernels/c.h\"\n")

# write(TEXT OUTCOME): with this numerics/a.h; OUTCOME is a pattern of the error, or empty
function(write TEXT OUTCOME)
  file(WRITE ${tree}/numerics/a.h "${TEXT}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${tree} -D INCLUDE_DIR=${tree}/include -D LISTS=${tree}/lists.cmake -P
            ${script}
    RESULT_VARIABLE result
    ERROR_VARIABLE error)
  string(REGEX REPLACE "[ \n]+" " " error "${error}")
  if(OUTCOME STREQUAL "" AND NOT result EQUAL 0 OR NOT OUTCOME STREQUAL "" AND NOT error MATCHES "${OUTCOME}")
    message(FATAL_ERROR "exit ${result} for\n${TEXT}\n${error}")
  endif()
endfunction()

function(expect FILE TEXT)
  file(READ ${tree}/include/mxcheck/${FILE} text)
  if(NOT text STREQUAL TEXT)
    message(FATAL_ERROR "${FILE} holds\n${text}\nin place of\n${TEXT}")
  endif()
endfunction()

file(WRITE ${tree}/include/mxcheck/numerics/gone.h "of a version before")
set(before "// see numerics/x/b.h\n#include <vector>\n\n#include \"")
set(between "numerics/x/b.h\"\n  #  include \"")
set(after "numerics/x/b.h\"  // [why]; \\n\n")
write("${before}${between}${after}" "")
expect(numerics/a.h "${before}mxcheck/${between}mxcheck/${after}")
expect(kernels/d.h "#include \"mxcheck/kernels/c.h\"\n")
file(READ ${tree}/include/mxcheck/mxcheck.h umbrella)
if(NOT umbrella MATCHES "\n\n#include \"mxcheck/numerics/a.h\"\n#include \"mxcheck/numerics/x/b.h\"\n$")
  message(FATAL_ERROR "mxcheck.h holds\n${umbrella}")
endif()
if(EXISTS ${tree}/include/mxcheck/numerics/gone.h)
  message(FATAL_ERROR "a header that is no longer listed has stayed")
endif()

write("#include \"numerics/internal.h\"\n" "numerics/a.h includes numerics/internal.h, which is not public")
write("#include <fmt/format.h>\n" "numerics/a.h includes fmt/format.h, which is not public")
write("#include <numerics/x/b.h>\n" "numerics/a.h includes <numerics/x/b.h>")
write("#include \"b.h\"\n" "numerics/a.h includes b.h, which is not public")
file(REMOVE ${tree}/numerics/x/b.h)
write("" "numerics/x/b.h")

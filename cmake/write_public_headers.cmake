# cmake -D SOURCE_DIR= -D INCLUDE_DIR= [-D LISTS=] -P write_public_headers.cmake
#
# Copies the public headers to INCLUDE_DIR/mxcheck, and writes mxcheck/mxcheck.h, which includes those of C++. In the
# source tree a header is "numerics/error.h"; installed, it is "mxcheck/numerics/error.h", so that nothing of ours can
# take the place of a user's own numerics/error.h. Files that are equal are left alone; what is no longer listed is
# removed.
cmake_minimum_required(VERSION 3.22)
if(NOT LISTS)
  set(LISTS ${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)
endif()
include(${LISTS})

set(public)
foreach(folder ${mxcheck_public_folders})
  foreach(header ${mxcheck_public_${folder}})
    list(APPEND public ${folder}/${header})
  endforeach()
endforeach()

function(write_if_different FILE TEXT)
  if(EXISTS ${FILE})
    file(READ ${FILE} before)
    if(before STREQUAL TEXT)
      return()
    endif()
  endif()
  file(WRITE ${FILE} "${TEXT}")
endfunction()

# check_includes(HEADER TEXT): every include of HEADER is public, C++'s own or one of the others that are declared.
function(check_includes HEADER TEXT)
  string(REGEX MATCHALL "#[ \t]*include[ \t]*[<\"][^>\"\n]+[>\"]" lines "${TEXT}")
  foreach(line ${lines})
    string(REGEX REPLACE "^[^<\"]*[<\"](.*)[>\"]$" "\\1" name "${line}")
    if(name IN_LIST public AND line MATCHES "<")
      message(FATAL_ERROR "${HEADER} includes <${name}>: headers of ours are included in quotes")
    elseif(name IN_LIST public OR name IN_LIST mxcheck_public_includes_of_others OR name MATCHES "^[a-z_0-9]+$")
      continue()
    endif()
    message(FATAL_ERROR "${HEADER} includes ${name}, which is not public: ${LISTS} lists what is")
  endforeach()
endfunction()

set(umbrella "#pragma once\n// All of mxcheck's libraries. Programs that use little of them include that alone.\n\n")
foreach(header ${public})
  file(READ ${SOURCE_DIR}/${header} text)
  check_includes(${header} "${text}")
  string(REGEX REPLACE "((^|\n)[ \t]*#[ \t]*include[ \t]*\")([^\"\n]+\")" "\\1mxcheck/\\3" text "${text}")
  if(NOT header MATCHES "^kernels/")
    string(APPEND umbrella "#include \"mxcheck/${header}\"\n")
  endif()
  write_if_different(${INCLUDE_DIR}/mxcheck/${header} "${text}")
endforeach()
write_if_different(${INCLUDE_DIR}/mxcheck/mxcheck.h "${umbrella}")

file(GLOB_RECURSE present RELATIVE ${INCLUDE_DIR}/mxcheck ${INCLUDE_DIR}/mxcheck/*)
list(REMOVE_ITEM present ${public} mxcheck.h)
foreach(file ${present})
  file(REMOVE ${INCLUDE_DIR}/mxcheck/${file})
endforeach()

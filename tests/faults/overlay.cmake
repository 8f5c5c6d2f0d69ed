# What all faults are made of: a changed copy of a file of kernels/, in a folder that comes before the source tree on the
# include path. Files are named from kernels/ on.

# Sets TEXT, the name of a variable, to its text with SEARCH replaced, and `count` to how often SEARCH occurred: where
# that is not once, TEXT stays. Arguments are quoted by the caller: C++ is full of semicolons, which would split a list.
function(mxcheck_replace_once TEXT SEARCH REPLACE)
  string(REPLACE "${SEARCH}" "" without "${${TEXT}}")
  string(LENGTH "${SEARCH}" length)
  string(LENGTH "${${TEXT}}" before)
  string(LENGTH "${without}" after)
  math(EXPR count "(${before} - ${after}) / ${length}")
  set(count ${count} PARENT_SCOPE)
  if(count EQUAL 1)
    string(REPLACE "${SEARCH}" "${REPLACE}" text "${${TEXT}}")
    set(${TEXT} "${text}" PARENT_SCOPE)
  endif()
endfunction()

# Writes FILE of the overlay, unless it holds this text: what is built from it need not be built again.
function(mxcheck_write_overlay OVERLAY FILE TEXT)
  set(path ${OVERLAY}/kernels/${FILE})
  set(old)
  if(EXISTS ${path})
    file(READ ${path} old)
  endif()
  if(NOT old STREQUAL TEXT)
    file(WRITE ${path} "${TEXT}")
  endif()
endfunction()

# Removes what an earlier configuration put into the overlay when the fault was in other files than these: it would be
# found too.
function(mxcheck_clean_overlay OVERLAY)
  file(GLOB_RECURSE stale ${OVERLAY}/*)
  foreach(file ${ARGN})
    list(REMOVE_ITEM stale ${OVERLAY}/kernels/${file})
  endforeach()
  if(stale)
    file(REMOVE ${stale})
  endif()
endfunction()

# OBJECTS of a library but those of these sources, for a library with a fault in them; as target_sources takes them.
function(mxcheck_other_objects VARIABLE OBJECTS)
  string(REPLACE ";" "|" replaced "${ARGN}")
  string(REPLACE "." "\\." replaced "${replaced}")
  set(${VARIABLE} "$<FILTER:$<TARGET_OBJECTS:${OBJECTS}>,EXCLUDE,/\(${replaced}\)\\.o$>" PARENT_SCOPE)
endfunction()

# A change of a library must not keep anyone from building it, but it must not make a catalogue shorter unnoticed
# either: where there are COMPLAINTS, the test fails.
function(mxcheck_test_replacements TEST CATALOGUE COMPLAINTS)
  if(COMPLAINTS)
    message(WARNING "tests/faults/${CATALOGUE}: each text must occur exactly once.${COMPLAINTS}")
  endif()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${TEST}.txt "${COMPLAINTS}")
  add_test(NAME faults.${TEST}
           COMMAND ${CMAKE_COMMAND} -DCOMPLAINTS=${CMAKE_CURRENT_BINARY_DIR}/${TEST}.txt -P
                   ${CMAKE_CURRENT_SOURCE_DIR}/no_complaints.cmake)
  set_tests_properties(faults.${TEST} PROPERTIES LABELS quick TIMEOUT 300)
endfunction()

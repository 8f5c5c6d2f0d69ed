# One overlay for all faults of a family: changed copies of files of kernels/, in a folder that comes before the source
# tree on the include path. Each place that a fault changes has the unchanged code and all alternatives, and a condition
# for each (fault.h). Files are named from kernels/ on.
#
# mxcheck_overlay_change(NAME FILE SEARCH REPLACE) puts a fault into the texts of the family ${fault_family}:
#   - SEARCH that ends in ";" is a statement, and becomes `if (FAULT) { REPLACE } else { SEARCH }`;
#   - any other is an expression, and becomes `(FAULT ? (REPLACE) : (SEARCH))`;
#   - a REPLACE with the word FAULT or UNCHANGED is the new text itself: FAULT stands for the condition, UNCHANGED for
#     what is there without the fault.
# SEARCH occurs exactly once in FILE. Two faults may have the same SEARCH; they must not have texts that overlap.
# mxcheck_overlay_write(FOLDER) writes the changed files and sets overlay_files to their list.

# Where the faults of a catalogue begin:
# mxcheck_begin_faults(FAMILY SOURCE FOLDER), for changed copies of SOURCE/kernels; FOLDER is where the list of faults will
# say that their libraries are, libmxcheck_FAMILY_NAME.so.
# mxcheck_fault(NAME REFERENCE "what is wrong" FILE SEARCH REPLACE [FILE SEARCH REPLACE]...): a fault, and the name of what is
# known to have had it, or "".

macro(mxcheck_begin_faults FAMILY SOURCE FOLDER)
  set(fault_family ${FAMILY})
  set(fault_source ${SOURCE})
  set(fault_folder ${FOLDER})
  set(fault_names control)
  set(fault_lines)
  set(fault_complaints)
  mxcheck_fault_line(control "" "nothing is changed")
endmacro()

macro(mxcheck_fault_line NAME REFERENCE WHAT)
  string(APPEND fault_lines "${NAME}\t${REFERENCE}\t${WHAT}\t${fault_folder}/libmxcheck_${fault_family}_${NAME}.so\n")
endmacro()

# Arguments are taken by number: C++ is full of semicolons, which would split a list.
function(mxcheck_fault NAME REFERENCE WHAT)
  set(at 3)
  while(at LESS ARGC)
    math(EXPR with "${at} + 1")
    math(EXPR by "${at} + 2")
    mxcheck_overlay_change(${NAME} "${ARGV${at}}" "${ARGV${with}}" "${ARGV${by}}")
    math(EXPR at "${at} + 3")
  endwhile()
  mxcheck_fault_line(${NAME} "${REFERENCE}" "${WHAT}")
  set(fault_names ${fault_names} ${NAME} PARENT_SCOPE)
  set(fault_lines "${fault_lines}" PARENT_SCOPE)
  set(fault_complaints "${fault_complaints}" PARENT_SCOPE)
endfunction()

# Texts are kept in global properties, with a word for each place; arguments are quoted throughout: C++ is full of
# semicolons, which would split a list.
function(mxcheck_overlay_change NAME FILE SEARCH REPLACE)
  string(MD5 place "${FILE} ${SEARCH}")
  get_property(unchanged GLOBAL PROPERTY mxcheck_${fault_family}_${place})
  if(NOT unchanged)
    mxcheck_overlay_add_place("${FILE}" "${SEARCH}" ${place})
    if(NOT count EQUAL 1)
      set(fault_complaints "${fault_complaints}\n  ${NAME}: in kernels/${FILE}, ${count} times: ${SEARCH}" PARENT_SCOPE)
      return()
    endif()
    set(unchanged "${SEARCH}")
  endif()
  if("${REPLACE}" MATCHES "FAULT|UNCHANGED")
    set(text "${REPLACE}")
  elseif("${SEARCH}" MATCHES ";$")
    set(text "if (FAULT) { ${REPLACE} } else { UNCHANGED }")
  else()
    set(text "(FAULT ? (${REPLACE}) : (UNCHANGED))")
  endif()
  string(REPLACE "FAULT" "::mxcheck_faults::is(::mxcheck_faults::Fault::${NAME})" text "${text}")
  string(REPLACE "UNCHANGED" "${unchanged}" text "${text}")
  set_property(GLOBAL PROPERTY mxcheck_${fault_family}_${place} "${text}")
endfunction()

# Puts the word of a place where SEARCH is in FILE, and sets `count` to how often SEARCH occurred.
function(mxcheck_overlay_add_place FILE SEARCH PLACE)
  get_property(files GLOBAL PROPERTY mxcheck_${fault_family}_files)
  if(FILE IN_LIST files)
    get_property(text GLOBAL PROPERTY mxcheck_${fault_family}_${FILE})
  else()
    file(READ ${fault_source}/kernels/${FILE} text)
  endif()
  string(REPLACE "${SEARCH}" "" without "${text}")
  string(LENGTH "${SEARCH}" length)
  string(LENGTH "${text}" before)
  string(LENGTH "${without}" after)
  math(EXPR count "(${before} - ${after}) / ${length}")
  set(count ${count} PARENT_SCOPE)
  if(NOT count EQUAL 1)
    return()
  endif()
  string(REPLACE "${SEARCH}" "@${PLACE}@" text "${text}")
  set_property(GLOBAL PROPERTY mxcheck_${fault_family}_${FILE} "${text}")
  set_property(GLOBAL APPEND PROPERTY mxcheck_${fault_family}_places_of_${FILE} ${PLACE})
  if(NOT FILE IN_LIST files)
    set_property(GLOBAL APPEND PROPERTY mxcheck_${fault_family}_files ${FILE})
  endif()
endfunction()

function(mxcheck_overlay_write FOLDER)
  get_property(files GLOBAL PROPERTY mxcheck_${fault_family}_files)
  set(whole)
  foreach(file ${files})
    get_property(text GLOBAL PROPERTY mxcheck_${fault_family}_${file})
    get_property(places GLOBAL PROPERTY mxcheck_${fault_family}_places_of_${file})
    foreach(place ${places})
      get_property(code GLOBAL PROPERTY mxcheck_${fault_family}_${place})
      string(REPLACE "@${place}@" "${code}" text "${text}")
    endforeach()
    mxcheck_write_if_changed(${FOLDER}/kernels/${file} "${text}")
    string(APPEND whole "${text}")
  endforeach()
  # A REPLACE without UNCHANGED at a place that has another fault already would have taken its place.
  foreach(name ${fault_names})
    string(FIND "${whole}" "::mxcheck_faults::Fault::${name})" at)
    if(at EQUAL -1 AND NOT name STREQUAL control)
      string(APPEND fault_complaints "\n  ${name}: its text is lost, where another fault has the same SEARCH")
    endif()
  endforeach()
  # An earlier configuration may have had faults in other files: they would be found too.
  file(GLOB_RECURSE stale ${FOLDER}/kernels/*)
  list(TRANSFORM files PREPEND ${FOLDER}/kernels/ OUTPUT_VARIABLE written)
  list(REMOVE_ITEM stale ${written})
  if(stale)
    file(REMOVE ${stale})
  endif()
  set(overlay_files ${files} PARENT_SCOPE)
  set(fault_complaints "${fault_complaints}" PARENT_SCOPE)
endfunction()

# A file that keeps its time is not built again.
function(mxcheck_write_if_changed PATH TEXT)
  set(old)
  if(EXISTS ${PATH})
    file(READ ${PATH} old)
  endif()
  if(NOT old STREQUAL TEXT)
    file(WRITE ${PATH} "${TEXT}")
  endif()
endfunction()

# Names of faults for fault.h, the control first.
function(mxcheck_overlay_write_names FOLDER)
  list(TRANSFORM ARGN REPLACE "(.+)" "MXCHECK_FAULT(\\1)\n" OUTPUT_VARIABLE lines)
  string(CONCAT lines "// Generated by tests/faults/overlay.cmake.\n" ${lines})
  mxcheck_write_if_changed(${FOLDER}/fault_names.inc "${lines}")
endfunction()

# A change of a library must not keep anyone from building it, but it must not make a catalogue shorter unnoticed
# either: where there are COMPLAINTS, the test fails.
function(mxcheck_test_replacements TEST CATALOGUE COMPLAINTS)
  if(COMPLAINTS)
    message(WARNING "tests/faults/${CATALOGUE}: each text must occur exactly once, and none may overlap another."
                    "${COMPLAINTS}")
  endif()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${TEST}.txt "${COMPLAINTS}")
  add_test(NAME faults.${TEST}
           COMMAND ${CMAKE_COMMAND} -DCOMPLAINTS=${CMAKE_CURRENT_BINARY_DIR}/${TEST}.txt -P
                   ${CMAKE_CURRENT_SOURCE_DIR}/no_complaints.cmake)
  set_tests_properties(faults.${TEST} PROPERTIES LABELS quick TIMEOUT 300)
endfunction()

# Copies the library TARGET once for each of ARGN, stamped with its name: FOLDER/libmxcheck_PREFIX_NAME.so, all made by
# the target ALL; a target for each name as well.
function(mxcheck_stamp_faults ALL TARGET FOLDER PREFIX)
  list(TRANSFORM ARGN REPLACE "(.+)" "${FOLDER}/libmxcheck_${PREFIX}_\\1.so" OUTPUT_VARIABLE copies)
  add_custom_command(
    OUTPUT ${copies}
    COMMAND mxcheck_stamp_faults $<TARGET_FILE:${TARGET}> ${FOLDER}/libmxcheck_${PREFIX}_ ${ARGN}
    DEPENDS ${TARGET} mxcheck_stamp_faults
    COMMENT "Stamping the faults of ${PREFIX}"
    VERBATIM)
  add_custom_target(${ALL} DEPENDS ${copies})
  foreach(name ${ARGN})
    add_custom_target(mxcheck_${PREFIX}_${name} DEPENDS ${ALL})
  endforeach()
endfunction()

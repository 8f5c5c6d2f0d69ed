# Edits of files of kernels/, in copies in a folder that comes before the source tree on the include path. Files are named
# from kernels/ on.
#
# mxcheck_edit(NAME[,NAME...] FILE SEARCH REPLACE [FILE SEARCH REPLACE]...) says what the libraries NAME have in place of
# SEARCH, which occurs exactly once in FILE. `FILE IN TEXT SEARCH REPLACE` replaces SEARCH wherever it is in TEXT, and TEXT
# is what occurs once. Names are those of a library of catalogue.tsv; each has one mxcheck_edit.
#
# Edits of most libraries go into one overlay: each place has the unchanged code and all alternatives, and a condition for
# each (stamp.h).
#   - SEARCH that ends in ";" is a statement, and becomes `if (FAULT) { REPLACE } else { SEARCH }`;
#   - any other is an expression, and becomes `(FAULT ? (REPLACE) : (SEARCH))`;
#   - a REPLACE with the word FAULT or UNCHANGED is the new text itself: FAULT stands for the condition, UNCHANGED for
#     what is there without the fault.
# Two of them may have the same SEARCH; they must not have texts that overlap. With ALONE each name has an overlay of its
# own, where REPLACE is the new text and UNCHANGED stands for SEARCH.
#
# mxcheck_begin_edits(LIBRARY PREFIX SOURCE [ALONE]): what follows are edits of SOURCE/kernels, for LIBRARY of the catalogue;
# fault_names are its rows, in order. mxcheck_write_edits(FOLDER) writes the changed files, and fault_names.inc or, with
# ALONE, a folder for each name; it sets overlay_files to the list of what has changed.

set(fault_catalogue ${PROJECT_SOURCE_DIR}/tests/libraries/catalogue.tsv)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${fault_catalogue})

# The rows of a library in catalogue.tsv: "NAME<tab>WITH", in order.
function(mxcheck_catalogue_rows OUT LIBRARY)
  file(READ ${fault_catalogue} text)
  string(REGEX MATCHALL "\n${LIBRARY}\t[^\t\n]+\t[^\t\n]+" rows "${text}")
  list(TRANSFORM rows REPLACE "^\n${LIBRARY}\t" "")
  if(NOT rows)
    message(FATAL_ERROR "${fault_catalogue} has no ${LIBRARY}")
  endif()
  set(${OUT} ${rows} PARENT_SCOPE)
endfunction()

function(mxcheck_catalogue_names OUT LIBRARY)
  mxcheck_catalogue_rows(rows ${LIBRARY})
  list(TRANSFORM rows REPLACE "\t.*" "")
  set(${OUT} ${rows} PARENT_SCOPE)
endfunction()

macro(mxcheck_begin_edits LIBRARY PREFIX SOURCE)
  set(fault_library ${LIBRARY})
  set(fault_prefix ${PREFIX})
  set(fault_source ${SOURCE})
  set(fault_alone ${ARGN})
  mxcheck_catalogue_names(fault_names ${LIBRARY})
endmacro()

function(mxcheck_complain TEXT)
  set_property(GLOBAL APPEND_STRING PROPERTY mxcheck_${fault_library}_complaints "\n  ${TEXT}")
endfunction()

# Arguments are taken by number, and quoted throughout: C++ is full of semicolons, which would split a list.
function(mxcheck_edit NAMES)
  string(REPLACE "," ";" names ${NAMES})
  foreach(name ${names})
    get_property(again GLOBAL PROPERTY mxcheck_${fault_library}_has_${name})
    if(again OR NOT name IN_LIST fault_names)
      mxcheck_complain("${name}: has another edit, or is not in the catalogue")
    endif()
    set_property(GLOBAL PROPERTY mxcheck_${fault_library}_has_${name} ON)
  endforeach()
  set(at 1)
  while(at LESS ARGC)
    math(EXPR second "${at} + 1")
    math(EXPR third "${at} + 2")
    math(EXPR next "${at} + 3")
    set(search "${ARGV${second}}")
    set(replace "${ARGV${third}}")
    if("${search}" STREQUAL "IN")
      math(EXPR fourth "${at} + 4")
      set(search "${ARGV${third}}")
      string(REPLACE "${ARGV${next}}" "${ARGV${fourth}}" replace "${search}")
      math(EXPR next "${at} + 5")
    endif()
    foreach(name ${names})
      if(fault_alone)
        mxcheck_edit_alone(${name} "${ARGV${at}}" "${search}" "${replace}")
      else()
        mxcheck_edit_together(${name} "${ARGV${at}}" "${search}" "${replace}")
      endif()
    endforeach()
    set(at ${next})
  endwhile()
endfunction()

# Of the caller's NAME, file and search: `text` is that of the file under KEY as it is by now, `once` whether search occurs
# once in it.
macro(mxcheck_read_for_edit KEY)
  get_property(files GLOBAL PROPERTY mxcheck_${KEY}_files)
  set(text)
  if(file IN_LIST files)
    get_property(text GLOBAL PROPERTY mxcheck_${KEY}_${file})
  elseif(EXISTS ${fault_source}/kernels/${file})
    file(READ ${fault_source}/kernels/${file} text)
  endif()
  string(REPLACE "${search}" "" without "${text}")
  string(LENGTH "${search}" length)
  string(LENGTH "${text}" before)
  string(LENGTH "${without}" after)
  math(EXPR count "(${before} - ${after}) / ${length}")
  set(once ON)
  if(NOT count EQUAL 1)
    set(once OFF)
    mxcheck_complain("${NAME}: in kernels/${file}, ${count} times: ${search}")
  elseif(NOT file IN_LIST files)
    set_property(GLOBAL APPEND PROPERTY mxcheck_${KEY}_files ${file})
  endif()
endmacro()

function(mxcheck_edit_alone NAME file search replace)
  set(key ${fault_library}_${NAME})
  mxcheck_read_for_edit(${key})
  if(once)
    string(REPLACE "UNCHANGED" "${search}" replace "${replace}")
    string(REPLACE "${search}" "${replace}" text "${text}")
    set_property(GLOBAL PROPERTY mxcheck_${key}_${file} "${text}")
  endif()
endfunction()

# Texts are kept in global properties, with a word for each place.
function(mxcheck_edit_together NAME file search replace)
  set(key ${fault_library})
  string(MD5 place "${file} ${search}")
  get_property(unchanged GLOBAL PROPERTY mxcheck_${key}_${place})
  if(NOT unchanged)
    mxcheck_read_for_edit(${key})
    if(NOT once)
      return()
    endif()
    string(REPLACE "${search}" "@${place}@" text "${text}")
    set_property(GLOBAL PROPERTY mxcheck_${key}_${file} "${text}")
    set_property(GLOBAL APPEND PROPERTY mxcheck_${key}_places_of_${file} ${place})
    set(unchanged "${search}")
  endif()
  if("${replace}" MATCHES "FAULT|UNCHANGED")
    set(text "${replace}")
  elseif("${search}" MATCHES ";$")
    set(text "if (FAULT) { ${replace} } else { UNCHANGED }")
  else()
    set(text "(FAULT ? (${replace}) : (UNCHANGED))")
  endif()
  string(REPLACE "FAULT" "::mxcheck_faults::is(::mxcheck_faults::Fault::${NAME})" text "${text}")
  string(REPLACE "UNCHANGED" "${unchanged}" text "${text}")
  set_property(GLOBAL PROPERTY mxcheck_${key}_${place} "${text}")
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

# What an earlier configuration wrote would be found too.
function(mxcheck_remove_stale FOLDER)
  file(GLOB_RECURSE stale ${FOLDER}/kernels/*)
  list(TRANSFORM ARGN PREPEND ${FOLDER}/kernels/ OUTPUT_VARIABLE written)
  list(REMOVE_ITEM stale ${written})
  if(stale)
    file(REMOVE ${stale})
  endif()
endfunction()

function(mxcheck_write_edits FOLDER)
  foreach(name ${fault_names})
    get_property(has GLOBAL PROPERTY mxcheck_${fault_library}_has_${name})
    if(NOT has AND NOT name MATCHES "^control")
      mxcheck_complain("${name}: is in the catalogue and has no edit")
    endif()
  endforeach()
  if(fault_alone)
    mxcheck_write_alone(${FOLDER})
  else()
    mxcheck_write_together(${FOLDER})
  endif()
  mxcheck_test_edits()
  set(overlay_files ${files} PARENT_SCOPE)
endfunction()

macro(mxcheck_write_alone FOLDER)
  foreach(name ${fault_names})
    get_property(files GLOBAL PROPERTY mxcheck_${fault_library}_${name}_files)
    foreach(file ${files})
      get_property(text GLOBAL PROPERTY mxcheck_${fault_library}_${name}_${file})
      mxcheck_write_if_changed(${FOLDER}/${name}/kernels/${file} "${text}")
    endforeach()
    mxcheck_remove_stale(${FOLDER}/${name} ${files})
  endforeach()
endmacro()

macro(mxcheck_write_together FOLDER)
  get_property(files GLOBAL PROPERTY mxcheck_${fault_library}_files)
  set(whole)
  foreach(file ${files})
    get_property(text GLOBAL PROPERTY mxcheck_${fault_library}_${file})
    get_property(places GLOBAL PROPERTY mxcheck_${fault_library}_places_of_${file})
    foreach(place ${places})
      get_property(code GLOBAL PROPERTY mxcheck_${fault_library}_${place})
      string(REPLACE "@${place}@" "${code}" text "${text}")
    endforeach()
    mxcheck_write_if_changed(${FOLDER}/kernels/${file} "${text}")
    string(APPEND whole "${text}")
  endforeach()
  # A REPLACE without UNCHANGED at a place that has another fault already would have taken its place.
  foreach(name ${fault_names})
    string(FIND "${whole}" "::mxcheck_faults::Fault::${name})" found)
    if(found EQUAL -1 AND NOT name STREQUAL control)
      mxcheck_complain("${name}: its text is lost, where another fault has the same SEARCH")
    endif()
  endforeach()
  mxcheck_remove_stale(${FOLDER} ${files})
  # For stamp.h, the control first.
  list(TRANSFORM fault_names REPLACE "(.+)" "MXCHECK_FAULT(\\1)\n" OUTPUT_VARIABLE lines)
  string(CONCAT lines "// Generated by overlay.cmake.\n" ${lines})
  mxcheck_write_if_changed(${FOLDER}/fault_names.inc "${lines}")
endmacro()

# A change of a library must not keep anyone from building it, but it must not make a catalogue shorter unnoticed
# either: where there are complaints, the test fails.
function(mxcheck_test_edits)
  get_property(complaints GLOBAL PROPERTY mxcheck_${fault_library}_complaints)
  if(complaints)
    message(WARNING "tests/libraries/wrong/${fault_library}.cmake: each text must occur exactly once, and none may overlap "
                    "another.${complaints}")
  endif()
  # The catalogue of the CPU library came first.
  string(REGEX REPLACE "^cpu$" "catalogue" of ${fault_library})
  set(file ${CMAKE_CURRENT_BINARY_DIR}/every_replacement_in_${of}_applies.txt)
  file(WRITE ${file} "${complaints}")
  add_test(NAME faults.every_replacement_in_${of}_applies COMMAND ${CMAKE_COMMAND} -E cat ${file})
  set_tests_properties(faults.every_replacement_in_${of}_applies PROPERTIES LABELS quick TIMEOUT 300
                                                                            FAIL_REGULAR_EXPRESSION ".")
endfunction()

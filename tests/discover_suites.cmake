# cmake -D PROGRAM= -D NAME= -D LABEL= -D LIMIT= -D NIGHTLY= -D AT_MOST= -D COST= -D ENVIRONMENT= -D FOLDER= -D RESULTS=
#       -D LIST= -P discover_suites.cmake
#
# Writes the file LIST, in which CTest finds the tests of the GoogleTest program PROGRAM: one process a suite. It runs
# after each build of the program, as gtest_discover_tests does.
#
#   NAME.Suite             all cases of a suite; a typed suite has those of all types
#   NAME.SuiteA,SuiteB     suites of few cases share a process, so that their names are what -R finds
#   NAME.Suite.2_of_3      a third of a suite that has more than AT_MOST cases
#   NAME.nightly.Suite     cases that match NIGHTLY, a filter of GoogleTest; they are in no other process
#
#   NAME.Suite.DISABLED_x  a disabled case, which CTest lists and counts as one that did not run
#
# Each process writes its cases to RESULTS/<name of the test, "/" replaced by "-">.xml; ./run test counts them.
cmake_minimum_required(VERSION 3.22)

# Suites of fewer cases share a process, up to so many cases and so long a name.
set(few 10)
set(longest_name 120)

# list_suites(FILTER): sets `suites`, for each one cases_SUITE (how many) and filter_SUITE, and `disabled`, the cases that are,
# which do not count.
function(list_suites FILTER)
  execute_process(
    COMMAND ${PROGRAM} --gtest_list_tests "--gtest_filter=${FILTER}"
    WORKING_DIRECTORY ${FOLDER}
    TIMEOUT 120
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: exit ${result}\n${output}")
  endif()
  string(REGEX REPLACE "[][;]" "_" output "${output}")  # of parameters; they would end an element of the list
  string(REPLACE "\n" ";" lines "${output}")
  set(suites)
  set(disabled)
  foreach(line ${lines})
    if(line MATCHES "^  (DISABLED_[A-Za-z0-9_]+)")
      list(APPEND disabled ${full}.${CMAKE_MATCH_1})
    elseif(line MATCHES "^  [^ ]")
      math(EXPR cases_${suite} "${cases_${suite}} + 1")
    elseif(line MATCHES "^([A-Za-z0-9_/]+)\\.( |$)")
      set(full ${CMAKE_MATCH_1})
      set(suite ${full})
      if(line MATCHES "# TypeParam")
        string(REGEX REPLACE "/[0-9]+$" "" suite ${full})
      endif()
      if(NOT suite IN_LIST suites)
        list(APPEND suites ${suite})
        set(cases_${suite} 0)
        set(filter_${suite} "${full}.*")
      else()
        string(APPEND filter_${suite} ":${full}.*")
      endif()
    endif()
  endforeach()
  set(with_cases)
  foreach(suite ${suites})
    if(cases_${suite} GREATER 0)
      list(APPEND with_cases ${suite})
      set(cases_${suite} ${cases_${suite}} PARENT_SCOPE)
      set(filter_${suite} ${filter_${suite}} PARENT_SCOPE)
    endif()
  endforeach()
  set(suites ${with_cases} PARENT_SCOPE)
  set(disabled ${disabled} PARENT_SCOPE)
endfunction()

# add_process(TEST FILTER LABEL LIMIT [ENVIRONMENT...])
function(add_process TEST FILTER PROCESS_LABEL PROCESS_LIMIT)
  string(REPLACE "/" "-" file "${TEST}")
  # CTest says "skipped" where all cases of a process are, and "failed" where the filter finds none.
  set(text "add_test([==[${TEST}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${FILTER}]==]")
  string(APPEND text " [==[--gtest_output=xml:${RESULTS}/${file}.xml]==])\n")
  string(APPEND text "set_tests_properties([==[${TEST}]==] PROPERTIES WORKING_DIRECTORY [==[${FOLDER}]==]")
  string(APPEND text " LABELS ${PROCESS_LABEL} TIMEOUT ${PROCESS_LIMIT} COST ${COST}")
  string(REPLACE "@" "\n" skipped [=[\[  PASSED  \] 0 tests\.(@\[  SKIPPED \][^@]*)+@*( *YOU HAVE [^@]*@*)?$]=])
  string(APPEND text " SKIP_REGULAR_EXPRESSION [==[${skipped}]==]")
  string(APPEND text [=[ FAIL_REGULAR_EXPRESSION [==[\[==========\] Running 0 tests]==]]=])
  set(environment ${ARGN} ${ENVIRONMENT})
  if(environment)
    string(APPEND text " ENVIRONMENT [==[${environment}]==]")
  endif()
  file(APPEND ${LIST}.new "${text})\n")
endfunction()

# add_group(TEST FILTER LABEL LIMIT CASES AT_MOST): one process, or as many as AT_MOST cases each take.
function(add_group TEST FILTER GROUP_LABEL GROUP_LIMIT CASES GROUP_AT_MOST)
  math(EXPR shards "(${CASES} + ${GROUP_AT_MOST} - 1) / ${GROUP_AT_MOST}")
  if(shards LESS_EQUAL 1)
    add_process("${TEST}" "${FILTER}" ${GROUP_LABEL} ${GROUP_LIMIT})
    return()
  endif()
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    math(EXPR number "${shard} + 1")
    add_process("${TEST}.${number}_of_${shards}" "${FILTER}" ${GROUP_LABEL} ${GROUP_LIMIT}
                "GTEST_TOTAL_SHARDS=${shards}" "GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

file(WRITE ${LIST}.new "")
set(but_not)
if(NIGHTLY)
  list_suites("${NIGHTLY}")
  string(REPLACE ":" ";" patterns "${NIGHTLY}")
  foreach(suite ${suites})
    # A filter has no "and". The patterns of this suite are those whose part before the first "." is its name.
    set(mine)
    foreach(pattern ${patterns})
      string(REGEX REPLACE "\\..*$" "" of "${pattern}")
      string(REPLACE "*" ".*" of "${of}")
      if("${suite}" MATCHES "^${of}$")
        list(APPEND mine "${pattern}")
      endif()
    endforeach()
    if(NOT mine)
      message(FATAL_ERROR "no pattern of ${NIGHTLY} has the name of ${suite} in front of its first dot")
    endif()
    list(JOIN mine ":" mine)
    add_group("${NAME}.nightly.${suite}" "${mine}" nightly 3600 ${cases_${suite}} 8)
  endforeach()
  set(but_not "-${NIGHTLY}")
endif()

macro(end_group)
  if(group)
    list(JOIN group "," names)
    list(JOIN filters ":" filter)
    add_group("${NAME}.${names}" "${filter}${but_not}" ${LABEL} ${LIMIT} ${cases} ${AT_MOST})
  endif()
  set(group)
  set(filters)
  set(cases 0)
endmacro()

list_suites("*${but_not}")
foreach(case ${disabled})
  add_process("${NAME}.${case}" "${case}" ${LABEL} ${LIMIT})
  file(APPEND ${LIST}.new "set_tests_properties([==[${NAME}.${case}]==] PROPERTIES DISABLED TRUE)\n")
endforeach()
end_group()
foreach(suite ${suites})
  if(cases_${suite} GREATER_EQUAL few OR AT_MOST LESS few)
    add_group("${NAME}.${suite}" "${filter_${suite}}${but_not}" ${LABEL} ${LIMIT} ${cases_${suite}} ${AT_MOST})
    continue()
  endif()
  string(LENGTH "${NAME}.${group};${suite}" length)
  if(length GREATER longest_name)
    end_group()
  endif()
  list(APPEND group ${suite})
  list(APPEND filters ${filter_${suite}})
  math(EXPR cases "${cases} + ${cases_${suite}}")
  if(cases GREATER_EQUAL few)
    end_group()
  endif()
endforeach()
end_group()
file(RENAME ${LIST}.new ${LIST})

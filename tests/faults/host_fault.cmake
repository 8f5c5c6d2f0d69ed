# Faults put into a library of the host: what catalogue.cmake and layer.cmake are made of.
#
# mxcheck_host_faults(PREFIX SOURCES REGEX [LINK LIBRARY...]) begins a family of them, for the library of the sources
# whose path from kernels/ on matches; libmxcheck_PREFIX_NAME.so is the copy with the fault NAME, and
# libmxcheck_PREFIX_control.so has none. LINK: what its sources include beside DLPack.
# The catalogue is included then: mxcheck_fault(...) of overlay.cmake.
# mxcheck_host_faults_end(CATALOGUE FILE CAUGHT_BY FILE TESTS NAME) makes the library and its copies (mxcheck_PREFIXs),
# PREFIXs.tsv, the target PREFIX_table and the tests faults.NAME_*.

macro(mxcheck_host_faults PREFIX)
  cmake_parse_arguments(host "" "SOURCES" "LINK" ${ARGN})
  mxcheck_begin_faults(${PREFIX} ${snapshot} ${CMAKE_CURRENT_BINARY_DIR})
endmacro()

# As in the libraries themselves, no product and sum are contracted: they would be of another rounding.
function(mxcheck_fault_library TARGET OVERLAY)
  set(sources ${host_files})
  list(FILTER sources INCLUDE REGEX "${host_SOURCES}")
  set(files)
  foreach(source ${sources})
    if(source IN_LIST overlay_files)
      list(APPEND files ${OVERLAY}/kernels/${source})
    else()
      list(APPEND files ${snapshot}/kernels/${source})
    endif()
  endforeach()
  add_library(${TARGET} MODULE ${files} $<TARGET_OBJECTS:mxcheck_stamp>)
  target_include_directories(${TARGET} PRIVATE ${OVERLAY} ${snapshot} ${PROJECT_SOURCE_DIR})
  target_compile_features(${TARGET} PRIVATE cxx_std_20)
  target_compile_options(${TARGET} PRIVATE -O1 -g0 -w -ffp-contract=off ${fault_target_options} -include
                                           ${CMAKE_CURRENT_SOURCE_DIR}/fault.h)
  target_compile_definitions(${TARGET} PRIVATE HWY_COMPILE_ONLY_STATIC MXCHECK_CPU_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${TARGET} PRIVATE mxcheck::dlpack mxcheck::threads ${host_LINK})
  set_target_properties(${TARGET} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                             LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

# Tests of a family, in halves that can run at once. Quick: of each fault the one statement that catches it, by
# CAUGHT_BY; those that it leaves to the night are nightly tests. With WHOLE_SUITE the nightly tests run the whole quick
# suite on each fault too, as a user does.
function(mxcheck_fault_tests TESTS CAUGHT_BY)
  cmake_parse_arguments(ARG "WHOLE_SUITE" "" "" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CAUGHT_BY})
  file(STRINGS ${CAUGHT_BY} late REGEX "\tnightly$")
  mxcheck_fault_test(${TESTS}_control_passes_alone quick 120 --by ${CAUGHT_BY} control)
  mxcheck_fault_test(${TESTS}_control_passes nightly 300 control)
  foreach(part 1 2)
    mxcheck_fault_test(${TESTS}_${part}_of_2 quick 600 --by ${CAUGHT_BY} --when quick --part ${part}/2)
    if(late)
      mxcheck_fault_test(${TESTS}_others_${part}_of_2 nightly 1200 --by ${CAUGHT_BY} --when nightly --part ${part}/2)
    endif()
    if(ARG_WHOLE_SUITE)
      mxcheck_fault_test(${TESTS}_whole_suite_${part}_of_2 nightly 7200 --part ${part}/2)
    endif()
  endforeach()
endfunction()
function(mxcheck_fault_test NAME LABEL SECONDS)
  add_test(NAME faults.${NAME} COMMAND ${fault_table} ${ARGN})
  set_tests_properties(faults.${NAME} PROPERTIES LABELS ${LABEL} TIMEOUT ${SECONDS})
endfunction()

# The end of every family of the host: the copies of the library, PREFIXs.tsv, the target PREFIX_table.
macro(mxcheck_fault_family_end)
  mxcheck_stamp_faults(mxcheck_${fault_family}s mxcheck_${fault_family}_family ${CMAKE_CURRENT_BINARY_DIR}
                       ${fault_family} ${fault_names})
  set_target_properties(mxcheck_${fault_family}s PROPERTIES EXCLUDE_FROM_ALL OFF)
  set(faults_tsv ${CMAKE_CURRENT_BINARY_DIR}/${fault_family}s.tsv)
  mxcheck_write_if_changed(${faults_tsv} "${fault_lines}")
  set(fault_table mxcheck_fault_table $<TARGET_FILE:mxcheck> ${faults_tsv})
  # ninja fault_table, layer_fault_table, moe_fault_table: every fault and what the gate says to it, as a Markdown table.
  add_custom_target(
    ${fault_family}_table
    COMMAND ${fault_table}
    DEPENDS mxcheck mxcheck_${fault_family}s
    USES_TERMINAL)
endmacro()

macro(mxcheck_host_faults_end)
  cmake_parse_arguments(host_end "" "CATALOGUE;CAUGHT_BY;TESTS" "" ${ARGN})
  get_filename_component(catalogue_name ${host_end_CATALOGUE} NAME_WE)
  set(overlay ${CMAKE_CURRENT_BINARY_DIR}/${fault_family})
  mxcheck_overlay_write(${overlay})
  mxcheck_overlay_write_names(${overlay} ${fault_names})
  mxcheck_test_replacements(every_replacement_in_${catalogue_name}_applies ${host_end_CATALOGUE} "${fault_complaints}")
  mxcheck_fault_library(mxcheck_${fault_family}_family ${overlay})
  mxcheck_fault_family_end()
  mxcheck_fault_tests(${host_end_TESTS} ${CMAKE_CURRENT_SOURCE_DIR}/${host_end_CAUGHT_BY} WHOLE_SUITE)
endmacro()

# Wrong libraries, one a row of catalogue.tsv. A family is one library with all faults of a library of the catalogue; each
# fault is a copy of it with its name stamped into the file (stamp.h).

# mxcheck_wrong_libraries(LIBRARY FAMILY PREFIX ALL FOLDER) adds a library for each row: FOLDER/libmxcheck_PREFIX_NAME.so, a
# copy of the target FAMILY; the target ALL makes them, and so does mxcheck_PREFIX_NAME for each.
function(mxcheck_wrong_libraries LIBRARY FAMILY PREFIX ALL FOLDER)
  mxcheck_catalogue_names(names ${LIBRARY})
  list(TRANSFORM names REPLACE "(.+)" "${FOLDER}/libmxcheck_${PREFIX}_\\1.so" OUTPUT_VARIABLE copies)
  add_custom_command(
    OUTPUT ${copies}
    COMMAND mxcheck_stamp_faults $<TARGET_FILE:${FAMILY}> ${FOLDER}/libmxcheck_${PREFIX}_ ${names}
    DEPENDS ${FAMILY} mxcheck_stamp_faults
    COMMENT "Stamping the faults of ${PREFIX}"
    VERBATIM)
  add_custom_target(${ALL} DEPENDS ${copies})
  foreach(name ${names})
    add_custom_target(mxcheck_${PREFIX}_${name} DEPENDS ${ALL})
  endforeach()
  # ninja fault_table, layer_fault_table, sm90_fault_table: every fault and what the gate says to it, as a Markdown table.
  add_custom_target(
    ${PREFIX}_table
    COMMAND mxcheck_fault_table $<TARGET_FILE:mxcheck> ${fault_catalogue} ${LIBRARY} ${FOLDER}/libmxcheck_${PREFIX}_
    DEPENDS mxcheck ${ALL}
    USES_TERMINAL)
endfunction()

# ---- on the host ---------------------------------------------------------------------------------------------------------

# mxcheck_host_faults(LIBRARY PREFIX SOURCES REGEX [LINK LIBRARY...]) makes a family of the sources whose path
# from kernels/ on matches, with the edits of LIBRARY.cmake; LINK: what they include beside DLPack.
function(mxcheck_host_faults LIBRARY PREFIX)
  cmake_parse_arguments(ARG "" "SOURCES" "LINK" ${ARGN})
  set(overlay ${CMAKE_CURRENT_BINARY_DIR}/${PREFIX})
  mxcheck_begin_edits(${LIBRARY} ${PREFIX} ${snapshot})
  include(${LIBRARY}.cmake)
  mxcheck_write_edits(${overlay})
  set(sources ${host_files})
  list(FILTER sources INCLUDE REGEX "${ARG_SOURCES}")
  set(paths)
  foreach(source ${sources})
    if(source IN_LIST overlay_files)
      list(APPEND paths ${overlay}/kernels/${source})
    else()
      list(APPEND paths ${snapshot}/kernels/${source})
    endif()
  endforeach()
  set(family mxcheck_${PREFIX}_family)
  add_library(${family} MODULE ${paths} $<TARGET_OBJECTS:mxcheck_stamp>)
  target_include_directories(${family} PRIVATE ${overlay} ${snapshot} ${PROJECT_SOURCE_DIR})
  target_compile_features(${family} PRIVATE cxx_std_20)
# No product and sum are contracted, like in the libraries themselves: they would be rounded differently.
  target_compile_options(${family} PRIVATE -O1 -g0 -w -ffp-contract=off ${fault_target_options} -include
                                           ${CMAKE_CURRENT_SOURCE_DIR}/stamp.h)
  target_compile_definitions(${family} PRIVATE HWY_COMPILE_ONLY_STATIC MXCHECK_CPU_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${family} PRIVATE mxcheck::dlpack mxcheck::threads ${ARG_LINK})
  set_target_properties(${family} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                             LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  mxcheck_host_fault_tests(${LIBRARY} ${family} ${PREFIX} WHOLE_SUITE)
endfunction()

# The copies of a family, and its tests, in halves that can run at once. Quick: of each fault the one statement that finds
# it, by the catalogue; those that it leaves to the night are nightly tests. With WHOLE_SUITE the nightly tests run the whole
# quick suite on each fault too, as a user does.
function(mxcheck_host_fault_tests LIBRARY FAMILY PREFIX)
  mxcheck_wrong_libraries(${LIBRARY} ${FAMILY} ${PREFIX} mxcheck_${PREFIX}s ${CMAKE_CURRENT_BINARY_DIR})
  set_target_properties(mxcheck_${PREFIX}s PROPERTIES EXCLUDE_FROM_ALL OFF)
  set(table mxcheck_fault_table $<TARGET_FILE:mxcheck> ${fault_catalogue} ${LIBRARY}
            ${CMAKE_CURRENT_BINARY_DIR}/libmxcheck_${PREFIX}_)
  mxcheck_catalogue_rows(rows ${LIBRARY})
  mxcheck_fault_test(${LIBRARY}_control_passes_alone quick 120 ${table} --alone control)
  mxcheck_fault_test(${LIBRARY}_control_passes nightly 300 ${table} control)
  foreach(part 1 2)
    mxcheck_fault_test(${LIBRARY}_${part}_of_2 quick 1200 ${table} --alone --when quick --part ${part}/2)
    if(rows MATCHES "\tnightly")
      mxcheck_fault_test(${LIBRARY}_others_${part}_of_2 nightly 1200 ${table} --alone --when nightly --part ${part}/2)
    endif()
    if(ARGN STREQUAL WHOLE_SUITE)
      mxcheck_fault_test(${LIBRARY}_whole_suite_${part}_of_2 nightly 7200 ${table} --part ${part}/2)
    endif()
  endforeach()
endfunction()

function(mxcheck_fault_test NAME LABEL SECONDS)
  add_test(NAME faults.${NAME} COMMAND ${ARGN})
  set_tests_properties(faults.${NAME} PROPERTIES LABELS ${LABEL} TIMEOUT ${SECONDS})
endfunction()

# ---- on a Hopper GPU -----------------------------------------------------------------------------------------------------

# mxcheck_cuda_faults(LIBRARY): one build of libmxcheck_LIBRARY.so with all edits of LIBRARY.cmake. `ninja LIBRARY_faults` builds
# the family, and in LIBRARY_faults/ a copy for each fault; on a machine with a Hopper GPU `ninja LIBRARY_fault_table` says what
# the gate says to each. To carry the family elsewhere, take the one library, the catalogue, mxcheck_stamp_faults and
# mxcheck_fault_table: the copies are as large each.
#
# Device code knows its fault by a stamp in constant memory, one in each source. The cubins are not compressed:
# mxcheck_stamp_faults must find the stamps in them.
function(mxcheck_cuda_faults LIBRARY)
  set(overlay ${CMAKE_CURRENT_BINARY_DIR}/${LIBRARY}_fault)
  mxcheck_begin_edits(${LIBRARY} ${LIBRARY}_fault ${PROJECT_SOURCE_DIR})
  include(${LIBRARY}.cmake)
  mxcheck_write_edits(${overlay})
  set(sources)
  get_target_property(unchanged mxcheck_${LIBRARY}_objects SOURCES)
  foreach(source ${unchanged})
    file(RELATIVE_PATH file ${PROJECT_SOURCE_DIR}/kernels ${source})
    if(file IN_LIST overlay_files)
      set(source ${overlay}/kernels/${file})
    endif()
    list(APPEND sources ${source})
  endforeach()
  foreach(file ${overlay_files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/${file})
  endforeach()

  set(family mxcheck_${LIBRARY}_fault_family)
  add_library(${family} SHARED EXCLUDE_FROM_ALL ${sources} $<TARGET_OBJECTS:mxcheck_stamp>)
  target_include_directories(${family} BEFORE PRIVATE ${overlay})
  target_link_libraries(${family} PRIVATE mxcheck_options mxcheck::dlpack CUDA::cudart_static)
  target_compile_options(${family} PRIVATE -include ${CMAKE_CURRENT_SOURCE_DIR}/stamp.h -w
                                           $<$<COMPILE_LANGUAGE:CUDA>:--no-compress>)
  target_compile_definitions(${family} PRIVATE MXCHECK_SM90_VERSION="fault")
  set_target_properties(
    ${family}
    PROPERTIES CUDA_STANDARD 20
               CUDA_ARCHITECTURES 90a-real
               CUDA_RUNTIME_LIBRARY Static
               LINKER_LANGUAGE CXX)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${LIBRARY}_faults)
  file(MAKE_DIRECTORY ${folder})
  mxcheck_wrong_libraries(${LIBRARY} ${family} ${LIBRARY}_fault ${LIBRARY}_faults ${folder})
endfunction()

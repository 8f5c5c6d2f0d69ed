# Faults put into a CUDA library: one build with all of sm90.cmake, sm90_gemm.cmake or sm90_route.cmake.
#
# mxcheck_cuda_faults(LIBRARY) includes LIBRARY.cmake, whose faults are faults of libmxcheck_LIBRARY.so. `ninja LIBRARY_faults`
# builds the family, and in LIBRARY_faults/ a copy for each fault and the list faults.tsv. On a machine with a Hopper GPU
# `mxcheck_fault_table TOOL faults.tsv`, called in that folder, says what the gate says to each, and `ninja LIBRARY_fault_table`
# does both. To carry the family elsewhere, take the one library and mxcheck_stamp_faults: the copies are as large each.
#
# Device code knows its fault by a stamp in constant memory, one in each source (fault.h). The cubins are not compressed:
# mxcheck_stamp_faults must find the stamps in them.
function(mxcheck_cuda_faults LIBRARY)
  mxcheck_begin_faults(${LIBRARY}_fault ${PROJECT_SOURCE_DIR} .)
  include(${LIBRARY}.cmake)
  set(overlay ${CMAKE_CURRENT_BINARY_DIR}/${LIBRARY}_fault)
  mxcheck_overlay_write(${overlay})
  mxcheck_overlay_write_names(${overlay} ${fault_names})
  mxcheck_test_replacements(every_replacement_in_${LIBRARY}_applies ${LIBRARY}.cmake "${fault_complaints}")
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
  target_compile_options(${family} PRIVATE -include ${CMAKE_CURRENT_SOURCE_DIR}/fault.h -w
                                           $<$<COMPILE_LANGUAGE:CUDA>:--no-compress>)
  target_compile_definitions(${family} PRIVATE MXCHECK_SM90_VERSION="fault")
  set_target_properties(
    ${family}
    PROPERTIES CUDA_STANDARD 20
               CUDA_ARCHITECTURES 90a-real
               CUDA_RUNTIME_LIBRARY Static
               LINKER_LANGUAGE CXX)

  set(out ${CMAKE_CURRENT_BINARY_DIR}/${LIBRARY}_faults)
  file(MAKE_DIRECTORY ${out})
  mxcheck_write_if_changed(${out}/faults.tsv "${fault_lines}")
  mxcheck_stamp_faults(${LIBRARY}_faults ${family} ${out} ${LIBRARY}_fault ${fault_names})
  add_custom_target(
    ${LIBRARY}_fault_table
    COMMAND mxcheck_fault_table $<TARGET_FILE:mxcheck> faults.tsv
    WORKING_DIRECTORY ${out}
    DEPENDS mxcheck ${LIBRARY}_faults
    USES_TERMINAL)
endfunction()

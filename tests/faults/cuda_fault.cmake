# Faults put into a CUDA library on purpose: what sm90.cmake, sm90_gemm.cmake and sm90_route.cmake are made of.
#
# mxcheck_cuda_faults(LIBRARY) begins a list of them for libmxcheck_LIBRARY.so.
# mxcheck_cuda_fault(LIBRARY NAME "what it imitates" FILE SEARCH REPLACE SOURCE...): SEARCH occurs exactly once in FILE,
# SOURCE... are the sources that see the change. Files are named from kernels/ on.
# mxcheck_cuda_faults_end(LIBRARY): `ninja LIBRARY_faults` builds a library for each and lists them in
# LIBRARY_faults/faults.tsv; on a machine with a Hopper GPU `mxcheck_fault_table TOOL LIBRARY_faults/faults.tsv` says what
# the gate says to each, and `ninja LIBRARY_fault_table` does both.

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

macro(mxcheck_cuda_faults LIBRARY)
  set(${LIBRARY}_out ${CMAKE_CURRENT_BINARY_DIR}/${LIBRARY}_faults)
  file(MAKE_DIRECTORY ${${LIBRARY}_out})
  set(${LIBRARY}_targets)
  set(${LIBRARY}_lines "control\t\tnothing is changed\t./libmxcheck_${LIBRARY}.so\n")
  set(${LIBRARY}_complaints)
endmacro()

function(mxcheck_cuda_fault LIBRARY NAME WHAT FILE SEARCH REPLACE)
  set(kernels ${PROJECT_SOURCE_DIR}/kernels)
  file(READ ${kernels}/${FILE} text)
  mxcheck_replace_once(text "${SEARCH}" "${REPLACE}")
  if(NOT count EQUAL 1)
    set(${LIBRARY}_complaints "${${LIBRARY}_complaints}\n  ${NAME}: in kernels/${FILE}, ${count} times: ${SEARCH}"
        PARENT_SCOPE)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernels}/${FILE})
  set(overlay ${CMAKE_CURRENT_BINARY_DIR}/${LIBRARY}_${NAME})
  mxcheck_clean_overlay(${overlay} ${FILE})
  mxcheck_write_overlay(${overlay} ${FILE} "${text}")
  set(sources)
  foreach(source ${ARGN})
    if(source STREQUAL FILE)
      list(APPEND sources ${overlay}/kernels/${source})
    else()
      # A source that includes the changed header by its path: the overlay comes first among the include folders.
      list(APPEND sources ${kernels}/${source})
    endif()
  endforeach()
  mxcheck_other_objects(others mxcheck_${LIBRARY}_objects ${ARGN})
  set(target mxcheck_${LIBRARY}_fault_${NAME})
  add_library(${target} SHARED EXCLUDE_FROM_ALL ${sources} ${others})
  target_include_directories(${target} BEFORE PRIVATE ${overlay})
  target_link_libraries(${target} PRIVATE mxcheck_options mxcheck::dlpack CUDA::cudart_static)
  target_compile_definitions(${target} PRIVATE MXCHECK_SM90_VERSION="fault")
  set_target_properties(
    ${target}
    PROPERTIES CUDA_STANDARD 20
               CUDA_ARCHITECTURES 90a-real
               CUDA_RUNTIME_LIBRARY Static
               LINKER_LANGUAGE CXX
               LIBRARY_OUTPUT_DIRECTORY ${${LIBRARY}_out})
  set(${LIBRARY}_targets ${${LIBRARY}_targets} ${target} PARENT_SCOPE)
  set(${LIBRARY}_lines "${${LIBRARY}_lines}${NAME}\t\t${WHAT}\t./lib${target}.so\n" PARENT_SCOPE)
endfunction()

macro(mxcheck_cuda_faults_end LIBRARY)
  mxcheck_test_replacements(every_replacement_in_${LIBRARY}_applies ${LIBRARY}.cmake "${${LIBRARY}_complaints}")
  file(WRITE ${${LIBRARY}_out}/faults.tsv "${${LIBRARY}_lines}")
  add_custom_target(
    ${LIBRARY}_faults
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:mxcheck_${LIBRARY}> ${${LIBRARY}_out}
    DEPENDS mxcheck_${LIBRARY} ${${LIBRARY}_targets})
  add_custom_target(
    ${LIBRARY}_fault_table
    COMMAND mxcheck_fault_table $<TARGET_FILE:mxcheck> faults.tsv
    WORKING_DIRECTORY ${${LIBRARY}_out}
    DEPENDS mxcheck ${LIBRARY}_faults
    USES_TERMINAL)
endmacro()

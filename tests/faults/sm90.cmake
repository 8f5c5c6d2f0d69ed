# Faults put into the Hopper library on purpose. `ninja sm90_faults` builds a library for each and lists them in
# sm90_faults/faults.tsv; on a machine with a Hopper GPU, `mxcheck_fault_table TOOL sm90_faults/faults.tsv` says what the
# gate says to each, and `ninja sm90_fault_table` does both.
#
# mxcheck_sm90_fault(NAME "what it imitates" FILE SEARCH REPLACE SOURCE...): SEARCH occurs exactly once in FILE, SOURCE...
# are the sources that see the change.

set(sm90_folder ${PROJECT_SOURCE_DIR}/kernels/sm90)
set(sm90_out ${CMAKE_CURRENT_BINARY_DIR}/sm90_faults)
file(MAKE_DIRECTORY ${sm90_out})
set(sm90_fault_targets)
set(sm90_fault_lines "control\t\tnothing is changed\t./libmxcheck_sm90.so\n")
set(sm90_complaints)

function(mxcheck_sm90_fault NAME WHAT FILE SEARCH REPLACE)
  file(READ ${sm90_folder}/${FILE} text)
  string(REPLACE "${SEARCH}" "" without "${text}")
  string(LENGTH "${SEARCH}" length)
  string(LENGTH "${text}" before)
  string(LENGTH "${without}" after)
  math(EXPR count "(${before} - ${after}) / ${length}")
  if(NOT count EQUAL 1)
    set(sm90_complaints "${sm90_complaints}\n  ${NAME}: in kernels/sm90/${FILE}, ${count} times: ${SEARCH}" PARENT_SCOPE)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sm90_folder}/${FILE})
  string(REPLACE "${SEARCH}" "${REPLACE}" text "${text}")
  set(overlay ${CMAKE_CURRENT_BINARY_DIR}/sm90_${NAME})
  file(CONFIGURE OUTPUT ${overlay}/kernels/sm90/${FILE} CONTENT "${text}" @ONLY)
  set(sources)
  foreach(source ${ARGN})
    if(source STREQUAL FILE)
      list(APPEND sources ${overlay}/kernels/sm90/${source})
    else()
      # A source that includes the changed header by its path: the overlay comes first among the include folders.
      list(APPEND sources ${sm90_folder}/${source})
    endif()
  endforeach()
  string(REPLACE ";" "|" replaced "${ARGN}")
  string(REPLACE "." "\\." replaced "${replaced}")
  set(target mxcheck_sm90_fault_${NAME})
  add_library(${target} SHARED EXCLUDE_FROM_ALL
              ${sources} $<FILTER:$<TARGET_OBJECTS:mxcheck_sm90_objects>,EXCLUDE,/\(${replaced}\)\\.o$>)
  target_include_directories(${target} BEFORE PRIVATE ${overlay})
  target_link_libraries(${target} PRIVATE mxcheck_options mxcheck::dlpack CUDA::cudart_static)
  target_compile_definitions(${target} PRIVATE MXCHECK_SM90_VERSION="fault")
  set_target_properties(
    ${target}
    PROPERTIES CUDA_STANDARD 20
               CUDA_ARCHITECTURES 90a-real
               CUDA_RUNTIME_LIBRARY Static
               LINKER_LANGUAGE CXX
               LIBRARY_OUTPUT_DIRECTORY ${sm90_out})
  set(sm90_fault_targets ${sm90_fault_targets} ${target} PARENT_SCOPE)
  set(sm90_fault_lines "${sm90_fault_lines}${NAME}\t\t${WHAT}\t./lib${target}.so\n" PARENT_SCOPE)
endfunction()

set(all_quantize quantize_lines.cu quantize_row.cu quantize_column.cu quantize_square.cu quantize_dual.cu)

mxcheck_sm90_fault(
  rounds_toward_zero "codes are truncated" quantize.cuh
  [[encode4<kElement>(v.x * factor.x,]]
  [[encode4<kElement>(__uint_as_float(__float_as_uint(v.x * factor.x) & 0xFFF00000),]] ${all_quantize})
mxcheck_sm90_fault(
  largest_value_rounds_up "round-up at a significand of 1.75 and above" geometry.h
  [[Rule::rceil ? 0x001FFFFF : 0]] [[Rule::rceil ? 0x00200000 : 0]] operations.cc)
mxcheck_sm90_fault(
  infinity_is_a_number "an infinite amax gets a scale" element.cuh
  [[amax >= kInfinity ? 255]] [[amax > kInfinity ? 255]] ${all_quantize})
mxcheck_sm90_fault(
  tile_groups_swapped "rows 32 to 63 of a scale tile change places with 64 to 95" geometry.cuh
  [[row % 32 * 16 + row / 32 * 4 + col]] [[row % 32 * 16 + row / 64 * 4 + row / 32 % 2 * 8 + col]] ${all_quantize})
mxcheck_sm90_fault(
  last_rows_not_masked "a tile's rows beyond its expert's are read and written" lines.cuh
  [[const int rows = min(max(p.tile.rows - first, 0), kLineRows);]]
  [[const int rows = p.tile.rows > first ? kLineRows : 0;]] quantize_lines.cu)
mxcheck_sm90_fault(
  tail_columns_not_masked "the last 8 columns are taken for inside" lines.cuh
  [[const bool inside = col < p.cols;]] [[const bool inside = col <= p.cols;]] quantize_lines.cu)
mxcheck_sm90_fault(
  stale_shared_memory "a warp whose columns are zero leaves what was in shared memory" quantize.cuh
  [[shared.amax[warp][lane] = mine;]] [[if (mine.w[0] != 0) shared.amax[warp][lane] = mine;]] quantize_column.cu
  quantize_square.cu quantize_dual.cu)
mxcheck_sm90_fault(
  no_barrier_between_warps "warps read each other's amax without waiting" quantize.cuh
  [[shared.amax[warp][lane] = mine;
  __syncthreads();]] [[shared.amax[warp][lane] = mine;]] quantize_column.cu quantize_square.cu quantize_dual.cu)
mxcheck_sm90_fault(
  no_barrier_before_scales "scales are stored before all warps have written them" quantize.cuh
  [[if constexpr (kRow != 0 || kColumn == 32) {
    __syncthreads();]] [[if constexpr (kRow != 0 || kColumn == 32) {]] quantize_row.cu quantize_column.cu quantize_dual.cu)
mxcheck_sm90_fault(
  tiles_are_not_padded "the last block of a row leaves the rest of its tile of scales" lines.cuh
  [[if (to.tiled && block == blocks - 1) {]] [[if (to.tiled && block == blocks) {]] quantize_lines.cu)
mxcheck_sm90_fault(
  experts_share_tiles "scale tiles of an expert start where the call's start" geometry.cuh
  [[const std::int64_t before = (p.t - p.tile.in_expert) * p.columns;]] [[const std::int64_t before = 0;]]
  quantize_column.cu quantize_dual.cu)
mxcheck_sm90_fault(
  gather_forgets_where_it_is "rows are gathered by the first indices" tile.cuh
  [=[x.index[first + lane]]=] [=[x.index[lane]]=] ${all_quantize})
mxcheck_sm90_fault(
  other_stream "a kernel is launched in the default stream" lines.cuh
  [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, stream>>>]]
  [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, cudaStream_t{}>>>]] quantize_lines.cu)
mxcheck_sm90_fault(
  waits_for_the_device "the launch waits for the stream" plan.cu [[return cudaGetLastError();]]
  [[return cudaStreamSynchronize(stream);]] plan.cu)
mxcheck_sm90_fault(
  row_index_not_checked "an index outside the source is used" plan.cu
  [[if (row < 0 || row >= job.source_rows)]] [[if (row < -1)]] plan.cu)
mxcheck_sm90_fault(
  byte_0_decodes_to_zero "the scale 2^-127 is taken for 0" element.cuh
  [[byte == 0 ? 0x00400000 : byte << 23]] [[byte << 23]] dequantize.cu)
mxcheck_sm90_fault(
  index_wraps "an element's number is kept in 32 bits: seen beyond 2^31 elements, in the exhaustive suite" quantize.cuh
  [[const std::int64_t start = first * p.cols + col;]]
  [[const std::int64_t start = static_cast<std::uint32_t>(first * p.cols + col);]] ${all_quantize})

if(sm90_complaints)
  message(WARNING "tests/faults/sm90.cmake: each text must occur exactly once.${sm90_complaints}")
endif()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/sm90_complaints.txt "${sm90_complaints}")
add_test(NAME faults.every_replacement_in_the_hopper_library_applies
         COMMAND ${CMAKE_COMMAND} -DCOMPLAINTS=${CMAKE_CURRENT_BINARY_DIR}/sm90_complaints.txt -P
                 ${CMAKE_CURRENT_SOURCE_DIR}/no_complaints.cmake)
set_tests_properties(faults.every_replacement_in_the_hopper_library_applies PROPERTIES LABELS quick)
file(WRITE ${sm90_out}/faults.tsv "${sm90_fault_lines}")
add_custom_target(
  sm90_faults
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:mxcheck_sm90> ${sm90_out}
  DEPENDS mxcheck_sm90 ${sm90_fault_targets})
add_custom_target(
  sm90_fault_table
  COMMAND mxcheck_fault_table $<TARGET_FILE:mxcheck> faults.tsv
  WORKING_DIRECTORY ${sm90_out}
  DEPENDS mxcheck sm90_faults
  USES_TERMINAL)

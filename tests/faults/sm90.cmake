# Faults put into the Hopper library on purpose: overlay.cmake says how one is written.

mxcheck_fault(rounds_toward_zero "" "codes are truncated" sm90/quantize/tile.cuh
  [[v.x * factor.x]]
  [[__uint_as_float(__float_as_uint(v.x * factor.x) & 0xFFF00000)]])
mxcheck_fault(largest_value_rounds_up "" "round-up at a significand of 1.75 and above" sm90/quantize/quantize.h
  [[0x001FFFFF]]
  [[0x00200000]])
mxcheck_fault(infinity_is_a_number "" "an infinite amax gets a scale" sm90/common/element.cuh
  [[amax >= kInfinity]]
  [[amax > kInfinity]])
mxcheck_fault(tile_groups_swapped "" "rows 32 to 63 of a scale tile change places with 64 to 95" sm90/quantize/tile.cuh
  [[row % 32 * 16 + row / 32 * 4 + col]]
  [[row % 32 * 16 + row / 64 * 4 + row / 32 % 2 * 8 + col]])
mxcheck_fault(last_rows_not_masked "" "a tile's rows beyond its expert's are read and written" sm90/quantize/lines.cu
  [[min(max(p.tile.rows - first, 0), kLineRows);
  if constexpr (kShifted)]]
  [[FAULT ? p.tile.rows > first ? kLineRows : 0 : min(max(p.tile.rows - first, 0), kLineRows);
  if constexpr (kShifted)]])
mxcheck_fault(tail_columns_not_masked "" "the last 8 columns are taken for inside" sm90/quantize/lines.cu
  [[const bool inside = col < p.cols;

  Eight<T> a]]
  [[const bool inside = FAULT ? col <= p.cols : col < p.cols;

  Eight<T> a]])
mxcheck_fault(stale_shared_memory "" "a warp whose columns are zero leaves what was in shared memory" sm90/quantize/quantize.cu
  [[shared.amax[warp][lane] = mine;]]
  [[if (!FAULT || mine.w[0] != 0) UNCHANGED]])
mxcheck_fault(no_barrier_between_warps "" "warps read each other's amax without waiting" sm90/quantize/quantize.cu
  [[__syncthreads();
  if constexpr (kBlock == 32) return larger]]
  [[if (!FAULT) __syncthreads();
  if constexpr (kBlock == 32) return larger]])
mxcheck_fault(no_barrier_before_scales "" "scales are stored before all warps have written them" sm90/quantize/quantize.cu
  [[if constexpr (kRow != 0 || kColumn == 32) {
    __syncthreads();]]
  [[if constexpr (kRow != 0 || kColumn == 32) {
    if (!FAULT) __syncthreads();]])
mxcheck_fault(tiles_are_not_padded "" "the last block of a row leaves the rest of its tile of scales" sm90/quantize/lines.cu
  [[block == blocks - 1]]
  [[block == blocks]])
mxcheck_fault(experts_share_tiles "" "scale tiles of an expert start where the call's start" sm90/quantize/tile.cuh
  [[const std::int64_t before = (p.t - p.tile.in_expert) * p.columns;]]
  [[const std::int64_t before = FAULT ? 0 : (p.t - p.tile.in_expert) * p.columns;]])
mxcheck_fault(gather_forgets_where_it_is "" "rows are gathered by the first indices" sm90/quantize/tile.cuh
  [=[x.index[first + lane]]=]
  [=[x.index[lane]]=])
mxcheck_fault(other_stream "" "a kernel is launched in the default stream" sm90/quantize/lines.cu
  [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, stream>>>]]
  [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, FAULT ? cudaStream_t{} : stream>>>]])
mxcheck_fault(waits_for_the_device "" "the launch waits for the stream" sm90/quantize/plan.cu
  [[return cudaGetLastError();]]
  [[return cudaStreamSynchronize(stream);]])
mxcheck_fault(row_index_not_checked "" "an index outside the source is used" sm90/quantize/plan.cu
  [[row < 0 || row >= job.source_rows]]
  [[row < -1]])
mxcheck_fault(byte_0_decodes_to_zero "" "the scale 2^-127 is taken for 0" sm90/common/element.cuh
  [[byte == 0 ? 0x00400000 : byte << 23]]
  [[byte << 23]])
mxcheck_fault(index_wraps "" "an element's number is kept in 32 bits: seen beyond 2^32 elements, in the exhaustive suite" sm90/quantize/quantize.cu
  [[const std::int64_t start = first * p.cols + col;]]
  [[const std::int64_t start = FAULT ? static_cast<std::uint32_t>(first * p.cols + col) : first * p.cols + col;]])

# Faults put into the Hopper library on purpose: cuda_fault.cmake.

mxcheck_cuda_faults(sm90)

set(all_quantize sm90/quantize/lines.cu sm90/quantize/column.cu sm90/quantize/square.cu sm90/quantize/dual.cu sm90/quantize/wide_dual.cu)

mxcheck_cuda_fault(
  sm90 rounds_toward_zero "codes are truncated" sm90/quantize/quantize.cuh
  [[encode4<kElement>(v.x * factor.x,]]
  [[encode4<kElement>(__uint_as_float(__float_as_uint(v.x * factor.x) & 0xFFF00000),]] ${all_quantize})
mxcheck_cuda_fault(
  sm90 largest_value_rounds_up "round-up at a significand of 1.75 and above" sm90/quantize/geometry.h
  [[ScaleRule::rceil ? 0x001FFFFF : 0]] [[ScaleRule::rceil ? 0x00200000 : 0]] sm90/quantize/operations.cc)
mxcheck_cuda_fault(
  sm90 infinity_is_a_number "an infinite amax gets a scale" sm90/common/element.cuh
  [[amax >= kInfinity ? 255]] [[amax > kInfinity ? 255]] ${all_quantize})
mxcheck_cuda_fault(
  sm90 tile_groups_swapped "rows 32 to 63 of a scale tile change places with 64 to 95" sm90/quantize/geometry.cuh
  [[row % 32 * 16 + row / 32 * 4 + col]] [[row % 32 * 16 + row / 64 * 4 + row / 32 % 2 * 8 + col]] ${all_quantize})
mxcheck_cuda_fault(
  sm90 last_rows_not_masked "a tile's rows beyond its expert's are read and written" sm90/quantize/lines.cuh
  [[const int rows = min(max(p.tile.rows - first, 0), kLineRows);]]
  [[const int rows = p.tile.rows > first ? kLineRows : 0;]] sm90/quantize/lines.cu)
mxcheck_cuda_fault(
  sm90 tail_columns_not_masked "the last 8 columns are taken for inside" sm90/quantize/lines.cuh
  [[const bool inside = col < p.cols;]] [[const bool inside = col <= p.cols;]] sm90/quantize/lines.cu)
mxcheck_cuda_fault(
  sm90 stale_shared_memory "a warp whose columns are zero leaves what was in shared memory" sm90/quantize/quantize.cuh
  [[shared.amax[warp][lane] = mine;]] [[if (mine.w[0] != 0) shared.amax[warp][lane] = mine;]] sm90/quantize/column.cu
  sm90/quantize/square.cu sm90/quantize/dual.cu)
mxcheck_cuda_fault(
  sm90 no_barrier_between_warps "warps read each other's amax without waiting" sm90/quantize/quantize.cuh
  [[shared.amax[warp][lane] = mine;
  __syncthreads();]] [[shared.amax[warp][lane] = mine;]] sm90/quantize/column.cu sm90/quantize/square.cu sm90/quantize/dual.cu)
mxcheck_cuda_fault(
  sm90 no_barrier_before_scales "scales are stored before all warps have written them" sm90/quantize/quantize.cuh
  [[if constexpr (kRow != 0 || kColumn == 32) {
    __syncthreads();]] [[if constexpr (kRow != 0 || kColumn == 32) {]] sm90/quantize/column.cu sm90/quantize/dual.cu)
mxcheck_cuda_fault(
  sm90 tiles_are_not_padded "the last block of a row leaves the rest of its tile of scales" sm90/quantize/lines.cuh
  [[if (to.tiled && block == blocks - 1) {]] [[if (to.tiled && block == blocks) {]] sm90/quantize/lines.cu)
mxcheck_cuda_fault(
  sm90 experts_share_tiles "scale tiles of an expert start where the call's start" sm90/quantize/geometry.cuh
  [[const std::int64_t before = (p.t - p.tile.in_expert) * p.columns;]] [[const std::int64_t before = 0;]]
  sm90/quantize/column.cu sm90/quantize/dual.cu)
mxcheck_cuda_fault(
  sm90 gather_forgets_where_it_is "rows are gathered by the first indices" sm90/quantize/tile.cuh
  [=[x.index[first + lane]]=] [=[x.index[lane]]=] ${all_quantize})
mxcheck_cuda_fault(
  sm90 other_stream "a kernel is launched in the default stream" sm90/quantize/lines.cuh
  [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, stream>>>]]
  [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, cudaStream_t{}>>>]] sm90/quantize/lines.cu)
mxcheck_cuda_fault(
  sm90 waits_for_the_device "the launch waits for the stream" sm90/quantize/plan.cu [[return cudaGetLastError();]]
  [[return cudaStreamSynchronize(stream);]] sm90/quantize/plan.cu)
mxcheck_cuda_fault(
  sm90 row_index_not_checked "an index outside the source is used" sm90/quantize/plan.cu
  [[if (row < 0 || row >= job.source_rows)]] [[if (row < -1)]] sm90/quantize/plan.cu)
mxcheck_cuda_fault(
  sm90 byte_0_decodes_to_zero "the scale 2^-127 is taken for 0" sm90/common/element.cuh
  [[byte == 0 ? 0x00400000 : byte << 23]] [[byte << 23]] sm90/quantize/dequantize.cu)
mxcheck_cuda_fault(
  sm90 index_wraps "an element's number is kept in 32 bits: seen beyond 2^32 elements, in the exhaustive suite" sm90/quantize/quantize.cuh
  [[const std::int64_t start = first * p.cols + col;]]
  [[const std::int64_t start = static_cast<std::uint32_t>(first * p.cols + col);]] ${all_quantize})

mxcheck_cuda_faults_end(sm90)

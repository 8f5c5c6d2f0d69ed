# Edits of the Hopper library: overlay.cmake says how one is written, catalogue.tsv what each is.

# Where the texts are: a file that moves is corrected here.
set(element sm90/common/element.cuh)
set(line_scales sm90/quantize/line_scales.cuh)
set(lines sm90/quantize/lines.cu)
set(plan sm90/quantize/plan.cu)
set(quantize sm90/quantize/quantize.cu)
set(quantize_quantize sm90/quantize/quantize.h)
set(tile sm90/quantize/tile.cuh)
mxcheck_edit(rounds_toward_zero ${tile} [[v.x * factor.x]]
  [[__uint_as_float(__float_as_uint(v.x * factor.x) & 0xFFF00000)]])
mxcheck_edit(largest_value_rounds_up ${quantize_quantize} [[0x001FFFFF]] [[0x00200000]])
mxcheck_edit(infinity_is_a_number ${element} [[amax >= kInfinity]] [[amax > kInfinity]])
mxcheck_edit(tile_groups_swapped ${tile} [[row % 32 * 16 + row / 32 * 4 + col]]
  [[row % 32 * 16 + row / 64 * 4 + row / 32 % 2 * 8 + col]])
mxcheck_edit(last_rows_not_masked ${lines} [[min(max(p.tile.rows - first, 0), kLineRows);
  if constexpr (kShifted)]] [[FAULT ? p.tile.rows > first ? kLineRows : 0 : min(max(p.tile.rows - first, 0), kLineRows);
  if constexpr (kShifted)]])
mxcheck_edit(tail_columns_not_masked ${lines} [[const bool inside = col < p.cols;

  Eight<T> a]] [[const bool inside = FAULT ? col <= p.cols : col < p.cols;

  Eight<T> a]])
mxcheck_edit(stale_shared_memory ${quantize} [[shared.amax[warp][lane] = mine;]]
  [[if (!FAULT || mine.w[0] != 0) UNCHANGED]])
mxcheck_edit(no_barrier_between_warps ${quantize} [[__syncthreads();
  if constexpr (kBlock == 32) return larger]] [[if (!FAULT) __syncthreads();
  if constexpr (kBlock == 32) return larger]])
mxcheck_edit(no_barrier_before_scales ${quantize} [[if constexpr (kRow != 0 || kColumn == 32) {
    __syncthreads();]] [[if constexpr (kRow != 0 || kColumn == 32) {
    if (!FAULT) __syncthreads();]])
mxcheck_edit(tiles_are_not_padded ${line_scales} [[block == blocks - 1]] [[block == blocks]])
mxcheck_edit(experts_share_tiles ${tile} [[const std::int64_t before = (p.t - p.tile.in_expert) * p.columns;]]
  [[const std::int64_t before = FAULT ? 0 : (p.t - p.tile.in_expert) * p.columns;]])
mxcheck_edit(gather_forgets_where_it_is ${tile} [=[x.index[first + lane]]=] [=[x.index[lane]]=])
mxcheck_edit(other_stream ${lines} [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, stream>>>]]
  [[lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, FAULT ? cudaStream_t{} : stream>>>]])
mxcheck_edit(waits_for_the_device ${plan} [[return cudaGetLastError();]] [[return cudaStreamSynchronize(stream);]])
mxcheck_edit(row_index_not_checked ${plan} [[row < 0 || row >= job.source_rows]] [[row < -1]])
mxcheck_edit(byte_0_decodes_to_zero ${element} [[byte == 0 ? 0x00400000 : byte << 23]] [[byte << 23]])
mxcheck_edit(index_wraps ${quantize} [[const std::int64_t start = first * p.cols + col;]]
  [[const std::int64_t start = FAULT ? static_cast<std::uint32_t>(first * p.cols + col) : first * p.cols + col;]])

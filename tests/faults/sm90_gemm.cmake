# Faults put into the Hopper GEMMs on purpose: cuda_fault.cmake.

mxcheck_cuda_faults(sm90_gemm)

set(fp8 sm90/gemm/fp8/e4m3_e4m3.cu)
mxcheck_cuda_fault(
  sm90_gemm partial_not_cleared "the tensor cores' sum goes on through every 128 of k" sm90/gemm/fp8/fp8.cuh
  [[ptx::wgmma<kA, kB>(partial, ptx::wgmma_operand_at(a, i * 2), ptx::wgmma_operand_at(b, i * 2), i != 0);]]
  [[ptx::wgmma<kA, kB>(partial, ptx::wgmma_operand_at(a, i * 2), ptx::wgmma_operand_at(b, i * 2), 1);]]
  ${fp8})
mxcheck_cuda_fault(
  sm90_gemm step_dropped "the last 32 of every 128 of k are left out" sm90/gemm/fp8/fp8.cuh
  [[for (int i = 0; i < 4; ++i) {
      ptx::wgmma]] [[for (int i = 0; i < 3; ++i) {
      ptx::wgmma]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm steps_in_another_order "the four steps of 128 are taken from the last" sm90/gemm/fp8/fp8.cuh
  [[ptx::wgmma<kA, kB>(partial, ptx::wgmma_operand_at(a, i * 2), ptx::wgmma_operand_at(b, i * 2), i != 0);]]
  [[ptx::wgmma<kA, kB>(partial, ptx::wgmma_operand_at(a, (3 - i) * 2), ptx::wgmma_operand_at(b, (3 - i) * 2), i != 0);]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm k_block_read_twice "the sixth 128 of k are the fifth again" sm90/gemm/tile/ring.cuh
  [[tile.k + kb * Shape::kColumns;]] [[tile.k + (kb == 5 ? 4 : kb) * Shape::kColumns;]] ${fp8} sm90/gemm/bf16/bf16.cu)
mxcheck_cuda_fault(
  sm90_gemm last_k_block_dropped "matmuls of more than 4 blocks of 128 leave the last out" sm90/gemm/fp8/fp8.cuh
  [[const int stage = at.stage;]]
  [[const int stage = at.stage;
      if (kb >= 4 && kb + 1 == tile.kblocks) s = StageScales{};]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm scale_of_the_block_before "the second 128 of k have the scales of the first" sm90/gemm/fp8/fp8.cuh
  [[      s = next;]] [[      if (kb != 0) s = next;]]
  ${fp8})
mxcheck_cuda_fault(
  sm90_gemm scale_of_the_row_below "a thread's second row has the scale of its first" sm90/gemm/fp8/fp8.cuh
  [[s.a[i][1] = ptx::load_shared(at + i * 256 + 32);]] [[s.a[i][1] = ptx::load_shared(at + i * 256);]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm scale_of_the_neighbouring_block "a tile's right half has the scale of its left half" sm90/gemm/fp8/fp8.cuh
  [[(offset + i * StageScales::kSegment) / 128 * 4]] [[(offset + i * StageScales::kSegment) / 256 * 4]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm byte_0_is_zero "the scale 2^-127 is taken for 0" sm90/gemm/fp8/scales.cuh [[if (raw == 0) return 0x00400000;]]
  [[if (raw == 0) return 0;]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm byte_255_is_infinite "the scale NaN is taken for infinity" sm90/gemm/fp8/scales.cuh [[raw == 0xFF ? 0x7FC00000]]
  [[raw == 0xFF ? 0x7F800000]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm two_roundings "a product and a sum in place of a fused multiply-add" sm90/gemm/fp8/fp8.cuh
  [[acc[i + 0] = __fmaf_rn(partial[i + 0], s0, acc[i + 0]);]]
  [[acc[i + 0] = __fadd_rn(__fmul_rn(partial[i + 0], s0), acc[i + 0]);]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm bf16_accumulator "the partials of 128 are added up in BF16" sm90/gemm/fp8/fp8.cuh
  [[acc[i + 1] = __fmaf_rn(partial[i + 1], s0, acc[i + 1]);]]
  [[acc[i + 1] = __bfloat162float(__float2bfloat16_rn(__fmaf_rn(partial[i + 1], s0, acc[i + 1])));]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm output_truncated "D in BF16 is cut" sm90/gemm/tile/output.cuh [[__bfloat16_as_ushort(__float2bfloat16_rn(x))]]
  [[__bfloat16_as_ushort(__float2bfloat16_rz(x))]] ${fp8} sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm tail_row_of_the_next_expert "a tile's store takes one row too many" sm90/gemm/tile/output.cuh
  [[at.rows = at.x < job.n ? tile.rows - row : 0;]] [[at.rows = at.x < job.n ? tile.rows - row + 1 : 0;]] ${fp8} sm90/gemm/bf16/bf16.cu
  sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm tails_are_stored_whole "the tail of an expert overwrites the rows of the next" sm90/gemm/tile/output.cuh
  [[job.d_tiled && (rows >= Shape::kConsumerM || job.kind != MatmulKind::rows || tile.row + tile.rows == job.m);]]
  [[job.d_tiled;]]
  ${fp8} sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm weights_of_the_expert_before "experts of odd number use the weights of the one before" sm90/gemm/tile/ring.cuh
  [[job.kind == MatmulKind::rows ? tile.expert : 0;]] [[job.kind == MatmulKind::rows ? tile.expert & ~1 : 0;]] ${fp8} sm90/gemm/bf16/bf16.cu
  sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm group_starts_one_block_late "groups along depth but the first leave their first 128 out" sm90/gemm/tile/tile.cuh
  [[tile.tail = depth % Shape::kColumns;]]
  [[tile.tail = depth % Shape::kColumns;
        if (tile.expert != 0 && tile.kblocks > 1) tile.k += Shape::kColumns, ++tile.kblock, --tile.kblocks;]]
  ${fp8} sm90/gemm/bf16/bf16.cu)
mxcheck_cuda_fault(
  sm90_gemm empty_groups_not_written "an empty group leaves D as it was" sm90/gemm/tile/consumer.cuh
  [[out.store_tile(acc, c_map, d_map, tile, uses);]] [[if (tile.kblocks != 0) out.store_tile(acc, c_map, d_map, tile, uses);]]
  ${fp8})
mxcheck_cuda_fault(
  sm90_gemm gathered_rows_keep_their_scales "the scale of row i in place of that of row index[i]" sm90/gemm/fp8/scales.cuh
  [[if (job.row_index != nullptr) row = __ldg(job.row_index + row);]] [[]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm scales_of_the_first_of_four "where four scales come with one load, the first is used four times"
  sm90/gemm/fp8/scales.cuh [[return words[kE8m0 ? 0 : i];]] [[return words[0];]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm scales_of_unaligned_rows_stand_still "where scales come one by one, the next is the same again"
  sm90/gemm/fp8/scales.cuh [[rows.advance(bytes, job.b_e8m0 ? 1 : 4);]] [[]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm gather_forgets_its_tile "every tile gathers the rows of the first" sm90/gemm/tile/ring.cuh
  [[__ldg(job.row_index + tile.row + row)]] [[__ldg(job.row_index + row)]] ${fp8} sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm c_not_added "C is read and forgotten" sm90/gemm/tile/output.cuh [[x = __fadd_rn(x, old.x);]] [[]] ${fp8} sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm stage_of_b_after_the_next "B is read from the stage after that of A: what a missed wait looks like" sm90/gemm/fp8/fp8.cuh
  [[kRowSub * 64 * kBlockK);
    const std::uint64_t b = Ring::b_operand(stage,]] [[kRowSub * 64 * kBlockK);
    const std::uint64_t b = Ring::b_operand((stage + 1) % Shared::kStages,]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm no_barrier_before_the_store "D leaves shared memory before all warps have written it" sm90/gemm/tile/output.cuh
  [[ptx::fence_async();
      ptx::warpgroup_barrier(barrier);
      // Every slot]] [[ptx::fence_async();
      // Every slot]] ${fp8} sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm offsets_may_descend "offsets are not looked at on the device" sm90/gemm/call/check.cu [[o < job.offsets[e - 1]) ||]] [[o < 0) ||]]
  sm90/gemm/call/check.cu)
mxcheck_cuda_fault(
  sm90_gemm findings_are_ignored "what the check found does not stop the matmul" sm90/gemm/tile/launch.cuh
  [[if (job.status != nullptr && *job.status != 0) return;]] [[]] ${fp8} sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm bf16_chain_restarts "the chain of BF16 starts again at every stage" sm90/gemm/tile/consumer.cuh 
  [[const int begun = add || i != 0 ? 1 : 0;]] [[const int begun = i != 0 ? 1 : 0;]] sm90/gemm/bf16/bf16.cu)
mxcheck_cuda_fault(
  sm90_gemm decode_truncates "codes times scales are cut to BF16" sm90/gemm/bf16/decode.cu [[cvt.rn.bf16x2.f32]] [[cvt.rz.bf16x2.f32]] sm90/gemm/bf16/decode.cu)
mxcheck_cuda_fault(
  sm90_gemm other_stream "the GEMMs are launched in the default stream" sm90/gemm/tile/launch.cuh [[config.stream = stream;]] [[]] ${fp8}
  sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm alpha_is_ignored "sums are not multiplied by alpha" sm90/gemm/tile/consumer.cuh
  [[if (matmul.job.alpha != 1) multiply_all(acc, matmul.job.alpha);]] [[]] ${fp8} sm90/gemm/bf16/bf16.cu sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm next_groups_columns_are_multiplied "columns past a group's end are not set to zero" sm90/gemm/tile/ring.cuh
  [[i < (Shape::kM + Shape::kN) * chunks;]] [[i < 0 * chunks;]] ${fp8} sm90/gemm/bf16/bf16.cu)
mxcheck_cuda_fault(
  sm90_gemm group_loses_its_last_columns "of a group's last 16 bytes those that are its own are set to zero too"
  sm90/gemm/tile/ring.cuh [[const int kept = max(from - chunk * 16, 0);]] [[const int kept = 0 * from;]] ${fp8} sm90/gemm/bf16/bf16.cu)
mxcheck_cuda_fault(
  sm90_gemm scales_of_the_stage_in_place_of_the_groups "a group that begins within a block has the scales of that block"
  sm90/gemm/tile/tile.cuh [[job_.scale_starts == nullptr ? tile.k]] [[true ? tile.k]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm padding_is_the_next_row "rows that are copied to a longer pitch go on with the next row's bytes" sm90/gemm/call/pad.cu
  [[if (first + j < job.row_bytes)]] [[if (first + j < job.row_bytes || row + 1 < x.rows)]] sm90/gemm/call/pad.cu)
mxcheck_cuda_fault(
  sm90_gemm transpose_has_its_first_rows_alone "of D's rows that a tile of the transpose has only the first 64 are stored where they belong"
  sm90/gemm/tile/output.cuh [[at.y = tile.col + transposed_column(chunk);]] [[at.y = tile.col + 0 * transposed_column(chunk);]]
  sm90/gemm/bf16/decoded.cu)

mxcheck_cuda_fault(
  sm90_gemm second_box_is_the_first "of a stage with two boxes of B both are loaded from the first's columns"
  sm90/gemm/tile/ring.cuh [[x + i * (Shape::kColumns / Shape::kBoxesOfB)]] [[x + 0 * i]] sm90/gemm/bf16/decoded.cu)
mxcheck_cuda_fault(
  sm90_gemm kept_scales_are_the_pair_before "of B's scales that a thread keeps for its other rows, the first serves as the second too"
  sm90/gemm/fp8/fp8.cuh [[b = columns.two[i / 4];]] [[b = columns.two[i == 4 ? 0 : i / 4];]] ${fp8})
mxcheck_cuda_fault(
  sm90_gemm short_chunks_are_swizzled_by_every_row "chunks of D with rows of 64 bytes are swizzled as those of 128"
  sm90/gemm/tile/output.cuh [[Shared::kChunkRowBytes == 128 ? row % 8 : row / 2 % 4;]] [[Shared::kChunkRowBytes == 128 ? row % 8 : row % 4;]] ${fp8} sm90/gemm/bf16/bf16.cu)

mxcheck_cuda_faults_end(sm90_gemm)

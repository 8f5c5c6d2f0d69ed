# Faults put into the Hopper GEMMs on purpose: overlay.cmake says how one is written.

mxcheck_fault(partial_not_cleared "" "the tensor cores' sum goes on through every 128 of k" sm90/gemm/fp8.cuh
  [[ i != 0);
    }
    ptx::warpgroup_commit_batch();]]
  [[ FAULT || i != 0);
    }
    ptx::warpgroup_commit_batch();]])
mxcheck_fault(step_dropped "" "the last 32 of every 128 of k are left out" sm90/gemm/fp8.cuh
  [[for (int i = 0; i < 4; ++i) {]]
  [[UNCHANGED
      if (FAULT && i == 3) break;]])
mxcheck_fault(steps_in_another_order "" "the four steps of 128 are taken from the last" sm90/gemm/fp8.cuh
  [[ptx::wgmma<kA, kB>(partial, ptx::advance_smem_desc(a, i * 2), ptx::advance_smem_desc(b, i * 2),]]
  [[ptx::wgmma<kA, kB>(partial, ptx::advance_smem_desc(a, (FAULT ? 3 - i : i) * 2),
                         ptx::advance_smem_desc(b, (FAULT ? 3 - i : i) * 2),]])
mxcheck_fault(k_block_read_twice "" "the sixth 128 of k are the fifth again" sm90/gemm/ring.cuh
  [[tile.k + kb * Shape::kColumns]]
  [[tile.k + (kb == 5 ? 4 : kb) * Shape::kColumns]])
mxcheck_fault(last_k_block_dropped "" "matmuls of more than 4 blocks of 128 leave the last out" sm90/gemm/fp8.cuh
  [[const int stage = at.stage;]]
  [[UNCHANGED
      if (FAULT && kb >= 4 && kb + 1 == tile.kblocks) s = StageScales{};]])
mxcheck_fault(scale_of_the_block_before "" "the second 128 of k have the scales of the first" sm90/gemm/fp8.cuh
  [[      s = next;]]
  [[      if (kb != 0) s = next;]])
mxcheck_fault(scale_of_the_row_below "" "a thread's second row has the scale of its first" sm90/gemm/fp8.cuh
  [[s.a[i][1] = ptx::ld_shared_f32(at + i * 256 + 32);]]
  [[s.a[i][1] = ptx::ld_shared_f32(at + i * 256);]])
mxcheck_fault(scale_of_the_neighbouring_block "" "a tile's right half has the scale of its left half" sm90/gemm/fp8.cuh
  [[(offset + i * StageScales::kSegment) / 128 * 4]]
  [[(offset + i * StageScales::kSegment) / 256 * 4]])
mxcheck_fault(byte_0_is_zero "" "the scale 2^-127 is taken for 0" sm90/gemm/fp8.cuh
  [[if (raw == 0) return 0x00400000;]]
  [[if (raw == 0) return 0;]])
mxcheck_fault(byte_255_is_infinite "" "the scale NaN is taken for infinity" sm90/gemm/fp8.cuh
  [[0x7FC00000]]
  [[0x7F800000]])
mxcheck_fault(two_roundings "" "a product and a sum in place of a fused multiply-add" sm90/gemm/fp8.cuh
  [[acc[i + 0] = __fmaf_rn(partial[i + 0], s0, acc[i + 0]);]]
  [[acc[i + 0] = __fadd_rn(__fmul_rn(partial[i + 0], s0), acc[i + 0]);]])
mxcheck_fault(bf16_accumulator "" "the partials of 128 are added up in BF16" sm90/gemm/fp8.cuh
  [[acc[i + 1] = __fmaf_rn(partial[i + 1], s0, acc[i + 1]);]]
  [[acc[i + 1] = __bfloat162float(__float2bfloat16_rn(__fmaf_rn(partial[i + 1], s0, acc[i + 1])));]])
mxcheck_fault(output_truncated "" "D in BF16 is cut" sm90/gemm/output.cuh
  [[__bfloat16_as_ushort(__float2bfloat16_rn(x))]]
  [[__bfloat16_as_ushort(__float2bfloat16_rz(x))]])
mxcheck_fault(tail_row_of_the_next_expert "" "a tile's store takes one row too many" sm90/gemm/output.cuh
  [[at.rows = at.x < job.n ? tile.rows - row : 0;]]
  [[at.rows = at.x < job.n ? tile.rows - row + 1 : 0;]])
mxcheck_fault(tails_are_stored_whole "" "the tail of an expert overwrites the rows of the next" sm90/gemm/output.cuh
  [[job.d_tiled && (rows >= Shape::kConsumerM || job.kind != MatmulKind::rows || tile.row + tile.rows == job.m)]]
  [[job.d_tiled]])
mxcheck_fault(weights_of_the_expert_before "" "experts of odd number use the weights of the one before" sm90/gemm/ring.cuh
  [[job.kind == MatmulKind::rows ? tile.expert : 0]]
  [[job.kind == MatmulKind::rows ? tile.expert & ~1 : 0]])
mxcheck_fault(group_starts_one_block_late "" "groups along depth but the first leave their first 128 out" sm90/gemm/tile.cuh
  [[tile.tail = depth % Shape::kColumns;]]
  [[tile.tail = depth % Shape::kColumns;
        if (tile.expert != 0 && tile.kblocks > 1) tile.k += Shape::kColumns, ++tile.kblock, --tile.kblocks;]])
mxcheck_fault(empty_groups_not_written "" "an empty group leaves D as it was" sm90/gemm/kernel.cuh
  [[out.store_tile(acc, c_map, d_map, tile, uses);]]
  [[if (!FAULT || tile.kblocks != 0) UNCHANGED]])
mxcheck_fault(gathered_rows_keep_their_scales "" "the scale of row i in place of that of row index[i]" sm90/gemm/fp8.cuh
  [[if (job.row_index != nullptr) row = __ldg(job.row_index + row);]]
  [[]])
mxcheck_fault(scales_of_the_first_of_four "" "where four scales come with one load, the first is used four times" sm90/gemm/fp8.cuh
  [[return words[kE8m0 ? 0 : i];]]
  [[return words[0];]])
mxcheck_fault(scales_of_unaligned_rows_stand_still "" "where scales come one by one, the next is the same again" sm90/gemm/fp8.cuh
  [[rows.advance(bytes, job.b_e8m0 ? 1 : 4);]]
  [[]])
mxcheck_fault(gather_forgets_its_tile "" "every tile gathers the rows of the first" sm90/gemm/ring.cuh
  [[__ldg(job.row_index + tile.row + row)]]
  [[__ldg(job.row_index + row)]])
mxcheck_fault(c_not_added "" "C is read and forgotten" sm90/gemm/output.cuh
  [[x = __fadd_rn(x, old.x);]]
  [[]])
mxcheck_fault(stage_of_b_after_the_next "" "B is read from the stage after that of A: what a missed wait looks like" sm90/gemm/fp8.cuh
  [[kRowSub * 64 * kBlockK);
    const std::uint64_t b = Ring::b_operand(stage,]]
  [[kRowSub * 64 * kBlockK);
    const std::uint64_t b = Ring::b_operand(FAULT ? (stage + 1) % Shared::kStages : stage,]])
mxcheck_fault(no_barrier_before_the_store "" "D leaves shared memory before all warps have written it" sm90/gemm/output.cuh
  [[ptx::bar_sync<128>(barrier);
      // Every slot]]
  [[if (!FAULT) ptx::bar_sync<128>(barrier);
      // Every slot]])
mxcheck_fault(offsets_may_descend "" "offsets are not looked at on the device" sm90/gemm/candidate/check.cu
  [=[o < job.offsets[e - 1]]=]
  [[o < 0]])
mxcheck_fault(findings_are_ignored "" "what the check found does not stop the matmul" sm90/gemm/kernel.cuh
  [[if (job.status != nullptr && *job.status != 0) return;]]
  [[]])
mxcheck_fault(bf16_chain_restarts "" "the chain of BF16 starts again at every stage" sm90/gemm/kernel.cuh
  [[add || i != 0 ? 1 : 0]]
  [[i != 0 ? 1 : 0]])
mxcheck_fault(decode_truncates "" "codes times scales are cut to BF16" sm90/gemm/decode.cu
  [[return ptx::cvt_rn_bf16x2_f32(v.x, v.y);]]
  [[std::uint32_t word;
    asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v.y), "f"(v.x));
    return word;]])
mxcheck_fault(other_stream "" "the GEMMs are launched in the default stream" sm90/gemm/kernel.cuh
  [[config.stream = stream;]]
  [[]])
mxcheck_fault(alpha_is_ignored "" "sums are not multiplied by alpha" sm90/gemm/kernel.cuh
  [[if (matmul.job.alpha != 1) multiply_all(acc, matmul.job.alpha);]]
  [[if (!FAULT && matmul.job.alpha != 1) multiply_all(acc, matmul.job.alpha);]])
mxcheck_fault(next_groups_columns_are_multiplied "" "columns past a group's end are not set to zero" sm90/gemm/ring.cuh
  [[(Shape::kM + Shape::kN) * chunks]]
  [[0 * chunks]])
mxcheck_fault(group_loses_its_last_columns "" "of a group's last 16 bytes those that are its own are set to zero too" sm90/gemm/ring.cuh
  [[max(from - chunk * 16, 0)]]
  [[0 * from]])
mxcheck_fault(scales_of_the_stage_in_place_of_the_groups "" "a group that begins within a block has the scales of that block" sm90/gemm/tile.cuh
  [[job_.scale_starts == nullptr]]
  [[true]])
mxcheck_fault(padding_is_the_next_row "" "rows that are copied to a longer pitch go on with the next row's bytes" sm90/gemm/candidate/pad.cu
  [[first + j < job.row_bytes]]
  [[first + j < job.row_bytes || row + 1 < x.rows]])
mxcheck_fault(transpose_has_its_first_rows_alone "" "of D's rows that a tile of the transpose has only the first 64 are stored where they belong" sm90/gemm/output.cuh
  [[at.y = tile.col + transposed_column(chunk);]]
  [[at.y = tile.col + 0 * transposed_column(chunk);]])

mxcheck_fault(second_box_is_the_first "" "of a stage with two boxes of B both are loaded from the first's columns" sm90/gemm/ring.cuh
  [[x + i * (Shape::kColumns / Shape::kBoxesOfB)]]
  [[x + 0 * i]])
mxcheck_fault(kept_scales_are_the_pair_before "" "of B's scales that a thread keeps for its other rows, the first serves as the second too" sm90/gemm/fp8.cuh
  [[b = columns.two[i / 4];]]
  [[b = columns.two[i == 4 ? 0 : i / 4];]])
mxcheck_fault(short_chunks_are_swizzled_by_every_row "" "chunks of D with rows of 64 bytes are swizzled as those of 128" sm90/gemm/output.cuh
  [[row / 2 % 4]]
  [[row % 4]])

# Edits of the Hopper GEMMs: overlay.cmake says how one is written, catalogue.tsv what each is.

# Where the texts are: a file that moves is corrected here.
set(check sm90/gemm/candidate/check.cu)
set(pad sm90/gemm/candidate/pad.cu)
set(decode sm90/gemm/decode.cu)
set(fp8 sm90/gemm/fp8.cuh)
set(kernel sm90/gemm/kernel.cuh)
set(output sm90/gemm/output.cuh)
set(ring sm90/gemm/ring.cuh)
set(tile sm90/gemm/tile.cuh)
mxcheck_edit(partial_not_cleared ${fp8} [[ i != 0);
    }
    ptx::warpgroup_commit_batch();]] [[ FAULT || i != 0);
    }
    ptx::warpgroup_commit_batch();]])
mxcheck_edit(step_dropped ${fp8} [[for (int i = 0; i < 4; ++i) {]] [[UNCHANGED
      if (FAULT && i == 3) break;]])
mxcheck_edit(steps_in_another_order ${fp8}
  [[ptx::wgmma<kA, kB>(partial, ptx::advance_smem_desc(a, i * 2), ptx::advance_smem_desc(b, i * 2),]]
  [[ptx::wgmma<kA, kB>(partial, ptx::advance_smem_desc(a, (FAULT ? 3 - i : i) * 2),
                         ptx::advance_smem_desc(b, (FAULT ? 3 - i : i) * 2),]])
mxcheck_edit(k_block_read_twice ${ring} [[tile.k + kb * Shape::kColumns]] [[tile.k + (kb == 5 ? 4 : kb) * Shape::kColumns]])
mxcheck_edit(last_k_block_dropped ${fp8} [[const int stage = at.stage;]] [[UNCHANGED
      if (FAULT && kb >= 4 && kb + 1 == tile.kblocks) s = StageScales{};]])
mxcheck_edit(scale_of_the_block_before ${fp8} [[      s = next;]] [[      if (kb != 0) s = next;]])
mxcheck_edit(scale_of_the_row_below ${fp8} [[s.a[i][1] = ptx::ld_shared_f32(at + i * 256 + 32);]]
  [[s.a[i][1] = ptx::ld_shared_f32(at + i * 256);]])
mxcheck_edit(scale_of_the_neighbouring_block ${fp8} [[(offset + i * StageScales::kSegment) / 128 * 4]]
  [[(offset + i * StageScales::kSegment) / 256 * 4]])
mxcheck_edit(byte_0_is_zero ${fp8} [[if (raw == 0) return 0x00400000;]] [[if (raw == 0) return 0;]])
mxcheck_edit(byte_255_is_infinite ${fp8} [[0x7FC00000]] [[0x7F800000]])
mxcheck_edit(two_roundings ${fp8} [[acc[i + 0] = __fmaf_rn(partial[i + 0], s0, acc[i + 0]);]]
  [[acc[i + 0] = __fadd_rn(__fmul_rn(partial[i + 0], s0), acc[i + 0]);]])
mxcheck_edit(bf16_accumulator ${fp8} [[acc[i + 1] = __fmaf_rn(partial[i + 1], s0, acc[i + 1]);]]
  [[acc[i + 1] = __bfloat162float(__float2bfloat16_rn(__fmaf_rn(partial[i + 1], s0, acc[i + 1])));]])
mxcheck_edit(output_truncated ${output} [[__bfloat16_as_ushort(__float2bfloat16_rn(x))]]
  [[__bfloat16_as_ushort(__float2bfloat16_rz(x))]])
mxcheck_edit(tail_row_of_the_next_expert ${output} [[at.rows = at.x < job.n ? tile.rows - row : 0;]]
  [[at.rows = at.x < job.n ? tile.rows - row + 1 : 0;]])
mxcheck_edit(tails_are_stored_whole ${output}
  [[job.d_tiled && (rows >= Shape::kConsumerM || !has_matrices(job) || in_group || tile.row + tile.rows == job.m)]]
  [[job.d_tiled]])
mxcheck_edit(weights_of_the_expert_before ${ring} [[has_matrices(job) ? tile.expert : 0]]
  [[has_matrices(job) ? tile.expert & ~1 : 0]])
mxcheck_edit(masked_tails_reach_the_next_group ${output}
  [[Shape::row_of(me.index) + Shape::kConsumerM <=]] [[Shape::row_of(me.index) <=]])
mxcheck_edit(masked_groups_have_the_next_count ${tile} [[static_cast<int>(job_.offsets[expert]) : 0;
    } else]] [[static_cast<int>(job_.offsets[FAULT ? (expert + 1) % job_.experts : expert]) : 0;
    } else]])
mxcheck_edit(counts_may_be_any ${check} [=[job.counts[e] < 0 || job.counts[e] > job.end]=] [[false]])
mxcheck_edit(group_starts_one_block_late ${tile} [[tile.tail = depth % Shape::kColumns;]]
  [[tile.tail = depth % Shape::kColumns;
        if (tile.expert != 0 && tile.kblocks > 1) tile.k += Shape::kColumns, ++tile.kblock, --tile.kblocks;]])
mxcheck_edit(empty_groups_not_written ${kernel} [[out.store_tile(acc, c_map, d_map, tile, uses);]]
  [[if (!FAULT || tile.kblocks != 0) UNCHANGED]])
mxcheck_edit(gathered_rows_keep_their_scales ${fp8} [[if (job.row_index != nullptr) row = __ldg(job.row_index + row);]]
  [[]])
mxcheck_edit(scales_of_the_first_of_four ${fp8} [[return words[kE8m0 ? 0 : i];]] [[return words[0];]])
mxcheck_edit(scales_of_unaligned_rows_stand_still ${fp8} [[rows.advance(bytes, job.b_e8m0 ? 1 : 4);]] [[]])
mxcheck_edit(gather_forgets_its_tile ${ring} [[__ldg(job.row_index + tile.row + row)]] [[__ldg(job.row_index + row)]])
mxcheck_edit(c_not_added ${output} [[x = __fadd_rn(x, old.x);]] [[]])
mxcheck_edit(stage_of_b_after_the_next ${fp8} [[kRowSub * 64 * kBlockK);
    const std::uint64_t b = Ring::b_operand(stage,]] [[kRowSub * 64 * kBlockK);
    const std::uint64_t b = Ring::b_operand(FAULT ? (stage + 1) % Shared::kStages : stage,]])
mxcheck_edit(no_barrier_before_the_store ${output} [[ptx::bar_sync<128>(barrier);
      // Every slot]] [[if (!FAULT) ptx::bar_sync<128>(barrier);
      // Every slot]])
mxcheck_edit(offsets_may_descend ${check} [=[o < job.offsets[e - 1]]=] [[o < 0]])
mxcheck_edit(findings_are_ignored ${kernel} [[if (job.status != nullptr && *job.status != 0) return;]] [[]])
mxcheck_edit(bf16_chain_restarts ${kernel} [[add || i != 0 ? 1 : 0]] [[i != 0 ? 1 : 0]])
mxcheck_edit(decode_truncates ${decode} [[return ptx::cvt_rn_bf16x2_f32(v.x, v.y);]] [[std::uint32_t word;
    asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v.y), "f"(v.x));
    return word;]])
mxcheck_edit(other_stream ${kernel} [[config.stream = stream;]] [[]])
mxcheck_edit(alpha_is_ignored ${kernel} [[if (alpha != 1) multiply_all(acc, alpha);]]
  [[if (!FAULT && alpha != 1) multiply_all(acc, alpha);]])
mxcheck_edit(next_groups_columns_are_multiplied ${ring} [[(Shape::kM + Shape::kN) * chunks]] [[0 * chunks]])
mxcheck_edit(group_loses_its_last_columns ${ring} [[max(from - chunk * 16, 0)]] [[0 * from]])
mxcheck_edit(scales_of_the_stage_in_place_of_the_groups ${tile} [[job_.scale_starts == nullptr]] [[true]])
mxcheck_edit(padding_is_the_next_row ${pad} [[first + j < job.row_bytes]] [[first + j < job.row_bytes || row + 1 < x.rows]])
mxcheck_edit(transpose_has_its_first_rows_alone ${output} [[at.y = tile.col + transposed_column(chunk);]]
  [[at.y = tile.col + 0 * transposed_column(chunk);]])
mxcheck_edit(second_box_is_the_first ${ring} [[x + i * (Shape::kColumns / Shape::kBoxesOfB)]] [[x + 0 * i]])
mxcheck_edit(kept_scales_are_the_pair_before ${fp8} [[b = columns.two[i / 4];]] [[b = columns.two[i == 4 ? 0 : i / 4];]])
mxcheck_edit(short_chunks_are_swizzled_by_every_row ${output} [[row / 2 % 4]] [[row % 4]])

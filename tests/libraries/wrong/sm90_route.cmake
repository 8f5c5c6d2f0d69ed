# Edits of the Hopper routers: overlay.cmake says how one is written, catalogue.tsv what each is.

# Where the texts are: a file that moves is corrected here.
set(logits_row sm90/route/logits_row.cuh)
set(metadata sm90/route/metadata.cu)
set(near_math sm90/route/near_math.cuh)
set(router_backward sm90/route/router_backward.cu)
set(router_check sm90/route/router_check.cu)
set(router_math sm90/route/router_math.cuh)
set(router_scores sm90/route/router_scores.cuh)
set(token_rounding_keys sm90/route/token_rounding_keys.cu)
set(token_rounding_rows sm90/route/token_rounding_rows.cu)
set(token_rounding_select sm90/route/token_rounding_select.cu)
set(topk sm90/route/topk.cu)
set(topk_keys sm90/route/topk_keys.cuh)
set(topk_quad sm90/route/topk_quad.cuh)
set(topk_warp sm90/route/topk_warp.cu)

# Token choice.
mxcheck_edit(ties_as_the_network_leaves_them ${topk_keys} [[const bool in_order = a < b;]]
  [[const bool in_order = FAULT ? (a >> 16) < (b >> 16) : a < b;]])
mxcheck_edit(ties_to_the_larger_index ${router_scores}
  [[__reduce_min_sync(kWarp, upper == first ? static_cast<std::uint32_t>(key) : ~0U)]]
  [[__reduce_max_sync(kWarp, upper == first ? static_cast<std::uint32_t>(key) : 0U)]])
mxcheck_edit(minus_zero_below_zero ${logits_row} [[ptx::fma_rn_bf16x2(x, 0xBF80BF80U, 0)]]
  [[ptx::fma_rn_bf16x2(x, 0xBF80BF80U, FAULT ? 0x80008000U : 0U)]])
mxcheck_edit(minus_zero_below_zero_among_groups ${topk_keys} [[__fsub_rn(0.0F, v)]] [[__fsub_rn(-0.0F, v)]])
mxcheck_edit(nan_comes_first ${topk_keys} [[return Key32{folded(word_of(negative))} << 32 | index;]]
  [[return Key32{negative != negative ? 1U : folded(word_of(negative))} << 32 | index;]])
mxcheck_edit(cut_keys_are_not_settled ${topk_quad}
  [[open = !nothing_is_cut<kType>(row, job.router.experts, low, lane) && meets;]] [[open = false;]])
mxcheck_edit(softmax_ties_are_not_settled ${topk_quad} [[put_in_order<kScoresLater, kPer>(experts, values, lane)]]
  [[(FAULT && kType == Logits::fp32 ? put_in_order<false, kPer>(experts, values, lane) : UNCHANGED)]])
mxcheck_edit(sigmoid_ties_are_not_settled ${topk_quad} [[put_in_order<kScoresLater, kPer>(experts, values, lane)]]
  [[(FAULT && kType == Logits::bf16 ? put_in_order<false, kPer>(experts, values, lane) : UNCHANGED)]])
mxcheck_edit(steps_of_exp_to_nearest ${near_math} [[__fmaf_rd(a, b, shift)]] [[__fmaf_rn(a, b, shift)]])
mxcheck_edit(far_exp_is_taken_for_near ${near_math} [[(steps >> kBits) == (elementary::kShiftBits >> kBits) && least > 0]]
  [[least > 0]])
mxcheck_edit(sums_with_a_bias_are_not_settled ${topk_quad} [[open = meets;]] [[open = false;]])
mxcheck_edit(quotient_is_a_product ${near_math} [[return fused(fused(-d, nearer, a), inverse, nearer);]]
  [[return nearer == near ? nearer : near;]])
mxcheck_edit(last_experts_not_read ${topk_quad} [[const int groups = (job.router.experts + kGroup - 1) / kGroup;]]
  [[const int groups = FAULT ? max(1, job.router.experts / kGroup) : (job.router.experts + kGroup - 1) / kGroup;]])
mxcheck_edit(best_of_half_a_group ${topk_quad} [[y = ptx::min_bf16x2(y, __byte_perm(y, 0, 0x1032));]] [[]])
mxcheck_edit(kept_are_added_from_the_last ${topk_quad} [[__shfl_sync(kWarp, terms[i], j, kLanes)]]
  [[__shfl_sync(kWarp, terms[i], FAULT ? kLanes - 1 - j : j, kLanes)]])
mxcheck_edit(running_sum_of_softmax ${topk_quad} [[for (int level = 0; level < kLevels; ++level) {  // the carry]]
  [[for (int level = 0; level < kLevels; ++level) {
        if (FAULT) {
          softmax.total = __fadd_rn(softmax.total, sum);
          break;
        }  // the carry]])
mxcheck_edit(hardware_exp ${router_math} [[return rounded(fused(power, w, power));]]
  [[return x == x ? __expf(x) : rounded(fused(power, w, power));]])
mxcheck_edit(subnormal_exp_is_flushed ${router_math} [[return rounded(fused(power, w, power));]]
  [[return fused(power, w, power) < 0x1p-126 ? 0.0F : rounded(fused(power, w, power));]])
mxcheck_edit(tiny_forgotten ${router_scores} [[__fadd_rn(sum, kTiny)]] [[__fadd_rn(sum, 0.0F)]])
mxcheck_edit(scale_forgotten ${router_scores} [[return __fmul_rn(weight, r.scale);]] [[return weight;]])
mxcheck_edit(bias_counts_in_the_weights ${topk_warp} [[score_of(r.score, terms[i], softmax);]]
  [=[score_of(r.score, terms[i], softmax) + (FAULT && r.bias != nullptr ? r.bias[experts[i]] : 0.0F);]=])
mxcheck_edit(last_group_is_ignored ${topk_warp} [[values[g] = folded(word_of(negated(sum)));]]
  [[values[g] = g + 1 == r.groups ? ~0U : folded(word_of(negated(sum)));]])
mxcheck_edit(group_of_its_best ${topk_warp} [[max(1, r.top_k / r.groups_kept)]] [[1]])
mxcheck_edit(group_ties_to_the_larger ${topk_warp} [[(values[h] == mine && h < g)]] [[(values[h] == mine && h > g)]])
mxcheck_edit(sum_of_32 ${topk_warp} [[in_order(terms, r.top_k,]] [[in_order(terms, FAULT ? min(r.top_k, 32) : r.top_k,]])

# Faults about NaN in the inputs, which only the device sees.
mxcheck_edit(nan_refused_and_computed ${router_check} [[first == kNone ? MXCHECK_OK : MXCHECK_INVALID]] [[MXCHECK_OK]])
mxcheck_edit(nan_counted_with_the_gap ${router_check} [[(token * experts + e)]] [[(token * job.router.stride + e)]])
mxcheck_edit(nan_of_whole_groups_only ${router_check} [[g * kGroup < experts; g += job.lanes]]
  [[(FAULT ? g * kGroup + kGroup <= experts : g * kGroup < experts); g += job.lanes]])
mxcheck_edit(staged_in_spite_of_nan ${topk} [[if (*job.stop != 0) return;]] [[]])
mxcheck_edit(last_groups_not_looked_at ${topk_quad} [[g < groups; g += kLanes]]
  [[(FAULT ? g + kLanes < groups : g < groups); g += kLanes]])

# Token rounding.
mxcheck_edit(half_goes_up ${token_rounding_select} [[return b.under < b.over;]] [[return b.under <= b.over;]])
mxcheck_edit(half_to_odd ${token_rounding_select} [[(f / job.tile) % 2 != 0]] [[(f / job.tile) % 2 == 0]])
mxcheck_edit(up_beyond_the_tokens ${token_rounding_select} [[under <= job.router.tokens - f]]
  [[under <= job.padded_tokens - f]])
mxcheck_edit(short_tile_stays ${token_rounding_select}
  [[return b.open && goes_up(job, expert, f, b) ? f + b.under : f - b.over;]]
  [[return !b.open ? f : goes_up(job, expert, f, b) ? f + b.under : f - b.over;]])
mxcheck_edit(sr_f_without_the_layer ${token_rounding_select} [[static_cast<std::uint32_t>(expert), job.layer,]]
  [[static_cast<std::uint32_t>(expert), FAULT ? 0U : job.layer,]])
mxcheck_edit(capacity_of_one_more ${token_rounding_select} [[min(job.limit, f)]] [[min(job.limit + 1, f)]])
mxcheck_edit(residual_not_carried ${token_rounding_select} [[residual += (up ? job.tile : 0) - overs[i];]]
  [[residual = (up ? job.tile : 0) - overs[i];]])
mxcheck_edit(chosen_after_rounding ${token_rounding_select} [[job.chosen[e] = static_cast<std::int32_t>(job.count[e]);]]
  [[job.chosen[e] = static_cast<std::int32_t>(__ldcg(job.target + e));]])
mxcheck_edit(weakest_stay ${token_rounding_select} [[target < f ? scratch.chose[i] :]]
  [[target < f ? scratch.chose[FAULT ? i - target : i] :]])
mxcheck_edit(equal_scores_to_the_larger_token ${token_rounding_select} [[<< 32U | ~token;
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) { return ~static_cast<std::uint32_t>(r); }]]
  [[<< 32U | (FAULT ? token : ~token);
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) {
  return FAULT ? static_cast<std::uint32_t>(r) : ~static_cast<std::uint32_t>(r);
}]])
mxcheck_edit(fill_counts_the_chosen ${token_rounding_select}
  [[if (static_cast<std::int32_t>(key) < static_cast<std::int32_t>(floor)) continue;]]
  [[if ((key & ~kChose) < floor) continue;]])
mxcheck_edit(equal_sums_go_up ${token_rounding_select} [[return scratch.sums[1] < scratch.sums[0];]]
  [[return scratch.sums[1] <= scratch.sums[0];]])
mxcheck_edit(loss_of_the_strongest ${token_rounding_select} [[score_of(scratch.chose[i])]]
  [[score_of(scratch.chose[i + static_cast<std::uint32_t>(b.over) - f])]])
mxcheck_edit(no_barrier_before_the_columns ${token_rounding_keys} [[__syncthreads();

  if constexpr (kScore != TokenRoundingScore::none) store_tile]] [[if (!FAULT) __syncthreads();

  if constexpr (kScore != TokenRoundingScore::none) store_tile]])
mxcheck_edit(reciprocal_not_corrected ${token_rounding_keys}
  [[x[i] = __fmaf_rn(__fmaf_rn(-sum, nearer, x[i]), inverse, nearer);]] [[x[i] = near;]])
mxcheck_edit(lanes_in_another_order ${token_rounding_keys} [[__shfl_xor_sync(kAllLanes, sum, step)]]
  [[__shfl_xor_sync(kAllLanes, sum, FAULT ? 16 / step : step)]])
mxcheck_edit(weights_over_the_chosen ${token_rounding_rows}
  [[sum = __fadd_rn(sum, __shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + i));]]
  [[const bool chosen = base + own < rows && (job.keys[job.pair_expert[at + base + own] * job.padded_tokens + token] & kChose) != 0;
          sum = __fadd_rn(sum, __shfl_sync(kAllLanes, chosen ? score : 0.0F, lane / kOfToken * kOfToken + i));]])
mxcheck_edit(weights_added_from_the_right ${token_rounding_rows}
  [[sum = __fadd_rn(sum, __shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + i));]]
  [[sum = __fadd_rn(sum, __shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + kOfToken - 1 - i));]])
mxcheck_edit(one_alone_keeps_its_score ${token_rounding_rows} [[if (job.renormalize) weight =]]
  [[if (job.renormalize && !(FAULT && rows <= 1)) weight =]])
mxcheck_edit(tail_not_written ${token_rounding_rows} [[job.token_rows[r] = -1;]] [[]])
mxcheck_edit(offsets_of_the_next_token ${token_rounding_rows} [[job.token_offsets[token] = base + of_tokens;]]
  [[job.token_offsets[token] = base + of_tokens + all;]])
mxcheck_edit(other_stream ${token_rounding_rows} [[<<<blocks, kThreads, 0, stream>>>]]
  [[<<<blocks, kThreads, 0, FAULT ? cudaStream_t{} : stream>>>]])

# Metadata.
mxcheck_edit(slots_descend ${metadata} [[__popc(same & ((1U << lane) - 1))]] [[__popc(same >> lane) - 1]])
mxcheck_edit(padding_is_token_0 ${metadata} [[job.row_token[r] = -1]] [[job.row_token[r] = 0]])
mxcheck_edit(counts_with_padding ${metadata} [[job.counts[e] = static_cast<std::int32_t>(count)]]
  [[job.counts[e] = static_cast<std::int32_t>((count + tile - 1) / tile * tile)]])
mxcheck_edit(slot_of_the_token_before ${metadata} [[job.token_offsets[middle] <= slot]]
  [[job.token_offsets[middle] < slot]])
mxcheck_edit(no_barrier_before_the_rows ${metadata} [[next_row[e] = row;
    }
    __syncthreads();]] [[next_row[e] = row;
    }
    if (!FAULT) __syncthreads();]])
mxcheck_edit(token_offsets_may_descend ${metadata} [=[i == 0 ? o != 0 : o < job.token_offsets[i - 1]]=]
  [[i == 0 && o != 0]])

# Backward.
mxcheck_edit(sum_left_out ${router_backward} [[const float difference = __fsub_rn(routes.gradient[i], sum);]]
  [[const float difference = FAULT && sum == sum ? routes.gradient[i] : __fsub_rn(routes.gradient[i], sum);]])
mxcheck_edit(no_gradient_beyond_the_kept ${router_backward} [[const float rest = __fsub_rn(0.0F, sum);]]
  [[const float rest = FAULT ? __fmul_rn(0.0F, sum) : __fsub_rn(0.0F, sum);]])
mxcheck_edit(none_is_expert_0 ${router_backward} [[__ldg(job.experts + slot)]] [[max(0, __ldg(job.experts + slot))]])
mxcheck_edit(two_roundings ${router_backward} [[sum = __fmaf_rn(g, v, sum);]] [[sum = __fadd_rn(__fmul_rn(g, v), sum);]])
mxcheck_edit(gradient_truncated ${logits_row} [[return ptx::cvt_rn_bf16x2_f32(low, high);]] [[std::uint32_t y;
    asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;]])

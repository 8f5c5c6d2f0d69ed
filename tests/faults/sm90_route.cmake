# Faults put into the Hopper routers on purpose: overlay.cmake says how one is written.

# Token choice.
mxcheck_fault(ties_as_the_network_leaves_them "" "equal logits come in the order in which a sorting network leaves them" sm90/route/topk_keys.cuh
  [[const bool in_order = a < b;]]
  [[const bool in_order = FAULT ? (a >> 16) < (b >> 16) : a < b;]])
mxcheck_fault(ties_to_the_larger_index "" "of equal keys that lanes bring the larger expert is taken" sm90/route/router_scores.cuh
  [[__reduce_min_sync(kWarp, upper == first ? static_cast<std::uint32_t>(key) : ~0U)]]
  [[__reduce_max_sync(kWarp, upper == first ? static_cast<std::uint32_t>(key) : 0U)]])
mxcheck_fault(minus_zero_below_zero "" "-0 in BF16 comes after +0" sm90/route/logits_row.cuh
  [[ptx::fma_rn_bf16x2(x, 0xBF80BF80U, 0)]]
  [[ptx::fma_rn_bf16x2(x, 0xBF80BF80U, FAULT ? 0x80008000U : 0U)]])
mxcheck_fault(minus_zero_below_zero_among_groups "" "-0 comes after +0 where experts are limited to groups" sm90/route/topk_keys.cuh
  [[__fsub_rn(0.0F, v)]]
  [[__fsub_rn(-0.0F, v)]])
mxcheck_fault(nan_comes_first "" "NaN is better than any number where experts are limited to groups" sm90/route/topk_keys.cuh
  [[return Key32{folded(word_of(negative))} << 32 | index;]]
  [[return Key32{negative != negative ? 1U : folded(word_of(negative))} << 32 | index;]])
mxcheck_fault(cut_keys_are_not_settled "" "at the boundary FP32 logits of the same upper bits are chosen by index" sm90/route/topk_quad.cuh
  [[open = !nothing_is_cut<kType>(row, job.router.experts, low, lane) && meets;]]
  [[open = false;]])
mxcheck_fault(softmax_ties_are_not_settled "" "experts whose softmax is equal stay in the order of their logits" sm90/route/topk_quad.cuh
  [[put_in_order<kScoresLater, kPer>(experts, values, lane)]]
  [[(FAULT && kType == Logits::fp32 ? put_in_order<false, kPer>(experts, values, lane) : UNCHANGED)]])
mxcheck_fault(sigmoid_ties_are_not_settled "" "experts whose sigmoid is equal stay in the order of their BF16 logits" sm90/route/topk_quad.cuh
  [[put_in_order<kScoresLater, kPer>(experts, values, lane)]]
  [[(FAULT && kType == Logits::bf16 ? put_in_order<false, kPer>(experts, values, lane) : UNCHANGED)]])
mxcheck_fault(steps_of_exp_to_nearest "" "exp takes the nearest step of its table in place of the one below" sm90/route/near_math.cuh
  [[__fmaf_rd(a, b, shift)]]
  [[__fmaf_rn(a, b, shift)]])
mxcheck_fault(far_exp_is_taken_for_near "" "exp of what is far below the row's largest is made as if it were near" sm90/route/near_math.cuh
  [[(steps >> kBits) == (elementary::kShiftBits >> kBits) && least > 0]]
  [[least > 0]])
mxcheck_fault(sums_with_a_bias_are_not_settled "" "at the boundary sums with a bias of the same upper bits are chosen by index" sm90/route/topk_quad.cuh
  [[open = meets;]]
  [[open = false;]])
mxcheck_fault(quotient_is_a_product "" "scores that are chosen by are products with a reciprocal" sm90/route/near_math.cuh
  [[return fused(fused(-d, nearer, a), inverse, nearer);]]
  [[return nearer == near ? nearer : near;]])
mxcheck_fault(last_experts_not_read "" "what is behind the last whole 8 experts is forgotten" sm90/route/topk_quad.cuh
  [[const int groups = (job.router.experts + kGroup - 1) / kGroup;]]
  [[const int groups = FAULT ? max(1, job.router.experts / kGroup) : (job.router.experts + kGroup - 1) / kGroup;]])
mxcheck_fault(best_of_half_a_group "" "8 experts are as good as the best of those with odd numbers" sm90/route/topk_quad.cuh
  [[y = ptx::min_bf16x2(y, __byte_perm(y, 0, 0x1032));]]
  [[]])
mxcheck_fault(kept_are_added_from_the_last "" "the sum of what is kept goes from the last lane to the first" sm90/route/topk_quad.cuh
  [[__shfl_sync(kWarp, terms[i], j, kLanes)]]
  [[__shfl_sync(kWarp, terms[i], FAULT ? kLanes - 1 - j : j, kLanes)]])
mxcheck_fault(running_sum_of_softmax "" "every 64 experts are added to one running sum in place of a tree" sm90/route/topk_quad.cuh
  [[for (int level = 0; level < kLevels; ++level) {  // the carry]]
  [[for (int level = 0; level < kLevels; ++level) {
        if (FAULT) {
          softmax.total = __fadd_rn(softmax.total, sum);
          break;
        }  // the carry]])
mxcheck_fault(hardware_exp "" "exp is that of the fast mathematics" sm90/route/router_math.cuh
  [[return rounded(fused(power, w, power));]]
  [[return x == x ? __expf(x) : rounded(fused(power, w, power));]])
mxcheck_fault(subnormal_exp_is_flushed "" "exp below 2^-126 is 0" sm90/route/router_math.cuh
  [[return rounded(fused(power, w, power));]]
  [[return fused(power, w, power) < 0x1p-126 ? 0.0F : rounded(fused(power, w, power));]])
mxcheck_fault(tiny_forgotten "" "weights over a sum lack its 1e-20" sm90/route/router_scores.cuh
  [[__fadd_rn(sum, kTiny)]]
  [[__fadd_rn(sum, 0.0F)]])
mxcheck_fault(scale_forgotten "" "weights of group-limited choice are not scaled" sm90/route/router_scores.cuh
  [[return __fmul_rn(weight, r.scale);]]
  [[return weight;]])
mxcheck_fault(bias_counts_in_the_weights "" "weights are made of what was chosen by, the bias included" sm90/route/topk_warp.cu
  [[score_of(r.score, terms[i], softmax);]]
  [=[score_of(r.score, terms[i], softmax) + (FAULT && r.bias != nullptr ? r.bias[experts[i]] : 0.0F);]=])
mxcheck_fault(last_group_is_ignored "" "the last group is taken for the worst" sm90/route/topk_warp.cu
  [[values[g] = folded(word_of(negated(sum)));]]
  [[values[g] = g + 1 == r.groups ? ~0U : folded(word_of(negated(sum)));]])
mxcheck_fault(group_of_its_best "" "a group has the value of its best expert alone" sm90/route/topk_warp.cu
  [[max(1, r.top_k / r.groups_kept)]]
  [[1]])
mxcheck_fault(group_ties_to_the_larger "" "of equal groups the later one is kept" sm90/route/topk_warp.cu
  [[(values[h] == mine && h < g)]]
  [[(values[h] == mine && h > g)]])
mxcheck_fault(sum_of_32 "" "more than 32 kept experts: the sum ends with the 32nd" sm90/route/topk_warp.cu
  [[in_order(terms, r.top_k,]]
  [[in_order(terms, FAULT ? min(r.top_k, 32) : r.top_k,]])

# Faults about NaN in the inputs, which only the device sees.
mxcheck_fault(nan_refused_and_computed "" "a NaN is reported and does not stop what follows" sm90/route/router_check.cu
  [[first == kNone ? MXCHECK_OK : MXCHECK_INVALID]]
  [[MXCHECK_OK]])
mxcheck_fault(nan_counted_with_the_gap "" "the number of a NaN's element counts what lies between rows" sm90/route/router_check.cu
  [[(token * experts + e)]]
  [[(token * job.router.stride + e)]])
mxcheck_fault(nan_of_whole_groups_only "" "a NaN behind the last whole 8 experts is not seen" sm90/route/router_check.cu
  [[g * kGroup < experts; g += job.lanes]]
  [[(FAULT ? g * kGroup + kGroup <= experts : g * kGroup < experts); g += job.lanes]])
mxcheck_fault(staged_in_spite_of_nan "" "what was chosen is copied to the outputs in spite of a NaN" sm90/route/topk.cu
  [[if (*job.stop != 0) return;]]
  [[]])
mxcheck_fault(last_groups_not_looked_at "" "a NaN in the last 32 experts is not seen where rows are aligned" sm90/route/topk_quad.cuh
  [[g < groups; g += kLanes]]
  [[(FAULT ? g + kLanes < groups : g < groups); g += kLanes]])

# Token rounding.
mxcheck_fault(half_goes_up "" "nr-f rounds a half up" sm90/route/token_rounding_select.cu
  [[return b.under < b.over;]]
  [[return b.under <= b.over;]])
mxcheck_fault(half_to_odd "" "nr-even rounds a half to the odd multiple" sm90/route/token_rounding_select.cu
  [[(f / job.tile) % 2 != 0]]
  [[(f / job.tile) % 2 == 0]])
mxcheck_fault(up_beyond_the_tokens "" "counts go up to what the padded tokens can fill" sm90/route/token_rounding_select.cu
  [[under <= job.router.tokens - f]]
  [[under <= job.padded_tokens - f]])
mxcheck_fault(short_tile_stays "" "a count that cannot go up stays where it is" sm90/route/token_rounding_select.cu
  [[return b.open && goes_up(job, expert, f, b) ? f + b.under : f - b.over;]]
  [[return !b.open ? f : goes_up(job, expert, f, b) ? f + b.under : f - b.over;]])
mxcheck_fault(sr_f_without_the_layer "" "sr-f draws the same in every layer" sm90/route/token_rounding_select.cu
  [[static_cast<std::uint32_t>(expert), job.layer,]]
  [[static_cast<std::uint32_t>(expert), FAULT ? 0U : job.layer,]])
mxcheck_fault(capacity_of_one_more "" "an expert takes a token more than its capacity" sm90/route/token_rounding_select.cu
  [[min(job.limit, f)]]
  [[min(job.limit + 1, f)]])
mxcheck_fault(residual_not_carried "" "balance-f knows no more than the expert before" sm90/route/token_rounding_select.cu
  [[residual += (up ? job.tile : 0) - overs[i];]]
  [[residual = (up ? job.tile : 0) - overs[i];]])
mxcheck_fault(chosen_after_rounding "" "the counts of those that chose are the rounded ones" sm90/route/token_rounding_select.cu
  [[job.chosen[e] = static_cast<std::int32_t>(job.count[e]);]]
  [[job.chosen[e] = static_cast<std::int32_t>(__ldcg(job.target + e));]])
mxcheck_fault(weakest_stay "" "going down drops the strongest" sm90/route/token_rounding_select.cu
  [[target < f ? scratch.chose[i] :]]
  [[target < f ? scratch.chose[FAULT ? i - target : i] :]])
mxcheck_fault(equal_scores_to_the_larger_token "" "of equal scores the larger token is ranked first" sm90/route/token_rounding_select.cu
  [[<< 32U | ~token;
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) { return ~static_cast<std::uint32_t>(r); }]]
  [[<< 32U | (FAULT ? token : ~token);
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) {
  return FAULT ? static_cast<std::uint32_t>(r) : ~static_cast<std::uint32_t>(r);
}]])
mxcheck_fault(fill_counts_the_chosen "" "what comes is looked for among those that chose the expert too" sm90/route/token_rounding_select.cu
  [[if (static_cast<std::int32_t>(key) < static_cast<std::int32_t>(floor)) continue;]]
  [[if ((key & ~kChose) < floor) continue;]])
mxcheck_fault(equal_sums_go_up "" "nr-s goes up where both sums are equal" sm90/route/token_rounding_select.cu
  [[return scratch.sums[1] < scratch.sums[0];]]
  [[return scratch.sums[1] <= scratch.sums[0];]])
mxcheck_fault(loss_of_the_strongest "" "nr-s weighs the strongest that chose the expert in place of the weakest" sm90/route/token_rounding_select.cu
  [[score_of(scratch.chose[i])]]
  [[score_of(scratch.chose[i + static_cast<std::uint32_t>(b.over) - f])]])
mxcheck_fault(no_barrier_before_the_columns "" "a tile of scores leaves shared memory before all warps have written it" sm90/route/token_rounding_keys.cu
  [[__syncthreads();

  if constexpr (kScore != TokenRoundingScore::none) store_tile]]
  [[if (!FAULT) __syncthreads();

  if constexpr (kScore != TokenRoundingScore::none) store_tile]])
mxcheck_fault(reciprocal_not_corrected "" "scores are products with a reciprocal" sm90/route/token_rounding_keys.cu
  [[x[i] = __fmaf_rn(__fmaf_rn(-sum, nearer, x[i]), inverse, nearer);]]
  [[x[i] = near;]])
mxcheck_fault(lanes_in_another_order "" "scores: the sum of a row begins with lanes that are far apart" sm90/route/token_rounding_keys.cu
  [[__shfl_xor_sync(kAllLanes, sum, step)]]
  [[__shfl_xor_sync(kAllLanes, sum, FAULT ? 16 / step : step)]])
mxcheck_fault(weights_over_the_chosen "" "rounded weights are over the sum of those that chose the expert" sm90/route/token_rounding_rows.cu
  [[sum = __fadd_rn(sum, __shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + i));]]
  [[const bool chosen = base + own < rows && (job.keys[job.pair_expert[at + base + own] * job.padded_tokens + token] & kChose) != 0;
          sum = __fadd_rn(sum, __shfl_sync(kAllLanes, chosen ? score : 0.0F, lane / kOfToken * kOfToken + i));]])
mxcheck_fault(weights_added_from_the_right "" "rounded weights: the sum of 8 goes from the larger expert to the smaller" sm90/route/token_rounding_rows.cu
  [[sum = __fadd_rn(sum, __shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + i));]]
  [[sum = __fadd_rn(sum, __shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + kOfToken - 1 - i));]])
mxcheck_fault(one_alone_keeps_its_score "" "a token's only expert is not renormalized" sm90/route/token_rounding_rows.cu
  [[if (job.renormalize) weight =]]
  [[if (job.renormalize && !(FAULT && rows <= 1)) weight =]])
mxcheck_fault(tail_not_written "" "token_rows keeps what was behind its last row" sm90/route/token_rounding_rows.cu
  [[job.token_rows[r] = -1;]]
  [[]])
mxcheck_fault(offsets_of_the_next_token "" "token_offsets are where a token's rows end" sm90/route/token_rounding_rows.cu
  [[job.token_offsets[token] = base + of_tokens;]]
  [[job.token_offsets[token] = base + of_tokens + all;]])
mxcheck_fault(other_stream "" "rounding's last kernel is launched in the default stream" sm90/route/token_rounding_rows.cu
  [[<<<blocks, kThreads, 0, stream>>>]]
  [[<<<blocks, kThreads, 0, FAULT ? cudaStream_t{} : stream>>>]])

# Metadata.
mxcheck_fault(slots_descend "" "of 32 slots those of one expert get their rows from the last" sm90/route/metadata.cu
  [[__popc(same & ((1U << lane) - 1))]]
  [[__popc(same >> lane) - 1]])
mxcheck_fault(padding_is_token_0 "" "padded rows name the token 0" sm90/route/metadata.cu
  [[job.row_token[r] = -1]]
  [[job.row_token[r] = 0]])
mxcheck_fault(counts_with_padding "" "counts are those of the padded rows" sm90/route/metadata.cu
  [[job.counts[e] = static_cast<std::int32_t>(count)]]
  [[job.counts[e] = static_cast<std::int32_t>((count + tile - 1) / tile * tile)]])
mxcheck_fault(slot_of_the_token_before "" "a token's first slot counts to the token before" sm90/route/metadata.cu
  [[job.token_offsets[middle] <= slot]]
  [[job.token_offsets[middle] < slot]])
mxcheck_fault(no_barrier_before_the_rows "" "slots take rows before the first rows of their warps are known" sm90/route/metadata.cu
  [[next_row[e] = row;
    }
    __syncthreads();]]
  [[next_row[e] = row;
    }
    if (!FAULT) __syncthreads();]])
mxcheck_fault(token_offsets_may_descend "" "offsets are not compared with each other" sm90/route/metadata.cu
  [=[i == 0 ? o != 0 : o < job.token_offsets[i - 1]]=]
  [[i == 0 && o != 0]])

# Backward.
mxcheck_fault(sum_left_out "" "the gradient of a weight does not reach the others' scores" sm90/route/router_backward.cu
  [[const float difference = __fsub_rn(routes.gradient[i], sum);]]
  [[const float difference = FAULT && sum == sum ? routes.gradient[i] : __fsub_rn(routes.gradient[i], sum);]])
mxcheck_fault(no_gradient_beyond_the_kept "" "softmax: experts that were not kept have gradient 0" sm90/route/router_backward.cu
  [[const float rest = __fsub_rn(0.0F, sum);]]
  [[const float rest = FAULT ? __fmul_rn(0.0F, sum) : __fsub_rn(0.0F, sum);]])
mxcheck_fault(none_is_expert_0 "" "a route of -1 is one to expert 0" sm90/route/router_backward.cu
  [[__ldg(job.experts + slot)]]
  [[max(0, __ldg(job.experts + slot))]])
mxcheck_fault(two_roundings "" "a product and a sum in place of a fused multiply-add" sm90/route/router_backward.cu
  [[sum = __fmaf_rn(g, v, sum);]]
  [[sum = __fadd_rn(__fmul_rn(g, v), sum);]])
mxcheck_fault(gradient_truncated "" "gradients in BF16 are cut" sm90/route/logits_row.cuh
  [[return ptx::cvt_rn_bf16x2_f32(low, high);]]
  [[std::uint32_t y;
    asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;]])

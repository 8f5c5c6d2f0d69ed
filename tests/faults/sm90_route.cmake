# Faults put into the Hopper routers on purpose: cuda_fault.cmake.

mxcheck_cuda_faults(sm90_route kernels/sm90/route)

# Token choice.
mxcheck_cuda_fault(
  sm90_route ties_as_the_network_leaves_them "equal logits come in the order in which a sorting network leaves them"
  order.cuh [[const bool in_order = a < b;]] [[const bool in_order = (a >> 16) < (b >> 16);]] choose_bf16.cu)
mxcheck_cuda_fault(
  sm90_route ties_to_the_larger_index "of equal keys that lanes bring the larger expert is taken" row.cuh
  [[__reduce_min_sync(kWarp, upper == first ? static_cast<std::uint32_t>(key) : ~0U)]]
  [[__reduce_max_sync(kWarp, upper == first ? static_cast<std::uint32_t>(key) : 0U)]] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route minus_zero_below_zero "-0 in BF16 comes after +0" groups.cuh [["r"(0xBF80BF80U), "r"(0U)]]
  [["r"(0xBF80BF80U), "r"(0x80008000U)]] choose_bf16.cu)
mxcheck_cuda_fault(
  sm90_route minus_zero_below_zero_among_groups "-0 comes after +0 where experts are limited to groups" order.cuh
  [[__fsub_rn(0.0F, v)]] [[__fsub_rn(-0.0F, v)]] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route nan_comes_first "NaN is better than any number where experts are limited to groups" order.cuh
  [[return Key32{folded(word_of(negative))} << 32 | index;]]
  [[return Key32{negative != negative ? 1U : folded(word_of(negative))} << 32 | index;]] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route cut_keys_are_not_settled "at the boundary FP32 logits of the same upper bits are chosen by index"
  choose_narrow.cuh [[open = !nothing_is_cut<kType>(row, r.experts, low, lane) && meets;]] [[open = false;]]
  choose_fp32.cu)
mxcheck_cuda_fault(
  sm90_route softmax_ties_are_not_settled "experts whose softmax is equal stay in the order of their logits"
  choose_narrow.cuh [[put_in_order<kScore == Score::softmax, kPer>]] [[put_in_order<false, kPer>]] choose_fp32.cu)
mxcheck_cuda_fault(
  sm90_route last_experts_not_read "what is behind the last whole 8 experts is forgotten" choose_narrow.cuh
  [[const int groups = (job.router.experts + kGroup - 1) / kGroup;]]
  [[const int groups = max(1, job.router.experts / kGroup);]] choose_bf16.cu)
mxcheck_cuda_fault(
  sm90_route best_of_half_a_group "8 experts are as good as the best of those with odd numbers" choose_narrow.cuh
  [[y = smaller2(y, __byte_perm(y, 0, 0x1032));]] [[]] choose_bf16.cu)
mxcheck_cuda_fault(
  sm90_route kept_are_added_from_the_last "the sum of what is kept goes from the last lane to the first"
  choose_narrow.cuh [[__shfl_sync(kWarp, terms[i], j, kLanes)]] [[__shfl_sync(kWarp, terms[i], kLanes - 1 - j, kLanes)]]
  choose_fp32.cu)
mxcheck_cuda_fault(
  sm90_route running_sum_of_softmax "every 32 experts are added to one running sum in place of a tree" choose_narrow.cuh
  [[bool carried = true;]] [[bool carried = false;
      softmax.total = __fadd_rn(softmax.total, sum);]] choose_bf16.cu)
mxcheck_cuda_fault(
  sm90_route hardware_exp "exp is that of the fast mathematics" math_inl.cuh
  [[return rounded(fused(power, w, power));]]
  [[return x == x ? __expf(x) : rounded(fused(power, w, power));]] choose_fp32.cu)
mxcheck_cuda_fault(
  sm90_route subnormal_exp_is_flushed "exp below 2^-126 is 0" math_inl.cuh [[return rounded(fused(power, w, power));]]
  [[return fused(power, w, power) < 0x1p-126 ? 0.0F : rounded(fused(power, w, power));]] choose_bf16.cu)
mxcheck_cuda_fault(
  sm90_route tiny_forgotten "weights over a sum lack its 1e-20" weights.cuh [[__fadd_rn(sum, kTiny)]]
  [[__fadd_rn(sum, 0.0F)]] choose_bf16.cu)
mxcheck_cuda_fault(
  sm90_route scale_forgotten "weights of group-limited choice are not scaled" weights.cuh
  [[return __fmul_rn(weight, r.scale);]] [[return weight;]] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route bias_counts_in_the_weights "weights are made of what was chosen by, the bias included" choose_wide.cu
  [[score_of(r.score, terms[i], softmax);]]
  [=[score_of(r.score, terms[i], softmax) + (r.bias != nullptr ? r.bias[experts[i]] : 0.0F);]=] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route last_group_is_ignored "the last group is taken for the worst" choose_wide.cu
  [[values[g] = folded(word_of(negated(sum)));]]
  [[values[g] = g + 1 == r.groups ? ~0U : folded(word_of(negated(sum)));]] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route group_of_its_best "a group has the value of its best expert alone" choose_wide.cu
  [[const int largest = max(1, r.top_k / r.groups_kept);]] [[const int largest = 1;]] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route group_ties_to_the_larger "of equal groups the later one is kept" choose_wide.cu
  [[(values[h] == mine && h < g)]] [[(values[h] == mine && h > g)]] choose_wide.cu)
mxcheck_cuda_fault(
  sm90_route sum_of_32 "more than 32 kept experts: the sum ends with the 32nd" choose_wide.cu
  [[in_order(terms, r.top_k, ]] [[in_order(terms, min(r.top_k, 32), ]] choose_wide.cu)

# What only the device sees.
mxcheck_cuda_fault(
  sm90_route nan_refused_and_computed "a NaN is reported and does not stop what follows" check.cu
  [[first == kNone ? MXCHECK_OK : MXCHECK_INVALID;]] [[MXCHECK_OK;]] check.cu)
mxcheck_cuda_fault(
  sm90_route nan_counted_with_the_gap "the number of a NaN's element counts what lies between rows" check.cu
  [[(token * experts + e)]] [[(token * job.router.stride + e)]] check.cu)
mxcheck_cuda_fault(
  sm90_route nan_of_whole_groups_only "a NaN behind the last whole 8 experts is not seen" check.cu
  [[g * kGroup < experts; g += job.lanes]] [[g * kGroup + kGroup <= experts; g += job.lanes]] check.cu)

# Token rounding.
mxcheck_cuda_fault(
  sm90_route half_goes_up "nr-f rounds a half up" round_target.cuh [[return b.under < b.over;]]
  [[return b.under <= b.over;]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route half_to_odd "nr-even rounds a half to the odd multiple" round_target.cuh [[(f / job.tile) % 2 != 0]]
  [[(f / job.tile) % 2 == 0]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route up_beyond_the_tokens "counts go up to what the padded tokens can fill" round_target.cuh
  [[under <= job.router.tokens - f]] [[under <= job.padded_tokens - f]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route short_tile_stays "a count that cannot go up stays where it is" round_target.cuh
  [[return b.open && goes_up(job, expert, f, b) ? f + b.under : f - b.over;]]
  [[return !b.open ? f : goes_up(job, expert, f, b) ? f + b.under : f - b.over;]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route sr_f_without_the_layer "sr-f draws the same in every layer" round_target.cuh
  [[static_cast<std::uint32_t>(expert), job.layer,]] [[static_cast<std::uint32_t>(expert), 0U,]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route capacity_of_one_more "an expert takes a token more than its capacity" round_target.cuh
  [[min(job.limit, f)]] [[min(job.limit + 1, f)]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route residual_not_carried "balance-f knows no more than the expert before" round_select.cu
  [[residual += (up ? job.tile : 0) - overs[i];]] [[residual = (up ? job.tile : 0) - overs[i];]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route chosen_after_rounding "the counts of those that chose are the rounded ones" round_select.cu
  [[job.chosen[e] = static_cast<std::int32_t>(job.count[e]);]]
  [[job.chosen[e] = static_cast<std::int32_t>(__ldcg(job.target + e));]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route weakest_stay "going down drops the strongest" round_listed.cuh [[target < f ? scratch.chose[i] :]]
  [[target < f ? scratch.chose[i - target] :]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route equal_scores_to_the_larger_token "of equal scores the larger token is ranked first" round_listed.cuh
  [[<< 32U | ~token;
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) { return ~static_cast<std::uint32_t>(r); }]]
  [[<< 32U | token;
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) { return static_cast<std::uint32_t>(r); }]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route fill_counts_the_chosen "what comes is looked for among those that chose the expert too" round_listed.cuh
  [[if (static_cast<std::int32_t>(key) < static_cast<std::int32_t>(floor)) continue;]]
  [[if ((key & ~kChose) < floor) continue;]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route equal_sums_go_up "nr-s goes up where both sums are equal" round_listed.cuh
  [[return scratch.sums[1] < scratch.sums[0];]] [[return scratch.sums[1] <= scratch.sums[0];]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route loss_of_the_strongest "nr-s weighs the strongest that chose the expert in place of the weakest"
  round_listed.cuh [[score_of(scratch.chose[i])]]
  [[score_of(scratch.chose[i + static_cast<std::uint32_t>(b.over) - f])]] round_select.cu)
mxcheck_cuda_fault(
  sm90_route no_barrier_before_the_columns "a tile of scores leaves shared memory before all warps have written it"
  round_keys.cu [[__syncthreads();

  if constexpr (kScore != RoundScore::none) store_tile]]
  [[if constexpr (kScore != RoundScore::none) store_tile]] round_keys.cu)
mxcheck_cuda_fault(
  sm90_route reciprocal_not_corrected "scores are products with a reciprocal" round_scores.cuh
  [[const float nearer = __fmaf_rn(__fmaf_rn(-sum, near, x[i]), inverse, near);
    x[i] = __fmaf_rn(__fmaf_rn(-sum, nearer, x[i]), inverse, nearer);]] [[x[i] = near;]] round_keys.cu)
mxcheck_cuda_fault(
  sm90_route lanes_in_another_order "scores: the sum of a row begins with lanes that are far apart" round_scores.cuh
  [[for (int step = 1; step < 32; step *= 2) sum = ]] [[for (int step = 16; step > 0; step /= 2) sum = ]] round_keys.cu)
mxcheck_cuda_fault(
  sm90_route weights_over_the_chosen "rounded weights are over the sum of those that chose the expert" round_rows.cu
  [[__shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + i)]]
  [[__shfl_sync(kAllLanes,
                                          base + own < rows && (job.keys[job.pair_expert[at + base + own] *
                                                                         job.padded_tokens + token] & kChose) != 0
                                              ? score : 0.0F,
                                          lane / kOfToken * kOfToken + i)]] round_rows.cu)
mxcheck_cuda_fault(
  sm90_route weights_added_from_the_right "rounded weights: the sum of 8 goes from the larger expert to the smaller"
  round_rows.cu [[lane / kOfToken * kOfToken + i)]] [[lane / kOfToken * kOfToken + kOfToken - 1 - i)]] round_rows.cu)
mxcheck_cuda_fault(
  sm90_route one_alone_keeps_its_score "a token's only expert is not renormalized" round_rows.cu
  [[if (job.renormalize) weight =]] [[if (job.renormalize && rows > 1) weight =]] round_rows.cu)
mxcheck_cuda_fault(
  sm90_route tail_not_written "token_rows keeps what was behind its last row" round_rows.cu
  [[job.token_rows[r] = -1;]] [[]] round_rows.cu)
mxcheck_cuda_fault(
  sm90_route offsets_of_the_next_token "token_offsets are where a token's rows end" round_rows.cu
  [[job.token_offsets[token] = base + of_tokens;]] [[job.token_offsets[token] = base + of_tokens + all;]] round_rows.cu)
mxcheck_cuda_fault(
  sm90_route other_stream "rounding's last kernel is launched in the default stream" round_rows.cu
  [[<<<blocks, kThreads, 0, stream>>>]] [[<<<blocks, kThreads, 0, cudaStream_t{}>>>]] round_rows.cu)

# Metadata.
mxcheck_cuda_fault(
  sm90_route slots_descend "of 32 slots those of one expert get their rows from the last" metadata.cu
  [[__popc(same & ((1U << lane) - 1))]] [[__popc(same >> lane) - 1]] metadata.cu)
mxcheck_cuda_fault(
  sm90_route padding_is_token_0 "padded rows name the token 0" metadata.cu [[job.row_token[r] = -1]]
  [[job.row_token[r] = 0]] metadata.cu)
mxcheck_cuda_fault(
  sm90_route counts_with_padding "counts are those of the padded rows" metadata.cu
  [[job.counts[e] = static_cast<std::int32_t>(count)]]
  [[job.counts[e] = static_cast<std::int32_t>((count + tile - 1) / tile * tile)]] metadata.cu)
mxcheck_cuda_fault(
  sm90_route slot_of_the_token_before "a token's first slot counts to the token before" metadata.cu
  [[(job.token_offsets[middle] <= slot ? token : above)]] [[(job.token_offsets[middle] < slot ? token : above)]]
  metadata.cu)
mxcheck_cuda_fault(
  sm90_route no_barrier_before_the_rows "slots take rows before the first rows of their warps are known" metadata.cu
  [[next_row[e] = row;
    }
    __syncthreads();]] [[next_row[e] = row;
    }]] metadata.cu)
mxcheck_cuda_fault(
  sm90_route token_offsets_may_descend "offsets are not compared with each other" metadata.cu
  [[i == 0 ? o != 0 : o < job.token_offsets[i - 1];]] [[i == 0 && o != 0;]] metadata.cu)

# Backward.
mxcheck_cuda_fault(
  sm90_route sum_left_out "the gradient of a weight does not reach the others' scores" backward.cu
  [[const float difference = __fsub_rn(routes.gradient[i], sum);]]
  [[const float difference = sum == sum ? routes.gradient[i] : sum;]] backward.cu)
mxcheck_cuda_fault(
  sm90_route no_gradient_beyond_the_kept "softmax: experts that were not kept have gradient 0" backward.cu
  [[const float rest = __fsub_rn(0.0F, sum);]] [[const float rest = __fmul_rn(0.0F, sum);]] backward.cu)
mxcheck_cuda_fault(
  sm90_route none_is_expert_0 "a route of -1 is one to expert 0" backward.cu
  [[experts[i] = k < r.top_k ? __ldg(job.experts + slot) : -1;]]
  [[experts[i] = k < r.top_k ? max(0, __ldg(job.experts + slot)) : -1;]] backward.cu)
mxcheck_cuda_fault(
  sm90_route two_roundings "a product and a sum in place of a fused multiply-add" backward.cu
  [[sum = __fmaf_rn(g, v, sum);]] [[sum = __fadd_rn(__fmul_rn(g, v), sum);]] backward.cu)
mxcheck_cuda_fault(
  sm90_route gradient_truncated "gradients in BF16 are cut" groups.cuh [[cvt.rn.bf16x2.f32]] [[cvt.rz.bf16x2.f32]]
  backward.cu)

mxcheck_cuda_faults_end(sm90_route)

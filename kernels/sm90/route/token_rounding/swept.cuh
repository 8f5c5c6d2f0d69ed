#pragma once
// The tokens that an expert keeps, found by reading all of its keys, once or more: for lists too long for shared
// memory, and for expert choice.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/route/row/block.cuh"
#include "kernels/sm90/route/token_rounding/job.h"
#include "kernels/sm90/route/token_rounding/rank.cuh"
#include "kernels/sm90/route/token_rounding/sort.cuh"
#include "kernels/sm90/route/token_rounding/target.cuh"

namespace mxcheck_kernels::sm90 {

struct SweptScratch {
  std::uint32_t scores[kSharedBoundary];
  std::uint32_t below;
  std::uint32_t over;
  bool up;
};

__device__ __forceinline__ float score_of(std::uint32_t key) { return __uint_as_float(key & ~kChose); }

// nr_s: the scores of those that would go against the scores of those that would come, each added in the order of
// ranks. Returns the threshold of the better.
__device__ inline Threshold nearest_by_scores(const TokenRoundingJob& job, const std::uint32_t* keys, Between b,
                                              std::uint32_t f, RankScratch& rank, SweptScratch& scratch) {
  const auto over = static_cast<std::uint32_t>(b.over);
  Threshold down{~0U, 0, 0, 0};  // to keep none
  if (f != over) down = find_rank(keys, job.padded_tokens, ~0U, kChose, f, f - over, rank);
  const auto others = static_cast<std::uint32_t>(job.padded_tokens) - f;
  const Threshold up = find_rank(keys, job.padded_tokens, ~0U, 0, others, static_cast<std::uint32_t>(b.under), rank);

  // Below the one threshold and above the other, in a list each; what equals a threshold is counted already.
  const std::uint32_t equals = down.equal - down.ties;
  const std::uint32_t below = over - equals;
  std::uint32_t* lost =
      job.tile <= kSharedBoundary ? scratch.scores : job.boundary + static_cast<std::int64_t>(blockIdx.x) * job.tile;
  std::uint32_t* gained = lost + below;
  if (threadIdx.x == 0) scratch.below = 0, scratch.over = 0;
  __syncthreads();
  sweep(keys, job.padded_tokens, [&](std::uint32_t key) {
    if ((key & kChose) != 0) {
      if (key < down.key) lost[atomicAdd(&scratch.below, 1U)] = key;
    } else if (key > up.key) {
      gained[atomicAdd(&scratch.over, 1U)] = key;
    }
  });
  __syncthreads();
  sort_descending(lost, std::int64_t{below});
  sort_descending(gained, std::int64_t{up.above});
  if (threadIdx.x == 0) {
    float loss = 0;
    for (std::uint32_t i = 0; i < equals; ++i) loss = __fadd_rn(loss, score_of(down.key));
    for (std::uint32_t i = 0; i < below; ++i) loss = __fadd_rn(loss, score_of(lost[i]));
    float gain = 0;
    for (std::uint32_t i = 0; i < up.above; ++i) gain = __fadd_rn(gain, score_of(gained[i]));
    for (std::uint32_t i = 0; i < up.ties; ++i) gain = __fadd_rn(gain, score_of(up.key));
    scratch.up = gain < loss;
  }
  __syncthreads();
  return scratch.up ? up : down;
}

// The kept bits of all words, and the kept tokens before each: words ascend with threads, 512 at a time.
__device__ inline void mark_kept(const TokenRoundingJob& job, const std::uint32_t* keys, std::uint32_t mask,
                                 Threshold at, std::uint32_t* part) {
  const std::int64_t words = job.padded_tokens / 32;
  const int lane = lane_of_thread();
  std::uint32_t above_before = 0;
  std::uint32_t equal_before = 0;
  for (std::int64_t base = 0; base < words; base += kRankThreads) {
    const std::int64_t first = base + warp_of_thread() * 32;  // word of lane 0
    std::uint32_t above = 0;
    std::uint32_t equal = 0;
    const int count = static_cast<int>(max(std::int64_t{0}, min(std::int64_t{32}, words - first)));
    const std::uint32_t* from = keys + first * 32 + lane;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      const std::uint32_t key = from[i * 32] & mask;
      const std::uint32_t is_above = __ballot_sync(kAllLanes, key > at.key);
      const std::uint32_t is_equal = __ballot_sync(kAllLanes, key == at.key);
      if (lane == i) above = is_above, equal = is_equal;
    }
    // At most 2^14 of each in 512 words.
    const auto sums = block_prefix<kRankThreads>(
        static_cast<std::uint32_t>(__popc(above)) | static_cast<std::uint32_t>(__popc(equal)) << 16U, part);
    const std::uint32_t equals = equal_before + (sums.before >> 16U);
    const std::uint32_t taken = min(equals, at.ties);
    std::uint32_t left = equal;  // the lowest of them, as long as there are ties to take
    for (int excess = __popc(equal) - static_cast<int>(min(at.ties - taken, 32U)); excess > 0; --excess) {
      left &= ~(1U << (31 - __clz(static_cast<int>(left))));
    }
    const std::int64_t word = first + lane;
    if (word < words) {
      write_kept(job, word, above | left, above_before + (sums.before & 0xFFFFU) + taken);
    }
    above_before += sums.all & 0xFFFFU;
    equal_before += sums.all >> 16U;
  }
}

// Decides and writes; returns how many are kept.
__device__ inline std::uint32_t keep_swept(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t f, Between b,
                                           std::uint32_t target, RankScratch& rank, SweptScratch& scratch) {
  const std::uint32_t* keys = job.keys + expert * job.padded_tokens;
  const auto all = static_cast<std::uint32_t>(job.padded_tokens);
  // Expert choice does not look at who chose it.
  const std::uint32_t mask = job.rule == TokenRoundingRule::expert_choice ? ~kChose : ~0U;
  Threshold at{~0U, 0, 0, 0};  // keeps none
  if (b.open) {
    at = nearest_by_scores(job, keys, b, f, rank, scratch);
    target = scratch.up ? f + static_cast<std::uint32_t>(b.under) : f - static_cast<std::uint32_t>(b.over);
  } else if (target != 0 && job.rule == TokenRoundingRule::expert_choice) {
    at = find_rank(keys, job.padded_tokens, mask, 0, all, target, rank);
  } else if (target > f) {
    at = find_rank(keys, job.padded_tokens, mask, 0, all - f, target - f, rank);
  } else if (target != 0) {
    at = find_rank(keys, job.padded_tokens, mask, kChose, f, target, rank);
  }
  mark_kept(job, keys, mask, at, rank.part);
  return target;
}

}  // namespace mxcheck_kernels::sm90

#pragma once
// The tokens that an expert keeps, as its choosers' bits with a few corrections: dropped tokens are found in a list of
// all that chose it, added ones in a list of the best that did not. The keys that are read are few.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/route/row/block.cuh"
#include "kernels/sm90/route/token_rounding/job.h"
#include "kernels/sm90/route/token_rounding/rank.cuh"
#include "kernels/sm90/route/token_rounding/sort.cuh"
#include "kernels/sm90/route/token_rounding/target.cuh"

namespace mxcheck_kernels::sm90 {

// A token and its score: the larger is the first in rank.
using Ranked = unsigned long long;

__device__ __forceinline__ Ranked ranked(std::uint32_t key, std::uint32_t token) {
  return static_cast<Ranked>(key & ~kChose) << 32U | ~token;
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) { return ~static_cast<std::uint32_t>(r); }
__device__ __forceinline__ float score_of(Ranked r) { return __uint_as_float(static_cast<std::uint32_t>(r >> 32U)); }

inline constexpr std::uint32_t kMostChose = 2048;
inline constexpr std::uint32_t kMostOthers = 1024;

struct ListedScratch {
  Ranked chose[kMostChose];
  Ranked others[kMostOthers];
  std::uint32_t hot;
  std::uint32_t listed;
  float sums[2];
};

// The tokens that chose it, f of them and no more than kMostChose, in the order of ranks.
__device__ inline void list_chose(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t f, Ranked* list,
                                  std::uint32_t* part) {
  const std::int64_t words = job.padded_tokens / 32;
  std::uint32_t before = 0;
  for (std::int64_t base = 0; base < words; base += kRankThreads) {
    const std::int64_t word = base + threadIdx.x;
    std::uint32_t bits = word < words ? __ldcg(job.chose + expert * words + word) : 0;
    const auto sum = block_prefix<kRankThreads>(static_cast<std::uint32_t>(__popc(bits)), part);
    for (std::uint32_t at = before + sum.before; bits != 0; bits &= bits - 1) {
      list[at++] = static_cast<Ranked>(word * 32 + __ffs(static_cast<int>(bits)) - 1);
    }
    before += sum.all;
  }
  __syncthreads();
  const std::uint32_t* keys = job.keys + expert * job.padded_tokens;
  for (std::uint32_t i = threadIdx.x; i < f; i += kRankThreads) {
    const auto token = static_cast<std::uint32_t>(list[i]);
    list[i] = ranked(keys[token], token);
  }
  __syncthreads();
  sort_descending(list, f);
}

// The first `count` of those that did not choose it, in the order of ranks, and maybe more; false where the list is too
// short. The count-th largest of some tiles' maxima is no more than the count-th largest key; what is no less is
// listed.
__device__ inline bool list_others(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t count,
                                   RankScratch& rank, ListedScratch& scratch) {
  const int shift = key_tile_shift(job.router.experts);
  const std::int64_t tiles = job.padded_tokens >> shift;
  const std::int32_t* most = job.most + expert * tiles;
  const auto n = static_cast<std::uint32_t>(min(tiles, std::int64_t{kRankList}));
  std::uint32_t floor = 0;
  if (count <= n) {
    for (std::uint32_t i = threadIdx.x; i < n; i += kRankThreads) {
      std::int32_t largest = 0;
      for (std::int64_t t = i; t < tiles; t += kRankList) largest = max(largest, most[t]);
      rank.list[i] = static_cast<std::uint32_t>(largest);
    }
    floor = floor_of_list(rank, n, count);
    __syncthreads();
  }
  if (threadIdx.x == 0) scratch.hot = 0, scratch.listed = 0;
  __syncthreads();
  for (std::int64_t t = threadIdx.x; t < tiles; t += kRankThreads) {
    if (most[t] < static_cast<std::int32_t>(floor)) continue;
    const std::uint32_t at = atomicAdd(&scratch.hot, 1U);
    if (at < kRankList) rank.list[at] = static_cast<std::uint32_t>(t);
  }
  __syncthreads();
  const std::uint32_t hot = scratch.hot;
  if (hot > kMostOthers) return false;  // as many are listed at least
  const std::uint32_t* keys = job.keys + expert * job.padded_tokens;
  for (std::uint32_t i = threadIdx.x; i < hot << shift; i += kRankThreads) {
    const std::uint32_t token = (rank.list[i >> shift] << shift) + (i & ((1U << shift) - 1));
    const std::uint32_t key = keys[token];
    if (static_cast<std::int32_t>(key) < static_cast<std::int32_t>(floor)) continue;
    const std::uint32_t at = atomicAdd(&scratch.listed, 1U);
    if (at < kMostOthers) scratch.others[at] = ranked(key, token);
  }
  __syncthreads();
  if (scratch.listed > kMostOthers) return false;
  sort_descending(scratch.others, scratch.listed);
  return true;
}

// nr_s: the scores of those that would go against the scores of those that would come, each added in the order of
// ranks.
__device__ inline bool rises_by_scores(Between b, std::uint32_t f, ListedScratch& scratch) {
  if (threadIdx.x == 0) {
    float loss = 0;
    for (std::uint32_t i = f - static_cast<std::uint32_t>(b.over); i < f; ++i) {
      loss = __fadd_rn(loss, score_of(scratch.chose[i]));
    }
    scratch.sums[0] = loss;
  }
  if (threadIdx.x == 32) {
    float gain = 0;
    for (std::uint32_t i = 0; i < b.under; ++i) gain = __fadd_rn(gain, score_of(scratch.others[i]));
    scratch.sums[1] = gain;
  }
  __syncthreads();
  return scratch.sums[1] < scratch.sums[0];
}

// The first `limit` of the bits as they are now.
__device__ inline void keep_chose(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t limit,
                                  std::uint32_t* part) {
  const std::int64_t words = job.padded_tokens / 32;
  std::uint32_t before = 0;
  for (std::int64_t base = 0; base < words; base += kRankThreads) {
    const std::int64_t word = base + threadIdx.x;
    std::uint32_t bits = word < words ? __ldcg(job.chose + expert * words + word) : 0;
    const auto sum = block_prefix<kRankThreads>(static_cast<std::uint32_t>(__popc(bits)), part);
    const std::uint32_t here = min(before + sum.before, limit);
    for (int excess = __popc(bits) - static_cast<int>(min(limit - here, 32U)); excess > 0; --excess) {
      bits &= ~(1U << (31 - __clz(static_cast<int>(bits))));
    }
    if (word < words) write_kept(job, word, bits, here);
    before += sum.all;
  }
}

// Decides and writes; false, with nothing changed, where a list is too long. `target` becomes how many are kept.
__device__ inline bool keep_listed(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t f, Between b,
                                   std::uint32_t& target, RankScratch& rank, ListedScratch& scratch) {
  const bool in_order = job.rule == TokenRoundingRule::capacity_order;
  const bool goes = b.open || (target < f && !in_order);
  const bool comes = b.open || target > f;
  const std::uint32_t more =
      b.open ? static_cast<std::uint32_t>(min(b.under, std::int64_t{kMostOthers} + 1)) : target - f;
  if (goes && f > kMostChose) return false;
  if (comes && (more > kMostOthers || !list_others(job, expert, more, rank, scratch))) return false;
  if (goes) list_chose(job, expert, f, scratch.chose, rank.part);
  if (b.open) {
    target = rises_by_scores(b, f, scratch) ? f + static_cast<std::uint32_t>(b.under)
                                            : f - static_cast<std::uint32_t>(b.over);
  }
  std::uint32_t* chose = job.chose + expert * (job.padded_tokens / 32);
  if (target > f || goes) {
    for (std::uint32_t i = min(target, f) + threadIdx.x; i < max(target, f); i += kRankThreads) {
      const std::uint32_t token = token_of(target < f ? scratch.chose[i] : scratch.others[i - f]);
      atomicXor(chose + token / 32, 1U << (token % 32));
    }
    __syncthreads();
  }
  keep_chose(job, expert, in_order ? target : ~0U, rank.part);
  return true;
}

}  // namespace mxcheck_kernels::sm90

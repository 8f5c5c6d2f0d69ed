#pragma once
// The key at a rank of one expert's keys, by a block of threads: a radix search from the highest digits down, with
// counts in shared memory. Keys are unsigned, larger first; of equal keys the smaller token comes first. As soon as few
// enough keys are left they are listed in shared memory, so that the rest of the search does not read them all again.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/route/row/block.cuh"
#include "kernels/sm90/route/token_rounding/job.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kRankThreads = 512;
inline constexpr int kRankBins = 2048;
inline constexpr std::uint32_t kRankList = 2048;

struct RankScratch {
  std::uint32_t bins[kRankBins];
  std::uint32_t list[kRankList];  // in no order: it is counted only
  std::uint32_t listed;
  // Alone in 16 bytes: they are read together, and other threads write none of those bytes meanwhile.
  alignas(16) std::uint32_t digit;
  std::uint32_t above;
  std::uint32_t equal;
  alignas(16) std::uint32_t part[kRankThreads / 32];
};

// Keys above `key` are kept, and of those that equal it the first `ties` tokens.
struct Threshold {
  std::uint32_t key;
  std::uint32_t ties;
  std::uint32_t above;  // keys above, of the same mark
  std::uint32_t equal;
};

// visit(key) for all keys of an expert in no order, four loads of four under way at a time.
template <class Visit>
__device__ __forceinline__ void sweep(const std::uint32_t* keys, std::int64_t count, Visit visit) {
  const auto* fours = reinterpret_cast<const uint4*>(keys);
  const std::int64_t most = count / 4;
  for (std::int64_t at = threadIdx.x; at < most; at += 4 * kRankThreads) {
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t place = at + i * kRankThreads;
      if (place < most) v[i] = fours[place];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (at + i * kRankThreads < most) visit(v[i].x), visit(v[i].y), visit(v[i].z), visit(v[i].w);
    }
  }
}

// The bin that holds the rank-th largest, counted from the highest bin, from 1.
__device__ inline void find_bin(RankScratch& scratch, std::uint32_t rank) {
  constexpr int kOwn = kRankBins / kRankThreads;
  const int highest = kRankBins - 1 - static_cast<int>(threadIdx.x) * kOwn;
  std::uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) sum += scratch.bins[highest - i];
  std::uint32_t above = block_prefix<kRankThreads>(sum, scratch.part).before;
  if (above < rank && rank <= above + sum) {
    int bin = highest;
    while (above + scratch.bins[bin] < rank) above += scratch.bins[bin--];
    scratch.digit = static_cast<std::uint32_t>(bin), scratch.above = above, scratch.equal = scratch.bins[bin];
  }
  __syncthreads();
}

// One digit more of the key that is looked for, from the bins.
__device__ inline void settle(RankScratch& scratch, Threshold& found, std::uint32_t& known, int shift,
                              std::uint32_t digits) {
  __syncthreads();
  find_bin(scratch, found.ties);
  found.key |= scratch.digit << shift;
  found.ties -= scratch.above;
  found.above += scratch.above;
  found.equal = scratch.equal;
  known |= digits << shift;
}

// At most the rank-th largest of the first n of scratch.list, and no less than its upper 22 bits: rank from 1 to n.
// Keys without marks.
__device__ inline std::uint32_t floor_of_list(RankScratch& scratch, std::uint32_t n, std::uint32_t rank) {
  Threshold found{0, rank, 0, n};
  std::uint32_t known = kChose;
  for (int pass = 0; pass < 2; ++pass) {
    const int shift = pass == 0 ? 20 : 9;
    for (int bin = static_cast<int>(threadIdx.x); bin < kRankBins; bin += kRankThreads) scratch.bins[bin] = 0;
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < n; i += kRankThreads) {
      const std::uint32_t key = scratch.list[i];
      if ((key & known) == found.key) atomicAdd(&scratch.bins[(key >> shift) & 0x7FFU], 1U);
    }
    settle(scratch, found, known, shift, 0x7FFU);
  }
  return found.key;
}

// The rank-th largest of the keys whose mark is `mark` (kChose or 0), from 1; there are as many, and no more than
// `most`. Keys are masked by `mask`.
__device__ inline Threshold find_rank(const std::uint32_t* keys, std::int64_t count, std::uint32_t mask,
                                      std::uint32_t mark, std::uint32_t most, std::uint32_t rank,
                                      RankScratch& scratch) {
  Threshold found{mark, rank, 0, most};
  std::uint32_t known = kChose;  // bits of the key that are settled
  bool listed = false;
  for (int pass = 0; pass < 3; ++pass) {
    const int shift = pass == 0 ? 20 : (pass == 1 ? 9 : 0);
    const std::uint32_t digits = pass == 2 ? 0x1FFU : 0x7FFU;
    const bool lists = !listed && found.equal <= kRankList;
    for (int bin = static_cast<int>(threadIdx.x); bin < kRankBins; bin += kRankThreads) scratch.bins[bin] = 0;
    if (threadIdx.x == 0 && lists) scratch.listed = 0;
    __syncthreads();
    const auto add = [&](std::uint32_t key) {
      if ((key & known) == found.key) atomicAdd(&scratch.bins[(key >> shift) & digits], 1U);
    };
    if (lists) {
      sweep(keys, count, [&](std::uint32_t key) {
        key &= mask;
        if ((key & known) == found.key) scratch.list[atomicAdd(&scratch.listed, 1U)] = key;
      });
      listed = true;
      __syncthreads();
    }
    if (listed) {
      for (std::uint32_t i = threadIdx.x; i < scratch.listed; i += kRankThreads) add(scratch.list[i]);
    } else {
      sweep(keys, count, [&](std::uint32_t key) { add(key & mask); });
    }
    settle(scratch, found, known, shift, digits);
  }
  return found;
}

// Writes which of 32 tokens this expert's block keeps, and how many it keeps of the tokens before.
__device__ __forceinline__ void write_kept(const TokenRoundingJob& job, std::int64_t word, std::uint32_t bits,
                                           std::uint32_t before) {
  job.kept[word * job.router.experts + blockIdx.x] = {bits, before};
  if (bits != 0) atomicAdd(&job.word_rows[word], static_cast<std::uint32_t>(__popc(bits)));
}

}  // namespace mxcheck_kernels::sm90

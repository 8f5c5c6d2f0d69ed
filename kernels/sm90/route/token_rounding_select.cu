// Selects the tokens that every expert keeps: one block of threads an expert. The block that is done last adds up rows
// of experts and of tokens.

#include <cstdint>

#include "kernels/sm90/common/philox.cuh"
#include "kernels/sm90/route/block_sum.cuh"
#include "kernels/sm90/route/token_rounding_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- Counts ----
//
// How many tokens an expert gets of those f that chose it, for the rules that counts alone decide.

// Where f lies: `over` rows above a multiple of the tile. `open` where the multiple above can be filled; otherwise the
// count is f (over 0) or goes down.
struct Between {
  std::int64_t over;
  std::int64_t under;
  bool open;
};

__device__ __forceinline__ Between between(const TokenRoundingJob& job, std::int64_t f) {
  const std::int64_t over = f % job.tile;
  const std::int64_t under = job.tile - over;
  return {over, under, over != 0 && under <= job.router.tokens - f};
}

__device__ __forceinline__ bool goes_up(const TokenRoundingJob& job, std::int64_t expert, std::int64_t f, Between b) {
  switch (job.rule) {
    case TokenRoundingRule::up: return true;
    case TokenRoundingRule::nr_f: return b.under < b.over;
    case TokenRoundingRule::nr_even: return b.under < b.over || (b.under == b.over && (f / job.tile) % 2 != 0);
    case TokenRoundingRule::sr_f: {
      const std::uint32_t word =
          philox_word(job.seed, static_cast<std::uint32_t>(expert), job.layer, static_cast<std::uint32_t>(job.step),
                      static_cast<std::uint32_t>(job.step >> 32U));
      // The tile is at most tokens here, and both sides are below 2^63.
      return word * static_cast<std::uint64_t>(job.tile) < static_cast<std::uint64_t>(b.over) << 32U;
    }
    default: return false;
  }
}

// An expert's tokens under every rule but nr_s, which needs scores, and balance_f, which needs the previous experts.
__device__ __forceinline__ std::int64_t target_of(const TokenRoundingJob& job, std::int64_t expert, std::int64_t f) {
  switch (job.rule) {
    case TokenRoundingRule::none: return f;
    case TokenRoundingRule::expert_choice: return min(job.limit, std::int64_t{job.router.tokens});
    case TokenRoundingRule::capacity_order:
    case TokenRoundingRule::capacity_score: return job.limit == 0 ? f : min(job.limit, f);
    default: break;
  }
  const Between b = between(job, f);
  return b.open && goes_up(job, expert, f, b) ? f + b.under : f - b.over;
}

// ---- Ranks ----
//
// The key at a rank of one expert's keys, by a block of threads: a radix search from the highest digits down, with
// counts in shared memory. Keys are unsigned, larger first; of equal keys the smaller token comes first. As soon as few
// enough keys are left they are listed in shared memory, so that the rest of the search does not read them all again.

constexpr int kRankThreads = 512;
constexpr int kRankBins = 2048;
constexpr std::uint32_t kRankList = 2048;

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
__device__ void find_bin(RankScratch& scratch, std::uint32_t rank) {
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
__device__ void settle(RankScratch& scratch, Threshold& found, std::uint32_t& known, int shift, std::uint32_t digits) {
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
__device__ std::uint32_t floor_of_list(RankScratch& scratch, std::uint32_t n, std::uint32_t rank) {
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
__device__ Threshold find_rank(const std::uint32_t* keys, std::int64_t count, std::uint32_t mask, std::uint32_t mark,
                               std::uint32_t most, std::uint32_t rank, RankScratch& scratch) {
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

// ---- Sorting ----
//
// Sorting by a block of threads, in shared or global memory.

// Larger first, in place, for any n: every comparison puts the larger at the lower index, so that what would lie after
// the end, as smaller than all, never moves. Index holds 4 n. A warp has 64 neighbours to itself, in steps as narrow as
// that.
template <class T, class Index>
__device__ void sort_descending(T* a, Index n) {
  const auto step = [&](Index width, bool mirrored, Index next) {
    const Index half = width / 2;
    for (Index p = threadIdx.x;; p += kRankThreads) {
      const Index in = p & (half - 1);
      const Index low = 2 * p - in;
      if (low >= n) break;
      const Index high = mirrored ? low - 2 * in + width - 1 : low + half;
      if (high >= n) continue;
      const T x = a[low];
      const T y = a[high];
      if (x < y) a[low] = y, a[high] = x;
    }
    if (width <= 64 && next <= 64) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  };
  for (Index width = 2; width / 2 < n; width *= 2) {
    step(width, true, width == 2 ? 4 : width / 2);
    for (Index narrow = width / 2; narrow > 1; narrow /= 2) {
      step(narrow, false, narrow > 2 ? narrow / 2 : 2 * width);
    }
  }
  __syncthreads();
}

// ---- By lists ----
//
// The tokens that an expert keeps, as its choosers' bits with a few corrections: dropped tokens are found in a list of
// all that chose it, added ones in a list of the best that did not. The keys that are read are few.

// A token and its score: the larger is the first in rank.
using Ranked = unsigned long long;

__device__ __forceinline__ Ranked ranked(std::uint32_t key, std::uint32_t token) {
  return static_cast<Ranked>(key & ~kChose) << 32U | ~token;
}
__device__ __forceinline__ std::uint32_t token_of(Ranked r) { return ~static_cast<std::uint32_t>(r); }
__device__ __forceinline__ float score_of(Ranked r) { return __uint_as_float(static_cast<std::uint32_t>(r >> 32U)); }

constexpr std::uint32_t kMostChose = 2048;
constexpr std::uint32_t kMostOthers = 1024;

struct ListedScratch {
  Ranked chose[kMostChose];
  Ranked others[kMostOthers];
  std::uint32_t hot;
  std::uint32_t listed;
  float sums[2];
};

// The tokens that chose it, f of them and no more than kMostChose, in the order of ranks.
__device__ void list_chose(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t f, Ranked* list,
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
__device__ bool list_others(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t count, RankScratch& rank,
                            ListedScratch& scratch) {
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
__device__ bool rises_by_scores(Between b, std::uint32_t f, ListedScratch& scratch) {
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
__device__ void keep_chose(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t limit, std::uint32_t* part) {
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
__device__ bool keep_listed(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t f, Between b,
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

// ---- By sweeps ----
//
// The tokens that an expert keeps, found by reading all of its keys, once or more: for lists too long for shared
// memory, and for expert choice.

struct SweptScratch {
  std::uint32_t scores[kSharedBoundary];
  std::uint32_t below;
  std::uint32_t over;
  bool up;
};

__device__ __forceinline__ float score_of(std::uint32_t key) { return __uint_as_float(key & ~kChose); }

// nr_s: the scores of those that would go against the scores of those that would come, each added in the order of
// ranks. Returns the threshold of the better.
__device__ Threshold nearest_by_scores(const TokenRoundingJob& job, const std::uint32_t* keys, Between b,
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
__device__ void mark_kept(const TokenRoundingJob& job, const std::uint32_t* keys, std::uint32_t mask, Threshold at,
                          std::uint32_t* part) {
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
__device__ std::uint32_t keep_swept(const TokenRoundingJob& job, std::int64_t expert, std::uint32_t f, Between b,
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

// ---- The kernels ----

constexpr int kBalanceThreads = 256;

// balance_f: experts one after the other, because each decision moves the residual of all that follow. With over +
// under = tile, abs(z + under) < abs(z - over) if and only if 2 z < over - under.
__global__ void __launch_bounds__(kBalanceThreads) balance_kernel(const __grid_constant__ TokenRoundingJob job) {
  __shared__ std::int64_t overs[kBalanceThreads];
  __shared__ std::int64_t bounds[kBalanceThreads];
  __shared__ bool rises[kBalanceThreads];
  if (stopped(job.router.stop)) return;
  std::int64_t residual = 0;
  for (std::int64_t base = 0; base < job.router.experts; base += kBalanceThreads) {
    const std::int64_t e = base + threadIdx.x;
    const bool is = e < job.router.experts;
    const Between b = is ? between(job, job.count[e]) : Between{0, 0, false};
    overs[threadIdx.x] = b.over;
    bounds[threadIdx.x] = b.open ? b.over - b.under : INT64_MIN;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 8
      for (int i = 0; i < kBalanceThreads; ++i) {
        const bool up = 2 * residual < bounds[i];
        residual += (up ? job.tile : 0) - overs[i];
        rises[i] = up;
      }
    }
    __syncthreads();
    if (is) job.target[e] = job.count[e] + static_cast<std::uint32_t>(rises[threadIdx.x] ? b.under : -b.over);
    __syncthreads();
  }
}

struct SelectScratch {
  RankScratch rank;
  union {
    ListedScratch listed;
    SweptScratch swept;
  };
  bool last;
};

// out(i, the sum of in(0) to in(i - 1)); returns the sum of all.
template <class In, class Out>
__device__ std::int64_t prefix_of(std::int64_t count, const In& in, const Out& out, std::int64_t* part) {
  std::int64_t before = 0;
  for (std::int64_t base = 0; base < count; base += kRankThreads) {
    const std::int64_t i = base + threadIdx.x;
    const BlockSum<std::int64_t> sum = block_prefix<kRankThreads>(i < count ? in(i) : std::int64_t{0}, part);
    if (i < count) out(i, before + sum.before);
    before += sum.all;
  }
  return before;
}

__global__ void __launch_bounds__(kRankThreads, 2) select_kernel(const __grid_constant__ TokenRoundingJob job) {
  __shared__ SelectScratch scratch;
  __shared__ std::int64_t part[kRankThreads / 32];
  if (stopped(job.router.stop)) return;
  const std::int64_t expert = blockIdx.x;
  const std::int64_t experts = job.router.experts;
  const std::uint32_t f = job.count[expert];
  const Between b = job.rule == TokenRoundingRule::nr_s ? between(job, f) : Between{0, 0, false};
  std::uint32_t target = job.rule == TokenRoundingRule::balance_f
                             ? job.target[expert]
                             : static_cast<std::uint32_t>(target_of(job, expert, f));
  if (job.rule == TokenRoundingRule::expert_choice ||
      !keep_listed(job, expert, f, b, target, scratch.rank, scratch.listed)) {
    target = keep_swept(job, expert, f, b, target, scratch.rank, scratch.swept);
  }
  if (threadIdx.x == 0) job.target[expert] = target;

  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) scratch.last = atomicAdd(job.ticket, 1U) == gridDim.x - 1;
  __syncthreads();
  if (!scratch.last) return;
  __threadfence();
  prefix_of(
      job.padded_tokens / 32, [&](std::int64_t w) { return std::int64_t{__ldcg(job.word_rows + w)}; },
      [&](std::int64_t w, std::int64_t sum) { job.rows_before[w] = sum; }, part);
  const std::int64_t rows = prefix_of(
      experts, [&](std::int64_t e) { return std::int64_t{__ldcg(job.target + e)}; },
      [&](std::int64_t e, std::int64_t sum) {
        job.offsets[e] = sum;
        job.chosen[e] = static_cast<std::int32_t>(job.count[e]);
      },
      part);
  if (threadIdx.x == 0) job.offsets[experts] = rows;
}

}  // namespace

cudaError_t launch_token_rounding_select(const TokenRoundingJob& job, cudaStream_t stream) {
  if (job.rule == TokenRoundingRule::balance_f) {
    balance_kernel<<<1, kBalanceThreads, 0, stream>>>(job);
    const cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) return e;
  }
  select_kernel<<<static_cast<unsigned>(job.router.experts), kRankThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90

#pragma once
// Token choice where top_k is at most 32 and experts are not limited to groups: four lanes (a quad) a row, eight rows a
// warp. Every key has 32 bits: a BF16 logit over an index of 16, or what it is chosen by in FP32 without its lowest
// bits, where the index is.
//
// The best kList experts are in the kList best groups of 8 neighbours, a group being as good as its best expert: for a
// group that is not among them kList groups hold an expert that comes before all of its own (equal values included, as
// groups ascend with their experts). So a row is read once for the largest of each group, and its best groups once
// more, out of L1, for their experts. Each lane keeps a sorted list of the best it has seen; lists meet by shuffles.
//
// FP32 values are chosen by keys of 32 bits, which leave something open where values share their upper bits:
// settle() resolves it, given the best key that is not in the list.
//
// Scores without a bias are chosen by logits. Softmax is monotonic, as subtraction, exp and division by the sum round
// correctly, so that scores can only be equal where logits are not; sigmoid and sqrtsoftplus round twice, and a larger
// logit may have a score that is less by parts in 2^22 (tests/kernels/sm90/route/router_math_test.cc). Both are
// settled.
//
// A row's state is in registers: one struct, made for each type, value that is chosen by, and length of lists.

#include <cstdint>

#include "kernels/common/route/policy.h"
#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/route/logits_row.cuh"
#include "kernels/sm90/route/router_scores.cuh"
#include "kernels/sm90/route/topk.h"
#include "kernels/sm90/route/topk_keys.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kLanes = 4;  // of a row
inline constexpr int kQuadThreads = 128;
inline constexpr int kQuadRows = kQuadThreads / kLanes;

// ---- Values that experts are chosen by ----

// Logits, also where weights are made of scores (which settle() puts in order), or sums with a bias: of logits, scores.
enum class TopkBy : std::uint8_t {
  logits,
  logits_biased,
  softmax,
  softmax_biased,
  sigmoid,
  sigmoid_biased,
  sqrtsoftplus,
  sqrtsoftplus_biased
};

constexpr Score score_by(TopkBy c) {
  switch (c) {
    case TopkBy::softmax:
    case TopkBy::softmax_biased: return Score::softmax;
    case TopkBy::sigmoid:
    case TopkBy::sigmoid_biased: return Score::sigmoid;
    case TopkBy::sqrtsoftplus:
    case TopkBy::sqrtsoftplus_biased: return Score::sqrtsoftplus;
    default: return Score::logits;
  }
}
constexpr bool is_biased(TopkBy c) {
  return c == TopkBy::logits_biased || c == TopkBy::softmax_biased || c == TopkBy::sigmoid_biased ||
         c == TopkBy::sqrtsoftplus_biased;
}

// ---- NaN ----

// Looks for NaN before a row is chosen from; what follows finds the row in L1. By four lanes, of a row of whole groups
// at a multiple of 16 bytes.
template <Logits kType>
__device__ __forceinline__ void look_for_nan(const TopkJob& job, const void* row, std::int64_t token, int lane) {
  const int experts = job.router.experts;
  const int groups = experts / kGroup;
  bool any = false;
#pragma unroll 8
  for (int g = lane; g < groups; g += kLanes) any |= holds_nan<kType>(load_inside<kType>(row, g));
  if (!any) return;
  for (int e = 0; e < experts; ++e) {  // rare: the call is refused
    if (e / kGroup % kLanes != lane || !is_nan(logit_at<kType>(row, e))) continue;
    atomicMin(job.first_nan, static_cast<unsigned long long>(token * experts + e));
    return;
  }
}

// ---- The order that keys leave open ----
//
// A key of 32 bits whose value has 32 bits of its own has the index in its low bits and so many bits less of the value:
// keys that differ above the index are in order, and others may not be. Nor are logits in the order of their softmax
// where that makes them equal. Four lanes hold the ranks of a row: rank lane * kPer + i is at [i].

// `low` covers the index: a cell is what keys of the same bits above have in common.
__device__ __forceinline__ Key16 cut_key_of(float negative, std::uint32_t index, std::uint32_t low) {
  return (folded(word_of(negative)) & ~low) | index;
}

// The largest value of a key's cell.
__device__ __forceinline__ float top_of_cell(Key16 key, std::uint32_t low) { return -float_of(unfolded(key & ~low)); }

// True if no value of the row loses anything in a key. NaN never does, as there is one NaN.
template <Logits kType>
__device__ __forceinline__ bool nothing_is_cut(const void* row, int experts, std::uint32_t low, int lane) {
  std::uint32_t cut = 0;
  for (int e = lane; e < experts; e += kLanes) {
    const float x = logit_at<kType>(row, e);
    if (x == x) cut |= word_of(x) & low;
  }
  cut |= __shfl_xor_sync(kWarp, cut, 1);
  cut |= __shfl_xor_sync(kWarp, cut, 2);
  return cut == 0;
}

// True if a comes after b in the order of (value, expert), NaN aside. Where equal values are in order, kTies is false.
template <bool kTies>
__device__ __forceinline__ bool is_after(float a, int expert_a, float b, int expert_b) {
  return a < b || (kTies && a == b && expert_a > expert_b);
}

// The key, and the value, that expert e of a row is chosen by.
template <Logits kType>
__device__ __forceinline__ Key32 exact_key(const Router& r, Score score, const Softmax& softmax, const void* row, int e,
                                           float& value) {
  value = topk_value(score, logit_at<kType>(row, e), softmax);
  if (r.bias != nullptr) value = __fadd_rn(value, __ldg(r.bias + e));
  return key_of(negated(value), static_cast<std::uint32_t>(e));
}

inline constexpr int kCandidates = 4;  // of a lane

// The keys of a row's experts whose value is not less than `least`, if no lane has more than kCandidates.
template <Logits kType>
__device__ __forceinline__ bool find_candidates(const Router& r, Score score, const Softmax& softmax, const void* row,
                                                float least, Key32 (&mine)[kCandidates]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int count = 0;
#pragma unroll
  for (Key32& key : mine) key = kAbsent<Key32>;
  for (int e = lane; e < r.experts; e += 32) {
    float value = 0;
    const Key32 key = exact_key<kType>(r, score, softmax, row, e, value);
    if (value < least) continue;
    ++count;
#pragma unroll
    for (int i = kCandidates - 1; i > 0; --i) mine[i] = mine[i - 1];
    mine[0] = key;
  }
  return __all_sync(kWarp, count <= kCandidates);
}

// The experts of rows of which the four lanes' bits are set in `open`, by the whole warp, a row and a rank at a time.
// `least_of_row`: of top_k experts of the row none has a smaller value, so that none with a smaller one is chosen.
template <Logits kType, int kPer>
__device__ __noinline__ void topk_by_scanning(const Router& r, Score score, Softmax of_row, float least_of_row,
                                              std::int64_t token, unsigned open, int (&experts)[kPer]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  while (open != 0) {
    const int first = __ffs(static_cast<int>(open)) - 1;
    open &= ~(0xFU << first);
    const void* const row = row_of(r, __shfl_sync(kWarp, token, first));
    const Softmax softmax{__shfl_sync(kWarp, of_row.largest, first), __shfl_sync(kWarp, of_row.total, first)};
    Key32 mine[kCandidates];
    const bool few = find_candidates<kType>(r, score, softmax, row, __shfl_sync(kWarp, least_of_row, first), mine);
    Key32 taken = 0;  // less than every key
    for (int k = 0; k < r.top_k; ++k) {
      Key32 next = kAbsent<Key32>;
      if (few) {
#pragma unroll
        for (const Key32 key : mine) next = key > taken ? smaller(next, key) : next;
      } else {
        float value = 0;
        for (int e = lane; e < r.experts; e += 32) {
          const Key32 key = exact_key<kType>(r, score, softmax, row, e, value);
          next = key > taken ? smaller(next, key) : next;
        }
      }
      taken = first_of_warp(next);
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        if (lane == first + k / kPer && i == k % kPer) experts[i] = static_cast<int>(index_of(taken));
      }
    }
  }
}

// Neighbours change places until none comes after the next one. Whether any of the warp did.
template <bool kTies, int kPer>
__device__ __forceinline__ bool put_in_order(int (&experts)[kPer], float (&values)[kPer], int lane) {
  for (bool changed = false;; changed = true) {
    const float value_below = __shfl_sync(kWarp, values[0], lane + 1, kLanes);
    const int expert_below = __shfl_sync(kWarp, experts[0], lane + 1, kLanes);
    const bool has_below = lane + 1 < kLanes;
    bool again = has_below && is_after<kTies>(values[kPer - 1], experts[kPer - 1], value_below, expert_below);
#pragma unroll
    for (int i = 0; i + 1 < kPer; ++i)
      again = again || is_after<kTies>(values[i], experts[i], values[i + 1], experts[i + 1]);
    if (__ballot_sync(kWarp, again) == 0) return changed;
    const float value_above = __shfl_sync(kWarp, values[kPer - 1], lane - 1, kLanes);
    const int expert_above = __shfl_sync(kWarp, experts[kPer - 1], lane - 1, kLanes);
    if (lane > 0 && is_after<kTies>(value_above, expert_above, values[0], experts[0])) {
      values[0] = value_above, experts[0] = expert_above;
    }
    if (has_below && is_after<kTies>(values[kPer - 1], experts[kPer - 1], value_below, expert_below)) {
      values[kPer - 1] = value_below, experts[kPer - 1] = expert_below;
    }
#pragma unroll
    for (int i = 0; i + 1 < kPer; ++i) {
      if (!is_after<kTies>(values[i], experts[i], values[i + 1], experts[i + 1])) continue;
      const float value = values[i];
      const int expert = experts[i];
      values[i] = values[i + 1], experts[i] = experts[i + 1];
      values[i + 1] = value, experts[i + 1] = expert;
    }
  }
}

// ---- A row ----

template <Logits kType, TopkBy kBy, int kList>
struct TopkQuad {
  static constexpr Score kScore = score_by(kBy);
  static constexpr bool kBiased = is_biased(kBy);
  static constexpr bool kHalf = !kBiased && kType == Logits::bf16;
  static constexpr bool kCut = !kHalf;
  static constexpr bool kScoresLater = !kBiased && kScore != Score::logits;
  static constexpr bool kSettled = kCut || kScoresLater;
  static constexpr int kPer = kList / kLanes;                                  // ranks of a lane
  static constexpr int kAtOnce = kType == Logits::bf16 ? kGroup : kGroup / 2;  // groups in registers: 32 words
  // Where scores are not monotonic in logits that of the next logit is made with those of the ranks.
  static constexpr bool kBound = kScoresLater && kScore != Score::softmax;
  using Key = Key16;
  using Raw = RawGroup<kType>;

  const TopkJob& job;
  const void* row;
  int lane;           // of the row
  std::uint32_t low;  // the bits of a cut key that are an index
  NearRoots roots;    // where there is a score
  Softmax softmax;
  Key rest = kAbsent<Key>;  // no key outside the list comes before; where kSettled

  __device__ __forceinline__ Raw load(int g) const {
    return load_group<kType>(row, g, job.router.experts, job.aligned);
  }

  // Loads the bias of a group; NaN past the last expert, so that no sum with it comes before one of an expert.
  __device__ __forceinline__ void load_bias(int g, float (&b)[kGroup]) const {
    const int experts = job.router.experts;
    if (job.aligned_bias && (g + 1) * kGroup <= experts) {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const float4 x = __ldg(reinterpret_cast<const float4*>(job.router.bias) + (g * 2 + q));
        b[q * 4] = x.x, b[q * 4 + 1] = x.y, b[q * 4 + 2] = x.z, b[q * 4 + 3] = x.w;
      }
      return;
    }
#pragma unroll
    for (int t = 0; t < kGroup; ++t) b[t] = bias_of(g * kGroup + t);
  }
  __device__ __forceinline__ float bias_of(int expert) const {
    const bool is_one = static_cast<std::uint32_t>(expert) < static_cast<std::uint32_t>(job.router.experts);
    return is_one ? __ldg(job.router.bias + expert) : float_of(0x7FFFFFFFU);
  }

  // The values that the experts of a group are chosen by, negated. With a score all lanes of a warp call together.
  __device__ __forceinline__ void negatives_of(const Raw& raw, int g, float (&y)[kGroup]) const {
#pragma unroll
    for (int t = 0; t < kGroup; ++t) y[t] = raw.value(t);
    if constexpr (kBiased) {
      float b[kGroup];
      load_bias(g, b);
      float s[kGroup];
      topk_values(kScore, y, softmax, roots, s);
#pragma unroll
      for (int t = 0; t < kGroup; ++t) y[t] = __fadd_rn(s[t], b[t]);
    }
#pragma unroll
    for (int t = 0; t < kGroup; ++t) y[t] = negated(y[t]);
  }

  __device__ __forceinline__ float least_negative(const Raw& raw) const {
    float x = raw.value(0);
#pragma unroll
    for (int t = 1; t < kGroup; ++t) x = fmaxf(x, raw.value(t));
    return negated(x);  // NaN only of NaN alone
  }

  __device__ __forceinline__ Key group_key(const Raw& raw, int g) const {
    if constexpr (kHalf) {
      std::uint32_t y = ptx::min_bf16x2(ptx::min_bf16x2(negated2(raw.words[0]), negated2(raw.words[1])),
                                        ptx::min_bf16x2(negated2(raw.words[2]), negated2(raw.words[3])));
      y = ptx::min_bf16x2(y, __byte_perm(y, 0, 0x1032));
      return (folded2(y) & 0xFFFF0000U) | static_cast<std::uint32_t>(g);
    } else if constexpr (kBiased) {
      float y[kGroup];
      negatives_of(raw, g, y);
#pragma unroll
      for (int t = 1; t < kGroup; ++t) y[0] = fminf(y[0], y[t]);
      return cut_key_of(y[0], static_cast<std::uint32_t>(g), low);
    } else {
      return cut_key_of(least_negative(raw), static_cast<std::uint32_t>(g), low);
    }
  }

  __device__ __forceinline__ void expert_keys(const Raw& raw, int g, Key (&keys)[kGroup]) const {
    const auto first = static_cast<std::uint32_t>(g * kGroup);
    if constexpr (kHalf) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const std::uint32_t f = folded2(negated2(raw.words[w]));
        const auto at = static_cast<std::uint32_t>(w * 2);
        keys[w * 2] = (f << 16) + (first + at);
        keys[w * 2 + 1] = (f & 0xFFFF0000U) | (first + at + 1);
      }
    } else {
      float y[kGroup];
      negatives_of(raw, g, y);
#pragma unroll
      for (int t = 0; t < kGroup; ++t) keys[t] = cut_key_of(y[t], first + static_cast<std::uint32_t>(t), low);
    }
  }

  __device__ __forceinline__ std::uint32_t index_in(Key key) const {
    return kCut ? static_cast<std::uint32_t>(key) & low : index_of(key);
  }

  // NaN past the end of the row.
  __device__ __forceinline__ float logit_of(int expert) const {
    const bool is_one = static_cast<std::uint32_t>(expert) < static_cast<std::uint32_t>(job.router.experts);
    return is_one ? logit_at<kType>(row, expert) : float_of(0x7FFFFFFFU);
  }

  // -- The softmax over all experts: the largest logit, and the sum --

  // NaN only of NaN alone; no -0, of which +0 subtracted is -0, which exp_near does not take.
  __device__ __forceinline__ float largest_of_row(int rounds) const {
    float y = float_of(0x7FFFFFFFU);
    if constexpr (kType == Logits::bf16) {
      std::uint32_t x = ~0U;
#pragma unroll 4
      for (int i = 0; i < rounds; ++i) {
        const Raw raw = load(i * kLanes + lane);
        x = ptx::max_bf16x2(x, ptx::max_bf16x2(ptx::max_bf16x2(raw.words[0], raw.words[1]),
                                               ptx::max_bf16x2(raw.words[2], raw.words[3])));
      }
      y = negated(fmaxf(float_of(x << 16), float_of(x & 0xFFFF0000U)));
    } else {
#pragma unroll 4
      for (int i = 0; i < rounds; ++i) y = fminf(y, least_negative(load(i * kLanes + lane)));
    }
    y = fminf(y, __shfl_xor_sync(kWarp, y, 1));
    return negated(fminf(y, __shfl_xor_sync(kWarp, y, 2)));
  }

  // The sum of round i: the terms of a group are three levels of the tree, its neighbours in the other lanes are two.
  __device__ __forceinline__ float sum_of_round(int i) const {
    const Raw raw = load(i * kLanes + lane);
    float x[kGroup];
#pragma unroll
    for (int t = 0; t < kGroup; ++t) x[t] = raw.value(t);
    float e[kGroup];
    terms_of(x, softmax.largest, roots, e);
#pragma unroll
    for (int step = 1; step < kGroup; step *= 2) {
#pragma unroll
      for (int t = 0; t < kGroup; t += 2 * step) e[t] = __fadd_rn(e[t], e[t + step]);
    }
    float sum = e[0];
    sum = __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 1));
    return __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 2));
  }

  // Pairwise sum, where softmax.largest is known. Lane j of four has the groups j, j + 4, ... in rounds, of which two
  // are a level, and the levels above are a binary counter's. What is missing past the end is +0 and adds nothing.
  __device__ __forceinline__ void sum_row(int rounds) {
    constexpr int kLevels = 7;
    static_assert(kMostExperts / kGroup / kLanes < 2 << kLevels);
    const int pairs = (rounds + 1) / 2;
    float waiting[kLevels] = {};
#pragma unroll 1
    for (int i = 0; i < pairs; ++i) {
      float sum = sum_of_round(2 * i);
      if (2 * i + 1 < rounds) sum = __fadd_rn(sum, sum_of_round(2 * i + 1));
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {  // the carry ends at the first 0 of i
        const bool pair = (i >> level & 1) != 0;
        const float both = __fadd_rn(waiting[level], sum);
        waiting[level] = pair ? waiting[level] : sum;
        if (!pair) break;
        sum = both;
      }
    }
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((pairs >> level & 1) != 0) softmax.total = __fadd_rn(waiting[level], softmax.total);
    }
  }

  // -- The best groups, and of them the best experts --

  // The best groups, of which this lane has its share in list[0], list[2], ... or list[1], list[3], ... of the first
  // half.
  __device__ __forceinline__ void best_groups(int groups, int rounds, Key (&list)[kList]) {
#pragma unroll 1
    for (int from = 0; from < rounds; from += kGroup) {
      Key keys[kGroup];
      if constexpr (!kBiased) {
        const bool inside = (from + kGroup) * kLanes <= groups;
#pragma unroll
        for (int part = 0; part < kGroup; part += kAtOnce) {
          Raw raw[kAtOnce];
          const int g = (from + part) * kLanes + lane;
          if (job.aligned && inside) {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) raw[i] = load_inside<kType>(row, g + i * kLanes);
          } else if (job.aligned) {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) raw[i] = load_aligned<kType>(row, g + i * kLanes, groups);
          } else {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) raw[i] = load_elements<kType>(row, g + i * kLanes, job.router.experts);
          }
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) keys[part + i] = group_key(raw[i], g + i * kLanes);
        }
      } else {
#pragma unroll
        for (int k = 0; k < kGroup; ++k) keys[k] = kAbsent<Key>;
#pragma unroll 1
        for (int i = 0; i < kGroup && from + i < rounds; ++i) {  // keys move up: registers have no index
          const int g = (from + i) * kLanes + lane;
          const Key key = group_key(load(g), g);
#pragma unroll
          for (int k = 0; k < kGroup - 1; ++k) keys[k] = keys[k + 1];
          keys[kGroup - 1] = key;
        }
      }
      sort<0, kGroup>(keys);
      insert_or_start(list, keys, from == 0);
    }
    if (kSettled && rounds > kList) rest = smaller(rest, list[kList - 1]);  // what insert() dropped comes after
    meet<kList>(list, 1);
    sort_bitonic<kList>(list);
    // The last meeting needs the set of the best keys alone, in any order. A lane and the one it meets hold it in
    // opposite orders, so that the first halves of both are all of it.
    meet<kList / 2>(list, 2);
  }

  __device__ __forceinline__ static void insert_or_start(Key (&list)[kList], const Key (&keys)[kGroup], bool start) {
    if (start) {
#pragma unroll
      for (int i = 0; i < kList; ++i) list[i] = i < kGroup ? keys[i < kGroup ? i : 0] : kAbsent<Key>;
    } else {
      insert<kList, kGroup>(list, keys);
    }
  }

  // The first kCount of the better of this lane's keys and those of the lane whose number differs in `bit`, both
  // sorted: what is last in the one list meets what is first in the other.
  template <int kCount>
  __device__ __forceinline__ void meet(Key (&list)[kList], int bit) {
    Key other[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) other[i] = __shfl_xor_sync(kWarp, list[kList - 1 - i], bit);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kSettled) rest = smaller(rest, larger(list[i], other[i]));
      list[i] = smaller(list[i], other[i]);
    }
  }

  // The best experts: this lane's ranks.
  __device__ __forceinline__ void best_experts(Key (&ranks)[kPer]) {
    Key list[kList];
    const int groups = (job.router.experts + kGroup - 1) / kGroup;
    int rounds = (groups + kLanes - 1) / kLanes;
    const bool all = groups <= kList;
    Key from[kList];
    if (!all) {
      best_groups(groups, rounds, from);
      rounds = kPer;
    }
#pragma unroll(kList == 8 && !kBiased ? 2 : 1)
    for (int i = 0; i < rounds; ++i) {
      int g = i * kLanes + lane;
      if (!all) {
        const Key mine = lane % 2 == 0 ? from[0] : from[1];
        g = mine == kAbsent<Key> ? groups : static_cast<int>(index_in(mine));
#pragma unroll
        for (int k = 0; k + 2 < kList / 2; ++k) from[k] = from[k + 2];
      }
      const Raw raw = load(g);
      Key keys[kGroup];
      expert_keys(raw, g, keys);
      sort<0, kGroup>(keys);
      insert_or_start(list, keys, i == 0);
    }
    if constexpr (kSettled) rest = smaller(rest, list[kList - 1]);  // what insert() dropped comes after
    meet<kList>(list, 1);
    sort_bitonic<kList>(list);
    meet<kList>(list, 2);
    // Sorted, but for what other lanes are to have: halves, quarters, and a quarter's order. In the lanes that met the
    // sequence is the same or its reverse, which makes no difference to the sets.
#pragma unroll
    for (int i = 0; i < kPer * 2; ++i) list[i] = share(list[i], list[i + kPer * 2], (lane & 2) != 0);
#pragma unroll
    for (int i = 0; i < kPer; ++i) ranks[i] = share(list[i], list[i + kPer], (lane & 1) != 0);
    sort_bitonic<kPer>(ranks);
  }

  __device__ __forceinline__ static Key share(Key a, Key b, bool upper) { return upper ? larger(a, b) : smaller(a, b); }

  // -- The chosen experts put in their exact order, with their scores --

  // Between the chosen and all others.
  struct Boundary {
    Key last;      // of the chosen
    bool meets;    // the others share a cell with the chosen
    Key next;      // the first cell that others can be in, the last's aside
    float beyond;  // and its largest logit. NaN: there is none
  };
  __device__ __forceinline__ Boundary boundary_of(const Key (&ranks)[kPer]) const {
    const std::uint32_t index = kHalf ? 0xFFFFU : low;
    Key last = 0;
    Key first = rest;
#pragma unroll
    for (int i = 0; i < kPer; ++i) last = lane * kPer + i < job.router.top_k ? ranks[i] : last;
#pragma unroll
    for (int bit = 1; bit < kLanes; bit *= 2) {
      last = larger(last, __shfl_xor_sync(kWarp, last, bit));
      first = smaller(first, __shfl_xor_sync(kWarp, first, bit));
    }
    const bool meets = first <= (last | index);
    const Key next = meets ? (last | index) + 1 : first;
    return {last, meets, next, kHalf ? value_of(next) : top_of_cell(next, index)};
  }

  // Settles what keys leave open. Ranks from top_k on are wanted too: one may turn out to be better than top_k - 1.
  // terms: logits, in whose place scores are left where there are any.
  __device__ __forceinline__ void settle(const Key (&ranks)[kPer], std::int64_t token, std::int32_t (&experts)[kPer],
                                         float (&terms)[kPer]) const {
    const Boundary boundary = boundary_of(ranks);
    constexpr int kCount = kBound ? kPer + 2 : kPer;  // an even number
    float x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = i < kPer ? terms[i < kPer ? i : 0] : boundary.beyond;
    float scores[kCount];
    topk_values(kScore, x, softmax, roots, scores);
    float values[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      terms[i] = scores[i];
      values[i] = kBiased ? __fadd_rn(scores[i], bias_of(experts[i])) : scores[i];
    }
    const bool changed = put_in_order<kScoresLater, kPer>(experts, values, lane);
    const unsigned all_open = __ballot_sync(kWarp, is_open(boundary, changed, values, scores[kCount - 1]));
    if (!changed && all_open == 0) return;
    if (all_open != 0) {
      topk_by_scanning<kType, kPer>(job.router, kScore, softmax, least_of_chosen(values), token, all_open, experts);
    }
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if (kScoresLater && all_open == 0) {
        terms[i] = values[i];
      } else {
        terms[i] = logit_of(experts[i]);
        if (kScore != Score::logits) terms[i] = far_topk_value(kScore, terms[i], softmax.largest, softmax.total);
      }
    }
  }

  // True if others may come before the chosen. changed: the ranks' order was not that of the keys. bound: where kBound
  // the score of boundary.beyond.
  __device__ __forceinline__ bool is_open(const Boundary& boundary, bool changed, const float (&values)[kPer],
                                          float bound) const {
    const bool meets = boundary.meets;
    bool open = false;
    if constexpr (kBiased) {
      open = meets;
    } else if (kCut && __ballot_sync(kWarp, meets) != 0) {
      open = !nothing_is_cut<kType>(row, job.router.experts, low, lane) && meets;
    }
    if constexpr (kScoresLater) {
      // Others of the same logit as the last have higher indices, and come after all that are where their logits put
      // them; of the next logit and below they must have a smaller score.
      open = open || (meets && changed);
      const float least = least_of_chosen(values);
      if constexpr (kBound) {
        open = open || __fmaf_ru(bound, kNearlyMonotonic, bound) >= least;
      } else if (!scores_differ(boundary.last, boundary.next, least)) {
        open = open || far_topk_value(kScore, boundary.beyond, softmax.largest, softmax.total) >= least;
      }
    }
    return open;
  }

  // The least value of a row's chosen experts; NaN aside.
  __device__ __forceinline__ float least_of_chosen(const float (&values)[kPer]) const {
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < kPer; ++i) least = lane * kPer + i < job.router.top_k ? fminf(values[i], least) : least;
    least = fminf(least, __shfl_xor_sync(kWarp, least, 1));
    return fminf(least, __shfl_xor_sync(kWarp, least, 2));
  }

  // True if it is certain that the softmax of logit `next` is less than that of `last`, which is `least`. Where logits
  // are 2^-16 apart their differences from the row's largest, above -70, are 2^-17 apart: rounding moves each by 2^-18
  // at most. So exact exponentials differ by a factor above 1 + 2^-18, and exp and division round by 2^-24 each.
  __device__ __forceinline__ bool scores_differ(Key last, Key next, float least) const {
    if constexpr (kHalf && kScore == Score::softmax) {
      return least >= 0x1p-100F && __fsub_rn(value_of(last), value_of(next)) >= 0x1p-16F;
    } else {
      return false;
    }
  }

  // -- Stores --

  // Ranks lane * kPer and on are this lane's. `read` is the row's token, past the last one any other.
  __device__ __forceinline__ void write(const Key (&ranks)[kPer], std::int64_t token, std::int64_t read) const {
    const Router& r = job.router;
    const bool real = token == read;
    std::int32_t experts[kPer];
    float terms[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      experts[i] = static_cast<std::int32_t>(index_in(ranks[i]));
      terms[i] = kHalf ? value_of(ranks[i]) : logit_of(experts[i]);
    }
    if constexpr (kSettled) settle(ranks, read, experts, terms);
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if (lane * kPer + i >= r.top_k) terms[i] = float_of(0x7FFFFFFFU);
      largest = fmaxf(largest, terms[i]);
    }
    const std::int64_t slot = token * r.top_k + lane * kPer;
    if (job.experts != nullptr) store(job.experts + slot, experts, real);
    if (job.weights == nullptr) return;
    if constexpr (kScore == Score::logits) {
      largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, 2));
    }
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if constexpr (kScore == Score::logits) {
        terms[i] = exp_below(terms[i], largest);
      } else {
        terms[i] = terms[i] == terms[i] ? terms[i] : 0.0F;
      }
    }
    float sum = sum_from(r);
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
#pragma unroll
      for (int i = 0; i < kPer; ++i) sum = __fadd_rn(sum, __shfl_sync(kWarp, terms[i], j, kLanes));
    }
    const float divisor = divisor_of(r, sum);
    float weights[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) weights[i] = weight_of(r, terms[i], divisor);
    store(job.weights + slot, weights, real);
  }

  template <class T>
  __device__ __forceinline__ void store(T* out, const T (&values)[kPer], bool real) const {
    if (!real) return;
    const int here = job.router.top_k - lane * kPer;
    if (job.aligned_out && job.router.top_k == kList) {
      struct alignas(kPer * 4 < 16 ? kPer * 4 : 16) Pack {
        T v[kPer < 4 ? kPer : 4];
      };
      constexpr int kPack = kPer < 4 ? kPer : 4;
#pragma unroll
      for (int p = 0; p < kPer; p += kPack) {
        Pack pack;
#pragma unroll
        for (int i = 0; i < kPack; ++i) pack.v[i] = values[p + i];
        *reinterpret_cast<Pack*>(out + p) = pack;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if (i < here) out[i] = values[i];
    }
  }
};

// ---- The kernel ----

// Blocks of a multiprocessor that registers must allow; 0: as it comes.
template <Logits kType, TopkBy kBy, int kList>
constexpr int kBlocks = !TopkQuad<kType, kBy, kList>::kSettled ? 0
                        : kList > 16                           ? 5
                        : kBy != TopkBy::logits                ? 6
                                                               : 8;

template <Logits kType, TopkBy kBy, int kList>
__global__ void __launch_bounds__(kQuadThreads, kBlocks<kType, kBy, kList>)
    topk_quad(const __grid_constant__ TopkJob job) {
  const Router& r = job.router;
  if (r.stop != nullptr && *r.stop != 0) return;
  const std::int64_t token = std::int64_t{blockIdx.x} * kQuadRows + threadIdx.x / kLanes;
  const bool real = token < r.tokens;
  const std::int64_t read = real ? token : std::int64_t{r.tokens} - 1;  // shuffles need full warps
  using N = TopkQuad<kType, kBy, kList>;
  N quad{job, row_of(r, read), static_cast<int>(threadIdx.x % kLanes), job.low, {}, {}};
  if constexpr (N::kScore != Score::logits) quad.roots = near_roots();
  if (job.first_nan != nullptr) look_for_nan<kType>(job, quad.row, read, quad.lane);
  typename N::Key ranks[N::kPer];
  if constexpr (N::kScore == Score::softmax) {
    const int groups = (r.experts + kGroup - 1) / kGroup;
    const int rounds = (groups + kLanes - 1) / kLanes;
    // Where keys are whole logits the largest is the first that is chosen.
    if constexpr (N::kHalf) {
      quad.best_experts(ranks);
      quad.softmax.largest = __fadd_rn(value_of(__shfl_sync(kWarp, ranks[0], 0, kLanes)), 0.0F);  // no -0
      quad.sum_row(rounds);
    } else {
      quad.softmax.largest = quad.largest_of_row(rounds);
      quad.sum_row(rounds);
      quad.best_experts(ranks);
    }
  } else {
    quad.best_experts(ranks);
  }
  quad.write(ranks, token, read);
}

template <Logits kType, TopkBy kBy>
cudaError_t launch_quad(const TopkJob& job, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((std::int64_t{job.router.tokens} + kQuadRows - 1) / kQuadRows);
  if (job.router.top_k <= 8) {
    topk_quad<kType, kBy, 8><<<blocks, kQuadThreads, 0, stream>>>(job);
  } else if (job.router.top_k <= 16) {
    topk_quad<kType, kBy, 16><<<blocks, kQuadThreads, 0, stream>>>(job);
  } else {
    topk_quad<kType, kBy, 32><<<blocks, kQuadThreads, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

template <Logits kType, TopkBy kPlain, TopkBy kBiased>
cudaError_t launch_either(const TopkJob& job, cudaStream_t stream) {
  return job.router.bias == nullptr ? launch_quad<kType, kPlain>(job, stream)
                                    : launch_quad<kType, kBiased>(job, stream);
}

template <Logits kType>
cudaError_t launch_topk_quad(const TopkJob& job, cudaStream_t stream) {
  using enum TopkBy;
  switch (job.router.score) {
    case Score::softmax: return launch_either<kType, softmax, softmax_biased>(job, stream);
    case Score::sigmoid: return launch_either<kType, sigmoid, sigmoid_biased>(job, stream);
    case Score::sqrtsoftplus: return launch_either<kType, sqrtsoftplus, sqrtsoftplus_biased>(job, stream);
    default: return launch_either<kType, logits, logits_biased>(job, stream);
  }
}

}  // namespace mxcheck_kernels::sm90

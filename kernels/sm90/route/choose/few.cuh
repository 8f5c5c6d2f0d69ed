#pragma once
// Token choice where top_k is at most 32 and experts are not limited to groups: four lanes a row, eight rows a warp.
//
// The best kList experts are in the kList best groups of 8 neighbours, a group being as good as its best expert: for a
// group that is not among them kList groups hold an expert that comes before all of its own (equal values included, as
// groups ascend with their experts). So a row is read once for the largest of each group, and its best groups once
// more, out of L1, for their experts. Each lane keeps a sorted list of the best it has seen; lists meet by shuffles.
//
// FP32 logits are chosen by keys of 32 bits, which leave something open where values share their upper bits:
// choose/settle.cuh resolves it, given the best key that is not in the list.
//
// Scores without a bias are chosen by logits. Softmax is monotonic, as subtraction, exp and division by the sum round
// correctly, so that scores can only be equal where logits are not; sigmoid and sqrtsoftplus round twice, and a larger
// logit may have a score that is less by parts in 2^22 (tests/kernels/sm90/route/row/math_test.cc). Both are settled.
//
// One kernel, whose phases share a row's state in registers (ChooseFew), a template for each type, choice and list.
// What other kernels use too is in row/ and settle.cuh.

#include "kernels/sm90/route/choose/choose.h"
#include "kernels/sm90/route/choose/settle.cuh"
#include "kernels/sm90/route/choose/softmax_row.cuh"
#include "kernels/sm90/route/row/groups.cuh"
#include "kernels/sm90/route/row/nan.cuh"
#include "kernels/sm90/route/row/weights.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kFewThreads = 128;
inline constexpr int kFewRows = kFewThreads / kLanes;

// biased: with a bias. plain, biased: logits.
enum class Choice : std::uint8_t {
  plain,
  biased,
  softmax,
  softmax_biased,
  sigmoid,
  sigmoid_biased,
  sqrtsoftplus,
  sqrtsoftplus_biased
};

constexpr bool by_logits(Choice c) {
  return c == Choice::plain || c == Choice::softmax || c == Choice::sigmoid || c == Choice::sqrtsoftplus;
}
constexpr Score score_by(Choice c) {
  switch (c) {
    case Choice::softmax:
    case Choice::softmax_biased: return Score::softmax;
    case Choice::sigmoid:
    case Choice::sigmoid_biased: return Score::sigmoid;
    case Choice::sqrtsoftplus:
    case Choice::sqrtsoftplus_biased: return Score::sqrtsoftplus;
    default: return Score::logits;
  }
}

template <Logits kType, Choice kChoice, int kList>
struct ChooseFew {
  static constexpr bool kPlain = by_logits(kChoice);
  static constexpr bool kHalf = kPlain && kType == Logits::bf16;
  static constexpr bool kCut = kPlain && kType == Logits::fp32;
  static constexpr bool kSettled = kCut || (kPlain && kChoice != Choice::plain);
  static constexpr int kPer = kList / kLanes;                                  // ranks of a lane
  static constexpr int kAtOnce = kType == Logits::bf16 ? kGroup : kGroup / 2;  // groups in registers: 32 words
  using Key = std::conditional_t<kPlain, Key16, Key32>;
  using Raw = RawGroup<kType>;
  static constexpr Score kScore = score_by(kChoice);

  const ChooseJob& job;
  const void* row;
  int lane;           // of the row
  std::uint32_t low;  // the bits of a cut key that are an index
  Softmax softmax;
  Key rest = kAbsent<Key>;  // no key outside the list comes before; where kSettled
  bool nan = false;         // among what this lane read; where job.first_nan is

  __device__ __forceinline__ Raw load(int g) const {
    return load_group<kType>(row, g, job.router.experts, job.aligned);
  }

  // What the experts of a group are chosen by, negated.
  __device__ __forceinline__ float negative(const Raw& raw, int g, int t) const {
    const Router& r = job.router;
    float v = choice_of(kScore, raw.value(t), softmax);
    if (r.bias != nullptr) v = __fadd_rn(v, __ldg(r.bias + min(g * kGroup + t, r.experts - 1)));
    return negated(v);
  }

  __device__ __forceinline__ float least_negative(const Raw& raw) const {
    float x = raw.value(0);
#pragma unroll
    for (int t = 1; t < kGroup; ++t) x = fmaxf(x, raw.value(t));
    return negated(x);  // NaN only of NaN alone
  }

  __device__ __forceinline__ Key group_key(const Raw& raw, int g) const {
    if constexpr (kHalf) {
      std::uint32_t y = smaller2(smaller2(negated2(raw.words[0]), negated2(raw.words[1])),
                                 smaller2(negated2(raw.words[2]), negated2(raw.words[3])));
      y = smaller2(y, __byte_perm(y, 0, 0x1032));
      return (folded2(y) & 0xFFFF0000U) | static_cast<std::uint32_t>(g);
    } else if constexpr (kCut) {
      return cut_key_of(least_negative(raw), static_cast<std::uint32_t>(g), low);
    } else {
      float y = negative(raw, g, 0);
#pragma unroll
      for (int t = 1; t < kGroup; ++t) y = fminf(y, negative(raw, g, t));
      return key_of(y, static_cast<std::uint32_t>(g));
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
#pragma unroll
      for (int t = 0; t < kGroup; ++t) {
        const std::uint32_t at = first + static_cast<std::uint32_t>(t);
        if constexpr (kCut) {
          keys[t] = cut_key_of(negated(raw.value(t)), at, low);
        } else {
          keys[t] = key_of(negative(raw, g, t), at);
        }
      }
    }
  }

  // Where a NaN is refused: it is looked for in what is read anyway.
  __device__ __forceinline__ void look_for_nan(const Raw& raw, int g) {
    if (job.first_nan != nullptr) nan = nan || holds_nan<kType>(raw, g, job.router.experts);
  }

  // Of rows that have any, the first's number: token * experts + expert.
  __device__ __forceinline__ void report_nan(std::int64_t token) const {
    if (job.first_nan == nullptr || __ballot_sync(kWarp, nan) == 0) return;
    for (int e = lane; e < job.router.experts; e += kLanes) {
      if (!is_nan(logit_of(e))) continue;
      atomicMin(job.first_nan, static_cast<unsigned long long>(token * job.router.experts + e));
      return;
    }
  }

  // The best groups, of which this lane has its share in list[0], list[2], ... or list[1], list[3], ... of the first
  // half.
  __device__ __forceinline__ void choose_groups(int groups, int rounds, Key (&list)[kList]) {
#pragma unroll 1
    for (int from = 0; from < rounds; from += kGroup) {
      Key keys[kGroup];
      if constexpr (kPlain) {
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
          for (int i = 0; i < kAtOnce; ++i) {
            look_for_nan(raw[i], g + i * kLanes);
            keys[part + i] = group_key(raw[i], g + i * kLanes);
          }
        }
      } else {
#pragma unroll
        for (int k = 0; k < kGroup; ++k) keys[k] = kAbsent<Key>;
#pragma unroll 1
        for (int i = 0; i < kGroup && from + i < rounds; ++i) {  // keys move up: registers have no index
          const int g = (from + i) * kLanes + lane;
          const Raw raw = load(g);
          look_for_nan(raw, g);
          const Key key = group_key(raw, g);
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
    // Of the last meeting only the set matters. A lane and the one it meets hold it in opposite orders, so that the
    // first halves of both are all of it.
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
  __device__ __forceinline__ void choose_experts(Key (&ranks)[kPer]) {
    Key list[kList];
    const int groups = (job.router.experts + kGroup - 1) / kGroup;
    int rounds = (groups + kLanes - 1) / kLanes;
    const bool all = groups <= kList;
    Key from[kList];
    if (!all) {
      choose_groups(groups, rounds, from);
      rounds = kPer;
    }
#pragma unroll(kList == 8 && kPlain ? 2 : 1)
    for (int i = 0; i < rounds; ++i) {
      int g = i * kLanes + lane;
      if (!all) {
        const Key mine = lane % 2 == 0 ? from[0] : from[1];
        g = mine == kAbsent<Key> ? groups : static_cast<int>(index_in(mine));
#pragma unroll
        for (int k = 0; k + 2 < kList / 2; ++k) from[k] = from[k + 2];
      }
      const Raw raw = load(g);
      if (all) look_for_nan(raw, g);
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

  __device__ __forceinline__ std::uint32_t index_in(Key key) const {
    return kCut ? static_cast<std::uint32_t>(key) & low : index_of(key);
  }

  // NaN past the end of the row.
  __device__ __forceinline__ float logit_of(int expert) const {
    const bool is_one = static_cast<std::uint32_t>(expert) < static_cast<std::uint32_t>(job.router.experts);
    return is_one ? logit_at<kType>(row, expert) : float_of(0x7FFFFFFFU);
  }

  // Settles what keys leave open. Ranks from top_k on are wanted too: one may turn out to be better than top_k - 1.
  __device__ __forceinline__ void settle(const Key (&ranks)[kPer], std::int64_t token, std::int32_t (&experts)[kPer],
                                         float (&logits)[kPer]) const {
    const Router& r = job.router;
    const std::uint32_t index = kHalf ? 0xFFFFU : low;
    float values[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) values[i] = choice_of(kScore, logits[i], softmax);
    const bool changed = put_in_order<kScore != Score::logits, kPer>(experts, values, lane);

    Key last = 0;  // of the chosen
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const bool kept = lane * kPer + i < r.top_k;
      last = kept ? ranks[i] : last;
      least = kept ? values[i] : least;
    }
    Key first = rest;  // of all others
#pragma unroll
    for (int bit = 1; bit < kLanes; bit *= 2) {
      last = larger(last, __shfl_xor_sync(kWarp, last, bit));
      first = smaller(first, __shfl_xor_sync(kWarp, first, bit));
    }
    const bool meets = first <= (last | index);  // the others share a cell with the chosen
    bool open = false;
    if (kCut && __ballot_sync(kWarp, meets) != 0) {
      open = !nothing_is_cut<kType>(row, r.experts, low, lane) && meets;
    }
    if (kScore != Score::logits) {
      // Others of the same logit as the last have higher indices, and come after all that are where their logits put
      // them; of the next logit and below they must have a smaller score. NaN: there is none.
      const Key next = meets ? (last | index) + 1 : first;
      const float bound = not_above(choice_of(kScore, kHalf ? value_of(next) : top_of_cell(next, index), softmax));
      least = fminf(least, __shfl_xor_sync(kWarp, least, 1));
      least = fminf(least, __shfl_xor_sync(kWarp, least, 2));
      open = open || (meets && changed) || bound >= least;
    }
    if (__ballot_sync(kWarp, open) == 0) {
      take_logits(experts, logits, changed);
      return;
    }
    choose_slowly<kType, kPer>(r, kScore, softmax, token, __ballot_sync(kWarp, open), experts);
    take_logits(experts, logits, true);
  }

  // No logit below that of this score has a larger one.
  __device__ __forceinline__ static float not_above(float score) {
    return kScore == Score::softmax ? score : __fmaf_ru(score, kNearlyMonotonic, score);
  }

  __device__ __forceinline__ void take_logits(const std::int32_t (&experts)[kPer], float (&logits)[kPer],
                                              bool changed) const {
    if (!changed) return;
#pragma unroll
    for (int i = 0; i < kPer; ++i) logits[i] = logit_of(experts[i]);
  }

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
        terms[i] = score_of(kScore, terms[i], softmax);
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

// Blocks of a multiprocessor that registers must allow; 0: as it comes.
template <Logits kType, Choice kChoice, int kList>
constexpr int kBlocks = !ChooseFew<kType, kChoice, kList>::kSettled ? 0
                        : kList > 16                                ? 5
                        : kChoice != Choice::plain                  ? 6
                                                                    : 8;

template <Logits kType, Choice kChoice, int kList>
__global__ void __launch_bounds__(kFewThreads, kBlocks<kType, kChoice, kList>)
    choose_few(const __grid_constant__ ChooseJob job) {
  const Router& r = job.router;
  if (r.stop != nullptr && *r.stop != 0) return;
  const std::int64_t token = std::int64_t{blockIdx.x} * kFewRows + threadIdx.x / kLanes;
  const bool real = token < r.tokens;
  const std::int64_t read = real ? token : std::int64_t{r.tokens} - 1;  // shuffles need full warps
  using N = ChooseFew<kType, kChoice, kList>;
  N few{job, row_of(r, read), static_cast<int>(threadIdx.x % kLanes), job.low, {}};
  if constexpr (N::kScore == Score::softmax) {
    __shared__ double roots[16];
    if (threadIdx.x < 16) roots[threadIdx.x] = elementary::kRoots[threadIdx.x];
    __syncthreads();
    few.softmax = softmax_of_four<kType>(job, few.row, roots, few.lane);
  }
  typename N::Key ranks[N::kPer];
  few.choose_experts(ranks);
  few.report_nan(read);
  few.write(ranks, token, read);
}

template <Logits kType, Choice kChoice>
cudaError_t launch_few(const ChooseJob& job, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((std::int64_t{job.router.tokens} + kFewRows - 1) / kFewRows);
  if (job.router.top_k <= 8) {
    choose_few<kType, kChoice, 8><<<blocks, kFewThreads, 0, stream>>>(job);
  } else if (job.router.top_k <= 16) {
    choose_few<kType, kChoice, 16><<<blocks, kFewThreads, 0, stream>>>(job);
  } else {
    choose_few<kType, kChoice, 32><<<blocks, kFewThreads, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

template <Logits kType, Choice kPlain, Choice kBiased>
cudaError_t launch_choice(const ChooseJob& job, cudaStream_t stream) {
  return job.router.bias == nullptr ? launch_few<kType, kPlain>(job, stream) : launch_few<kType, kBiased>(job, stream);
}

template <Logits kType>
cudaError_t launch_score(const ChooseJob& job, cudaStream_t stream) {
  using enum Choice;
  switch (job.router.score) {
    case Score::softmax: return launch_choice<kType, softmax, softmax_biased>(job, stream);
    case Score::sigmoid: return launch_choice<kType, sigmoid, sigmoid_biased>(job, stream);
    case Score::sqrtsoftplus: return launch_choice<kType, sqrtsoftplus, sqrtsoftplus_biased>(job, stream);
    default: return launch_choice<kType, plain, biased>(job, stream);
  }
}

}  // namespace mxcheck_kernels::sm90

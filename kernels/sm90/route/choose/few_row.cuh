#pragma once
// A row of logits of which four lanes choose the experts (few.cuh): what it is chosen by, and its keys, of groups of 8
// neighbours and of experts.

#include "kernels/sm90/route/choose/choose.h"
#include "kernels/sm90/route/choose/settle.cuh"
#include "kernels/sm90/route/row/groups.cuh"
#include "kernels/sm90/route/row/weights.cuh"

namespace mxcheck_kernels::sm90 {

// plain, softmax and sigmoid_by_logits: without a bias. sigmoid_by_logits: of BF16, over which sigmoid is monotonic.
enum class Choice : std::uint8_t { plain, logits, softmax, softmax_biased, sigmoid, sigmoid_by_logits, sqrtsoftplus };

constexpr Score score_by(Choice c) {
  switch (c) {
    case Choice::softmax:
    case Choice::softmax_biased: return Score::softmax;
    case Choice::sigmoid:
    case Choice::sigmoid_by_logits: return Score::sigmoid;
    case Choice::sqrtsoftplus: return Score::sqrtsoftplus;
    default: return Score::logits;
  }
}
// Chosen by the logit where the score is another: equal scores are settled.
constexpr bool scores_later(Choice c) { return c == Choice::softmax || c == Choice::sigmoid_by_logits; }
constexpr bool by_logits(Choice c) { return c == Choice::plain || scores_later(c); }

template <Logits kType, Choice kChoice, int kList>
struct FewRow {
  static constexpr bool kPlain = by_logits(kChoice);
  static constexpr bool kHalf = kPlain && kType == Logits::bf16;
  static constexpr bool kCut = kPlain && kType == Logits::fp32;
  static constexpr bool kScoresLater = scores_later(kChoice);
  static constexpr bool kSettled = kCut || kScoresLater;
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

  __device__ __forceinline__ std::uint32_t index_in(Key key) const {
    return kCut ? static_cast<std::uint32_t>(key) & low : index_of(key);
  }

  // NaN past the end of the row.
  __device__ __forceinline__ float logit_of(int expert) const {
    const bool is_one = static_cast<std::uint32_t>(expert) < static_cast<std::uint32_t>(job.router.experts);
    return is_one ? logit_at<kType>(row, expert) : float_of(0x7FFFFFFFU);
  }
};

}  // namespace mxcheck_kernels::sm90

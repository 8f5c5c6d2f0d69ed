#pragma once
// A row of logits of which four lanes choose the experts (few.cuh): what it is chosen by, and its keys, of groups of 8
// neighbours and of experts. Every key has 32 bits: a BF16 logit over an index of 16, or what it is chosen by in FP32
// without its lowest bits, where the index is.

#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/route/choose/choice.h"
#include "kernels/sm90/route/choose/choose.h"
#include "kernels/sm90/route/choose/settle.cuh"
#include "kernels/sm90/route/row/groups.cuh"
#include "kernels/sm90/route/row/score_near.cuh"

namespace mxcheck_kernels::sm90 {

template <Logits kType, Choice kChoice, int kList>
struct FewRow {
  static constexpr Score kScore = score_by(kChoice);
  static constexpr bool kBiased = is_biased(kChoice);
  static constexpr bool kHalf = !kBiased && kType == Logits::bf16;
  static constexpr bool kCut = !kHalf;
  static constexpr bool kScoresLater = !kBiased && kScore != Score::logits;
  static constexpr bool kSettled = kCut || kScoresLater;
  static constexpr int kPer = kList / kLanes;                                  // ranks of a lane
  static constexpr int kAtOnce = kType == Logits::bf16 ? kGroup : kGroup / 2;  // groups in registers: 32 words
  using Key = Key16;
  using Raw = RawGroup<kType>;

  const ChooseJob& job;
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
      choices_of(kScore, y, softmax, roots, s);
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
};

}  // namespace mxcheck_kernels::sm90

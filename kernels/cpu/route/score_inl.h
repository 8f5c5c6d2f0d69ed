// A row of logits and its scores, compiled once for each Highway target. Rows lie in a RowSpace: aligned, and whole
// vectors may be read and written past the experts.

#if defined(MXCHECK_CPU_ROUTE_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ROUTE_SCORE_INL_H_
    #undef MXCHECK_CPU_ROUTE_SCORE_INL_H_
  #else
    #define MXCHECK_CPU_ROUTE_SCORE_INL_H_
  #endif

  #include <algorithm>
  #include <bit>
  #include <cstdint>
  #include <limits>

  #include "hwy/highway.h"
  #include "kernels/cpu/route/elementary_inl.h"
  #include "kernels/cpu/route/policy.h"
  #include "kernels/cpu/route/space.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using RowD = hn::ScalableTag<float>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

HWY_INLINE float widen_logit(std::uint16_t bits) { return hwy::F32FromBF16(hwy::bfloat16_t{bits}); }
HWY_INLINE float widen_logit(float value) { return value; }

// `count` logits to FP32; -Inf after them, up to a whole vector.
HWY_INLINE void load_row(const float* from, std::int64_t count, float* x) {
  std::copy_n(from, count, x);
  std::fill_n(x + count, hn::Lanes(RowD()), -kInfinity);
}

HWY_INLINE void load_row(const std::uint16_t* from, std::int64_t count, float* x) {
  const RowD d;
  const hn::RebindToUnsigned<RowD> du;
  const hn::Rebind<std::uint16_t, RowD> dh;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, from + i)))), d, x + i);
  }
  for (; i < count; ++i) x[i] = widen_logit(from[i]);
  std::fill_n(x + count, lanes, -kInfinity);
}

// Neighbours are added, then neighbours of those sums: `count` numbers >= 0, which are overwritten. +0 of none.
HWY_INLINE float pairwise(float* v, std::int64_t count) {
  const RowD d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = (count + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
  std::fill(v + count, v + whole, 0.0F);  // adding +0 changes no number of these
  for (count = whole; count % (2 * lanes) == 0 && count > 0; count /= 2) {
    for (std::int64_t i = 0; i < count / 2; i += lanes) {
      hn::Vec<RowD> even;
      hn::Vec<RowD> odd;
      hn::LoadInterleaved2(d, v + 2 * i, even, odd);
      hn::Store(hn::Add(even, odd), d, v + i);
    }
  }
  for (; count > 1; count = (count + 1) / 2) {
    for (std::int64_t i = 0; i < count / 2; ++i) v[i] = v[2 * i] + v[2 * i + 1];
    if (count % 2 != 0) v[count / 2] = v[count - 1];
  }
  return count == 0 ? 0.0F : v[0];
}

// exp(x - largest) to y, +0 of NaN, d = 0 where x is the largest; returns the largest. NaN is not it: of NaN alone
// -Inf.
HWY_INLINE float exp_row(const float* x, std::int64_t count, float* y) {
  const RowD d;
  const std::int64_t row_lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto most = hn::Set(d, -kInfinity);
  for (std::int64_t i = 0; i < count; i += row_lanes) {
    const auto v = hn::Load(d, x + i);
    most = hn::Max(most, hn::IfThenElse(hn::Eq(v, v), v, most));
  }
  // MaxOfLanes of Highway's emulation begins at the lowest finite number.
  const bool is_low = hn::AllTrue(d, hn::Eq(most, hn::Set(d, -kInfinity)));
  const float largest = is_low ? -kInfinity : hn::GetLane(hn::MaxOfLanes(d, most));

  const ElementaryD32 de;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(de));
  const auto m = hn::Set(de, largest);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto v = hn::Load(de, x + i);
    const auto difference = hn::IfThenElse(hn::Eq(v, m), hn::Zero(de), hn::Sub(v, m));
    hn::Store(hn::IfThenElseZero(hn::Eq(v, v), exp_nonpositive(difference)), de, y + i);
  }
  return largest;
}

// Softmax to `score`. In a row of NaN alone the sum is 0, and so is every score.
HWY_INLINE void softmax_row(const float* x, std::int64_t count, float* score, float* sum) {
  const RowD d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  exp_row(x, count, score);
  std::copy_n(score, count, sum);
  const float total = pairwise(sum, count);
  if (total == 0) return;
  const auto divisor = hn::Set(d, total);
  for (std::int64_t i = 0; i < count; i += lanes) hn::Store(hn::Div(hn::Load(d, score + i), divisor), d, score + i);
}

// s(x) and s(-x) share exp(-|x|).
HWY_INLINE Elementary32 sigmoid_of(Elementary32 x, Elementary32 e) {
  const ElementaryD32 d;
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(hn::IfThenElse(hn::Ge(x, hn::Zero(d)), one, e), hn::Add(one, e));
}
HWY_INLINE Elementary32 sqrtsoftplus_of(Elementary32 x, Elementary32 e) {
  const ElementaryD32 d;
  return hn::Sqrt(hn::Add(hn::Max(x, hn::Zero(d)), log1p_of_unit(e)));
}

template <class F>
HWY_INLINE void each_score(const float* x, std::int64_t count, float* score, const F& f) {
  const ElementaryD32 d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto v = hn::Load(d, x + i);
    const auto is_number = hn::Eq(v, v);
    const auto number = hn::IfThenElseZero(is_number, v);
    const auto e = exp_nonpositive(hn::Neg(hn::Abs(number)));
    hn::Store(hn::IfThenElseZero(is_number, f(number, e)), d, score + i);
  }
}

// The scores of a row, softmax for the variants of logits; +0 of NaN.
HWY_INLINE void score_row(Score kind, std::int64_t count, RowSpace& space) {
  if (kind == Score::sigmoid) {
    each_score(space.x, count, space.score, [](Elementary32 x, Elementary32 e) HWY_ATTR { return sigmoid_of(x, e); });
  } else if (kind == Score::sqrtsoftplus) {
    each_score(space.x, count, space.score,
               [](Elementary32 x, Elementary32 e) HWY_ATTR { return sqrtsoftplus_of(x, e); });
  } else {
    softmax_row(space.x, count, space.score, space.sum);
  }
}

// The softmax of `count` kept logits, in place: terms added from left to right. +0 where all are NaN.
HWY_INLINE void softmax_of_kept(float* kept, std::int64_t count) {
  const RowD d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::fill_n(kept + count, lanes, -kInfinity);
  exp_row(kept, count, kept);
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += kept[i];
  if (sum == 0) return;
  const auto divisor = hn::Set(d, sum);
  for (std::int64_t i = 0; i < count; i += lanes) hn::Store(hn::Div(hn::Load(d, kept + i), divisor), d, kept + i);
}

// True if weights are scores over a sum, and that sum over the kept scores, added from left to right.
HWY_INLINE bool divides(Weights weight, std::int64_t top_k) {
  return weight != Weights::raw && (weight != Weights::over_sum_plus_tiny || top_k > 1);
}
HWY_INLINE float divisor_of(Weights weight, const float* kept, std::int64_t count) {
  constexpr float kTiny = 1e-20F;
  float sum = weight == Weights::over_tiny_then_sum ? kTiny : 0.0F;
  for (std::int64_t i = 0; i < count; ++i) sum += kept[i];
  return weight == Weights::over_sum_plus_tiny ? sum + kTiny : sum;
}

// Low bits that the packed order takes for the expert's index.
HWY_INLINE std::uint32_t packed_bits(std::int64_t experts) {
  return static_cast<std::uint32_t>(std::bit_ceil(static_cast<std::uint64_t>(experts)) - 1);
}
HWY_INLINE float without(std::uint32_t cleared, float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~cleared);
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard

// The gradient of the logits from that of the weights, compiled once for each Highway target.

#if defined(MXCHECK_CPU_ROUTE_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ROUTE_BACKWARD_INL_H_
    #undef MXCHECK_CPU_ROUTE_BACKWARD_INL_H_
  #else
    #define MXCHECK_CPU_ROUTE_BACKWARD_INL_H_
  #endif

  #include <algorithm>
  #include <bit>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/route/rows.h"
  #include "kernels/cpu/route/score_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

HWY_INLINE void put_gradient(const float* from, std::int64_t count, float* to) { std::copy_n(from, count, to); }
HWY_INLINE void put_gradient(const float* from, std::int64_t count, std::uint16_t* to) {
  std::transform(from, from + count, to, [](float v) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t up = 0x7FFF + (bits >> 16 & 1);  // nearest, ties to even
    return static_cast<std::uint16_t>(v == v ? (bits + up) >> 16 : (bits >> 16 | 0x40));
  });
}

// sum of a * b from left to right, each step one fused multiply-add.
HWY_INLINE float fused_dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum = __builtin_fmaf(a[i], b[i], sum);
  return sum;
}

// A row of the gradient is made in s_.value; the experts given, in their order, lie in s_.found, their gradients in
// s_.kept, and their scores in s_.score (s_.sum for softmax, whose s_.score is the whole row).
template <class T>
class TokenGradient {
 public:
  TokenGradient(const BackwardJob& job, RowSpace& space)
      : job_(job), plan_(job.rows.plan), experts_(job.rows.experts), k_(job.rows.top_k), s_(space) {}

  void tokens(std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* const logits = static_cast<const T*>(job_.rows.logits) + t * job_.rows.stride;
      count_ = 0;
      for (std::int64_t i = t * k_; i < (t + 1) * k_; ++i) {
        if (job_.experts[i] < 0) continue;
        s_.found[count_] = job_.experts[i];
        s_.kept[count_++] = job_.gradient[i] * plan_.scale;
      }
      if (plan_.score == Score::softmax) {
        by_softmax(logits);
      } else {
        std::fill_n(s_.value, experts_, 0.0F);
        for (std::int64_t i = 0; i < count_; ++i) s_.x[i] = widen_logit(logits[s_.found[i]]);
        std::fill_n(s_.x + count_, hn::Lanes(RowD()), 0.0F);
        plan_.score == Score::logits ? by_kept_softmax() : by_element();
      }
      put_gradient(s_.value, experts_, static_cast<T*>(job_.out) + t * experts_);
    }
  }

 private:
  static bool is_number(float x) { return x == x; }

  void by_kept_softmax() {
    const std::uint32_t cleared = plan_.packed ? packed_bits(experts_) : 0;
    for (std::int64_t i = 0; i < count_; ++i) s_.score[i] = without(cleared, s_.x[i]);
    softmax_of_kept(s_.score, count_);
    const float sum = fused_dot(s_.kept, s_.score, count_);
    for (std::int64_t i = 0; i < count_; ++i) {
      if (is_number(s_.x[i])) s_.value[s_.found[i]] = s_.score[i] * (s_.kept[i] - sum);
    }
  }

  // The gradients of the weights become those of the scores.
  void through_division(const float* scores) {
    if (!divides(plan_.weight, k_)) return;
    const float divisor = divisor_of(plan_.weight, scores, count_);
    if (divisor == 0) {
      std::fill_n(s_.kept, count_, 0.0F);
      return;
    }
    float sum = 0;
    for (std::int64_t i = 0; i < count_; ++i) sum = __builtin_fmaf(s_.kept[i], scores[i] / divisor, sum);
    for (std::int64_t i = 0; i < count_; ++i) s_.kept[i] = (s_.kept[i] - sum) / divisor;
  }

  void by_element() {
    score_row(plan_.score, count_, s_);
    through_division(s_.score);
    if (plan_.score == Score::sigmoid) {
      each_score(s_.x, count_, s_.sum, [](Elementary32 x, Elementary32 e) HWY_ATTR {
        return hn::Mul(sigmoid_of(x, e), sigmoid_of(hn::Neg(x), e));
      });
    } else {
      each_score(s_.x, count_, s_.sum, [](Elementary32 x, Elementary32 e) HWY_ATTR {
        const auto s = sqrtsoftplus_of(x, e);
        return hn::IfThenElseZero(hn::Gt(s, hn::Zero(ElementaryD32())), hn::Div(sigmoid_of(x, e), hn::Add(s, s)));
      });
    }
    for (std::int64_t i = 0; i < count_; ++i) {
      const bool is_flat = plan_.score == Score::sqrtsoftplus && s_.score[i] == 0;
      if (is_number(s_.x[i]) && !is_flat) s_.value[s_.found[i]] = s_.kept[i] * s_.sum[i];
    }
  }

  void by_softmax(const T* logits) {
    const RowD d;
    const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
    load_row(logits, experts_, s_.x);
    softmax_row(s_.x, experts_, s_.score, s_.sum);
    for (std::int64_t i = 0; i < count_; ++i) s_.sum[i] = s_.score[s_.found[i]];
    through_division(s_.sum);
    const float sum = fused_dot(s_.kept, s_.sum, count_);
    const auto others = hn::Set(d, 0.0F - sum);
    for (std::int64_t i = 0; i < experts_; i += lanes) {
      const auto x = hn::Load(d, s_.x + i);
      hn::Store(hn::IfThenElseZero(hn::Eq(x, x), hn::Mul(hn::Load(d, s_.score + i), others)), d, s_.value + i);
    }
    for (std::int64_t i = 0; i < count_; ++i) {
      if (is_number(s_.x[s_.found[i]])) s_.value[s_.found[i]] = s_.sum[i] * (s_.kept[i] - sum);
    }
  }

  const BackwardJob& job_;
  const RoutePlan& plan_;
  const std::int64_t experts_;
  const std::int64_t k_;
  RowSpace& s_;
  std::int64_t count_ = 0;  // of the experts given for this token
};

inline void BackwardRows(const BackwardJob& job, RowSpace& space, std::int64_t begin, std::int64_t end) {
  if (job.rows.plan.dtype == Dtype::bf16) TokenGradient<std::uint16_t>(job, space).tokens(begin, end);
  if (job.rows.plan.dtype == Dtype::fp32) TokenGradient<float>(job, space).tokens(begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard

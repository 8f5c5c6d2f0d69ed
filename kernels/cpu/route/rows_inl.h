// Token choice: keys, groups, the top_k, and their weights, compiled once for each Highway target.

#if defined(MXCHECK_CPU_ROUTE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ROUTE_ROWS_INL_H_
    #undef MXCHECK_CPU_ROUTE_ROWS_INL_H_
  #else
    #define MXCHECK_CPU_ROUTE_ROWS_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/route/rows.h"
  #include "kernels/cpu/route/score_inl.h"
  #include "kernels/cpu/route/select_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

template <class T>
class TokenChooser {
 public:
  TokenChooser(const RouteJob& job, RowSpace& space)
      : job_(job), plan_(job.rows.plan), experts_(job.rows.experts), k_(job.rows.top_k), s_(space) {}

  void tokens(std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      token(t);
      if (job_.scores == nullptr) continue;
      const std::int64_t at = (t - begin) % kScoreTokens;
      for (std::int64_t e = 0; e < experts_; ++e) s_.scores[e * kScoreTokens + at] = s_.score[e];
      if (at == kScoreTokens - 1 || t == end - 1) put_scores(t - at, at + 1);
    }
  }

 private:
  void token(std::int64_t t) {
    load_row(static_cast<const T*>(job_.rows.logits) + t * job_.rows.stride, experts_, s_.x);
    if (plan_.score != Score::logits || job_.scores != nullptr) score_row(plan_.score, experts_, s_);
    make_keys();
    std::int32_t* const chosen = job_.chosen + t * k_;
    if (job_.groups == 0) {
      select_first(s_.key, experts_, k_, chosen, s_);
    } else {
      select_in_groups(chosen);
    }
    weigh(chosen, job_.weights + t * k_);
  }

  // s_.key from logits or scores, with bias; s_.value too where groups add them up.
  void make_keys() {
    const RowD d;
    const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const bool of_logits = plan_.score == Score::logits;
    if (job_.rows.bias != nullptr) std::copy_n(job_.rows.bias, experts_, s_.sum);
    for (std::int64_t i = 0; i < experts_; i += lanes) {
      const auto x = hn::Load(d, s_.x + i);
      auto value = of_logits ? x : hn::IfThenElse(hn::Eq(x, x), hn::Load(d, s_.score + i), x);
      if (job_.rows.bias != nullptr) value = hn::Add(value, hn::Load(d, s_.sum + i));
      if (plan_.packed) value = packed(value, i);
      if (job_.groups != 0) hn::Store(value, d, s_.value + i);
      hn::Store(key_of(value), KeyD(), s_.key + i);
    }
  }

  hn::Vec<RowD> packed(hn::Vec<RowD> value, std::int64_t first) const {
    const RowD d;
    const hn::RebindToUnsigned<RowD> du;
    const auto mask = hn::Set(du, packed_bits(experts_));
    const auto index = hn::Iota(du, static_cast<std::uint32_t>(first));
    const auto rises = hn::RebindMask(du, hn::Ge(value, hn::Zero(d)));
    const auto low = hn::And(mask, hn::IfThenElse(rises, hn::Not(index), index));
    return hn::BitCast(d, hn::Or(hn::AndNot(mask, hn::BitCast(du, value)), low));
  }

  // The groups first, then the top_k among the experts of those that are kept, side by side in ascending order.
  void select_in_groups(std::int32_t* chosen) {
    const std::int64_t length = experts_ / job_.groups;
    const std::int64_t counted = std::max<std::int64_t>(1, k_ / job_.groups_kept);
    for (std::int64_t g = 0; g < job_.groups; ++g) {
      std::copy_n(s_.key + g * length, length, s_.other_key);
      select_first(s_.other_key, length, counted, s_.found, s_);
      const auto value = [&](std::int64_t i) {
        const float v = s_.value[g * length + s_.found[i]];
        return v == v ? v : -kInfinity;
      };
      float sum = value(0);
      for (std::int64_t i = 1; i < counted; ++i) sum += value(i);
      s_.kept[g] = sum;
    }
    const KeyD d;
    for (std::int64_t g = 0; g < job_.groups; g += static_cast<std::int64_t>(hn::Lanes(d))) {
      hn::Store(key_of(hn::Load(RowD(), s_.kept + g)), d, s_.group_key + g);
    }
    select_first(s_.group_key, job_.groups, job_.groups_kept, s_.group, s_);
    std::sort(s_.group, s_.group + job_.groups_kept);
    for (std::int64_t i = 0; i < job_.groups_kept; ++i) {
      std::copy_n(s_.key + s_.group[i] * length, length, s_.other_key + i * length);
    }
    select_first(s_.other_key, job_.groups_kept * length, k_, chosen, s_);
    for (std::int64_t i = 0; i < k_; ++i) {
      chosen[i] = static_cast<std::int32_t>(s_.group[chosen[i] / length] * length + chosen[i] % length);
    }
  }

  void weigh(const std::int32_t* chosen, float* weights) {
    if (plan_.weight == Weights::softmax_of_kept) {
      const std::uint32_t cleared = plan_.packed ? packed_bits(experts_) : 0;
      for (std::int64_t i = 0; i < k_; ++i) s_.kept[i] = without(cleared, s_.x[chosen[i]]);
      softmax_of_kept(s_.kept, k_);
    } else {
      for (std::int64_t i = 0; i < k_; ++i) s_.kept[i] = s_.score[chosen[i]];
      if (divides(plan_.weight, k_)) {
        const float divisor = divisor_of(plan_.weight, s_.kept, k_);
        for (std::int64_t i = 0; i < k_; ++i) s_.kept[i] = divisor == 0 ? 0.0F : s_.kept[i] / divisor;
      }
    }
    for (std::int64_t i = 0; i < k_; ++i) weights[i] = s_.kept[i] * plan_.scale;
  }

  // A block of scores [experts][kScoreTokens] to the output.
  void put_scores(std::int64_t first, std::int64_t count) {
    for (std::int64_t e = 0; e < experts_; ++e) {
      std::copy_n(s_.scores + e * kScoreTokens, count, job_.scores + e * job_.score_stride + first);
    }
  }

  const RouteJob& job_;
  const RoutePlan& plan_;
  const std::int64_t experts_;
  const std::int64_t k_;
  RowSpace& s_;
};

inline void RouteRows(const RouteJob& job, RowSpace& space, std::int64_t begin, std::int64_t end) {
  if (job.rows.plan.dtype == Dtype::bf16) TokenChooser<std::uint16_t>(job, space).tokens(begin, end);
  if (job.rows.plan.dtype == Dtype::fp32) TokenChooser<float>(job, space).tokens(begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard

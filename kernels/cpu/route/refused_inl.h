// The search for what a router refuses, before anything is written, compiled once for each Highway target.

#if defined(MXCHECK_CPU_ROUTE_REFUSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ROUTE_REFUSED_INL_H_
    #undef MXCHECK_CPU_ROUTE_REFUSED_INL_H_
  #else
    #define MXCHECK_CPU_ROUTE_REFUSED_INL_H_
  #endif

  #include <algorithm>
  #include <cmath>
  #include <cstdint>
  #include <limits>

  #include "hwy/highway.h"
  #include "kernels/cpu/route/rows.h"
  #include "kernels/cpu/route/score_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The first of `count` words, a float's upper bits or all of them, whose magnitude exceeds `most`; count for none.
template <class T>
HWY_INLINE std::int64_t first_above(const T* words, std::int64_t count, T most) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr T kMagnitude = static_cast<T>(~T{0} ^ T(T{1} << (8 * sizeof(T) - 1)));
  std::int64_t i = 0;
  if (count >= lanes) {
    // Magnitudes are positive as signed integers, which all machines compare.
    const hn::RebindToSigned<decltype(d)> ds;
    const auto limit = hn::Set(ds, static_cast<hn::TFromD<decltype(ds)>>(most));
    const auto mask = hn::Set(d, kMagnitude);
    for (; i + lanes <= count; i += lanes) {
      const auto magnitude = hn::BitCast(ds, hn::And(hn::LoadU(d, words + i), mask));
      if (!hn::AllFalse(ds, hn::Gt(magnitude, limit))) break;
    }
  }
  while (i < count && (words[i] & kMagnitude) <= most) ++i;
  return i;
}

// The packed order takes keys that are finite, and a finite logit's sum with its bias may not be.
template <class T>
HWY_INLINE std::int64_t first_infinite_sum(const T* logits, const float* bias, std::int64_t count) {
  constexpr float kMost = std::numeric_limits<float>::max();
  std::int64_t e = 0;
  while (e < count && std::abs(widen_logit(logits[e]) + bias[e]) <= kMost) ++e;
  return e;
}

template <class Logit, class T>
HWY_INLINE std::int64_t first_refused_of(const LogitRows& rows, std::int64_t begin, std::int64_t end, T infinity) {
  const T most = rows.plan.packed ? static_cast<T>(infinity - 1) : infinity;
  for (std::int64_t t = begin; t < end; ++t) {
    const void* const row = static_cast<const Logit*>(rows.logits) + t * rows.stride;
    std::int64_t e = first_above(static_cast<const T*>(row), rows.experts, most);
    if (rows.plan.packed && rows.bias != nullptr) {
      e = std::min(e, first_infinite_sum(static_cast<const Logit*>(row), rows.bias, rows.experts));
    }
    if (e != rows.experts) return t * rows.experts + e;
  }
  return -1;
}

inline std::int64_t FirstRefused(const LogitRows& rows, std::int64_t begin, std::int64_t end) {
  if (rows.plan.dtype == Dtype::bf16) return first_refused_of<std::uint16_t, std::uint16_t>(rows, begin, end, 0x7F80);
  return first_refused_of<float, std::uint32_t>(rows, begin, end, 0x7F800000);
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard

// exp and log1p, correctly rounded to FP32, compiled once for each Highway target. Evaluated in FP64 with an error
// below kError; where the two ends of that interval round to different FP32 numbers, the element is done again with
// more bits (elementary.h), about once in 2^17.

#if defined(MXCHECK_CPU_ROUTE_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ROUTE_ELEMENTARY_INL_H_
    #undef MXCHECK_CPU_ROUTE_ELEMENTARY_INL_H_
  #else
    #define MXCHECK_CPU_ROUTE_ELEMENTARY_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/route/elementary.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// FP32 vectors of as many lanes as an FP64 vector has: what one step of exp and log1p takes.
using ElementaryD64 = hn::ScalableTag<double>;
using ElementaryD32 = hn::Rebind<float, ElementaryD64>;
using Elementary32 = hn::Vec<ElementaryD32>;
using Elementary64 = hn::Vec<ElementaryD64>;

constexpr double kError = 0x1p-42;  // relative; the polynomials are good to 2^-43.6 and 2^-47

// c[0] + c[1] x + ... with x, x^2 and x^4 at hand: a shorter chain than Horner's.
HWY_INLINE Elementary64 polynomial8(Elementary64 x, const double* c) {
  const ElementaryD64 d;
  const auto pair = [&](int i) { return hn::MulAdd(hn::Set(d, c[i + 1]), x, hn::Set(d, c[i])); };
  const auto x2 = hn::Mul(x, x);
  const auto low = hn::MulAdd(pair(2), x2, pair(0));
  const auto high = hn::MulAdd(pair(6), x2, pair(4));
  return hn::MulAdd(high, hn::Mul(x2, x2), low);
}

// y to FP32; lanes that are too near to the middle between two FP32 numbers are given to `hard`.
template <class Hard>
HWY_INLINE Elementary32 round_safely(Elementary64 y, Elementary32 argument, const Hard& hard) {
  const ElementaryD32 d32;
  const auto error = hn::Mul(y, hn::Set(ElementaryD64(), kError));
  const auto low = hn::DemoteTo(d32, hn::Sub(y, error));
  const auto high = hn::DemoteTo(d32, hn::Add(y, error));
  if (HWY_LIKELY(hn::AllTrue(d32, hn::Eq(low, high)))) return low;
  HWY_ALIGN float lows[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN float highs[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN float arguments[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(low, d32, lows);
  hn::Store(high, d32, highs);
  hn::Store(argument, d32, arguments);
  for (std::size_t i = 0; i < hn::Lanes(d32); ++i) {
    if (lows[i] != highs[i]) lows[i] = hard(arguments[i]);
  }
  return hn::Load(d32, lows);
}

// For x <= 0, -Inf included; of NaN anything. x = k ln 2 + r, |r| <= ln 2 / 2.
HWY_INLINE Elementary32 exp_nonpositive(Elementary32 x) {
  // (exp(r) - 1 - r) / r^2, interpolated at Chebyshev's nodes.
  static constexpr double kExp[] = {0x1.fffffffffe069p-2,  0x1.5555555554f97p-3,  0x1.55555565c5602p-5,
                                    0x1.111111170ad7ap-7,  0x1.6c166be7451fep-10, 0x1.a019c3721025ap-13,
                                    0x1.a136b08f4d167p-16, 0x1.72ad3afdd48dep-19};
  const ElementaryD64 d;
  const hn::RebindToSigned<ElementaryD64> di;
  const auto magic = hn::Set(d, 0x1.8p52);            // adding it rounds to an integer, and leaves that in the low bits
  x = hn::Max(x, hn::Set(ElementaryD32(), -104.0F));  // exp(-104) is less than half of the smallest subnormal
  const auto x64 = hn::PromoteTo(d, x);
  const auto shifted = hn::MulAdd(x64, hn::Set(d, 0x1.71547652b82fep+0), magic);
  const auto k = hn::Sub(shifted, magic);
  // ln 2 in two parts, the first of 42 bits: its product with k and the difference are exact.
  auto r = hn::NegMulAdd(k, hn::Set(d, 0x1.62e42fefa38p-1), x64);
  r = hn::NegMulAdd(k, hn::Set(d, 0x1.ef35793c7673p-45), r);
  const auto p = hn::MulAdd(polynomial8(r, kExp), hn::Mul(r, r), hn::Add(r, hn::Set(d, 1.0)));
  const auto power = hn::ShiftLeft<52>(hn::BitCast(di, shifted));
  const auto y = hn::BitCast(d, hn::Add(hn::BitCast(di, p), power));
  return round_safely(y, x, [](float v) { return exp_hard(v); });
}

// For u in [0, 1]: 2 atanh(s), s = u / (2 + u), by powers of s^2 <= 1/9.
HWY_INLINE Elementary32 log1p_of_unit(Elementary32 u) {
  // (atanh(s) / s - 1) / s^2 of s^2, interpolated at Chebyshev's nodes.
  static constexpr double kAtanh[] = {0x1.5555555555157p-2, 0x1.9999999bd81f3p-3, 0x1.2492477e1dce5p-3,
                                      0x1.c71d5d8ecb89dp-4, 0x1.743cf2e7a943ep-4, 0x1.3d6fb1589de81p-4,
                                      0x1.f1cd3c3f72266p-5, 0x1.6cb6b520b2eb7p-4};
  const ElementaryD64 d;
  const auto x64 = hn::PromoteTo(d, u);
  const auto s = hn::Div(x64, hn::Add(x64, hn::Set(d, 2.0)));
  const auto s2 = hn::Mul(s, s);
  const auto twice = hn::Add(s, s);
  const auto y = hn::MulAdd(hn::Mul(polynomial8(s2, kAtanh), s2), twice, twice);
  return round_safely(y, u, [](float v) { return log1p_hard(v); });
}

template <class F>
void each_vector(const float* x, float* y, std::int64_t count, const F& f) {
  const ElementaryD32 d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
  if (i == count) return;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(double)] = {};
  std::copy_n(x + i, count - i, rest);
  hn::Store(f(hn::Load(d, rest)), d, rest);
  std::copy_n(rest, count - i, y + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard

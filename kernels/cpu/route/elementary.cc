#include "kernels/cpu/route/elementary.h"

#include <bit>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/route/elementary.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/route/elementary_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

void ExpOfAll(const float* x, float* y, std::int64_t count) {
  each_vector(x, y, count, [](Elementary32 v) HWY_ATTR { return exp_nonpositive(v); });
}
void Log1pOfAll(const float* u, float* y, std::int64_t count) {
  each_vector(u, y, count, [](Elementary32 v) HWY_ATTR { return log1p_of_unit(v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mxcheck_kernels::cpu {
namespace {

// An unevaluated sum, |lo| at most half an ulp of hi.
struct Pair {
  double hi;
  double lo;
};

Pair two_sum(double a, double b) {
  const double s = a + b;
  const double t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

Pair add(Pair a, Pair b) {
  const Pair s = two_sum(a.hi, b.hi);
  const Pair t = two_sum(a.lo, b.lo);
  const Pair u = two_sum(s.hi, s.lo + t.hi);
  return two_sum(u.hi, u.lo + t.lo);
}

Pair multiply(Pair a, Pair b) {
  const double p = a.hi * b.hi;
  return two_sum(p, std::fma(a.hi, b.hi, -p) + (a.hi * b.lo + a.lo * b.hi));
}

Pair divide(Pair a, double n) {
  const double q = a.hi / n;
  return two_sum(q, (std::fma(-q, n, a.hi) + a.lo) / n);
}

struct Scaled {
  Pair value;
  int exponent;
};

// exp(x) as value * 2^exponent, for |x| <= 104: x = exponent * ln 2 + r, then Horner's form of the series in r, whose
// term 31 is below 2^-155. ln 2 in three parts, the first two of 42 bits, so that their products are exact.
Scaled exp_pair(double x) {
  constexpr double kLn2[] = {0x1.62e42fefa38p-1, 0x1.ef35793c76p-45, 0x1.cc01f97b57a08p-87};
  const double k = std::nearbyint(x * 0x1.71547652b82fep+0);
  const Pair r = add(add(two_sum(x, -k * kLn2[0]), {-k * kLn2[1], 0}), {-k * kLn2[2], 0});
  Pair sum{1, 0};
  for (int i = 30; i > 0; --i) sum = add({1, 0}, divide(multiply(r, sum), i));
  return {sum, static_cast<int>(k)};
}

// To FP32 with one rounding: first to 53 bits by rounding to odd, which keeps what the second rounding has to know.
float to_float(Pair value, int exponent) {
  std::uint64_t bits = std::bit_cast<std::uint64_t>(value.hi);
  if (value.lo != 0 && (bits & 1) == 0) bits += (value.lo > 0) == (value.hi > 0) ? 1 : ~std::uint64_t{0};
  return static_cast<float>(std::ldexp(std::bit_cast<double>(bits), exponent));
}

}  // namespace

float exp_hard(float x) {
  const Scaled y = exp_pair(x);
  return to_float(y.value, y.exponent);
}

// With y near log1p(u): log1p(u) = y + log1p(t), t = (1 + u) exp(-y) - 1, about 2^-50.
float log1p_hard(float u) {
  if (u < 0x1p-30F) return u;  // u - u^2 / 2 lies nearer to u than to any other
  const double y = std::log1p(static_cast<double>(u));
  const Scaled e = exp_pair(-y);
  const Pair scaled{std::ldexp(e.value.hi, e.exponent), std::ldexp(e.value.lo, e.exponent)};
  const Pair t = add(multiply(two_sum(1, u), scaled), {-1, 0});
  return to_float(add({y, 0}, add(t, {t.hi * t.hi * (t.hi / 3 - 0.5), 0})), 0);
}

HWY_EXPORT(ExpOfAll);
HWY_EXPORT(Log1pOfAll);

void exp_of_all(const float* x, float* y, std::int64_t count) { HWY_DYNAMIC_DISPATCH(ExpOfAll)(x, y, count); }
void log1p_of_all(const float* u, float* y, std::int64_t count) { HWY_DYNAMIC_DISPATCH(Log1pOfAll)(u, y, count); }

}  // namespace mxcheck_kernels::cpu
#endif

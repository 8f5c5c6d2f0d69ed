// Double-double arithmetic: a number is the sum of two doubles that is not carried out, the second at most half an ulp
// of the first.

#include "numerics/elementary/exact.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace mxcheck {
namespace {

struct DoubleDouble {
  double high = 0;
  double low = 0;
};

DoubleDouble sum_of(double a, double b) {
  const double sum = a + b;
  const double b_in_it = sum - a;
  return {sum, (a - (sum - b_in_it)) + (b - b_in_it)};  // exact
}

DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = sum_of(a.high, b.high);
  const DoubleDouble t = sum_of(a.low, b.low);
  const DoubleDouble u = sum_of(s.high, s.low + t.high);
  return sum_of(u.high, u.low + t.low);
}

DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const double product = a.high * b.high;
  const double rest = std::fma(a.high, b.high, -product);  // exact
  return sum_of(product, rest + (a.high * b.low + a.low * b.high));
}

DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.high / b.high;
  DoubleDouble rest = a + DoubleDouble{-first} * b;
  const double second = rest.high / b.high;
  rest = rest + DoubleDouble{-second} * b;
  return sum_of(first, second) + DoubleDouble{rest.high / b.high};
}

// Rounded to odd first, so that the 53 bits still tell less than half from half from more, however many FP32 keeps.
float rounded_once(DoubleDouble value) {
  auto bits = std::bit_cast<std::uint64_t>(value.high);
  if (value.low != 0) {
    const bool outward = (value.low > 0) == (value.high > 0);
    bits = (outward ? bits : bits - 1) | 1;
  }
  return static_cast<float>(std::bit_cast<double>(bits));
}

// n * ln 2 for |n| < 2^8: ln 2 in parts of 45, 45 and 53 bits, so that two products are exact.
DoubleDouble multiple_of_ln2(int n) {
  const DoubleDouble high = sum_of(n * 0x1.62e42fefa3900p-1, n * 0x1.de6af278ece00p-46);
  return high + DoubleDouble{n * 0x1.803f2f6af40f3p-92};
}

}  // namespace

// exp(x) = 2^n * exp(r / 256)^256, |r| < 0.35. Taylor's remainder (0.0014^12 / 12!) is below 2^-140; squaring eight
// times makes 2^8 of an error of some 2^-104.
float exact_exp(double x) {
  const int n = static_cast<int>(std::lrint(x * 0x1.71547652b82fep+0));
  const DoubleDouble negative = multiple_of_ln2(-n);
  DoubleDouble r = DoubleDouble{x} + negative;
  r = {r.high / 256, r.low / 256};
  DoubleDouble power{1};
  for (int i = 11; i > 0; --i) power = DoubleDouble{1} + power * r / DoubleDouble{static_cast<double>(i)};
  for (int i = 0; i < 8; ++i) power = power * power;
  return rounded_once({std::ldexp(power.high, n), std::ldexp(power.low, n)});
}

// As in double, with 30 terms: (z^2)^31 is below 2^-150.
float exact_log(double f, int n) {
  const DoubleDouble z = DoubleDouble{f} / sum_of(2, f);
  const DoubleDouble w = z * z;
  DoubleDouble series{};
  for (int i = 30; i >= 0; --i) series = series * w + DoubleDouble{1} / DoubleDouble{2.0 * i + 1};
  return rounded_once(multiple_of_ln2(n) + DoubleDouble{2} * z * series);
}

}  // namespace mxcheck

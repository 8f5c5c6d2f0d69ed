// exp, log1p and log in two steps: in double, with a bound on the error that is derived here, and where the interval of
// that bound rounds to two FP32 numbers, again with 100 bits (numerics/elementary/elementary.cc). Nothing of libm is
// used, so that results are the same on every machine.

#include "numerics/elementary/elementary.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/elementary/exact.h"

namespace mxcheck {
namespace {

// 2^(j/32), correctly rounded.
constexpr std::array<double, 32> kPowers{
    0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0, 0x1.172b83c7d517bp+0,
    0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0, 0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0,
    0x1.3dea64c123422p+0, 0x1.44e086061892dp+0, 0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0,
    0x1.6247eb03a5585p+0, 0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
    0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0, 0x1.ae89f995ad3adp+0,
    0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0, 0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0,
    0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
};
constexpr double k32OverLn2 = 0x1.71547652b82fep+5;
// ln 2 / 32 in two parts; the first has 40 bits, so that its products with |n| < 2^13 are exact.
constexpr double kStepHigh = 0x1.62e42fefa2000p-6;
constexpr double kStepLow = 0x1.9ef35793c7673p-46;
// ln 2 in two parts; the first has 45 bits, so that its products with |n| < 2^8 are exact.
constexpr double kLn2High = 0x1.62e42fefa3900p-1;
constexpr double kLn2Low = 0x1.de6af278ece60p-46;

// The error of exp in double stays below 2^-51 of the result, that of logarithms below 2^-50; these are twice that.
constexpr double kExpBound = 0x1p-50;
constexpr double kLogBound = 0x1p-49;

// The FP32 number nearest to every number within value * (1 +- bound), if there is but one.
bool settled(double value, double bound, float& nearest) {
  const double margin = value * bound;
  nearest = static_cast<float>(value - margin);
  return nearest == static_cast<float>(value + margin);
}

// exp(x) = 2^(n / 32) * exp(r), r = x - n * ln 2 / 32, |r| <= 0.0109. Relative errors: r is exact but for 2^-60,
// Taylor's remainder r^7 / 5040 is below 2^-57, a power of the table has 2^-53, the last addition 2^-53; the other
// roundings are of terms below 0.011, hence below 2^-59 each.
double exp_in_double(double x) {
  constexpr double kRound = 0x1.8p+52;  // adding it leaves the nearest integer in the low bits
  const double shifted = x * k32OverLn2 + kRound;
  const double n = shifted - kRound;
  const auto index = static_cast<std::int64_t>(n);
  const double r = (x - n * kStepHigh) - n * kStepLow;
  const double tail = 1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720))));
  const double power = kPowers[static_cast<std::size_t>(index & 31)];
  const double scale = std::bit_cast<double>(static_cast<std::uint64_t>((index >> 5) + 1023) << 52);
  return (power + power * (r + r * r * tail)) * scale;
}

// log(2^n * (1 + f)) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1 with n * ln 2 + 2 atanh(z), z = f / (2 + f), |z| < 0.1716.
// Relative errors of the second term: 2 + f and the quotient have 2^-53 each, the series (less than 0.01 of it) is cut
// below 2^-60, the last addition has 2^-53. Where n is not 0 the sum is at least 0.34, no smaller than the second term.
double log_in_double(double f, int n) {
  constexpr std::array<double, 10> kOdd{1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                        1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  const double z = f / (2 + f);
  const double w = z * z;
  double series = 0;
  for (const double c : kOdd) series = (series + c) * w;
  return n * kLn2High + (2 * z + (2 * z * series + n * kLn2Low));
}

struct Reduced {
  double f;
  int n;
};

// s = 2^n * (1 + f); f is exact.
Reduced reduced(double s) {
  int n = 0;
  double m = std::frexp(s, &n);
  if (m < 0.70703125) m *= 2, --n;
  return {m - 1, n};
}

}  // namespace

float exp_rn(float x) {
  if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
  if (x > 89) return std::numeric_limits<float>::infinity();  // exp(88.73) is beyond FP32
  if (x < -104) return 0;                                     // below half the smallest subnormal
  float nearest = 0;
  if (settled(exp_in_double(x), kExpBound, nearest)) return nearest;
  return exact_exp(x);
}

float log1p_rn(float x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0 || std::isinf(x)) return x;
  // 1 + x is exact in double where x is not below 2^-29, and there within 2^-53; below 0.41 it is not used.
  const double wide = x;
  const Reduced r = wide < 0.41 ? Reduced{wide, 0} : reduced(1 + wide);
  float nearest = 0;
  if (settled(log_in_double(r.f, r.n), kLogBound, nearest)) return nearest;
  return exact_log(r.f, r.n);
}

float log_rn(float x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<float>::infinity();
  if (std::isinf(x)) return x;
  const Reduced r = reduced(x);
  float nearest = 0;
  if (settled(log_in_double(r.f, r.n), kLogBound, nearest)) return nearest;
  return exact_log(r.f, r.n);
}

// The tree over 2^k values has the tree over the first half and that over the second below its root.
float pairwise_sum(std::span<const float> values) {
  const auto tree = [](const auto& self, const float* v, std::size_t count, std::size_t width) -> float {
    if (count == 0) return 0;
    if (width == 1) return *v;
    if (count == width && width == 8) {
      return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
    }
    const std::size_t half = width / 2;
    const std::size_t left = count < half ? count : half;
    return self(self, v, left, half) + self(self, v + left, count - left, half);
  };
  return tree(tree, values.data(), values.size(), std::bit_ceil(values.size()));
}

std::array<std::uint32_t, 4> philox_words(std::uint64_t seed, std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                          std::uint32_t c3) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // of the golden ratio
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // of the root of 3
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMultiplier0 * c0;
    const std::uint64_t p1 = kMultiplier1 * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(p0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

std::uint32_t philox_word(std::uint64_t seed, std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3) {
  return philox_words(seed, c0, c1, c2, c3)[0];
}

// Double-double arithmetic: a number is the sum of two doubles that is not carried out, the second at most half an ulp
// of the first.

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

// The same series as in double, with 30 terms: (z^2)^31 is below 2^-150.
float exact_log(double f, int n) {
  const DoubleDouble z = DoubleDouble{f} / sum_of(2, f);
  const DoubleDouble w = z * z;
  DoubleDouble series{};
  for (int i = 30; i >= 0; --i) series = series * w + DoubleDouble{1} / DoubleDouble{2.0 * i + 1};
  return rounded_once(multiple_of_ln2(n) + DoubleDouble{2} * z * series);
}

}  // namespace mxcheck

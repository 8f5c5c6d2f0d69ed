#pragma once
// Real numbers for tests, with 100 digits, and the FP32 nearest to one: found by scaling to an integer, so that nothing
// of Boost's own conversions, nor of the library under test, has a part in it.

#include <boost/multiprecision/cpp_bin_float.hpp>

#include "tests/testing.h"

namespace mxcheck::test {

using Real = boost::multiprecision::cpp_bin_float_100;

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

inline float nearest_float(const Real& value) {
  if (value == 0) return 0;
  const Real magnitude = abs(value);
  const int exponent = std::max(-126, static_cast<int>(ilogb(magnitude)));
  const Real units = ldexp(magnitude, 23 - exponent);  // of the spacing there
  const Real whole = floor(units);
  const Real rest = units - whole;
  auto significand = whole.convert_to<std::uint64_t>();
  if (rest > 0.5 || (rest == 0.5 && significand % 2 != 0)) ++significand;
  const double rounded = std::ldexp(static_cast<double>(significand), exponent - 23);
  const float result = rounded >= 0x1p128 ? std::numeric_limits<float>::infinity() : static_cast<float>(rounded);
  return value < 0 ? -result : result;
}

inline float exp_by_digits(float x) { return nearest_float(exp(Real(x))); }
inline float log_by_digits(float x) { return nearest_float(log(Real(x))); }
inline float log1p_by_digits(float x) { return nearest_float(log(1 + Real(x))); }

}  // namespace mxcheck::test

#include "numerics/scale/scale_rule.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"

namespace mxcheck {
namespace {

constexpr std::array<Named<ScaleRule>, 13> kRules{{{"rceil", ScaleRule::rceil},
                                                   {"floor", ScaleRule::floor},
                                                   {"ceil", ScaleRule::ceil},
                                                   {"even", ScaleRule::even},
                                                   {"even_carry", ScaleRule::even_carry},
                                                   {"fp32", ScaleRule::fp32},
                                                   {"rceil_fp32", ScaleRule::rceil_fp32},
                                                   {"rceil_ftz", ScaleRule::rceil_ftz},
                                                   {"rceil_log2", ScaleRule::rceil_log2},
                                                   {"rceil_bits", ScaleRule::rceil_bits},
                                                   {"rceil_bits_mul", ScaleRule::rceil_bits_mul},
                                                   {"floor_fp32", ScaleRule::floor_fp32},
                                                   {"floor_log2", ScaleRule::floor_log2}}};

constexpr int kBias = 127;
constexpr std::uint32_t kMantissaMask = 0x7FFFFF;

int exponent_field(std::uint32_t bits) { return static_cast<int>(bits >> 23); }

std::uint8_t clamp_byte(int byte) { return static_cast<std::uint8_t>(std::clamp(byte, 0, 255)); }

// a = significand * 2^exponent with 2^23 <= significand < 2^24, for a > 0.
struct Parts {
  std::uint32_t significand;
  int exponent;
};

Parts parts(float a) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(a);
  if (exponent_field(bits) != 0) return {(bits & kMantissaMask) | 0x800000, exponent_field(bits) - kBias - 23};
  const int shift = std::countl_zero(bits) - 8;
  return {bits << shift, -149 - shift};
}

// ceil(log2(a / v)): with a = s_a * 2^k_a and v = s_v * 2^k_v, both significands in [2^23, 2^24), the quotient of the
// significands lies in (1/2, 2), so the ceiling is k_a - k_v, plus one if s_a > s_v.
int ceil_log2_quotient(float a, float v) {
  const Parts pa = parts(a);
  const Parts pv = parts(v);
  return pa.exponent - pv.exponent + (pa.significand > pv.significand ? 1 : 0);
}

int floor_log2(float a) { return parts(a).exponent + 23; }

// For how many units of the significand of x, counted from 2^n upward or downward, RN(log2 x) is still n. One unit is
// 2^-23 of 2^n above it and 2^-24 below, and so changes log2 by that over ln 2; half the gap from n to the next float
// is 2^(binade - 24), the gap being that of n's binade, or of the one below where n is a power of two and the logarithm
// goes toward zero. Next to n = 0 floats lie so close that RN changes with the first unit. There are no ties:
// log2 x is irrational. The curvature of log2 adds less than 2^-13 units, and no count lies that close to an integer.
std::uint32_t units_that_round_to(int n, bool above) {
  if (n == 0) return 0;
  const auto magnitude = static_cast<std::uint32_t>(std::abs(n));
  const bool toward_zero = above == (n < 0);
  const int binade =
      static_cast<int>(std::bit_width(magnitude)) - 1 - (toward_zero && std::has_single_bit(magnitude) ? 1 : 0);
  constexpr std::uint64_t kLn2 = 0xB17217F7;  // floor(2^32 ln 2)
  return binade < 0 ? 0 : static_cast<std::uint32_t>(kLn2 << binade >> (above ? 33 : 32));
}

int largest_exponent(Format element) { return floor_log2(largest_value(element)); }

// 2^exponent for -126 <= exponent <= 127.
float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + kBias) << 23); }

int round_bits_up(float v) { return exponent_field(std::bit_cast<std::uint32_t>(v) + kMantissaMask); }

int rounded_exponent_field(float a, Format element) {
  const int kept = spec(element).mantissa_bits;
  return exponent_field(std::bit_cast<std::uint32_t>(a) + (std::uint32_t{1} << (23 - kept - 1)));
}

}  // namespace

std::string_view to_text(ScaleRule rule) { return name_in(kRules, rule); }

std::optional<ScaleRule> find_scale_rule(std::string_view name) { return value_in(kRules, name); }

float largest_value(Format element) { return static_cast<float>(decode(element, spec(element).max_code)); }

float reciprocal_of_largest_value(Format element) { return 1.0F / largest_value(element); }

int floor_of_rounded_log2(float x) {
  const Parts p = parts(x);
  const int n = p.exponent + 23;
  return 0x1000000 - p.significand <= units_that_round_to(n + 1, false) ? n + 1 : n;
}

int ceil_of_rounded_log2(float x) {
  const Parts p = parts(x);
  const int n = p.exponent + 23;
  return p.significand - 0x800000 <= units_that_round_to(n, true) ? n : n + 1;
}

std::uint8_t e8m0_round_up(float v) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t mantissa = bits & kMantissaMask;
  const int field = exponent_field(bits);  // 0: v < 2^-126; byte 0 stands for 2^-127 = 0x00400000
  return clamp_byte(field + (field == 0 ? (mantissa > 0x400000 ? 1 : 0) : (mantissa != 0 ? 1 : 0)));
}

std::uint8_t scale_byte(ScaleRule rule, Format element, float amax) {
  const float a = std::fabs(amax);
  const float vmax = largest_value(element);
  const auto product = [&] { return a * reciprocal_of_largest_value(element); };
  const auto quotient = [&] { return a / vmax; };
  switch (rule) {
    case ScaleRule::rceil: return a == 0 ? 0 : clamp_byte(ceil_log2_quotient(a, vmax) + kBias);
    case ScaleRule::floor: return a == 0 ? 0 : clamp_byte(floor_log2(a) - largest_exponent(element) + kBias);
    case ScaleRule::ceil:
      return a == 0 ? 0 : clamp_byte(ceil_log2_quotient(a, 1.0F) - largest_exponent(element) + kBias);
    case ScaleRule::even: {
      const int field = rounded_exponent_field(a, element);
      return field == 255 ? 255 : clamp_byte(field - largest_exponent(element));
    }
    case ScaleRule::even_carry: return clamp_byte(rounded_exponent_field(a, element) - largest_exponent(element));
    case ScaleRule::rceil_fp32: return e8m0_round_up(product());
    case ScaleRule::rceil_ftz: return product() < 0x1p-126F ? 0 : e8m0_round_up(product());
    case ScaleRule::rceil_log2: return quotient() == 0 ? 0 : clamp_byte(ceil_of_rounded_log2(quotient()) + kBias);
    case ScaleRule::rceil_bits: return clamp_byte(round_bits_up(quotient()));
    case ScaleRule::rceil_bits_mul: return clamp_byte(round_bits_up(product()));
    case ScaleRule::floor_fp32:
      return clamp_byte(exponent_field(std::bit_cast<std::uint32_t>(a * power_of_two(-largest_exponent(element)))));
    case ScaleRule::floor_log2:
      return a == 0 ? 0 : clamp_byte(floor_of_rounded_log2(a) - largest_exponent(element) + kBias);
    case ScaleRule::fp32: break;
  }
  throw Error(ErrorKind::internal, "scale rule fp32 has no scale byte: its scale is a float");
}

}  // namespace mxcheck

#include "numerics/scale/recipe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"
#include "numerics/scale/block_scales.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/scale/scale_rule.h"

namespace mxcheck {
namespace {

std::uint8_t finite_byte(const Recipe& r, Format element, float amax) {
  const float a = std::max(std::fabs(amax), r.amax_min);
  const bool quotient_raised = a * reciprocal_of_largest_value(element) < r.quotient_min;
  const std::uint8_t byte = quotient_raised ? e8m0_round_up(r.quotient_min) : scale_byte(r.rule, element, a);
  return std::clamp(byte, r.byte_min, r.byte_max);
}

// A factor for byte 0..254; 255 is the caller's.
double factor_of(ElementScaling scaling, std::uint8_t byte) {
  if (scaling == ElementScaling::one_at_byte_zero && byte == 0) return 1;
  if (scaling == ElementScaling::zero_at_byte_zero && byte == 0) return 0;
  if (scaling == ElementScaling::normal_at_byte_zero && byte == 0) return 0x1p126;
  if (scaling == ElementScaling::shifted_exponent && byte == 254) return 0;
  return std::ldexp(1.0, 127 - byte);
}

BlockScale fp32_scale(const Recipe& r, Format element, float amax, bool is_nan) {
  BlockScale s;
  if (is_nan || std::isinf(amax)) {
    s.factor = is_nan ? r.nan_factor : r.inf_factor;
    s.poisoned = std::isnan(s.factor);
    s.scale = s.poisoned ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    return s;
  }
  const float a = std::max(amax, r.amax_min);
  s.scale = a / largest_value(element);
  s.round_fp32 = true;
  if (s.scale == 0) {
    s.scale = kScaleOfZeroQuotient;
    s.divide = true, s.factor = s.scale;
  } else if (r.scaling == ElementScaling::times_reciprocal) {
    s.factor = 1.0F / s.scale;
  } else if (r.scaling == ElementScaling::times_quotient) {
    s.factor = largest_value(element) / a;
  } else {
    s.divide = true, s.factor = s.scale;
  }
  return s;
}

// The factor, or divisor, of elements below a scale of value b.
void find_factor(const TwoLevel& levels, OuterScale outer, float b, BlockScale& s) {
  s.round_fp32 = levels.element != ElementQuotient::exact;
  switch (levels.element) {
    case ElementQuotient::exact: s.divide = true, s.factor = double{b} * outer.decode; break;
    case ElementQuotient::over_product: s.divide = true, s.factor = b * outer.decode; break;
    case ElementQuotient::over_quotient: s.divide = true, s.factor = b / outer.encode; break;
    case ElementQuotient::inverse_of_product: s.factor = 1.0F / (b * outer.decode); break;
    case ElementQuotient::encode_over_scale: s.factor = outer.encode / b; break;
    case ElementQuotient::encode_times_inverse: s.factor = outer.encode * (1.0F / b); break;
  }
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (levels.has_largest_factor && !(s.factor < kLargest)) s.factor = kLargest;
}

bool is_zero(const TwoLevel& levels, const TwoLevelScale& scale) {
  switch (levels.zero) {
    case ZeroTest::none:
    case ZeroTest::of_amax: return false;
    case ZeroTest::of_quotient: return scale.quotient == 0;
    case ZeroTest::of_scale: return scale.code == 0;
  }
  return false;
}

// ElementScaling::half_in_fp32: floor(|v| / step + 0.5) in FP32, step being the smallest of the format, is right but
// for |v| / step = 0.5 - 2^-25, whose sum with 0.5 is a tie that rounds to 1. Above 1 no sum crosses an integer.
double half_in_fp32(Format element, double v) {
  const double half = decode(element, 1) / 2;
  return std::fabs(v) == half * (1 - 0x1p-24) ? std::copysign(half, v) : v;
}

}  // namespace

std::uint8_t scale_byte_for_amax(const Recipe& recipe, Format element, float amax) {
  if (std::isnan(amax)) return recipe.nan_byte;
  if (std::isinf(amax)) return recipe.inf_byte ? *recipe.inf_byte : scale_byte(recipe.rule, element, amax);
  return finite_byte(recipe, element, amax);
}

BlockScale block_scale(const Recipe& recipe, Format element, BlockAmax block) {
  const bool is_nan = block.has_nan && recipe.nan != NanPolicy::drop;
  if (recipe.has_two_levels()) return block_scale(recipe, element, block, OuterScale{});
  if (!recipe.has_e8m0_scales()) return fp32_scale(recipe, element, block.amax, is_nan);
  const float amax = is_nan ? std::numeric_limits<float>::quiet_NaN() : block.amax;
  BlockScale s;
  s.byte = scale_byte_for_amax(recipe, element, amax);
  s.scale = static_cast<float>(decode(Format::e8m0, s.byte));
  if (s.byte == 255) {
    s.factor = is_nan ? recipe.nan_factor : recipe.inf_factor;
    s.poisoned = std::isnan(s.factor);
  } else {
    s.factor = factor_of(recipe.scaling, s.byte);
  }
  return s;
}

BlockScale block_scale(const Recipe& recipe, Format element, BlockAmax block, OuterScale outer, float stretch) {
  const TwoLevel& levels = recipe.two_level;
  const bool is_nan = (block.has_nan && recipe.nan != NanPolicy::drop) || (levels.inf_is_nan && std::isinf(block.amax));
  const float amax = is_nan ? std::numeric_limits<float>::quiet_NaN() : block.amax;
  const TwoLevelScale scale = two_level_scale(levels, largest_value(element), outer, amax, stretch);
  BlockScale s;
  if (levels.zero == ZeroTest::of_amax && amax == 0) {
    s.factor = 0;
    return s;
  }
  s.byte = scale.code;
  s.scale = static_cast<float>(decode(Format::e4m3, scale.code));
  if (std::isnan(s.scale)) {
    s.poisoned = true;
  } else if (is_zero(levels, scale)) {
    s.factor = 0;
  } else {
    find_factor(levels, outer, s.scale, s);
  }
  return s;
}

std::uint32_t encode_element(const Recipe& recipe, Format element, const BlockScale& scale, float x,
                             std::uint32_t random_word) {
  const std::uint32_t nan_code = spec(element).nan_code | (recipe.nan_sign ? 1U << (spec(element).bits - 1) : 0U);
  if (scale.poisoned || std::isnan(x)) return nan_code;
  if (recipe.drop_negative_zero != DropNegativeZero::none && x == 0) x = 0;
  double v = scale.divide ? x / scale.factor : x * scale.factor;
  if (scale.round_fp32) {  // in FP32 throughout
    const auto factor = static_cast<float>(scale.factor);
    v = scale.divide ? x / factor : x * factor;
  } else if (scale.divide && recipe.rounding == Rounding::stochastic) {
    v = static_cast<float>(v);
  }
  if (recipe.drop_negative_zero == DropNegativeZero::of_quotient && static_cast<float>(v) == 0) v = 0;
  if (recipe.scaling == ElementScaling::half_in_fp32) v = half_in_fp32(element, v);
  const std::uint32_t code = element == Format::e2m1  // compiled apart: most blocks of two levels have it
                                 ? encode<E2m1>(v, recipe.rounding, recipe.overflow, random_word).bits
                                 : encode(element, v, recipe.rounding, recipe.overflow, random_word);
  if (recipe.drop_negative_zero == DropNegativeZero::of_code && decode(element, code) == 0) return 0;
  return code;
}

std::string hexfloat(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%a", value);
  return text.data();
}

namespace {

std::string yes_no(bool b) { return b ? "yes" : "no"; }

using Field = std::pair<std::string, std::string>;

std::vector<Field> describe_levels(const TwoLevel& t) {
  const auto number = [](std::optional<float> v) { return v ? hexfloat(*v) : std::string("none"); };
  return {{"computed_first", t.encode_first ? "encode" : "decode"},
          {"stored_scale", std::string(to_text(t.stored))},
          {"tensor_amax", std::string(to_text(t.amax))},
          {"limit", hexfloat(t.limit)},
          {"tensor_amax_min", hexfloat(t.amax_min)},
          {"of_zero", number(t.of_zero)},
          {"replaces_zero", yes_no(t.replaces_zero)},
          {"of_nonfinite", number(t.of_nonfinite)},
          {"has_largest_encode", yes_no(t.has_largest_encode)},
          {"block_quotient", std::string(to_text(t.block))},
          {"block_min", hexfloat(t.block_min)},
          {"of_zero_quotient", hexfloat(t.of_zero_quotient)},
          {"of_zero_scale", std::to_string(t.of_zero_scale)},
          {"inf_is_nan", yes_no(t.inf_is_nan)},
          {"element_quotient", std::string(to_text(t.element))},
          {"has_largest_factor", yes_no(t.has_largest_factor)},
          {"zero_test", std::string(to_text(t.zero))},
          {"choice", std::string(to_text(t.choice))}};
}

// The fields of a recipe whose scales are bytes of E8M0 or FP32 numbers.
std::vector<Field> describe_bytes(const Recipe& r) {
  return {{"amax_min", hexfloat(r.amax_min)},
          {"quotient_min", hexfloat(r.quotient_min)},
          {"byte_min", std::to_string(r.byte_min)},
          {"byte_max", std::to_string(r.byte_max)},
          {"inf_byte", r.inf_byte ? std::to_string(*r.inf_byte) : "rule"},
          {"nan_byte", std::to_string(r.nan_byte)},
          {"inf_factor", hexfloat(r.inf_factor)},
          {"nan_factor", hexfloat(r.nan_factor)},
          {"element_scaling", std::string(to_text(r.scaling))},
          {"zero_scale", hexfloat(kScaleOfZeroQuotient)}};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe(const Recipe& r) {
  std::vector<Field> all{
      {"recipe", r.name}, {"rule", std::string(to_text(r.rule))}, {"nan", std::string(to_text(r.nan))}};
  const auto add = [&](std::vector<Field> fields) { std::ranges::move(fields, std::back_inserter(all)); };
  if (!r.has_two_levels()) add(describe_bytes(r));
  add({{"rounding", std::string(to_text(r.rounding))},
       {"overflow", std::string(to_text(r.overflow))},
       {"drop_negative_zero", std::string(to_text(r.drop_negative_zero))},
       {"nan_sign", yes_no(r.nan_sign)}});
  if (r.has_two_levels()) add(describe_levels(r.two_level));
  return all;
}

namespace {

constexpr std::array<Named<ScaleRule>, 14> kRules{{{"rceil", ScaleRule::rceil},
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
                                                   {"floor_log2", ScaleRule::floor_log2},
                                                   {"e4m3", ScaleRule::e4m3}}};

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
    case ScaleRule::fp32:
    case ScaleRule::e4m3: break;
  }
  throw Error(ErrorKind::internal, "scale rule " + std::string(to_text(rule)) + " has no E8M0 byte");
}

bool BlockScales::find(std::span<const BlockAmax> blocks, std::uint8_t* bytes, double* factors) {
  bool poisoned = false;
  for (std::size_t i = 0; i < blocks.size();) {
    const std::uint32_t field = std::bit_cast<std::uint32_t>(blocks[i].amax) >> kMantissaBits;
    if (!is_in_a_binade(blocks[i]) || prepared(field).has_more) {
      const BlockScale scale = block_scale(recipe_, element_, blocks[i]);
      bytes[i] = scale.byte, factors[i] = scale.factor, poisoned |= scale.poisoned;
      ++i;
      continue;
    }
    // The next block's amax often lies in the same binade: what is known of it stays in registers.
    const Binade& binade = binades_[field];
    const std::uint32_t first_upper = binade.first_upper;
    const std::uint8_t byte_of[] = {binade.lower.byte, binade.upper.byte};
    const double factor_of[] = {binade.lower.factor, binade.upper.factor};
    poisoned |= binade.lower.poisoned || binade.upper.poisoned;  // of either, whichever the blocks have
    for (; i < blocks.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(blocks[i].amax);
      if (bits >> kMantissaBits != field || blocks[i].has_nan) break;
      const bool upper = bits >= first_upper;
      bytes[i] = upper ? byte_of[1] : byte_of[0];
      factors[i] = upper ? factor_of[1] : factor_of[0];
    }
  }
  return !poisoned;
}

void BlockScales::prepare(Binade& binade, std::uint32_t field) const {
  const auto scale_of = [this](std::uint32_t bits) {
    return block_scale(recipe_, element_, {.amax = std::bit_cast<float>(bits)});
  };
  std::uint32_t low = field << kMantissaBits;
  std::uint32_t high = low + ((std::uint32_t{1} << kMantissaBits) - 1);
  binade.lower = scale_of(low);
  binade.upper = scale_of(high);
  binade.has_more = binade.upper.byte != binade.lower.byte && binade.upper.byte != binade.lower.byte + 1;
  // low's byte is the lower one, high's the upper one, throughout; where there is one byte both scales are that one.
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (scale_of(middle).byte == binade.lower.byte ? low : high) = middle;
  }
  binade.first_upper = high;
  binade.is_prepared = true;
}

}  // namespace mxcheck

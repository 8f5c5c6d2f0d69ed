#include "numerics/scale/recipe_words.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace mxcheck {

std::string hexfloat(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%a", value);
  return text.data();
}

const std::vector<std::pair<std::string, NanPolicy>>& nan_words() {
  static const std::vector<std::pair<std::string, NanPolicy>> words{
      {"propagate", NanPolicy::propagate}, {"drop", NanPolicy::drop}, {"refuse", NanPolicy::refuse}};
  return words;
}

const std::vector<std::pair<std::string, Rounding>>& rounding_words() {
  static const std::vector<std::pair<std::string, Rounding>> words{{"nearest_even", Rounding::nearest_even},
                                                                   {"nearest_away", Rounding::nearest_away},
                                                                   {"toward_zero", Rounding::toward_zero}};
  return words;
}

const std::vector<std::pair<std::string, Overflow>>& overflow_words() {
  static const std::vector<std::pair<std::string, Overflow>> words{{"saturate", Overflow::saturate},
                                                                   {"non_saturate", Overflow::non_saturate}};
  return words;
}

const std::vector<std::pair<std::string, ElementScaling>>& scaling_words() {
  static const std::vector<std::pair<std::string, ElementScaling>> words{
      {"exact", ElementScaling::exact},
      {"shifted_exponent", ElementScaling::shifted_exponent},
      {"one_at_byte_zero", ElementScaling::one_at_byte_zero},
      {"zero_at_byte_zero", ElementScaling::zero_at_byte_zero},
      {"times_reciprocal", ElementScaling::times_reciprocal},
      {"times_quotient", ElementScaling::times_quotient}};
  return words;
}

std::vector<std::pair<std::string, std::string>> describe(const Recipe& r) {
  const auto yes_no = [](bool b) { return std::string(b ? "yes" : "no"); };
  return {{"recipe", r.name},
          {"rule", std::string(to_text(r.rule))},
          {"nan", word_of(nan_words(), r.nan)},
          {"amax_min", hexfloat(r.amax_min)},
          {"quotient_min", hexfloat(r.quotient_min)},
          {"byte_min", std::to_string(r.byte_min)},
          {"byte_max", std::to_string(r.byte_max)},
          {"inf_byte", std::to_string(r.inf_byte)},
          {"nan_byte", std::to_string(r.nan_byte)},
          {"inf_factor", hexfloat(r.inf_factor)},
          {"nan_factor", hexfloat(r.nan_factor)},
          {"element_scaling", word_of(scaling_words(), r.scaling)},
          {"zero_scale", hexfloat(r.zero_scale)},
          {"rounding", word_of(rounding_words(), r.rounding)},
          {"overflow", word_of(overflow_words(), r.overflow)},
          {"drop_negative_zero", yes_no(r.drop_negative_zero)},
          {"nan_sign", yes_no(r.nan_sign)}};
}

}  // namespace mxcheck

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

std::vector<std::pair<std::string, std::string>> describe(const Recipe& r) {
  const auto yes_no = [](bool b) { return std::string(b ? "yes" : "no"); };
  return {{"recipe", r.name},
          {"rule", std::string(to_text(r.rule))},
          {"nan", std::string(to_text(r.nan))},
          {"amax_min", hexfloat(r.amax_min)},
          {"quotient_min", hexfloat(r.quotient_min)},
          {"byte_min", std::to_string(r.byte_min)},
          {"byte_max", std::to_string(r.byte_max)},
          {"inf_byte", r.inf_byte ? std::to_string(*r.inf_byte) : "rule"},
          {"nan_byte", std::to_string(r.nan_byte)},
          {"inf_factor", hexfloat(r.inf_factor)},
          {"nan_factor", hexfloat(r.nan_factor)},
          {"element_scaling", std::string(to_text(r.scaling))},
          {"zero_scale", hexfloat(kScaleOfZeroQuotient)},
          {"rounding", std::string(to_text(r.rounding))},
          {"overflow", std::string(to_text(r.overflow))},
          {"drop_negative_zero", std::string(to_text(r.drop_negative_zero))},
          {"nan_sign", yes_no(r.nan_sign)}};
}

}  // namespace mxcheck

#include "numerics/scale/recipe_words.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

namespace mxcheck {
namespace {

template <class Table>
void expect_names(const Table& table, const std::vector<std::string>& names) {
  EXPECT_EQ(names_in(table), names);
  for (const auto& [name, value] : table) {
    EXPECT_EQ(to_text(value), name);
    EXPECT_EQ(value_in(table, name), value);
  }
  EXPECT_EQ(value_in(table, "none of them"), std::nullopt);
}

TEST(RecipeWords, are_found_again) {
  expect_names(kNanPolicies, {"propagate", "drop", "refuse"});
  expect_names(kRoundings, {"nearest_even", "nearest_away", "toward_zero", "stochastic", "upward"});
  expect_names(kElementRoundings, {"nearest_even", "nearest_away", "toward_zero"});
  expect_names(kOverflows, {"saturate", "non_saturate"});
  expect_names(kElementScalings, {"exact", "shifted_exponent", "one_at_byte_zero", "zero_at_byte_zero",
                                  "normal_at_byte_zero", "half_in_fp32", "times_reciprocal", "times_quotient"});
}

TEST(RecipeWords, name_a_byte_that_the_rule_gives_and_the_zeros_without_a_sign) {
  expect_names(kDropNegativeZeros, {"no", "of_quotient", "of_code"});
  const auto field = [](const char* recipe, std::string_view key) {
    for (const auto& [name, value] : describe(recipe_named(recipe))) {
      if (name == key) return value;
    }
    return std::string("no such field");
  };
  EXPECT_EQ(field("torchao_0_18_floor", "inf_byte"), "rule");
  EXPECT_EQ(field("torchao_0_18", "inf_byte"), "254");
  EXPECT_EQ(field("microxcaling_python", "drop_negative_zero"), "of_quotient");
  EXPECT_EQ(field("microxcaling_cuda", "drop_negative_zero"), "of_code");
}

TEST(RecipeWords, hexfloats) {
  EXPECT_EQ(hexfloat(448), "0x1.cp+8");
  EXPECT_EQ(hexfloat(-0.0), "-0x0p+0");
  EXPECT_EQ(hexfloat(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(hexfloat(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(hexfloat(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

// What files and goldens hold: a change of it is a change of theirs.
TEST(RecipeWords, describe_every_field) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(describe(recipe_named("thunderkittens")), (Pairs{{"recipe", "thunderkittens"},
                                                             {"rule", "rceil_fp32"},
                                                             {"nan", "drop"},
                                                             {"amax_min", "0x0p+0"},
                                                             {"quotient_min", "0x1.197998p-40"},
                                                             {"byte_min", "0"},
                                                             {"byte_max", "255"},
                                                             {"inf_byte", "254"},
                                                             {"nan_byte", "88"},
                                                             {"inf_factor", "nan"},
                                                             {"nan_factor", "nan"},
                                                             {"element_scaling", "exact"},
                                                             {"zero_scale", "0x1p+0"},
                                                             {"rounding", "nearest_even"},
                                                             {"overflow", "saturate"},
                                                             {"drop_negative_zero", "no"},
                                                             {"nan_sign", "no"}}));
}

TEST(RecipeWords, tell_any_two_recipes_apart) {
  std::set<std::vector<std::pair<std::string, std::string>>> seen;
  for (const Recipe& recipe : all_recipes()) EXPECT_TRUE(seen.insert(describe(recipe)).second) << recipe.name;
  Recipe changed = recipe_named("rceil");
  changed.nan_sign = true;
  EXPECT_TRUE(seen.insert(describe(changed)).second);
}

TEST(Recipe, with_fp32_scales_are_those_with_the_fp32_rule) {
  std::vector<std::string> fp32;
  for (const Recipe& recipe : all_recipes()) {
    if (!recipe.has_e8m0_scales()) fp32.push_back(recipe.name);
  }
  EXPECT_EQ(fp32, (std::vector<std::string>{"fp32", "deepgemm_fp32", "dsv3_fp32", "tilekernels_fp32"}));
}

}  // namespace
}  // namespace mxcheck

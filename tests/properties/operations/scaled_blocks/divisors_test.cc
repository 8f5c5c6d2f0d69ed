#include "properties/operations/scaled_blocks/divisors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {
namespace {

constexpr std::string_view kRecipes[] = {"nvfp4",      "nvfp4_te",      "nvfp4_te_2_8",
                                         "nvfp4_vllm", "nvfp4_46",      "nvfp4_cutlass",
                                         "nvfp4_mslk", "nvfp4_torchao", "nvfp4_compressed_tensors"};

std::uint32_t mantissa_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFF; }

// Why all ones are among the mantissas: the one FP32 mantissa whose reciprocal a Newton step from below misses.
TEST(Divisors, a_newton_step_from_below_misses_the_reciprocal_of_all_ones_alone) {
  int missed = 0;
  for (std::uint32_t mantissa = 0; mantissa < 1U << 23; ++mantissa) {
    const float d = std::bit_cast<float>(0x3F800000U | mantissa);
    const float right = 1 / d;
    const float below = std::nextafter(right, 0.0F);
    if (std::fma(below, std::fma(-d, below, 1.0F), below) == right) continue;
    ++missed;
    EXPECT_EQ(mantissa, 0x7FFFFFU);
  }
  EXPECT_EQ(missed, 1);
}

TEST(Divisors, a_scale_gives_a_divisor_the_wanted_mantissa) {
  for (const std::string_view name : kRecipes) {
    const TwoLevel levels = any_recipe_named(name).two_level;
    for (std::size_t which = 0; which < kDivisorMantissas.size(); ++which) {
      for (std::uint64_t word = 0; word < 40; ++word) {
        const DivisorScale scale = scale_of_divisor(levels, which, -static_cast<int>(word % 9), word);
        const auto stored = std::bit_cast<float>(scale.stored);
        ASSERT_TRUE(std::isfinite(stored) && stored > 0) << name;
        EXPECT_EQ(mantissa_of(element_divisor(levels, stored, scale.b)), kDivisorMantissas[which]) << name;
        EXPECT_TRUE(has_divisor_at_an_end(levels, stored)) << name;
      }
    }
  }
}

TEST(Divisors, an_amax_of_614_4_has_a_divisor_of_8_at_a_scale_of_20) {
  const TwoLevel levels = any_recipe_named("nvfp4_46").two_level;
  EXPECT_EQ(element_divisor(levels, 614.4F, 20), 8.0F);  // 0x1p+3
  EXPECT_TRUE(has_divisor_at_an_end(levels, 614.4F));
  EXPECT_FALSE(has_divisor_at_an_end(levels, 600));
}

TEST(Divisors, a_drawn_scale_is_of_the_kind_that_was_asked_for) {
  Draw draw(7);
  for (const std::string_view name : kRecipes) {
    const Recipe recipe = any_recipe_named(name);
    for (std::int64_t kind = 0; kind < std::ssize(drawn_scale_labels()); ++kind) {
      int other = 0;
      for (int i = 0; i < 50; ++i) other += kind_of_drawn_scale(recipe, draw_scale(recipe, kind, draw)) != kind ? 1 : 0;
      EXPECT_LE(other, kind == 5 ? 25 : 0) << name << " " << kind;  // some divisors are those of powers of two
    }
  }
}

}  // namespace
}  // namespace mxcheck

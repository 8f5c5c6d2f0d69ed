// The numbers of NVFP4 as the Hopper library's layers compute them (kernels/sm90/moe/two_level_values.cuh), compiled
// for the host, against the definition: outer_scale, block_scale and encode_element of numerics/scale.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/sm90/moe/two_level_values.cuh"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"

namespace {

using mxcheck::BlockScale, mxcheck::Format, mxcheck::OuterScale, mxcheck::Recipe;
namespace sm90 = mxcheck_kernels::sm90;

float of_bf16(std::uint32_t word) { return std::bit_cast<float>(word << 16); }
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}

class TwoLevelValues : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] OuterScale outer_of(std::uint32_t amax) const {
    return mxcheck::outer_scale(recipe.two_level, 6, of_bf16(amax));
  }
  [[nodiscard]] BlockScale scale_of(OuterScale outer, std::uint32_t amax, float stretch) const {
    const bool nan = amax > 0x7F80;
    return mxcheck::block_scale(recipe, Format::e2m1, {nan ? 0.0F : of_bf16(amax), nan}, outer, stretch);
  }
  // The value of x's code times the block's scale.
  [[nodiscard]] float defined(const BlockScale& scale, float x, std::uint32_t word = 0) const {
    const std::uint32_t code = mxcheck::encode_element(recipe, Format::e2m1, scale, x, word);
    return static_cast<float>(mxcheck::decode(Format::e2m1, code)) * scale.scale;
  }
  template <bool kStochastic>
  [[nodiscard]] float mine(const sm90::TensorScale& outer, float b, float x, std::uint32_t word = 0) const {
    if (sm90::is_nan(b)) return b;
    if (sm90::is_nan(x)) return 6 * b;
    return sm90::code_value_of<kStochastic>(x, sm90::factor_of(four, outer, b), word) * b;
  }

  bool four = GetParam();
  Recipe recipe = mxcheck::any_recipe_named(four ? "nvfp4_46" : "nvfp4_te");
};

TEST_P(TwoLevelValues, have_the_tensor_s_scale_of_every_amax) {
  const std::uint32_t end = four ? 0x8000 : 0x7F81;  // a NaN does not count under nvfp4_te
  for (std::uint32_t amax = 0; amax < end; ++amax) {
    const OuterScale right = outer_of(amax);
    const sm90::TensorScale found = sm90::tensor_scale_of(four, amax);
    ASSERT_TRUE(same(found.encode, right.encode) && same(found.decode, right.decode)) << std::hex << amax;
  }
}

TEST_P(TwoLevelValues, have_the_scale_of_every_block_below_every_tensor_s_scale) {
  for (std::uint32_t amax = 0; amax <= 0x7F80; amax += amax < 0x80 || amax > 0x7F00 ? 1 : 61) {
    const OuterScale outer = outer_of(amax);
    const sm90::TensorScale found = sm90::tensor_scale_of(four, amax);
    for (std::uint32_t a = 0; a <= amax; a += a + 3 < amax ? 3 : 1) {
      for (const float stretch : {1.0F, 1.5F}) {
        if (stretch != 1 && !four) continue;
        const float b = sm90::block_scale_of(four, found, a, stretch);
        ASSERT_TRUE(same(b, scale_of(outer, a, stretch).scale)) << std::hex << amax << " " << a << " " << stretch;
        if (!found.near_one) continue;
        const sm90::NearScale near = sm90::near_scale_of(four, found, a, stretch);
        ASSERT_TRUE(same(near.b, b)) << std::hex << amax << " " << a << " " << stretch;
        ASSERT_TRUE(same(near.factor, b == 0 ? 0 : sm90::factor_of(four, found, b))) << std::hex << amax << " " << a;
      }
    }
  }
}

TEST_P(TwoLevelValues, round_every_element_as_defined) {
  for (const std::uint32_t amax :
       {0U, 1U, 0x80U, 0x0C00U, 0x2000U, 0x3F80U, 0x40C3U, 0x4500U, 0x7D00U, 0x7F7FU, 0x7F80U}) {
    const OuterScale outer = outer_of(amax);
    const sm90::TensorScale found = sm90::tensor_scale_of(four, amax);
    for (std::uint32_t less = 0; less < 20; ++less) {
      if (less * 0x55 > amax) break;
      const std::uint32_t a = amax - less * 0x55;
      const BlockScale scale = scale_of(outer, a, 1);
      const float b = sm90::block_scale_of(four, found, a, 1);
      for (std::uint32_t word = 0; word < 0x10000; ++word) {
        ASSERT_TRUE(same(mine<false>(found, b, of_bf16(word)), defined(scale, of_bf16(word))))
            << std::hex << amax << " " << a << " " << word;
      }
    }
  }
}

TEST_P(TwoLevelValues, have_errors_as_defined) {
  if (!four) return;
  const std::uint32_t amax = 0x4123;
  const sm90::TensorScale outer = sm90::tensor_scale_of(true, amax);
  for (std::uint32_t word = 0; word < 0x10000; word += 7) {
    const float x = of_bf16(word);
    const float value = 3 * 448.0F;
    const float in_place = value * of_bf16(amax) / 1536.0F;
    ASSERT_TRUE(same(sm90::squared_error(x, value, outer.amax), (x - in_place) * (x - in_place))) << word;
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, TwoLevelValues, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "nvfp4_46" : "nvfp4_te"); });

// The words at which a carry begins, one below and one above, and the ends.
TEST(TwoLevelStochastic, rounds_by_the_word_as_defined) {
  Recipe recipe = mxcheck::any_recipe_named("nvfp4_te");
  recipe.rounding = mxcheck::Rounding::stochastic;
  const std::uint32_t amax = 0x40C3;
  const OuterScale outer = mxcheck::outer_scale(recipe.two_level, 6, of_bf16(amax));
  const sm90::TensorScale found = sm90::tensor_scale_of(false, amax);
  for (std::uint32_t a : {0x40C3U, 0x4080U, 0x3F12U, 0x3A00U}) {
    const BlockScale scale = mxcheck::block_scale(recipe, Format::e2m1, {of_bf16(a), false}, outer);
    const float b = sm90::block_scale_of(false, found, a, 1);
    const float factor = sm90::factor_of(false, found, b);
    const auto check = [&](std::uint32_t x, std::uint32_t word) {
      const std::uint32_t code = mxcheck::encode_element(recipe, Format::e2m1, scale, of_bf16(x), word);
      const auto right = static_cast<float>(mxcheck::decode(Format::e2m1, code));
      ASSERT_TRUE(same(sm90::code_value_of<true>(of_bf16(x), factor, word), right)) << std::hex << a << x << word;
      const float magnitude = sm90::e2m1_by_word(std::fabs(of_bf16(x) * factor), word);
      ASSERT_EQ(magnitude, std::fabs(right)) << std::hex << a << x << word;
    };
    for (std::uint32_t x = 0; x < 0x10000; ++x) {
      if ((x & 0x7FFF) > 0x7F80) continue;
      // The first word that carries, by bisection.
      const auto carries = [&](std::uint32_t word) {
        return sm90::code_value_of<true>(of_bf16(x), factor, word) != sm90::code_value_of<true>(of_bf16(x), factor, 0);
      };
      std::uint32_t least = 0;
      for (int bit = 31; bit >= 0; --bit) {
        if (!carries(least | 1U << bit)) least |= 1U << bit;
      }
      for (const std::uint32_t word : {0U, least - 1, least, least + 1, 0xFFFFFFFFU}) check(x, word);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace

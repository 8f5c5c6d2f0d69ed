// BF16 through a block format and back, as the Hopper library does it, compiled for the host, against the definition:
// block_scale, encode and decode of numerics/, and one rounding to BF16.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "kernels/sm90/layer/steps/words.cuh"
#include "kernels/sm90/moe/block_rounding.cuh"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"

namespace {

using mxcheck::BlockScale, mxcheck::Format, mxcheck::Recipe;
using namespace mxcheck_kernels::sm90;

struct Rule {
  Format format;
  const char* recipe;
  RoundTarget target;
};
constexpr std::array kRules{
    Rule{Format::e4m3, "rceil", kRoundE4m3},         Rule{Format::e4m3, "floor", kRoundE4m3},
    Rule{Format::e4m3, "deepgemm_host", kRoundE4m3}, Rule{Format::e5m2, "rceil", kRoundE5m2},
    Rule{Format::e5m2, "floor", kRoundE5m2},         Rule{Format::e5m2, "deepgemm_host", kRoundE5m2},
    Rule{Format::e2m1, "rceil", kRoundE2m1},         Rule{Format::e2m1, "floor", kRoundE2m1},
    Rule{Format::e2m1, "deepgemm_host", kRoundE2m1}, Rule{Format::e2m3, "rceil", kRoundE2m3},
    Rule{Format::e2m3, "floor", kRoundE2m3},         Rule{Format::e3m2, "rceil", kRoundE3m2},
    Rule{Format::e3m2, "floor", kRoundE3m2},         Rule{Format::e5m6, "rceil", kRoundE5m6}};

Rounding rounding(const Rule& rule) {
  const std::string name = rule.recipe;
  return rounding_of(rule.target, name != "floor", name == "deepgemm_host");
}

float value_of_bf16(std::uint32_t word) { return std::bit_cast<float>(word << 16); }

std::uint32_t defined(const Recipe& recipe, Format format, const BlockScale& scale, std::uint32_t word) {
  const std::uint32_t code = mxcheck::encode_element(recipe, format, scale, value_of_bf16(word));
  const double value = mxcheck::decode(format, code) * mxcheck::decode(Format::e8m0, scale.byte);
  return mxcheck::encode(Format::bf16, value, mxcheck::Rounding::nearest_even, mxcheck::Overflow::non_saturate);
}

bool same(std::uint32_t a, std::uint32_t b) { return a == b || ((a & 0x7FFF) > 0x7F80 && (b & 0x7FFF) > 0x7F80); }

BlockScale scale_of(const Recipe& recipe, Format format, std::uint32_t amax) {
  const bool nan = amax > 0x7F80;
  return mxcheck::block_scale(recipe, format, {nan ? 0.0F : value_of_bf16(amax), nan});
}

class EveryRule : public ::testing::TestWithParam<Rule> {
 protected:
  // Both signs of a magnitude in a block of this amax, by every way that may be taken.
  void expect_defined(std::uint32_t amax, const BlockScale& scale, std::uint32_t word) {
    const std::uint32_t two = (word | 0x8000) << 16 | word;
    const std::uint32_t low = defined(recipe, format, scale, word);
    const std::uint32_t high = defined(recipe, format, scale, word | 0x8000);
    const auto right = [&](std::uint32_t mine) { return same(mine & 0xFFFF, low) && same(mine >> 16, high); };
    const std::uint32_t amax2 = twice(amax);
    bool all = right(exact2(rule, two, amax2));
    if (not_ordinary(rule, amax2) == 0) {
      const std::uint32_t lowest = lowest_steps(rule, amax2);
      all = all && right(rounded2<true>(rule, two, lowest));
      if (!floor) all = all && right(rounded2<false>(rule, two, lowest));
      ++ordinary;
    }
    if (!all) FAIL() << "element " << std::hex << word << " of a block with amax " << amax;
  }

  Format format = GetParam().format;
  Recipe recipe = mxcheck::recipe_named(GetParam().recipe);
  bool floor = recipe.name == "floor";
  Rounding rule = rounding(GetParam());
  std::uint64_t ordinary = 0;
};

TEST_P(EveryRule, gives_every_amax_its_byte) {
  for (std::uint32_t amax = 0; amax < 0x8000; ++amax) {
    ASSERT_EQ(exact_byte(rule, amax), scale_of(recipe, format, amax).byte) << std::hex << amax;
  }
}

TEST_P(EveryRule, rounds_the_largest_of_every_block_as_defined) {
  for (std::uint32_t amax = 0; amax < 0x8000; ++amax) {
    const BlockScale scale = scale_of(recipe, format, amax);
    for (const std::uint32_t less : {0U, 1U, 2U, 0x40U, 0x80U, 0x81U, 0x400U, 0x7FFU, 0x800U, 0x1000U}) {
      if (less <= amax) expect_defined(amax, scale, amax - less);
    }
    if (HasFailure()) return;
  }
}

// Every element in blocks of every exponent, whose amax are at the bounds of the rules.
TEST_P(EveryRule, rounds_every_element_as_defined) {
  for (std::uint32_t field = 0; field <= 255; ++field) {
    for (const std::uint32_t mantissa : {0U, 0x40U, 0x41U, 0x60U, 0x61U, 0x7EU, 0x7FU}) {
      if (mantissa != (rule.largest & 0x7F) && mantissa != (rule.largest & 0x7F) + 1 && (field % 16 != 0)) continue;
      const std::uint32_t amax = field << 7 | mantissa;
      const BlockScale scale = scale_of(recipe, format, amax);
      for (std::uint32_t word = 0; word <= amax; ++word) expect_defined(amax, scale, word);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(ordinary, 1'000'000U);
}

TEST(E5m6, words_are_those_of_the_format) {
  std::uint32_t word = 1;
  for (int n = 0; n < 4096; ++n) {
    std::array<std::uint16_t, 8> codes{};
    for (auto& code : codes) word = word * 1664525 + 1013904223, code = static_cast<std::uint16_t>(word >> 20);
    std::uint32_t halves[4];
    for (std::size_t i = 0; i < 4; ++i) {
      halves[i] = static_cast<std::uint32_t>(codes[2 * i + 1]) << 20 | static_cast<std::uint32_t>(codes[2 * i]) << 4;
    }
    std::uint32_t packed[3];
    pack_e5m6(halves, packed);
    const auto expected = mxcheck::pack_e5m6(codes);
    for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(packed[i], expected[i]) << n;
    std::uint32_t back[4];
    unpack_e5m6(packed, back);
    for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(back[i], halves[i]) << n;
  }
}

TEST(E5m6, codes_are_products_of_values_that_bf16_has) {
  for (std::uint32_t byte = 0; byte <= kE5m6LargestByte; ++byte) {
    for (std::uint32_t code = 0; code < 0x7C0; ++code) {
      const double value = mxcheck::decode(Format::e5m6, code) * mxcheck::decode(Format::e8m0, byte);
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      if ((bits & 0xFFFF) != 0 || value_of_bf16(bits >> 16) != value) continue;  // below what BF16 has
      ASSERT_EQ(e5m6_halves(bits >> 16, e5m6_factor(byte)), code << 4) << code << ", byte " << byte;
      ASSERT_EQ(e5m6_halves(bits & 0xFFFF0000, e5m6_factor(byte)), code << 20) << code << ", byte " << byte;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, ::testing::ValuesIn(kRules), [](const auto& info) {
  return std::string(mxcheck::spec(info.param.format).name) + "_" + info.param.recipe;
});

}  // namespace

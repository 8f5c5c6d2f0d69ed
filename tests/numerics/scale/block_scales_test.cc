#include "numerics/scale/block_scales.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mxcheck {
namespace {

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

bool same(const BlockScale& a, const BlockScale& b) {
  const auto bits = [](double x) { return std::isnan(x) ? 0 : std::bit_cast<std::uint64_t>(x); };
  return a.byte == b.byte && bits(a.scale) == bits(b.scale) && a.poisoned == b.poisoned &&
         bits(a.factor) == bits(b.factor) && a.divide == b.divide && a.round_fp32 == b.round_fp32;
}

// Of every binade both ends, places in between, and the neighbourhood of where the byte changes.
std::vector<std::uint32_t> telling_amaxes(const Recipe& recipe, Format element) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t first = 0; first < 0x7F800000; first += 0x800000) {
    for (std::uint32_t at = 0; at < 0x800000; at += 0x7FFFF) all.push_back(first + at);
    const std::uint32_t last = first + 0x7FFFFF;
    all.push_back(last);
    const auto byte = [&](std::uint32_t bits) { return scale_byte_for_amax(recipe, element, as_float(bits)); };
    if (!recipe.has_e8m0_scales()) continue;
    for (std::uint32_t low = first, high = last; byte(low) != byte(high) && high - low > 1;) {
      const std::uint32_t middle = low + (high - low) / 2;
      (byte(middle) == byte(low) ? low : high) = middle;
      if (high - low == 1) all.insert(all.end(), {low - 1, low, high, high + 1});
    }
  }
  for (const std::uint32_t bits : {0x7F800000U, 0U, 1U, 0x7FC00000U}) all.push_back(bits);
  return all;
}

TEST(BlockScales, are_block_scales_of_every_recipe_and_format_next_to_every_change_of_the_byte) {
  for (const Recipe& recipe : all_recipes()) {
    for (const Format element : kQuantizedFormats) {
      BlockScales scale_of(recipe, element);
      std::vector<BlockAmax> blocks;
      for (const std::uint32_t bits : telling_amaxes(recipe, element))
        blocks.push_back({as_float(bits), bits % 7 == 0});
      std::vector<std::uint8_t> bytes(blocks.size());
      std::vector<double> factors(blocks.size());
      const bool found = recipe.has_e8m0_scales() && scale_of.find(blocks, bytes.data(), factors.data());
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const BlockScale right = block_scale(recipe, element, blocks[i]);
        ASSERT_TRUE(same(scale_of(blocks[i]), right)) << recipe.name << " " << spec(element).name << " " << i;
        EXPECT_FALSE(found && right.poisoned) << recipe.name;
        if (!recipe.has_e8m0_scales()) continue;
        ASSERT_EQ(bytes[i], right.byte) << recipe.name << " " << spec(element).name << " " << blocks[i].amax;
        if (right.poisoned) continue;
        ASSERT_EQ(factors[i], right.factor) << recipe.name << " " << spec(element).name;
      }
    }
  }
}

TEST(BlockScales, says_where_a_block_is_poisoned) {
  const Recipe recipe = recipe_named("rceil");
  BlockScales scale_of(recipe, Format::e4m3);
  std::uint8_t byte = 0;
  double factor = 0;
  const auto find = [&](BlockAmax block) { return scale_of.find(std::span(&block, 1), &byte, &factor); };
  EXPECT_TRUE(find({448, false}));
  EXPECT_EQ(byte, 127);
  EXPECT_EQ(factor, 1);
  EXPECT_FALSE(find({448, true}));
  EXPECT_EQ(byte, 255);
  EXPECT_FALSE(find({std::numeric_limits<float>::infinity(), false}));
}

}  // namespace
}  // namespace mxcheck

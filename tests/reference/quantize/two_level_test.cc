// NVFP4: two levels of scales. Outer scales by row and given, square blocks, experts, stochastic rounding over all
// words.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

// A tensor's scale by row is that of each row as a tensor of its own.
TEST(TwoLevels, an_outer_scale_for_each_row_is_that_of_the_row_alone) {
  const std::int64_t rows = 7, cols = 40;
  const std::vector<float> x = random_values(rows * cols, 21);
  for (const Recipe& recipe : two_level_recipes()) {
    const QuantizedTensor all =
        quantize(fp32_matrix(rows, cols, x).view(), Format::e2m1, {1, 16}, recipe, {.outer_of_rows = true}, {}, 3);
    EXPECT_EQ(all.levels.at(1).block, (BlockShape{1, 0}));
    EXPECT_EQ(all.levels.at(1).scales.shape, (std::vector<std::int64_t>{rows, 1}));
    const std::vector<float> values = dequantize(all);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<float> row(x.begin() + r * cols, x.begin() + (r + 1) * cols);
      const QuantizedTensor one = quantize(fp32_matrix(1, cols, row).view(), Format::e2m1, {1, 16}, recipe);
      EXPECT_EQ(one.levels.at(1).scales.code(0), all.levels.at(1).scales.code(static_cast<std::size_t>(r)));
      const std::vector<float> of_row = dequantize(one);
      EXPECT_EQ(to_bytes(std::span<const float>(of_row)),
                to_bytes(std::span(values).subspan(static_cast<std::size_t>(r * cols), static_cast<std::size_t>(cols))))
          << recipe.name << " row " << r;
    }
  }
}

// Given what it would have found itself, a recipe gives the same bytes; threads and gaps between rows change nothing.
TEST(TwoLevels, an_outer_scale_that_is_given_is_used_as_it_is_stored) {
  const std::int64_t rows = 33, cols = 48;
  std::vector<float> x = random_values(rows * cols, 22);
  const TestMatrix gaps(Format::bf16, rows, cols, x, 3);
  for (const BlockShape block : {BlockShape{1, 16}, BlockShape{16, 1}, BlockShape{16, 16}}) {
    for (const Recipe& recipe : two_level_recipes()) {
      const QuantizedTensor found = quantize(gaps.view(), Format::e2m1, block, recipe, {}, 1);
      const std::vector<float> outer{std::bit_cast<float>(found.levels.at(1).scales.code(0))};
      EXPECT_EQ(found, quantize(TestMatrix(Format::bf16, rows, cols, x).view(), Format::e2m1, block, recipe,
                                {.outer = outer}, {}, 4))
          << recipe.name;
    }
  }
}

// A block of 16 x 16 has the scale of its 256 elements, whose codes are those of one row of 256.
TEST(TwoLevels, square_blocks_have_the_scales_and_codes_of_their_elements_in_a_row) {
  const std::vector<float> x = random_values(256, 23);
  for (const Recipe& recipe : two_level_recipes()) {
    const QuantizedTensor square = quantize(fp32_matrix(16, 16, x).view(), Format::e2m1, {16, 16}, recipe);
    const QuantizedTensor row = quantize(fp32_matrix(1, 256, x).view(), Format::e2m1, {1, 256}, recipe);
    EXPECT_EQ(square.codes.data, row.codes.data) << recipe.name;
    EXPECT_EQ(square.scales().data, row.scales().data) << recipe.name;
  }
}

// Blocks restart at every expert; the outer scale is of all of them.
TEST(TwoLevels, experts_have_blocks_of_their_own_under_one_outer_scale) {
  const std::vector<float> x = random_values(40 * 16, 24);
  const std::vector<std::int64_t> offsets{0, 5, 5, 24, 40};
  const Recipe recipe = any_recipe_named("nvfp4_te");
  const QuantizedTensor all = quantize(fp32_matrix(40, 16, x).view(), Format::e2m1, {16, 1}, recipe, offsets);
  const std::vector<float> outer{std::bit_cast<float>(all.levels.at(1).scales.code(0))};
  std::vector<std::byte> codes;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const std::vector<float> rows(x.begin() + offsets[e] * 16, x.begin() + offsets[e + 1] * 16);
    const QuantizedTensor one = quantize(fp32_matrix(offsets[e + 1] - offsets[e], 16, rows).view(), Format::e2m1,
                                         {16, 1}, recipe, {.outer = outer});
    codes.insert(codes.end(), one.codes.data.begin(), one.codes.data.end());
  }
  EXPECT_EQ(all.codes.data, codes);
}

// Panels of a matrix, each under the whole's magnitudes: what a stored scale does not say, as an amax of NaN.
TEST(TwoLevels, a_part_below_the_magnitudes_of_the_whole_has_the_wholes_codes) {
  std::vector<float> x = random_values(40 * 32, 26);
  for (const float odd : {1.0F, kInf, kNaN}) {
    x[700] = odd;
    const TestMatrix matrix = fp32_matrix(40, 32, x);
    const Magnitudes whole = magnitudes_of(matrix.view());
    for (const Recipe& recipe : two_level_recipes()) {
      const QuantizedTensor all = quantize(matrix.view(), Format::e2m1, {1, 16}, recipe);
      std::vector<std::byte> codes;
      std::vector<std::byte> scales;
      for (std::int64_t first = 0; first < 40; first += 16) {
        const std::vector<float> rows(x.begin() + first * 32, x.begin() + std::min<std::int64_t>(first + 16, 40) * 32);
        const TestMatrix part = fp32_matrix(std::ssize(rows) / 32, 32, rows);
        const QuantizedTensor q = quantize(part.view(), Format::e2m1, {1, 16}, recipe, {.whole = &whole});
        codes.insert(codes.end(), q.codes.data.begin(), q.codes.data.end());
        scales.insert(scales.end(), q.scales().data.begin(), q.scales().data.end());
        EXPECT_EQ(q.levels.at(1).scales.data, all.levels.at(1).scales.data) << recipe.name << odd;
      }
      EXPECT_EQ(all.codes.data, codes) << recipe.name << odd;
      EXPECT_EQ(all.scales().data, scales) << recipe.name << odd;
    }
  }
}

// Each code is one of the two beside the value, and over all words of 16 bits it is the upper one as often as is due:
// the mean of the codes' values is the value, cut to 16 bits of its fraction.
TEST(TwoLevels, stochastic_rounding_is_unbiased_over_all_words) {
  Recipe recipe = any_recipe_named("nvfp4_te");
  recipe.rounding = Rounding::stochastic;
  std::vector<float> x{6};
  for (const float v :
       {0.1F, -0.3F, 0.5F, 0.77F, 1.2F, -1.75F, 2.1F, 2.5F, 3.3F, -3.99F, 4.4F, 5.0F, 5.9F, 0.0F, -0.0F}) {
    x.push_back(v);
  }
  std::vector<double> sums(16);
  std::vector<std::uint32_t> words(16);
  const std::vector<float> outer{2688};  // a scale of 1
  for (std::uint32_t word = 0; word < 65536; ++word) {
    std::fill(words.begin(), words.end(), word << 16);
    const QuantizedTensor q =
        quantize(fp32_matrix(1, 16, x).view(), Format::e2m1, {1, 16}, recipe, {.outer = outer, .words = words});
    ASSERT_EQ(q.scales().code(0), 0x38U);
    for (std::size_t i = 0; i < 16; ++i) {
      const double value = decode(Format::e2m1, q.codes.code(i));
      const double step = std::fabs(x[i]) < 2 ? 0.5 : std::fabs(x[i]) < 4 ? 1 : 2;
      ASSERT_LT(std::fabs(value - x[i]), step);
      sums[i] += value;
    }
  }
  for (std::size_t i = 0; i < 16; ++i) {
    const double step = std::fabs(x[i]) < 2 ? 0.5 : std::fabs(x[i]) < 4 ? 1 : 2;
    const double grain = step / 65536;
    EXPECT_EQ(sums[i] / 65536, std::trunc(double{x[i]} / grain) * grain) << x[i];
  }
}

TEST(TwoLevels, refuses_extras_that_a_recipe_has_no_use_for) {
  const std::vector<float> x(64, 1);
  const auto refusal = [&](const std::string& name, const QuantizeExtras& extras, BlockShape block = {1, 16},
                           Rounding rounding = Rounding::nearest_even) {
    Recipe recipe = any_recipe_named(name);
    recipe.rounding = rounding;
    return text_thrown(ErrorKind::usage,
                       [&] { quantize(fp32_matrix(4, 16, x).view(), Format::e2m1, block, recipe, extras); });
  };
  const std::vector<float> two{1, 2};
  const std::vector<std::uint32_t> words(63);
  expect_contains(refusal("rceil", {.outer = two}), "recipe rceil has one level of scales: it takes no tensor_scale");
  expect_contains(refusal("rceil", {.outer_of_rows = true}), "it takes no tensor_scale");
  expect_contains(refusal("nvfp4", {.outer = two}), "2 tensor_scales given, where 1 must be");
  expect_contains(refusal("nvfp4", {.outer_of_rows = true, .outer = two}), "where 4, one for each row, must be");
  expect_contains(refusal("nvfp4", {.outer_of_rows = true}, {16, 16}), "needs blocks of one row");
  const Magnitudes whole;
  expect_contains(refusal("rceil", {.whole = &whole}), "it takes no tensor_scale");
  expect_contains(refusal("nvfp4", {.outer_of_rows = true, .whole = &whole}), "given beside a tensor_scale");
  expect_contains(refusal("nvfp4", {.words = words}), "it takes no random words");
  expect_contains(refusal("nvfp4", {.words = words}, {1, 16}, Rounding::stochastic),
                  "it needs 64 random words, one for each element, not 63");
  expect_contains(refusal("rceil", {}, {1, 16}, Rounding::stochastic), "it needs 64 random words");
  for (const float wrong : {0.0F, -1.0F, kInf, kNaN}) {
    const std::vector<float> outer{wrong};
    expect_contains(refusal("nvfp4_vllm", {.outer = outer}), "it must be finite and greater than 0");
    if (wrong != 0) expect_contains(refusal("nvfp4_te", {.outer = outer}), "it must be finite and 0 or more");
  }
}

TEST(TwoLevels, of_nothing_is_nothing) {
  for (const Recipe& recipe : two_level_recipes()) {
    for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {0, 40}, {40, 0}}) {
      const QuantizedTensor q = quantize({Format::fp32, nullptr, rows, cols, cols}, Format::e2m1, {1, 16}, recipe);
      EXPECT_TRUE(q.codes.empty());
      EXPECT_EQ(q.levels.size(), 2U);
      EXPECT_TRUE(dequantize(q).empty()) << recipe.name << " " << rows << " " << cols;
    }
  }
}

}  // namespace
}  // namespace mxcheck

#include "reference/quantize/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

// The definition, one element after the other.
std::uint8_t code_of(const Recipe& recipe, Format element, float x) {
  BlockScale one;
  one.byte = 127, one.scale = 1, one.factor = 1;
  return static_cast<std::uint8_t>(encode_element(recipe, element, one, x));
}

void expect_definition(const MatrixView& x, Format element, const Recipe& recipe) {
  const std::vector<std::uint8_t> codes = cast(x, element, recipe);
  ASSERT_EQ(codes.size(), static_cast<std::size_t>(x.rows * x.cols));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.cols; ++j) {
      ASSERT_EQ(codes[static_cast<std::size_t>(i * x.cols + j)], code_of(recipe, element, x.at(i, j)))
          << recipe.name << " " << spec(element).name << " " << std::hexfloat << x.at(i, j);
    }
  }
}

TEST(Cast, every_word_of_16_bits_is_encoded_by_the_definition_of_each_recipe) {
  std::vector<std::uint16_t> words(1 << 16);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint16_t>(i);
  for (const Format dtype : {Format::bf16, Format::fp16}) {
    const MatrixView x{dtype, std::as_bytes(std::span(words)).data(), 256, 256, 256};
    for (const Format element : kElementFormats) {
      for (const Recipe& recipe : all_recipes()) expect_definition(x, element, recipe);
    }
  }
}

// Each code and midpoint of the format, and FP32's neighbours of both: where a rounding goes wrong. And every exponent.
TEST(Cast, fp32_words_where_codes_change_are_encoded_by_the_definition) {
  for (const Format element : kElementFormats) {
    std::vector<float> values{0, 0x1p-149F, std::numeric_limits<float>::infinity(), NAN};
    for (int exponent = -149; exponent < 128; ++exponent) values.push_back(std::ldexp(1.37F, exponent));
    for (std::uint32_t code = 0; code <= spec(element).max_code; ++code) {
      const double low = decode(element, code);
      const double high = code < spec(element).max_code ? decode(element, code + 1) : 2 * low;
      for (const double quarter : {0.0, 0.25, 0.5, 0.75}) {
        const auto x = static_cast<float>(low + quarter * (high - low));
        values.insert(values.end(), {x, std::nextafter(x, 0.0F), std::nextafter(x, INFINITY)});
      }
    }
    for (std::size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
    const auto count = static_cast<std::int64_t>(values.size());
    for (const Recipe& recipe : all_recipes())
      expect_definition({Format::fp32, std::as_bytes(std::span(values)).data(), 1, count, count}, element, recipe);
  }
}

TEST(Cast, gaps_between_rows_and_the_thread_count_change_nothing) {
  std::vector<float> values(300 * 130);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(i % 97) - 48, static_cast<int>(i % 7));
  const MatrixView gaps{Format::fp32, std::as_bytes(std::span(values)).data(), 300, 117, 130};
  const Recipe recipe = recipe_named("rceil");
  expect_definition(gaps, Format::e4m3, recipe);
  for (const std::int64_t cols : {1, 3, 130}) {
    const MatrixView dense{Format::fp32, gaps.data, 39'000 / cols, cols, cols};
    expect_definition(dense, Format::e5m2, recipe);
    EXPECT_EQ(cast(dense, Format::e5m2, recipe, 1), cast(dense, Format::e5m2, recipe, 3));
  }
  EXPECT_TRUE(cast({Format::fp32, nullptr, 0, 5, 5}, Format::e4m3, recipe).empty());
  EXPECT_TRUE(cast({Format::fp32, nullptr, 5, 0, 0}, Format::e4m3, recipe).empty());
}

TEST(Cast, refuses_formats_without_codes_of_a_byte) {
  const float x = 1;
  for (const Format format : {Format::e5m6, Format::bf16, Format::e8m0}) {
    EXPECT_THROW(
        (void)cast({Format::fp32, std::as_bytes(std::span(&x, 1)).data(), 1, 1, 1}, format, recipe_named("rceil")),
        Error);
  }
}

}  // namespace
}  // namespace mxcheck

#pragma once
// A model that is small enough for many steps in a test, with sizes that are no multiples of tiles, and its data.

#include "reference/training/model.h"
#include "tests/testing.h"

namespace mxcheck {

inline TrainingConfig test_config(const std::string& recipe) {
  TrainingConfig c;
  c.model = {.layers = 2, .width = 32, .heads = 2, .experts = 4, .inner = 16, .top_k = 2, .length = 20};
  c.batch = 2;
  c.steps = 100;
  c.seed = 7;
  c.recipe = layer_recipe_named(recipe);
  c.optimizer.warm_up = 4;
  return c;
}

// Bytes with a pattern that can be learnt: batch x (length + 1), another one for each step.
inline std::vector<std::uint8_t> test_data(const TrainingConfig& c, std::int64_t step = 0) {
  std::vector<std::uint8_t> data;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t i = 0; i <= c.model.length; ++i)
      data.push_back(static_cast<std::uint8_t>(97 + (i * (b + 2) + step) % 7 + (i % 5 == 0 ? 100 : 0)));
  }
  return data;
}

}  // namespace mxcheck

// Plain evaluations that the training tests compare with: written from docs/training.md, with doubles that are rounded
// to FP32 after each operation (the product and the sum of two FP32 numbers, rounded to a double first, round to the
// same FP32 number: 53 >= 2 * 24 + 2) and nothing of reference/training.

namespace mxcheck::plain {

inline float add(float a, float b) { return static_cast<float>(double{a} + double{b}); }
inline float sub(float a, float b) { return static_cast<float>(double{a} - double{b}); }
inline float mul(float a, float b) { return static_cast<float>(double{a} * double{b}); }
inline float div(float a, float b) { return static_cast<float>(double{a} / double{b}); }
inline float root(float a) { return static_cast<float>(std::sqrt(double{a})); }

inline float wide(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

// The nearer of the two BF16 numbers around the value; the even one of two that are as near.
inline std::uint16_t bf16(float value) {
  if (std::isnan(value)) return 0x7FFF;
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);  // towards 0
  if (std::isinf(value)) return below;
  const auto above = static_cast<std::uint16_t>(below + 1);
  // The step above the largest number counts as one, to 2^128.
  const double up = (above & 0x7FFF) == 0x7F80 ? std::copysign(0x1p128, value) : double{wide(above)};
  const double to_below = std::abs(double{value} - double{wide(below)});
  const double to_above = std::abs(up - double{value});
  return to_below < to_above || (to_below == to_above && (below & 1) == 0) ? below : above;
}

// Neighbours are added until one number is left; an odd one out has a +0 beside it.
inline float pairwise(std::vector<float> v) {
  if (v.empty()) return 0;
  while (v.size() > 1) {
    if (v.size() % 2 == 1) v.push_back(0);
    std::vector<float> half;
    for (std::size_t i = 0; i < v.size(); i += 2) half.push_back(add(v[i], v[i + 1]));
    v = half;
  }
  return v[0];
}

// Numbers of many magnitudes and both signs, from a counter.
inline std::vector<float> values(std::size_t count, std::uint32_t seed, int exponents = 12) {
  std::vector<float> v;
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    const float mantissa = 1.0F + static_cast<float>(state >> 9) * 0x1p-23F;
    const int exponent = static_cast<int>((state >> 3) % static_cast<std::uint32_t>(exponents)) - exponents / 2;
    v.push_back(std::ldexp((state & 0x100U) != 0 ? -mantissa : mantissa, exponent));
  }
  return v;
}
inline std::vector<std::uint16_t> words(std::size_t count, std::uint32_t seed, int exponents = 12) {
  std::vector<std::uint16_t> w;
  for (const float v : values(count, seed, exponents)) w.push_back(bf16(v));
  return w;
}

// Bits, every NaN alike, so that EXPECT_EQ compares vectors that hold NaN.
inline std::vector<std::uint32_t> bits(std::span<const float> v) {
  std::vector<std::uint32_t> b;
  for (const float x : v) b.push_back(std::isnan(x) ? 0x7FFFFFFF : std::bit_cast<std::uint32_t>(x));
  return b;
}

}  // namespace mxcheck::plain

// A second quantizer, written from the formats' definition and sharing nothing with the first: values listed by the
// formula for a code, the scale found by trying bytes, elements by searching the list, all in long double, which holds
// every float times every power of two in question exactly.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::codes_of;
using test::random_values;
using test::scales_of;
using test::TestMatrix;

struct Layout {
  Format format;
  int exponent_bits, mantissa_bits, bias, largest_exponent;
  std::uint32_t largest, nan;
};
constexpr std::array<Layout, 7> kLayouts{{{Format::e4m3, 4, 3, 7, 8, 0x7E, 0x7F},
                                          {Format::e5m2, 5, 2, 15, 15, 0x7B, 0x7F},
                                          {Format::e2m1, 2, 1, 1, 2, 0x7, 0x7},
                                          {Format::e2m3, 2, 3, 1, 2, 0x1F, 0x1F},
                                          {Format::e3m2, 3, 2, 3, 4, 0x1F, 0x1F},
                                          {Format::mxint8, 0, 6, 0, 0, 0x7F, 0x7F},
                                          {Format::e5m6, 5, 6, 15, 15, 0x7BF, 0x7E0}}};

// Magnitudes in ascending order; the index is the code without its sign.
std::vector<long double> magnitudes(const Layout& l) {
  std::vector<long double> values;
  for (std::uint32_t code = 0; code <= l.largest; ++code) {
    const int exponent = static_cast<int>(code >> l.mantissa_bits);
    const auto mantissa = static_cast<long double>(code & ((1U << l.mantissa_bits) - 1));
    const long double fraction = mantissa / static_cast<long double>(1 << l.mantissa_bits);
    if (l.exponent_bits == 0) {
      values.push_back(static_cast<long double>(code) / 64);
    } else if (exponent == 0) {
      values.push_back(std::ldexp(fraction, 1 - l.bias));
    } else {
      values.push_back(std::ldexp(1 + fraction, exponent - l.bias));
    }
  }
  return values;
}

std::uint32_t nearest_code(const Layout& l, const std::vector<long double>& values, bool negative, long double target) {
  const auto above = std::lower_bound(values.begin(), values.end(), target);
  std::uint32_t code = l.largest;
  if (above != values.end()) {
    code = static_cast<std::uint32_t>(above - values.begin());
    if (code != 0) {
      const long double up = *above - target;
      const long double down = target - values[code - 1];
      if (down < up || (down == up && code % 2 != 0)) --code;
    }
  }
  if (!negative) return code;
  if (l.exponent_bits == 0) return (256 - code) % 256;
  return code | 1U << (l.exponent_bits + l.mantissa_bits);
}

enum class Rule { smallest_that_fits, largest_exponent, float_quotient };

struct Answer {
  std::vector<std::uint32_t> codes, scales;
};

Answer brute_force(const MatrixView& m, const Layout& l, BlockShape block, Rule rule,
                   const std::vector<std::int64_t>& offsets) {
  const std::vector<long double> values = magnitudes(l);
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // expert, block row in it, block column
  const auto key_of = [&](std::int64_t row, std::int64_t col) {
    std::int64_t expert = 0;
    std::int64_t start = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
      if (row >= offsets[e] && row < offsets[e + 1]) expert = static_cast<std::int64_t>(e), start = offsets[e];
    }
    return Key{expert, block.rows == 0 ? 0 : (row - start) / block.rows, block.cols == 0 ? 0 : col / block.cols};
  };
  std::map<Key, long double> largest;  // sorted as compact scales are; NaN for blocks with a NaN or an Inf
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const long double x = m.at(i, j);
      long double& amax = largest[key_of(i, j)];
      if (!std::isfinite(x) || std::isnan(amax)) {
        amax = std::numeric_limits<long double>::quiet_NaN();
      } else if (std::abs(x) > amax) {
        amax = std::abs(x);
      }
    }
  }
  Answer answer;
  std::map<Key, long double> scale_of;
  for (const auto& [key, amax] : largest) {
    std::uint32_t byte = 0;
    if (std::isnan(amax)) {
      scale_of[key] = amax;
      answer.scales.push_back(rule == Rule::float_quotient ? 0x7FC00000 : 255);
      continue;
    }
    if (rule == Rule::float_quotient) {
      float scale = static_cast<float>(amax) / static_cast<float>(values.back());
      if (scale == 0) scale = 1;
      scale_of[key] = scale;
      answer.scales.push_back(std::bit_cast<std::uint32_t>(scale));
      continue;
    }
    const auto two_to = [](std::uint32_t b) { return std::ldexp(1.0L, static_cast<int>(b) - 127); };
    if (rule == Rule::smallest_that_fits) {
      while (amax > values.back() * two_to(byte)) ++byte;
    } else {  // the largest power of two not above amax, divided by that of the format's largest value
      while (amax >= std::ldexp(two_to(byte + 1), l.largest_exponent)) ++byte;
    }
    scale_of[key] = two_to(byte);
    answer.scales.push_back(byte);
  }
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const float x = m.at(i, j);
      const long double scale = scale_of[key_of(i, j)];
      long double target = std::abs(static_cast<long double>(x)) / scale;
      if (rule == Rule::float_quotient) target = std::abs(x / static_cast<float>(scale));
      answer.codes.push_back(std::isnan(scale) ? l.nan : nearest_code(l, values, std::signbit(x), target));
    }
  }
  return answer;
}

TEST(Quantize, equals_a_second_quantizer_that_searches_for_the_nearest_value) {
  std::mt19937_64 engine(20);
  const auto pick = [&engine](std::int64_t below) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(below));
  };
  constexpr std::array kDtypes{Format::fp32, Format::bf16, Format::fp16};
  const std::vector<std::pair<std::string, Rule>> rules{
      {"rceil", Rule::smallest_that_fits}, {"floor", Rule::largest_exponent}, {"fp32", Rule::float_quotient}};
  for (int round = 0; round < 24; ++round) {
    for (const Layout& l : kLayouts) {
      const std::int64_t rows = 1 + pick(70);
      const std::int64_t cols = 1 + pick(70);
      const std::uint64_t rare = round % 4 == 0 ? 200 : 0;
      const Format dtype = kDtypes[static_cast<std::size_t>(pick(3))];
      const TestMatrix m(dtype, rows, cols, random_values(rows * cols, engine(), rare), pick(3));
      std::vector<std::int64_t> offsets;
      if (pick(2) == 0) {
        offsets = {0, pick(rows + 1), pick(rows + 1), pick(rows + 1), rows};
        std::sort(offsets.begin(), offsets.end());
      }
      for (const BlockShape block : test::kShapes) {
        for (const auto& [name, rule] : rules) {
          const QuantizedTensor q = quantize(m.view(), l.format, block, recipe_named(name), offsets);
          const Answer expected = brute_force(m.view(), l, block, rule, offsets);
          ASSERT_EQ(scales_of(q), expected.scales) << spec(l.format).name << " " << name << " " << to_text(block);
          ASSERT_EQ(codes_of(q), expected.codes) << spec(l.format).name << " " << name << " " << to_text(block);
        }
      }
    }
  }
}

// Every positive bf16 that E5M6 can hold, and every half step of its subnormals, in rows whose scale is one.
TEST(Quantize, equals_it_for_every_bf16_under_e5m6) {
  const Layout& l = kLayouts[6];
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 0x4000; ++i) values.push_back(static_cast<float>(i) * 0x1p-28F);
  for (std::uint32_t i = 0; i < 0x7F80; ++i) {
    const float x = std::bit_cast<float>(i << 16);
    if (x <= 65024) values.push_back(x);
  }
  values.push_back(65024);
  const auto cols = static_cast<std::int64_t>(values.size());
  const TestMatrix m = test::fp32_matrix(1, cols, values);
  const QuantizedTensor q = quantize(m.view(), Format::e5m6, {1, 0}, recipe_named("rceil"));
  EXPECT_EQ(values_in<std::uint8_t>(q.scales().data), std::vector<std::uint8_t>{127});
  EXPECT_EQ(codes_of(q), brute_force(m.view(), l, {1, 0}, Rule::smallest_that_fits, {}).codes);
}

}  // namespace
}  // namespace mxcheck

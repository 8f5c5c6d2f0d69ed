#include "reference/quantize/encode_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

constexpr Format kFormats[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2};

// Every value and midpoint of the format and beyond, moved by an ulp of FP32 to either side, and the ends of FP32.
std::vector<float> telling_values(Format element) {
  std::vector<float> values{0, 0x1p-149F, 0x1p-126F, 0x1.fffffep127F, INFINITY, NAN};
  for (std::uint32_t code = 0; code <= spec(element).max_code; ++code) {
    const double value = decode(element, code);
    const double step = code == 0 ? decode(element, 1) : value - decode(element, code - 1);
    for (const double quarter : {0.0, 0.25, 0.5, 0.75, 1.0, 1.5}) {
      const auto x = static_cast<float>(value + quarter * step);
      values.insert(values.end(), {x, std::nextafter(x, 0.0F), std::nextafter(x, INFINITY)});
    }
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

TEST(EncodeBlocks, is_encode_of_every_format_at_every_factor_that_a_scale_has) {
  for (const Format element : kFormats) {
    std::vector<float> values = telling_values(element);
    for (int exponent = -127; exponent <= 127; ++exponent) {
      const double factor = std::ldexp(1.0, exponent);
      std::vector<float> scaled = values;  // what is telling after the factor, where FP32 has it
      for (float& v : scaled) v = static_cast<float>(v / factor);
      for (const std::vector<float>& x : {values, scaled}) {
        for (const std::size_t width : {std::size_t{1}, std::size_t{5}, std::size_t{32}}) {
          const std::vector<double> factors((x.size() + width - 1) / width, factor);
          std::vector<std::uint8_t> codes(x.size());
          detail::encode_blocks({element, x, width, factors, codes.data()});
          for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(codes[i], encode(element, x[i] * factor, Rounding::nearest_even, Overflow::saturate))
                << spec(element).name << " " << std::hexfloat << x[i] << " * " << factor << " in blocks of " << width;
          }
        }
      }
    }
  }
}

TEST(EncodeBlocks, each_block_has_its_own_factor_and_the_last_one_may_be_short) {
  const std::vector<float> x(100, 1.0F);
  const std::vector<double> factors{1, 2, 4, 8};
  std::vector<std::uint8_t> codes(x.size() + 1, 0xEE);
  detail::encode_blocks({Format::e4m3, x, 32, factors, codes.data()});
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(decode(Format::e4m3, codes[i]), factors[i / 32]) << i;
  EXPECT_EQ(codes.back(), 0xEE);
}

}  // namespace
}  // namespace mxcheck

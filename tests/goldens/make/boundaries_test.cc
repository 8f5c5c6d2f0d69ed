#include "goldens/make/boundaries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

bool holds(const std::vector<std::uint32_t>& patterns, float value) {
  return std::find(patterns.begin(), patterns.end(), std::bit_cast<std::uint32_t>(value)) != patterns.end();
}

bool sorted_by_magnitude(const std::vector<std::uint32_t>& patterns) {
  const auto key = [](std::uint32_t bits) { return std::pair(bits & 0x7FFFFFFF, bits >> 31); };
  return std::adjacent_find(patterns.begin(), patterns.end(), [&](auto a, auto b) { return key(a) >= key(b); }) ==
         patterns.end();
}

TEST(CastBoundaries, hold_values_midpoints_and_their_neighbours_of_both_signs) {
  const std::vector<std::uint32_t> e2m1 = cast_boundaries(Format::e2m1);  // 0 0.5 1 1.5 2 3 4 6, and 8 beyond
  EXPECT_TRUE(sorted_by_magnitude(e2m1));
  for (const float edge : {0.25F, 0.5F, 0.75F, 1.0F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F, 6.0F, 7.0F, 8.0F}) {
    for (const float x : {std::nextafter(edge, 0.0F), edge, std::nextafter(edge, 100.0F)}) {
      EXPECT_TRUE(holds(e2m1, x)) << x;
      EXPECT_TRUE(holds(e2m1, -x)) << -x;
    }
  }
  EXPECT_TRUE(holds(e2m1, INFINITY));
  EXPECT_FALSE(holds(e2m1, 0.6F));
}

TEST(CastBoundaries, change_the_code_at_every_midpoint) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::e3m2, Format::mxint8}) {
    std::vector<std::uint32_t> codes;
    for (const std::uint32_t bits : cast_boundaries(format)) {
      const auto value = std::bit_cast<float>(bits);
      if (std::isnan(value)) continue;
      codes.push_back(encode(format, value, Rounding::nearest_even, Overflow::saturate));
    }
    std::sort(codes.begin(), codes.end());
    const auto distinct = std::unique(codes.begin(), codes.end()) - codes.begin();
    EXPECT_GE(distinct, (1 << spec(format).bits) - 10) << spec(format).name;  // all but NaN and infinities
  }
}

TEST(AmaxBoundaries, hold_the_edges_of_every_binade_once) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1}) {
    const std::vector<std::uint32_t> amax = amax_boundaries(format);
    EXPECT_TRUE(sorted_by_magnitude(amax));
    const auto largest = static_cast<float>(decode(format, spec(format).max_code));
    for (const int k : {-100, -1, 0, 60}) {
      for (const float edge : {std::ldexp(1.0F, k), std::ldexp(largest, k)}) {
        EXPECT_TRUE(holds(amax, edge) && holds(amax, std::nextafter(edge, INFINITY))) << edge;
      }
    }
    EXPECT_TRUE(holds(amax, std::bit_cast<float>(0x04600001U)));  // where an FP32 shortcut is wrong
  }
}

}  // namespace
}  // namespace mxcheck

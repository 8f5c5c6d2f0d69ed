// Four Over Six by sums in any order (kernels/sm90/common/four_over_six.cuh), compiled for the host, against the
// definition: scales, codes and values of numerics/scale, errors added in order.

#include "kernels/sm90/common/four_over_six.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"

namespace {

using mxcheck::BlockScale, mxcheck::Format, mxcheck::OuterScale, mxcheck::Recipe;
namespace sm90 = mxcheck_kernels::sm90;
using Numbers = std::vector<float>;

float to_bf16(float x) { return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x8000) & 0xFFFF0000); }

float largest_of(const Numbers& x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::fabs(v));
  return largest;
}

// Both ways to compare two scales of a block.
struct Comparison {
  float four = 0, six = 0;            // sums of the definition
  float near_four = 0, near_six = 0;  // the others
  bool ordinary = false;
  bool same_codes = true;
  float largest = 0;
  int count = 0;

  [[nodiscard]] bool takes_four() const { return four < six; }
  [[nodiscard]] sm90::Stretch stretch() const { return sm90::stretch_of(largest, near_four, near_six, count); }
  [[nodiscard]] bool is_decided() const { return ordinary && stretch() != sm90::Stretch::by_definition; }
  // The difference of the differences, of the distance that is allowed.
  [[nodiscard]] double off() const {
    const double by = (double{four} - double{six}) - (double{near_four} - double{near_six});
    return std::fabs(by) / double{sm90::distance_of(largest, near_four, near_six, count)};
  }
};

class FourOverSix : public ::testing::Test {
 protected:
  [[nodiscard]] Comparison compared(const Numbers& x, float amax) const {
    Comparison c;
    c.largest = largest_of(x), c.count = static_cast<int>(x.size());
    const OuterScale outer = mxcheck::outer_scale(recipe.two_level, 6, amax);
    const float unit = amax / 1536.0F;
    sm90::SixOrFour near[2];
    for (const bool four : {false, true}) {
      const BlockScale scale = mxcheck::block_scale(recipe, Format::e2m1, {c.largest, false}, outer, four ? 1.5F : 1);
      const float factor = scale.scale == 0 ? 0 : 1 / (scale.scale * outer.decode);
      near[four ? 1 : 0] = sm90::six_or_four(scale.scale, factor, unit);
      float& sum = four ? c.four : c.six;
      float parts[4] = {};
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t code = mxcheck::encode_element(recipe, Format::e2m1, scale, x[i], 0);
        const auto r = static_cast<float>(mxcheck::decode(Format::e2m1, code));
        sum += sm90::squared_error(x[i], r * scale.scale, amax);
        const float found = sm90::add_near(std::fabs(x[i]), near[four ? 1 : 0], parts[i % 4]);
        c.same_codes = c.same_codes && found == std::fabs(r);
      }
      (four ? c.near_four : c.near_six) = (parts[0] + parts[2]) + (parts[1] + parts[3]);
    }
    c.ordinary = sm90::is_ordinary(amax, c.largest, near[1], near[0]);
    return c;
  }

  void check(const Numbers& x, float amax) {
    const Comparison c = compared(x, amax);
    ++blocks;
    if (!c.ordinary) return;
    ASSERT_TRUE(c.same_codes);
    ASSERT_LT(c.off(), 1) << c.four << " " << c.six << " " << c.near_four << " " << c.near_six;
    worst = std::max(worst, c.off());
    if (!c.is_decided()) return;
    ++decided;
    ASSERT_EQ(c.stretch() == sm90::Stretch::four, c.takes_four()) << std::hexfloat << c.four << " " << c.six;
  }

  // x with its numbers from `to` in place of some, as few as make the definition change its mind.
  [[nodiscard]] Numbers at_a_tie(const Numbers& from, const Numbers& to, float amax) const {
    const bool first = compared(from, amax).takes_four();
    Numbers x = from;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float before = x[i];
      x[i] = to[i];
      if (compared(x, amax).takes_four() == first) continue;
      float same = before, other = to[i];
      for (int step = 0; step < 60; ++step) {
        const float middle = same + (other - same) / 2;
        if (middle == same || middle == other) break;
        x[i] = middle;
        (compared(x, amax).takes_four() == first ? same : other) = middle;
      }
      x[i] = other;
      return x;
    }
    return {};
  }

  Numbers normal(std::size_t count, float scale, bool bf16) {
    std::normal_distribution<float> distribution;
    Numbers x(count);
    for (float& v : x) v = bf16 ? to_bf16(scale * distribution(random)) : scale * distribution(random);
    return x;
  }

  Recipe recipe = mxcheck::any_recipe_named("nvfp4_46");
  std::mt19937 random{1};
  int blocks = 0, decided = 0;
  double worst = 0;
};

TEST_F(FourOverSix, rounds_magnitudes_as_the_codec_does) {
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(7.0F); bits += 251) {
    const float m = std::bit_cast<float>(bits);
    const std::uint32_t code =
        mxcheck::encode(Format::e2m1, m, mxcheck::Rounding::nearest_even, mxcheck::Overflow::saturate, 0);
    ASSERT_EQ(sm90::e2m1_below_7(m), static_cast<float>(mxcheck::decode(Format::e2m1, code))) << m;
  }
  for (const float tie : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F}) {
    for (const int by : {-1, 0, 1}) {
      const float m = std::bit_cast<float>(std::bit_cast<std::uint32_t>(tie) + static_cast<std::uint32_t>(by));
      const std::uint32_t code =
          mxcheck::encode(Format::e2m1, m, mxcheck::Rounding::nearest_even, mxcheck::Overflow::saturate, 0);
      EXPECT_EQ(sm90::e2m1_below_7(m), static_cast<float>(mxcheck::decode(Format::e2m1, code))) << m;
    }
  }
}

TEST_F(FourOverSix, is_decided_as_defined_in_nearly_all_blocks) {
  for (const std::size_t count : {16U, 256U}) {
    for (const float amax : {1.0F, 0x1.43p-40F, 0x1.9p50F, 0x1p-56F, 0x1p56F}) {
      blocks = decided = 0, worst = 0;
      const int most = count == 16 ? 20000 : 2000;
      for (int n = 0; n < most; ++n) {
        check(normal(count, amax * (n % 7 == 0 ? 0.05F : 0.2F), n % 2 == 0), amax);
        if (HasFatalFailure()) return;
      }
      if (std::fabs(std::log2(amax)) < 55) {
        EXPECT_GT(decided, blocks - blocks / 200) << amax;
      }
      RecordProperty("worst_" + std::to_string(count) + "_" + std::to_string(std::ilogb(amax)), std::to_string(worst));
    }
  }
}

TEST_F(FourOverSix, is_decided_as_defined_of_blocks_beside_a_tie) {
  int ties = 0;
  for (int n = 0; n < 3000; ++n) {
    const std::size_t count = n % 30 == 0 ? 256 : 16;
    const float amax = std::ldexp(1 + 0.25F * static_cast<float>(n % 4), n % 21 * 4 - 40);
    const Numbers tie = at_a_tie(normal(count, 0.2F * amax, n % 2 == 0), normal(count, 0.2F * amax, n % 2 == 0), amax);
    if (tie.empty()) continue;
    ++ties;
    check(tie, amax);
    if (HasFatalFailure()) return;
    // A small number more or less: on either side of what is decided.
    for (int k = -60; k <= 60; ++k) {
      Numbers x = tie;
      x[static_cast<std::size_t>(n) % count] *=
          1 + std::copysign(std::ldexp(1.0F, -std::abs(k) / 3 - 4), static_cast<float>(k));
      check(x, amax);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(ties, 2000);
  EXPECT_GT(decided, blocks / 4);
  EXPECT_LT(decided, blocks);
}

TEST_F(FourOverSix, leaves_blocks_out_of_range_to_the_definition) {
  Numbers x(16, 1);
  EXPECT_TRUE(compared(x, 1).ordinary);
  EXPECT_FALSE(compared(x, 0x1p57F).ordinary);
  EXPECT_FALSE(compared(Numbers(16, 0x1p-57F), 0x1p-57F).ordinary);
  EXPECT_FALSE(compared(Numbers(16, 0), 1).ordinary);
  // Scales are multiples of 2^-9: under the least, 6 stands for less than the largest magnitude.
  EXPECT_FALSE(compared(Numbers(16, 0x1.7p-17F), 1).ordinary);
  const sm90::SixOrFour scale{1, 1};
  const float nan = std::bit_cast<float>(0x7FC00000U);
  EXPECT_FALSE(sm90::is_ordinary(1, nan, scale, scale));
  EXPECT_FALSE(sm90::is_ordinary(nan, 1, scale, scale));
  EXPECT_EQ(sm90::stretch_of(1, nan, 1, 16), sm90::Stretch::by_definition);
  EXPECT_EQ(sm90::stretch_of(1, 1, 1, 16), sm90::Stretch::by_definition);
}

}  // namespace

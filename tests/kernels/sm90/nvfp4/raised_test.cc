// Codes with a constant on top, and Four Over Six by the errors of codes (kernels/sm90/nvfp4/raised.cuh), compiled for
// the host, against the definition.

#include "kernels/sm90/nvfp4/raised.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/sm90/common/four_over_six.cuh"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"

namespace {

using mxcheck::BlockScale, mxcheck::Format, mxcheck::OuterScale, mxcheck::Recipe;
namespace sm90 = mxcheck_kernels::sm90;
using Numbers = std::vector<float>;

std::uint32_t code_of(float m) {
  return mxcheck::encode(Format::e2m1, m, mxcheck::Rounding::nearest_even, mxcheck::Overflow::saturate, 0);
}

void expect_code(float m) {
  const std::uint32_t raised = sm90::raised_code(m);
  ASSERT_EQ(raised - sm90::kRaised, code_of(m)) << std::hexfloat << m;
  ASSERT_EQ(sm90::value_of_raised(raised), static_cast<float>(mxcheck::decode(Format::e2m1, code_of(m)))) << m;
}

TEST(RaisedCodes, are_the_codec_s) {
  for (const float tie : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F}) {
    for (const std::uint32_t by : {0xFFFFFFFFU, 0U, 1U})
      expect_code(std::bit_cast<float>(std::bit_cast<std::uint32_t>(tie) + by));
  }
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(7.0F); bits += 251) {
    expect_code(std::bit_cast<float>(bits));
    if (HasFatalFailure()) return;
  }
}

TEST(RaisedCodes, join_by_multiplications) {
  std::mt19937 random{1};
  for (int n = 0; n < 1000; ++n) {
    const auto codes = static_cast<std::uint32_t>(random());
    std::uint32_t sum = 0;
    for (int i = 7; i >= 0; --i) sum = sum * 16 + sm90::kRaised + (codes >> 4 * i & 7);
    ASSERT_EQ(sm90::lowered(sum, codes), codes);
    ASSERT_EQ(sm90::lowered(sum, codes & 0x88888888U), codes);
  }
}

// The definition's sums of squared errors, and those of codes.
struct Comparison {
  float four = 0, six = 0;
  float of_four = 0, of_six = 0;
  bool ordinary = false;
  bool same_codes = true;
  float a = 0;  // the largest magnitude in units of amax / 1536
  double unit = 0;
  int count = 0;

  [[nodiscard]] sm90::Stretch choice() const { return sm90::choice_by_codes(a, of_four, of_six, count); }
  // The difference of the differences, of the distance that is allowed.
  [[nodiscard]] double off() const {
    const double by = (double{four} - double{six}) / (unit * unit) - (double{of_four} - double{of_six});
    return std::fabs(by) / double{sm90::distance_of_codes(a, of_four, of_six, count)};
  }
};

class ErrorsOfCodes : public ::testing::Test {
 protected:
  [[nodiscard]] Comparison compared(const Numbers& x, float amax) const {
    Comparison c;
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::fabs(v));
    const OuterScale outer = mxcheck::outer_scale(recipe.two_level, 6, amax);
    c.count = static_cast<int>(x.size()), c.unit = double{amax} / 1536, c.a = largest * outer.encode;
    float factors[2] = {};
    for (const bool four : {false, true}) {
      const BlockScale scale = mxcheck::block_scale(recipe, Format::e2m1, {largest, false}, outer, four ? 1.5F : 1);
      const float factor = scale.scale == 0 ? 0 : 1 / (scale.scale * outer.decode);
      factors[four ? 1 : 0] = factor;
      if (!(largest * factor < 7)) return c;
      float parts[4] = {};
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t code = mxcheck::encode_element(recipe, Format::e2m1, scale, x[i], 0);
        const auto r = static_cast<float>(mxcheck::decode(Format::e2m1, code));
        (four ? c.four : c.six) += sm90::squared_error(x[i], r * scale.scale, amax);
        const float m = std::fabs(x[i]) * factor;
        const std::uint32_t raised = sm90::raised_code(m);
        c.same_codes = c.same_codes && raised - sm90::kRaised == (code & 7);
        parts[i % 4] = sm90::with_error(parts[i % 4], m, raised, 1U << 22);
      }
      (four ? c.of_four : c.of_six) = sm90::error_of_codes(scale.scale, (parts[0] + parts[2]) + (parts[1] + parts[3]));
    }
    c.ordinary = sm90::codes_may_decide(amax, largest, factors[1], factors[0]);
    return c;
  }

  void check(const Numbers& x, float amax) {
    const Comparison c = compared(x, amax);
    ++blocks;
    if (!c.ordinary) return;
    ASSERT_TRUE(c.same_codes);
    ASSERT_LT(c.off(), 1) << c.four << " " << c.six << " " << c.of_four << " " << c.of_six;
    if (c.choice() == sm90::Stretch::by_definition) return;
    ++decided;
    ASSERT_EQ(c.choice() == sm90::Stretch::four, c.four < c.six) << std::hexfloat << c.four << " " << c.six;
  }

  // Between two blocks, element by element, a block at which the definition changes its mind; none if it does not.
  [[nodiscard]] Numbers at_a_tie(const Numbers& from, const Numbers& to, float amax) const {
    const auto takes_four = [&](const Numbers& x) {
      const Comparison c = compared(x, amax);
      return c.four < c.six;
    };
    const bool first = takes_four(from);
    Numbers x = from;
    for (std::size_t i = 0; i < x.size(); ++i) {
      float same = x[i], other = to[i];
      x[i] = other;
      if (takes_four(x) == first) continue;
      for (int step = 0; step < 60; ++step) {
        x[i] = same + (other - same) / 2;
        if (x[i] == same || x[i] == other) break;
        (takes_four(x) == first ? same : other) = x[i];
      }
      x[i] = other;
      return x;
    }
    return {};
  }

  Numbers normal(std::size_t count, float scale, bool bf16) {
    std::normal_distribution<float> distribution;
    Numbers x(count);
    for (float& v : x) {
      v = scale * distribution(random);
      if (bf16) v = std::bit_cast<float>((std::bit_cast<std::uint32_t>(v) + 0x8000) & 0xFFFF0000);
    }
    return x;
  }

  Recipe recipe = mxcheck::any_recipe_named("nvfp4_46");
  std::mt19937 random{1};
  int blocks = 0, decided = 0;
};

TEST_F(ErrorsOfCodes, decide_as_defined_in_nearly_all_blocks) {
  for (const std::size_t count : {16U, 256U}) {
    for (const float amax : {1.0F, 0x1.43p-40F, 0x1.9p50F, 0x1p-56F, 0x1p56F}) {
      blocks = decided = 0;
      const int most = count == 16 ? 20000 : 2000;
      for (int n = 0; n < most; ++n) {
        check(normal(count, amax * (n % 7 == 0 ? 0.05F : 0.2F), n % 2 == 0), amax);
        if (HasFatalFailure()) return;
      }
      if (std::fabs(std::log2(amax)) < 55) {
        EXPECT_GT(decided, blocks - blocks / 100) << amax;
      }
    }
  }
}

TEST_F(ErrorsOfCodes, decide_as_defined_beside_a_tie) {
  int ties = 0;
  for (int n = 0; n < 3000; ++n) {
    const std::size_t count = n % 30 == 0 ? 256 : 16;
    const float amax = std::ldexp(1 + 0.25F * static_cast<float>(n % 4), n % 21 * 4 - 40);
    const Numbers tie = at_a_tie(normal(count, 0.2F * amax, n % 2 == 0), normal(count, 0.2F * amax, n % 2 == 0), amax);
    if (tie.empty()) continue;
    ++ties;
    for (int k = -60; k <= 60; ++k) {
      Numbers x = tie;
      const float by = k == 0 ? 0 : std::copysign(std::ldexp(1.0F, -std::abs(k) / 3 - 4), static_cast<float>(k));
      x[static_cast<std::size_t>(n) % count] *= 1 + by;
      check(x, amax);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(ties, 2000);
  EXPECT_GT(decided, blocks / 4);
  EXPECT_LT(decided, blocks);
}

// Under the smallest block scales, of which one may be 0: no error is that of a code then.
TEST_F(ErrorsOfCodes, decide_as_defined_where_a_scale_is_0) {
  int zeros = 0;
  for (int n = 0; n < 20000; ++n) {
    const float least = std::ldexp(6.0F / 2688, -10);  // the largest magnitude where the scale of 6 is half of 2^-9
    Numbers x = normal(n % 30 == 0 ? 256 : 16, least, n % 2 == 0);
    for (float& v : x) v = std::clamp(v, -2 * least, 2 * least);
    x[0] = least * std::ldexp(1.0F, n % 5 - 2);
    if (n % 3 == 0) std::fill(x.begin() + 1, x.end(), 0.0F);
    const int before = decided;
    check(x, 1);
    if (HasFatalFailure()) return;
    if (decided == before) ++zeros;
  }
  EXPECT_GT(decided, 1000);
  EXPECT_GT(zeros, 1000);
}

TEST(ChoiceByCodes, leaves_equal_sums_and_nan_open) {
  EXPECT_EQ(sm90::choice_by_codes(6, 1, 1, 16), sm90::Stretch::by_definition);
  EXPECT_EQ(sm90::choice_by_codes(6, std::bit_cast<float>(0x7FC00000U), 1, 16), sm90::Stretch::by_definition);
  EXPECT_EQ(sm90::choice_by_codes(6, 1, 2, 16), sm90::Stretch::four);
  EXPECT_EQ(sm90::choice_by_codes(6, 2, 1, 16), sm90::Stretch::six);
}

}  // namespace

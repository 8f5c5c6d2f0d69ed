// Intervals of steps without a promised order: no order of sums in FP32 is outside, whatever rounds, cuts or flushes on
// the way, and a sum that lacks a term is.

#include "reference/layer/any_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

float of_bf16(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }

// How a kernel computes: to nearest or toward zero, with or without subnormal operands and results.
struct Fp32Unit {
  bool cuts = false, flushes = false;
  [[nodiscard]] float in(float x) const { return flushes && std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }
  [[nodiscard]] float round(double exact) const {  // of one operation on FP32 numbers, exact in FP64 or nearly
    auto x = static_cast<float>(exact);
    if (cuts && std::fabs(double{x}) > std::fabs(exact)) x = std::nextafter(x, 0.0F);
    return in(x);
  }
};

struct Rows {
  AggregatedRows from;
  std::vector<std::uint16_t> y;
  std::vector<float> weights;
  std::vector<std::int64_t> token_offsets{0};
  std::vector<std::int32_t> token_rows;
  [[nodiscard]] TokenSlots slots() const { return {token_offsets, token_rows}; }

  // Tokens of 0, 1, 2 ... slots, some of which were dropped.
  Rows(std::int64_t tokens, std::int64_t cols, bool weighted, std::mt19937& random,
       const std::function<float()>& draw) {
    const std::int64_t rows = 3 * tokens;
    for (std::int64_t i = 0; i < rows * cols; ++i) y.push_back(layer_bf16(draw()));
    for (std::int64_t i = 0; weighted && i < rows; ++i) weights.push_back(draw());
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t slot = 0; slot < t; ++slot)
        token_rows.push_back(random() % 8 == 0 ? -1
                                               : static_cast<std::int32_t>(random() % static_cast<unsigned>(rows)));
      token_offsets.push_back(std::ssize(token_rows));
    }
    from = {y, rows, cols, weights};
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  // The products of an output.
  [[nodiscard]] std::vector<std::pair<float, float>> factors(std::int64_t token, std::int64_t col) const {
    std::vector<std::pair<float, float>> all;
    for (auto slot = token_offsets[static_cast<std::size_t>(token)];
         slot < token_offsets[static_cast<std::size_t>(token) + 1]; ++slot) {
      const std::int32_t row = token_rows[static_cast<std::size_t>(slot)];
      if (row < 0) continue;
      all.emplace_back(weights.empty() ? 1 : weights[static_cast<std::size_t>(row)],
                       of_bf16(y[static_cast<std::size_t>(row * from.cols + col)]));
    }
    return all;
  }
};

// In a random order and grouping; products rounded before they are added, or not (where FP64 holds them).
std::uint16_t any_sum(std::vector<std::pair<float, float>> factors, const Fp32Unit& unit, bool fused,
                      std::mt19937& random) {
  std::shuffle(factors.begin(), factors.end(), random);
  std::vector<float> parts(1 + random() % 3, 0.0F);
  for (const auto& [w, y] : factors) {
    float& acc = parts[random() % parts.size()];
    const double product = double{unit.in(w)} * double{unit.in(y)};
    acc = unit.round(double{acc} + (fused ? product : double{unit.round(product)}));
  }
  for (std::size_t i = 1; i < parts.size(); ++i) parts[0] = unit.round(double{parts[0]} + double{parts[i]});
  return layer_bf16(parts[0]);
}

class AggregateRanges : public testing::TestWithParam<int> {};

TEST_P(AggregateRanges, hold_every_order_that_rounds_cuts_or_flushes) {
  const int spread = GetParam();
  std::mt19937 random(static_cast<unsigned>(spread) + 1);
  std::normal_distribution<float> normal;
  for (const bool weighted : {false, true}) {
    const Rows rows(18, 9, weighted, random, [&] {
      const int exponent =
          spread < 0 ? spread : static_cast<int>(random() % static_cast<unsigned>(spread + 1)) - spread / 2;
      return std::ldexp(normal(random), exponent);
    });
    const std::vector<OutputRange> ranges = aggregate_ranges(rows.from, rows.slots());
    const std::vector<std::uint16_t> own = aggregate(rows.from, rows.slots());
    for (std::size_t at = 0; at < own.size(); ++at) {
      ASSERT_TRUE(ranges[at].holds(Format::bf16, own[at])) << at;
      const auto factors = rows.factors(static_cast<std::int64_t>(at) / 9, static_cast<std::int64_t>(at) % 9);
      for (int n = 0; n < 64; ++n) {
        const Fp32Unit unit{(n & 1) != 0, (n & 2) != 0};
        const std::uint16_t sum = any_sum(factors, unit, (n & 4) != 0, random);
        ASSERT_TRUE(ranges[at].holds(Format::bf16, sum)) << at << ": " << of_bf16(sum) << ", " << to_text(ranges[at]);
      }
    }
  }
}

// Exponents that differ by so much; below 0: all about this one, so that products are subnormal.
INSTANTIATE_TEST_SUITE_P(Spreads, AggregateRanges, testing::Values(0, 4, 12, 24, -63, -66, -126, -130));

TEST(AggregateRanges, lack_sums_without_a_term_or_with_another_weight_and_sums_in_bf16) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const Rows rows(12, 64, true, random, [&] { return normal(random); });
  const std::vector<OutputRange> ranges = aggregate_ranges(rows.from, rows.slots());
  int less = 0, other = 0, coarse = 0, all = 0;
  for (std::size_t at = 0; at < ranges.size(); ++at) {
    auto factors = rows.factors(static_cast<std::int64_t>(at) / 64, static_cast<std::int64_t>(at) % 64);
    if (factors.size() < 3) continue;
    ++all;
    float bf16 = 0;
    for (const auto& [w, y] : factors) bf16 = of_bf16(layer_bf16(std::fma(w, y, bf16)));
    coarse += ranges[at].holds(Format::bf16, layer_bf16(bf16)) ? 0 : 1;
    std::swap(factors[0].first, factors[1].first);
    other += ranges[at].holds(Format::bf16, any_sum(factors, {}, true, random)) ? 0 : 1;
    std::swap(factors[0].first, factors[1].first);
    factors.pop_back();
    less += ranges[at].holds(Format::bf16, any_sum(factors, {}, true, random)) ? 0 : 1;
  }
  EXPECT_GT(less, all * 97 / 100);
  EXPECT_GT(other, all * 80 / 100);  // one token has a row twice
  EXPECT_GT(coarse, all / 4);
}

TEST(AggregateRanges, are_points_where_nothing_can_be_rounded_and_open_where_sums_may_overflow) {
  std::mt19937 random(4);
  const Rows integers(9, 5, true, random, [&] { return static_cast<float>(random() % 8); });
  for (const OutputRange& range : aggregate_ranges(integers.from, integers.slots())) EXPECT_TRUE(range.is_point());
  const auto one = [](float w, float y, float y2) {
    const std::vector<std::uint16_t> rows{layer_bf16(y), layer_bf16(y2)};
    const std::vector<float> weights{w, 1};
    const std::vector<std::int64_t> offsets{0, 2};
    const std::vector<std::int32_t> of{0, 1};
    return aggregate_ranges({rows, 2, 1, weights}, {offsets, of})[0];
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(one(0x1p100F, 0x1p27F, -0x1p127F).unbounded);
  EXPECT_TRUE(one(0, inf, 1).is_nan);
  EXPECT_TRUE(one(1, inf, -inf).is_nan);
  EXPECT_TRUE(one(std::nanf(""), 1, 1).is_nan);
  EXPECT_EQ(one(-1, inf, 1).high, -inf);
  const OutputRange flushed = one(1, 0x1p-130F, 0);
  EXPECT_TRUE(flushed.high >= 0x1p-130 && flushed.low <= 0);
}

TEST(AggregateRanges, exact_sums_have_the_magnitudes_of_their_terms) {
  std::mt19937 random(5);
  const Rows rows(9, 5, true, random, [&] { return static_cast<float>(random() % 16) - 8; });
  const std::vector<std::uint16_t> own = aggregate(rows.from, rows.slots());
  for (std::int64_t t = 0; t < 9; ++t) {
    for (std::int64_t j = 0; j < 5; ++j) {
      double magnitude = 0, sum = 0;
      for (const auto& [w, y] : rows.factors(t, j)) magnitude += std::fabs(w * y), sum += w * y;
      const ExactOutput exact = exact_aggregate(rows.from, rows.slots(), t, j);
      EXPECT_EQ(exact.value, sum);
      EXPECT_EQ(exact.magnitude, magnitude);
      EXPECT_EQ(of_bf16(own[static_cast<std::size_t>(5 * t + j)]), of_bf16(layer_bf16(static_cast<float>(sum))));
    }
  }
  EXPECT_THROW((void)exact_aggregate({rows.y, 1, 5, {}}, rows.slots(), 0, 0), Error);
}

}  // namespace
}  // namespace mxcheck

// exp and log1p of the Hopper library's routers, compiled for the host, are correctly rounded: every
// MXCHECK_ROUTE_STEP-th of the FP32 numbers of their domains, all of them where it is 1 (label exhaustive).

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>

#include "kernels/sm90/route/router_math.cuh"
#include "numerics/elementary/elementary.h"
#include "tests/kernels/sm90/route/router_words.h"

namespace {

using mxcheck_kernels::sm90::test::bits;
using mxcheck_kernels::sm90::test::kStep;

// The number of arguments from `first` to `last` whose results differ; one of them goes to `example`.
template <class Mine, class Model>
std::uint64_t differing(std::uint32_t first, std::uint32_t last, const Mine& mine, const Model& model, float* example) {
  std::uint64_t count = 0;
  for (std::uint64_t word = first; word <= last; word += kStep) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    if (bits(mine(x)) == bits(model(x))) continue;
    ++count, *example = x;
  }
  return count;
}

template <class Mine, class Model>
void expect_equal(std::uint32_t first, std::uint32_t last, const Mine& mine, const Model& model) {
  const std::uint32_t middle = first + (last - first) / 2;
  float examples[2] = {};
  std::uint64_t counts[2] = {};
  std::thread lower([&] { counts[0] = differing(first, middle, mine, model, &examples[0]); });
  counts[1] = differing(middle + 1, last, mine, model, &examples[1]);
  lower.join();
  EXPECT_EQ(counts[0], 0U) << "at " << std::hexfloat << examples[0];
  EXPECT_EQ(counts[1], 0U) << "at " << std::hexfloat << examples[1];
}

TEST(Sm90RouteMath, exp_of_what_is_not_positive_is_correctly_rounded) {
  expect_equal(bits(-0.0F), bits(-std::numeric_limits<float>::infinity()), mxcheck_kernels::sm90::exp_rn,
               mxcheck::exp_rn);
  EXPECT_EQ(bits(mxcheck_kernels::sm90::exp_rn(0.0F)), bits(1.0F));
  // The odd multiples of 2^-25 lie next to the middle of two numbers.
  for (int n = 1; n < 40000; ++n) {
    const float x = -static_cast<float>(n) * 0x1p-25F;
    ASSERT_EQ(bits(mxcheck_kernels::sm90::exp_rn(x)), bits(mxcheck::exp_rn(x))) << std::hexfloat << x;
  }
}

// By how much, relative to it, a score of a smaller argument is above that of a larger one.
template <class Score>
double most_above(const Score& score) {
  constexpr std::uint64_t kStep = std::max<std::uint64_t>(MXCHECK_ROUTE_STEP, 8);
  double most = 0;
  float largest = 0;
  const auto look = [&](std::uint32_t word) {
    const float s = score(std::bit_cast<float>(word));
    if (s < largest) most = std::max(most, (double{largest} - s) / s);
    largest = std::max(largest, s);
  };
  for (std::uint64_t word = bits(-120.0F); word >= bits(-0.0F); word -= std::min(kStep, word)) {
    look(static_cast<std::uint32_t>(word));
  }
  for (std::uint64_t word = 0; word <= bits(120.0F); word += kStep) look(static_cast<std::uint32_t>(word));
  return most;
}

TEST(Sm90RouteMath, scores_are_nearly_monotonic) {
  using namespace mxcheck_kernels::sm90;
  EXPECT_LT(most_above(mxcheck_kernels::sm90::sigmoid), kNearlyMonotonic / 4);
  EXPECT_LT(most_above(mxcheck_kernels::sm90::sqrtsoftplus), kNearlyMonotonic / 4);
  // Neighbours need the bound: among a million from -2 on, a larger one has a smaller score.
  int inversions = 0;
  for (std::uint32_t word = bits(-2.0F); word > bits(-2.0F) - (1U << 20); --word) {
    inversions += mxcheck_kernels::sm90::sigmoid(std::bit_cast<float>(word - 1)) <
                  mxcheck_kernels::sm90::sigmoid(std::bit_cast<float>(word));
  }
  EXPECT_GT(inversions, 0);
}

// -104 is just below half the smallest subnormal.
TEST(Sm90RouteMath, exp_is_correctly_rounded_where_results_end) {
  for (const float end : {-87.33655F, -103.27893F, -103.97208F}) {
    for (std::uint32_t word = bits(end) - 5000; word < bits(end) + 5000; ++word) {
      const float x = std::bit_cast<float>(word);
      ASSERT_EQ(bits(mxcheck_kernels::sm90::exp_rn(x)), bits(mxcheck::exp_rn(x))) << std::hexfloat << x;
    }
  }
}

TEST(Sm90RouteMath, log1p_from_0_to_1_is_correctly_rounded) {
  expect_equal(bits(0.0F), bits(1.0F), mxcheck_kernels::sm90::log1p_rn, mxcheck::log1p_rn);
}

// FP64 cannot tell the first two from the middle of two numbers; the third decides a bit of the table.
TEST(Sm90RouteMath, the_hardest_arguments_of_log1p_are_correctly_rounded) {
  for (const float x : {0x1.800006p-21F, 0x1.200036p-17F, 0x1.fb035ap-2F}) {
    EXPECT_EQ(bits(mxcheck_kernels::sm90::log1p_rn(x)), bits(mxcheck::log1p_rn(x))) << std::hexfloat << x;
  }
}

TEST(Sm90RouteMath, a_nan_counts_as_0) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {mxcheck_kernels::sm90::exp_rn(nan), mxcheck_kernels::sm90::sigmoid(nan),
                        mxcheck_kernels::sm90::sqrtsoftplus(nan)}) {
    EXPECT_EQ(bits(x), 0U);
  }
}

TEST(Sm90RouteMath, scores_of_what_has_none_between) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(mxcheck_kernels::sm90::sigmoid(infinity), 1.0F);
  EXPECT_EQ(bits(mxcheck_kernels::sm90::sigmoid(-infinity)), 0U);
  EXPECT_EQ(mxcheck_kernels::sm90::sigmoid(-0.0F), 0.5F);
  EXPECT_EQ(mxcheck_kernels::sm90::sqrtsoftplus(infinity), infinity);
  EXPECT_EQ(bits(mxcheck_kernels::sm90::sqrtsoftplus(-infinity)), 0U);
}

}  // namespace

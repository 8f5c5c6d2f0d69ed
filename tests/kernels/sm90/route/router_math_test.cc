// Arithmetic of the Hopper library's routers, compiled for the host, is correctly rounded: exp and log1p; exp_near
// where NearCheck passes; quotients from whatever the hardware takes for a reciprocal. Every MXCHECK_ROUTE_STEP-th of
// the FP32 numbers of their domains, all of them where it is 1 (label exhaustive).

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>

#include "kernels/sm90/route/near_math.cuh"
#include "kernels/sm90/route/router_math.cuh"
#include "numerics/elementary/elementary.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::uint64_t kStep = MXCHECK_ROUTE_STEP;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

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
  expect_equal(bits(-0.0F), bits(-std::numeric_limits<float>::infinity()), exp_rn, mxcheck::exp_rn);
  EXPECT_EQ(bits(exp_rn(0.0F)), bits(1.0F));
  // The odd multiples of 2^-25 lie next to the middle of two numbers.
  for (int n = 1; n < 40000; ++n) {
    const float x = -static_cast<float>(n) * 0x1p-25F;
    ASSERT_EQ(bits(exp_rn(x)), bits(mxcheck::exp_rn(x))) << std::hexfloat << x;
  }
}

// By how much, relative to it, a score of a smaller argument is above that of a larger one.
template <class Score>
double most_above(const Score& score) {
  constexpr std::uint64_t kEighth = std::max<std::uint64_t>(kStep, 8);
  double most = 0;
  float largest = 0;
  const auto look = [&](std::uint32_t word) {
    const float s = score(std::bit_cast<float>(word));
    if (s < largest) most = std::max(most, (double{largest} - s) / s);
    largest = std::max(largest, s);
  };
  for (std::uint64_t word = bits(-120.0F); word >= bits(-0.0F); word -= std::min(kEighth, word)) {
    look(static_cast<std::uint32_t>(word));
  }
  for (std::uint64_t word = 0; word <= bits(120.0F); word += kEighth) look(static_cast<std::uint32_t>(word));
  return most;
}

TEST(Sm90RouteMath, scores_are_nearly_monotonic) {
  EXPECT_LT(most_above(sigmoid), kNearlyMonotonic / 4);
  EXPECT_LT(most_above(sqrtsoftplus), kNearlyMonotonic / 4);
  // Neighbours need the bound: among a million from -2 on, a larger one has a smaller score.
  int inversions = 0;
  for (std::uint32_t word = bits(-2.0F); word > bits(-2.0F) - (1U << 20); --word) {
    inversions += sigmoid(std::bit_cast<float>(word - 1)) < sigmoid(std::bit_cast<float>(word));
  }
  EXPECT_GT(inversions, 0);
}

// -104 is just below half the smallest subnormal.
TEST(Sm90RouteMath, exp_is_correctly_rounded_where_results_end) {
  for (const float end : {-87.33655F, -103.27893F, -103.97208F}) {
    for (std::uint32_t word = bits(end) - 5000; word < bits(end) + 5000; ++word) {
      const float x = std::bit_cast<float>(word);
      ASSERT_EQ(bits(exp_rn(x)), bits(mxcheck::exp_rn(x))) << std::hexfloat << x;
    }
  }
}

TEST(Sm90RouteMath, log1p_from_0_to_1_is_correctly_rounded) {
  expect_equal(bits(0.0F), bits(1.0F), log1p_rn, mxcheck::log1p_rn);
}

// FP64 cannot tell the first two from the middle of two numbers; the third decides a bit of the table.
TEST(Sm90RouteMath, the_hardest_arguments_of_log1p_are_correctly_rounded) {
  for (const float x : {0x1.800006p-21F, 0x1.200036p-17F, 0x1.fb035ap-2F}) {
    EXPECT_EQ(bits(log1p_rn(x)), bits(mxcheck::log1p_rn(x))) << std::hexfloat << x;
  }
}

TEST(Sm90RouteMath, a_nan_counts_as_0) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {exp_rn(nan), sigmoid(nan), sqrtsoftplus(nan)}) EXPECT_EQ(bits(x), 0U);
}

TEST(Sm90RouteMath, scores_of_what_has_none_between) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sigmoid(infinity), 1.0F);
  EXPECT_EQ(bits(sigmoid(-infinity)), 0U);
  EXPECT_EQ(sigmoid(-0.0F), 0.5F);
  EXPECT_EQ(sqrtsoftplus(infinity), infinity);
  EXPECT_EQ(bits(sqrtsoftplus(-infinity)), 0U);
}

// --- exp_near

struct Near {
  float exp;
  bool right;  // says NearCheck
};
template <int kBits>
Near near(float a) {
  NearWords words;
  NearCheck check;
  const float exp = exp_near(a, near_roots(), words);
  check.add(words, words);
  return {exp, check.passes<kBits>()};
}

// Counts over the arguments from `first` to `last`: results that differ, one of whose arguments is the example, and
// arguments that are left to exp_rn.
struct Count {
  std::uint64_t differing = 0, left = 0;
  float example = 0;
};
Count count(std::uint64_t first, std::uint64_t last) {
  Count c;
  for (std::uint64_t word = first; word <= last; word += kStep) {
    const float a = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    const Near mine = near<12>(a);
    c.left += mine.right ? 0 : 1;
    if (!mine.right || bits(mine.exp) == bits(mxcheck::exp_rn(-a))) continue;
    ++c.differing, c.example = a;
  }
  return c;
}

constexpr float kLargest = 87.3F;  // of 12 bits

TEST(Sm90RouteExpNear, is_correctly_rounded_and_leaves_few_to_others) {
  const std::uint64_t last = bits(kLargest);
  Count counts[2];
  std::thread lower([&] { counts[0] = count(0, last / 2); });
  counts[1] = count(last / 2 + 1, last);
  lower.join();
  EXPECT_EQ(counts[0].differing, 0U) << "at " << std::hexfloat << counts[0].example;
  EXPECT_EQ(counts[1].differing, 0U) << "at " << std::hexfloat << counts[1].example;
  EXPECT_LT(counts[0].left + counts[1].left, 60U);
}

TEST(Sm90RouteExpNear, ends_of_its_domain) {
  for (const float a : {0.0F, std::bit_cast<float>(1U), 0x1p-126F, kLargest}) {
    EXPECT_TRUE(near<12>(a).right) << std::hexfloat << a;
    EXPECT_EQ(bits(near<12>(a).exp), bits(mxcheck::exp_rn(-a))) << std::hexfloat << a;
  }
  EXPECT_GE(near<12>(kLargest).exp, 0x1p-126F);
  EXPECT_TRUE(near<11>(42.9F).right);
  EXPECT_GE(near<11>(42.9F).exp, 0x1p-62F);
}

// One too large among others is told: its bits are not those of the others.
TEST(Sm90RouteExpNear, what_is_too_large_is_told) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float a : {87.4F, 88.0F, 1e3F, 1e7F, 3e38F, kInf, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(near<12>(a).right) << a;
  }
  for (std::uint64_t word = bits(87.4F); word <= bits(kInf); word += 99991) {
    ASSERT_FALSE(near<12>(std::bit_cast<float>(static_cast<std::uint32_t>(word))).right) << std::hex << word;
  }
  for (const float a : {43.1F, 50.0F, 87.0F, kInf}) EXPECT_FALSE(near<11>(a).right) << a;
  NearCheck check;
  NearWords words[2];
  exp_near(1.0F, near_roots(), words[0]), exp_near(100.0F, near_roots(), words[1]);
  check.add(words[1], words[0]);
  EXPECT_FALSE(check.passes<12>());
}

// Where FP32 finds one step too few, so that the product is below 1.
TEST(Sm90RouteExpNear, next_above_multiples_of_ln_2_the_exact_one_is_asked) {
  EXPECT_FALSE(near<12>(0x1.62e43p+3F).right);
  EXPECT_NE(bits(near<12>(0x1.62e43p+3F).exp), bits(mxcheck::exp_rn(-0x1.62e43p+3F)));
}

// The odd multiples of 2^-25 lie next to the middle of two numbers.
TEST(Sm90RouteExpNear, next_to_the_middle_of_two_numbers) {
  for (int n = 1; n < 40000; ++n) {
    const float a = static_cast<float>(n) * 0x1p-25F;
    if (!near<12>(a).right) continue;
    ASSERT_EQ(bits(near<12>(a).exp), bits(mxcheck::exp_rn(-a))) << std::hexfloat << a;
  }
}

// Where n changes.
TEST(Sm90RouteExpNear, next_to_multiples_of_a_step) {
  for (int n = 1; n < 4000; ++n) {
    const std::uint32_t middle = bits(static_cast<float>(n * 0x1.62e42fefa39efp-6));
    for (std::uint32_t word = middle - 3; word <= middle + 3; ++word) {
      const float a = std::bit_cast<float>(word);
      if (!near<12>(a).right) continue;
      ASSERT_EQ(bits(near<12>(a).exp), bits(mxcheck::exp_rn(-a))) << std::hexfloat << a;
    }
  }
}

// --- quotients; those of sigmoid are of exponentials from 2^-62 to 1

// a / d from the reciprocal and its neighbours.
void expect_quotient(float a, float d) {
  const std::uint32_t reciprocal = bits(1.0F / d);
  for (std::uint32_t word = reciprocal - 1; word <= reciprocal + 1; ++word) {
    const float inverse = nearer_reciprocal(d, std::bit_cast<float>(word));
    ASSERT_EQ(bits(quotient_near(a, d, inverse)), bits(a / d)) << std::hexfloat << a << " / " << d << " " << word;
  }
}

TEST(Sm90RouteQuotient, of_sigmoid) {
  for (std::uint64_t word = bits(0x1p-62F); word <= bits(1.0F); word += kStep) {
    const float e = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    expect_quotient(e, 1.0F + e);
    if (HasFatalFailure()) return;
  }
}

TEST(Sm90RouteQuotient, of_one_by_all_numbers_from_1_to_2) {
  for (std::uint32_t word = bits(1.0F); word <= bits(2.0F); ++word) {
    expect_quotient(1.0F, std::bit_cast<float>(word));
    if (HasFatalFailure()) return;
  }
}

// Quotients of softmax: a multiplicative sequence brings up all bits of both operands.
TEST(Sm90RouteQuotient, of_numbers_up_to_1_by_numbers_up_to_4096) {
  std::uint64_t state = 1;
  for (int i = 0; i < 2000000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto a = bits(0x1p-62F) + static_cast<std::uint32_t>((state >> 33U) % (bits(1.0F) - bits(0x1p-62F) + 1));
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto d = bits(1.0F) + static_cast<std::uint32_t>((state >> 33U) % (bits(4096.0F) - bits(1.0F) + 1));
    const auto x = std::bit_cast<float>(a);
    const auto y = std::bit_cast<float>(d);
    ASSERT_EQ(bits(quotient_near(x, y, 1.0F / y)), bits(x / y)) << std::hexfloat << x << " / " << y;
  }
}

}  // namespace
}  // namespace mxcheck_kernels::sm90

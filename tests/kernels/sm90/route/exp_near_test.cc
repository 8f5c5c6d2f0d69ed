// exp_near of the Hopper library's routers, compiled for the host, is correctly rounded where NearCheck passes: every
// MXCHECK_ROUTE_STEP-th of the FP32 numbers of its domain, all of them where it is 1 (label exhaustive).

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <thread>

#include "kernels/sm90/route/near_math.cuh"
#include "numerics/elementary/elementary.h"
#include "tests/kernels/sm90/route/router_words.h"

namespace mxcheck_kernels::sm90 {
namespace {

using test::bits;
using test::kStep;

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
  std::uint64_t differing = 0;
  std::uint64_t left = 0;
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

}  // namespace
}  // namespace mxcheck_kernels::sm90

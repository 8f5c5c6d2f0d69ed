// exp_near of the Hopper library's routers, compiled for the host, is correctly rounded: every MXCHECK_ROUTE_STEP-th of
// the FP32 numbers of its domain, all of them where it is 1 (label exhaustive).

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <thread>

#include "kernels/sm90/route/row/exp_near.cuh"
#include "numerics/elementary/elementary.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::uint64_t kStep = MXCHECK_ROUTE_STEP;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
float near(float a) { return exp_near(a, elementary::kRoots32); }

// The number of arguments from `first` to `last` whose results differ; one of them goes to `example`.
std::uint64_t differing(std::uint64_t first, std::uint64_t last, float* example) {
  std::uint64_t count = 0;
  for (std::uint64_t word = first; word <= last; word += kStep) {
    const float a = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    if (bits(near(a)) == bits(mxcheck::exp_rn(-a))) continue;
    ++count, *example = a;
  }
  return count;
}

TEST(Sm90RouteExpNear, is_correctly_rounded) {
  const std::uint64_t last = bits(kNear);
  float examples[2] = {};
  std::uint64_t counts[2] = {};
  std::thread lower([&] { counts[0] = differing(0, last / 2, &examples[0]); });
  counts[1] = differing(last / 2 + 1, last, &examples[1]);
  lower.join();
  EXPECT_EQ(counts[0], 0U) << "at " << std::hexfloat << examples[0];
  EXPECT_EQ(counts[1], 0U) << "at " << std::hexfloat << examples[1];
}

TEST(Sm90RouteExpNear, ends_of_its_domain) {
  EXPECT_EQ(bits(near(0.0F)), bits(1.0F));
  EXPECT_EQ(bits(near(std::bit_cast<float>(1U))), bits(1.0F));
  EXPECT_EQ(bits(near(0x1p-126F)), bits(1.0F));
  EXPECT_EQ(bits(near(kNear)), bits(mxcheck::exp_rn(-kNear)));
  EXPECT_GE(near(kNear), 0x1p-126F);
}

// The odd multiples of 2^-25 lie next to the middle of two numbers.
TEST(Sm90RouteExpNear, next_to_the_middle_of_two_numbers) {
  for (int n = 1; n < 40000; ++n) {
    const float a = static_cast<float>(n) * 0x1p-25F;
    ASSERT_EQ(bits(near(a)), bits(mxcheck::exp_rn(-a))) << std::hexfloat << a;
  }
}

// Where k changes.
TEST(Sm90RouteExpNear, next_to_multiples_of_a_step) {
  for (int n = 1; n < 4000; ++n) {
    const std::uint32_t middle = bits(static_cast<float>(n * 0x1.62e42fefa39efp-6));
    for (std::uint32_t word = middle - 3; word <= middle + 3; ++word) {
      const float a = std::bit_cast<float>(word);
      ASSERT_EQ(bits(near(a)), bits(mxcheck::exp_rn(-a))) << std::hexfloat << a;
    }
  }
}

}  // namespace
}  // namespace mxcheck_kernels::sm90

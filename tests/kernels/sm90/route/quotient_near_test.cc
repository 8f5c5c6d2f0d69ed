// Quotients of the Hopper library's routers, compiled for the host, are correctly rounded from whatever the hardware
// takes for a reciprocal: those of sigmoid for every MXCHECK_ROUTE_STEP-th exponential from 2^-62 to 1, all of them
// where it is 1 (label exhaustive).

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "kernels/sm90/route/near_math.cuh"
#include "tests/kernels/sm90/route/router_words.h"

namespace mxcheck_kernels::sm90 {
namespace {

using test::bits;
using test::kStep;

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

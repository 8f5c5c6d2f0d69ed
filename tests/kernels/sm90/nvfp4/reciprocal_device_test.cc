// Reciprocals of the Hopper library against the device's own, of every mantissa with exponents from end to end. Needs a
// GPU; without one every test is skipped.

#include <gtest/gtest.h>

#include <ios>

#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/nvfp4/reciprocal_device.h"

namespace mxcheck::test {
namespace {

using Sm90Nvfp4ReciprocalOnDevice = DeviceTest;

TEST_F(Sm90Nvfp4ReciprocalOnDevice, is_that_of_the_division_for_every_mantissa) {
  for (const int exponent : {-125, -109, -64, -3, -2, -1, 0, 1, 2, 3, 64, 108, 124}) {
    ReciprocalCount count;
    ASSERT_EQ(count_reciprocals(exponent, count), cudaSuccess);
    EXPECT_EQ(count.differing, 0U) << "2^" << exponent << ": " << std::hex << count.example;
    EXPECT_EQ(count.far, 0U) << "2^" << exponent;
  }
}

}  // namespace
}  // namespace mxcheck::test

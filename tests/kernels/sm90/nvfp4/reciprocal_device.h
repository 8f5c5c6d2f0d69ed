#pragma once
// Reciprocals of the Hopper library on a device, compared there.

#include <cstdint>

#include <cuda_runtime_api.h>

namespace mxcheck::test {

// Counts over the 2^23 numbers of one binade.
struct ReciprocalCount {
  std::uint32_t differing = 0;  // numbers whose reciprocal is not the device's own, rounded to nearest
  std::uint32_t example = 0;    // the bits of one of them, the largest
  std::uint32_t far = 0;        // numbers whose approximate reciprocal is more than an ulp off
};

cudaError_t count_reciprocals(int exponent, ReciprocalCount& count);

}  // namespace mxcheck::test

#pragma once
// The terms of a digest: docs/training.md, "Digest". For the host and the device.

#include <cstdint>

#ifdef __CUDACC__
  #define MXCHECK_DIGEST __host__ __device__ constexpr
#else
  #define MXCHECK_DIGEST constexpr
#endif

namespace mxcheck_kernels::sm90 {

// The finalizer of SplitMix64.
MXCHECK_DIGEST std::uint64_t digest_mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

MXCHECK_DIGEST std::uint64_t digest_term(std::uint64_t index, std::uint64_t word) {
  return digest_mix(digest_mix(index + 1) ^ word);
}

}  // namespace mxcheck_kernels::sm90

#pragma once
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC 2011), for two libraries:
// the words of token rounding (route/), and of stochastic rounding in layers (moe/).

#include <cstdint>

#ifdef __CUDACC__
  #define MXCHECK_HOST_DEVICE __host__ __device__
#else
  #define MXCHECK_HOST_DEVICE
#endif

namespace mxcheck_kernels::sm90 {

// Word 0 for the counter (c0, c1, c2, c3) and the key `seed`, low half first.
MXCHECK_HOST_DEVICE inline std::uint32_t philox_word(std::uint64_t seed, std::uint32_t c0, std::uint32_t c1,
                                                     std::uint32_t c2, std::uint32_t c3) {
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32U) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32U) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U, k1 += 0xBB67AE85U;
  }
  return c0;
}

}  // namespace mxcheck_kernels::sm90

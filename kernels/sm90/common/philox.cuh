#pragma once
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC 2011): the words of token
// rounding (route/), of stochastic rounding in layers (moe/) and in quantization (nvfp4/).
//
// philox_word() is for a single counter. A kernel with many has the keys of all rounds beside its arguments
// (philox_keys), where they are operands of its instructions, and once for all counters (i, c1, c2, c3) of the same c1,
// c2 and c3 a PhiloxSeries:
//
//   const PhiloxSeries series = philox_series(keys, c1, c2, c3);
//   for (...) use(philox_word(keys, series, i));
//
// Where the counters are equally far apart, so are philox_product(), and philox_words() takes that in place of i.
//
// In the first two rounds one product each is common to them, and of the last three products less is needed: 14 whole
// products are left of 20, and three halves.

#include <cstdint>

#ifdef __CUDACC__
  #define MXCHECK_HOST_DEVICE __host__ __device__
#else
  #define MXCHECK_HOST_DEVICE
#endif

namespace mxcheck_kernels::sm90 {

inline constexpr std::uint32_t kPhiloxFirst = 0xD2511F53U;
inline constexpr std::uint32_t kPhiloxSecond = 0xCD9E8D57U;

struct PhiloxKeys {
  std::uint32_t k[20];  // two a round
};

MXCHECK_HOST_DEVICE inline PhiloxKeys philox_keys(std::uint64_t seed) {
  PhiloxKeys keys{};
  auto low = static_cast<std::uint32_t>(seed);
  auto high = static_cast<std::uint32_t>(seed >> 32U);
#ifdef __CUDACC__
  #pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    keys.k[2 * round] = low, keys.k[2 * round + 1] = high;
    low += 0x9E3779B9U, high += 0xBB67AE85U;
  }
  return keys;
}

struct PhiloxWords {
  std::uint32_t w[4];
};

// Rounds from `begin` on, of the words that the one before has left.
MXCHECK_HOST_DEVICE inline PhiloxWords philox_rounds(const PhiloxKeys& keys, int begin, PhiloxWords c) {
#ifdef __CUDACC__
  #pragma unroll
#endif
  for (int round = begin; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxFirst} * c.w[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxSecond} * c.w[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32U) ^ c.w[1] ^ keys.k[2 * round], static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32U) ^ c.w[3] ^ keys.k[2 * round + 1], static_cast<std::uint32_t>(p0)}};
  }
  return c;
}

// Word 0 for the counter (c0, c1, c2, c3) and the key `seed`, low half first.
MXCHECK_HOST_DEVICE inline std::uint32_t philox_word(std::uint64_t seed, std::uint32_t c0, std::uint32_t c1,
                                                     std::uint32_t c2, std::uint32_t c3) {
  return philox_rounds(philox_keys(seed), 0, {{c0, c1, c2, c3}}).w[0];
}

// The first two rounds' words of counters (i, c1, c2, c3): with the product p of i and the first factor,
//
//   after the first round   c0 and c1 are common, c2 = p's upper half ^ upper, c3 = p's lower half
//   after the second        c0 = the upper half of c2's product ^ first, c1 = its lower half,
//                           c2 = p's lower half ^ lower, c3 = last
struct PhiloxSeries {
  std::uint32_t upper, first, lower, last;
};

MXCHECK_HOST_DEVICE inline PhiloxSeries philox_series(const PhiloxKeys& keys, std::uint32_t c1, std::uint32_t c2,
                                                      std::uint32_t c3) {
  const std::uint64_t p1 = std::uint64_t{kPhiloxSecond} * c2;
  const std::uint32_t c0 = static_cast<std::uint32_t>(p1 >> 32U) ^ c1 ^ keys.k[0];
  const std::uint64_t p0 = std::uint64_t{kPhiloxFirst} * c0;
  return {c3 ^ keys.k[1], static_cast<std::uint32_t>(p1) ^ keys.k[2], static_cast<std::uint32_t>(p0 >> 32U) ^ keys.k[3],
          static_cast<std::uint32_t>(p0)};
}

// The first factor times i. That of i + k is philox_product(i) + philox_product(k), as long as i + k is below 2^32.
MXCHECK_HOST_DEVICE inline std::uint64_t philox_product(std::uint32_t i) { return std::uint64_t{kPhiloxFirst} * i; }

MXCHECK_HOST_DEVICE inline PhiloxWords philox_words(const PhiloxKeys& keys, const PhiloxSeries& series,
                                                    std::uint64_t product) {
  const std::uint64_t p1 = std::uint64_t{kPhiloxSecond} * (static_cast<std::uint32_t>(product >> 32U) ^ series.upper);
  return philox_rounds(keys, 2,
                       {{static_cast<std::uint32_t>(p1 >> 32U) ^ series.first, static_cast<std::uint32_t>(p1),
                         static_cast<std::uint32_t>(product) ^ series.lower, series.last}});
}
MXCHECK_HOST_DEVICE inline PhiloxWords philox_words(const PhiloxKeys& keys, const PhiloxSeries& series,
                                                    std::uint32_t i) {
  return philox_words(keys, series, philox_product(i));
}
MXCHECK_HOST_DEVICE inline std::uint32_t philox_word(const PhiloxKeys& keys, const PhiloxSeries& series,
                                                     std::uint32_t i) {
  return philox_words(keys, series, i).w[0];
}

}  // namespace mxcheck_kernels::sm90

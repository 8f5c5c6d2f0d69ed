// Random words of the Hopper libraries (kernels/sm90/common/philox.cuh), compiled for the host, against the
// definition's.

#include "kernels/sm90/common/philox.cuh"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "numerics/elementary/elementary.h"

namespace {

namespace sm90 = mxcheck_kernels::sm90;

TEST(Philox, has_the_definition_s_words) {
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::uint64_t seed = 0x9E3779B97F4A7C15U * i;
    ASSERT_EQ(sm90::philox_word(seed, i, i / 3, 0x80000000U | i << 8, 7 * i),
              mxcheck::philox_word(seed, i, i / 3, 0x80000000U | i << 8, 7 * i));
  }
}

TEST(Philox, has_the_definition_s_words_in_series) {
  for (std::uint32_t n = 0; n < 300; ++n) {
    const std::uint64_t seed = 0x9E3779B97F4A7C15U * n;
    const std::uint32_t c1 = n % 3, c2 = 0x80000000U | n << 8, c3 = n % 2 == 0 ? n : 0x9E3779B9U * n;
    const sm90::PhiloxKeys keys = sm90::philox_keys(seed);
    const sm90::PhiloxSeries series = sm90::philox_series(keys, c1, c2, c3);
    for (std::uint32_t k = 0; k < 40; ++k) {
      const std::uint32_t i = k < 20 ? k : 0xFFFFFFFFU - k * n;
      const std::array<std::uint32_t, 4> right = mxcheck::philox_words(seed, i, c1, c2, c3);
      const sm90::PhiloxWords found = sm90::philox_words(keys, series, i);
      for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(found.w[w], right[w]) << n << " " << i << " " << w;
      ASSERT_EQ(sm90::philox_word(keys, series, i), right[0]);
      if (i >= 5) {
        const std::uint64_t product = sm90::philox_product(i - 5) + sm90::philox_product(5);
        ASSERT_EQ(sm90::philox_words(keys, series, product).w[0], right[0]);
      }
    }
  }
}

}  // namespace

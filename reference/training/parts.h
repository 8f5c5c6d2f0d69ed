#pragma once
// Helpers that the operations of a training step share. Internal.

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "reference/common/parallel.h"
#include "reference/layer/run.h"

namespace mxcheck {

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorKind::usage, "training: " + what);
}

inline void require_size(const char* what, std::int64_t found, std::int64_t needed) {
  require(found == needed,
          std::string(what) + " has " + std::to_string(found) + " elements; " + std::to_string(needed) + " are needed");
}

inline float widen(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

// Nearest, ties to even; a NaN becomes 0x7FFF.
inline std::uint16_t to_bf16(float value) {
  if (std::isnan(value)) return 0x7FFF;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Half a step less one, and one more where the kept part is odd; a carry out of the mantissa is the next binade.
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline std::vector<std::uint16_t> rounded_to_bf16(std::span<const float> values, int threads) {
  std::vector<std::uint16_t> words(values.size());
  parallel_ranges(std::ssize(values), std::ssize(values), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      words[static_cast<std::size_t>(i)] = to_bf16(values[static_cast<std::size_t>(i)]);
  });
  return words;
}

// RN(1 / sqrt(n)) for 0 < n <= 2^24: a root and a quotient in double precision, rounded once more, are as good for
// every one of these n; the tests compare each with exact integers.
inline float one_over_root(std::int64_t n) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(n))); }

}  // namespace mxcheck

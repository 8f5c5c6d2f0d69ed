#pragma once
// Numbers as a tensor of FP32, BF16 or FP16 holds them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "numerics/format/codec.h"

namespace mxcheck {

// Rounded to nearest, ties to even.
inline std::vector<std::uint32_t> value_words(Format type, std::span<const float> values) {
  std::vector<std::uint32_t> words;
  for (float x : values) words.push_back(encode(type, x, Rounding::nearest_even, Overflow::non_saturate));
  return words;
}

inline std::vector<std::byte> value_bytes(Format type, std::span<const float> values) {
  const std::size_t width = type == Format::fp32 ? 4 : 2;
  std::vector<std::byte> bytes(values.size() * width);
  std::size_t at = 0;
  for (std::uint32_t word : value_words(type, values)) {
    std::memcpy(bytes.data() + at, &word, width);
    at += width;
  }
  return bytes;
}

}  // namespace mxcheck

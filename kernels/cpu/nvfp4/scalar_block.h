#pragma once
// A block one element at a time: complete, and slow. For blocks with NaN or infinities, for those whose arithmetic
// leaves the numbers, and for the recipes that choose between two scales.

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/nvfp4/levels.h"

namespace mxcheck_kernels::cpu {

inline constexpr std::int64_t kBlockCols = 16;
inline constexpr std::int64_t kMostBlockRows = 16;

// Elements row by row, as floats.
struct ScalarBlock {
  std::array<float, kMostBlockRows * kBlockCols> x;
  std::int64_t rows;
  std::int64_t cols;

  template <class Kind>
  void read(const typename Kind::Bits* from, std::int64_t stride) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c)
        x[static_cast<std::size_t>(r * cols + c)] = Kind::value(from[r * stride + c]);
    }
  }

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(rows * cols); }

  // The largest magnitude; a NaN counts, and makes it NaN, where the recipe says so.
  [[nodiscard]] float amax(bool drops_nan) const {
    float largest = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      const float magnitude = std::fabs(x[i]);
      if (std::isnan(magnitude)) {
        if (!drops_nan) return magnitude;
      } else if (magnitude > largest) {
        largest = magnitude;
      }
    }
    return largest;
  }
};

using ScalarCodes = std::array<std::uint8_t, kMostBlockRows * kBlockCols>;

inline void scalar_codes(const Levels& levels, const ScalarBlock& block, std::uint8_t byte, ScalarCodes& codes) {
  for (std::size_t i = 0; i < block.size(); ++i) codes[i] = levels.code_of(block.x[i], byte);
}

// The sum of squared errors, in FP32, from the first element to the last.
inline float squared_error(const Levels& levels, const ScalarBlock& block, std::uint8_t byte,
                           const ScalarCodes& codes) {
  float sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float error = levels.error_of(block.x[i], codes[i], byte);
    sum = sum + error * error;
  }
  return sum;
}

inline void pack_codes(const ScalarBlock& block, const ScalarCodes& codes, std::uint8_t* out, std::int64_t out_stride) {
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::uint8_t* row = codes.data() + r * block.cols;
    for (std::int64_t c = 0; c < block.cols; c += 2) {
      const int high = c + 1 < block.cols ? row[c + 1] : 0;
      out[r * out_stride + c / 2] = static_cast<std::uint8_t>(row[c] | high << 4);
    }
  }
}

// The same with random words: `first` is the number of the first element, rows are `pitch` apart.
template <class Kind>
std::uint8_t quantize_stochastic_block(const Levels& levels, const Nvfp4Words& words, std::uint64_t first,
                                       std::int64_t pitch, const typename Kind::Bits* x, std::int64_t stride,
                                       std::int64_t rows, std::int64_t cols, std::uint8_t* out,
                                       std::int64_t out_stride) {
  ScalarBlock block{{}, rows, cols};
  block.read<Kind>(x, stride);
  const std::uint8_t byte = levels.byte_of(block.amax(levels.drops_nan()));
  ScalarCodes rounded;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(r * cols + c);
      const std::uint32_t word = nvfp4_element_word(words, first + static_cast<std::uint64_t>(r * pitch + c));
      rounded[i] = levels.stochastic_code_of(block.x[i], byte, word);
    }
  }
  pack_codes(block, rounded, out, out_stride);
  return byte;
}

// Writes the codes of a block of rows x cols elements, two a byte, and returns its scale.
template <class Kind>
std::uint8_t quantize_scalar_block(const Levels& levels, const typename Kind::Bits* x, std::int64_t stride,
                                   std::int64_t rows, std::int64_t cols, std::uint8_t* out, std::int64_t out_stride) {
  ScalarBlock block{{}, rows, cols};
  block.read<Kind>(x, stride);
  const float amax = block.amax(levels.drops_nan());
  std::uint8_t byte = levels.byte_of(amax);
  ScalarCodes codes;
  scalar_codes(levels, block, byte, codes);
  if (levels.recipe == Nvfp4Recipe::four_six) {
    const std::uint8_t of_four = levels.byte_of(amax, 1.5F);
    ScalarCodes others;
    scalar_codes(levels, block, of_four, others);
    if (squared_error(levels, block, of_four, others) < squared_error(levels, block, byte, codes)) {
      byte = of_four;
      codes = others;
    }
  }
  pack_codes(block, codes, out, out_stride);
  return byte;
}

}  // namespace mxcheck_kernels::cpu

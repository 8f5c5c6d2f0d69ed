#pragma once
// BF16 words for tests of blocks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace mxcheck::test {

inline std::uint32_t next_word(std::uint32_t& state) { return state = state * 1664525 + 1013904223; }

// Numbers of both signs within some 40 binades of one, now and then a zero.
inline std::vector<std::uint16_t> ordinary_words(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint16_t> words(count);
  for (auto& word : words) {
    const std::uint32_t bits = next_word(seed);
    const std::uint32_t field = 127 - (bits >> 27) - (bits >> 24 & 7);
    word = (bits >> 18 & 63) == 0 ? 0 : static_cast<std::uint16_t>((bits & 0x8000) | field << 7 | (bits >> 8 & 0x7F));
  }
  return words;
}

// All 65536 words, shuffled, again and again: NaN in about one of two blocks of 32.
inline std::vector<std::uint16_t> all_words(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint16_t> words(count);
  std::iota(words.begin(), words.end(), std::uint16_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(words[i - 1], words[next_word(seed) % i]);
  return words;
}

// Blocks of `block` words: every exponent with the largest value's mantissa and the one above it as amax, and beside it
// every number of both signs from there down to 40 binades below, zeros to fill.
inline std::vector<std::uint16_t> blocks_of_every_exponent(std::size_t block, std::uint32_t largest_mantissa) {
  std::vector<std::uint16_t> words;
  for (std::uint32_t field = 0; field < 255; ++field) {
    for (std::uint32_t more = 0; more < 2; ++more) {
      const std::uint32_t amax = field << 7 | (largest_mantissa + more);
      const std::uint32_t least = field > 40 ? (field - 40) << 7 : 0;
      for (std::uint32_t word = least; word <= amax; ++word) {
        for (const std::uint32_t sign : {0U, 0x8000U}) {
          if (words.size() % block == 0) words.push_back(static_cast<std::uint16_t>(amax));
          words.push_back(static_cast<std::uint16_t>(word | sign));
        }
      }
      while (words.size() % block != 0) words.push_back(0);
    }
  }
  return words;
}

// Blocks of 32 down columns instead of along rows; whole bands of 32 rows, the last one's rest zeros.
inline std::vector<std::uint16_t> down_columns(const std::vector<std::uint16_t>& blocks, std::size_t cols) {
  const std::size_t count = blocks.size() / 32;
  std::vector<std::uint16_t> words((count + cols - 1) / cols * cols * 32);
  for (std::size_t b = 0; b < count; ++b) {
    for (std::size_t i = 0; i < 32; ++i) words[(b / cols * 32 + i) * cols + b % cols] = blocks[b * 32 + i];
  }
  return words;
}

inline bool same_bf16(std::uint16_t a, std::uint16_t b) {
  return a == b || ((a & 0x7FFF) > 0x7F80 && (b & 0x7FFF) > 0x7F80);
}

}  // namespace mxcheck::test

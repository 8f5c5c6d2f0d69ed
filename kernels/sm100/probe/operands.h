#pragma once
// Operands whose sums are exact in FP32, whatever the order of addition, so that an expected word needs no model of the
// tensor core: small integers, and powers of two as scales. And the image of shared memory that holds them, in the form
// that the GEMM kernels use: rows of 128 bytes along k, swizzled by 128 bytes; scales in chunks of 128 x 4.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace mxcheck::sm100::probe {

// Places in the image. A has rows to spare: probe 6 begins up to seven rows further on.
inline constexpr unsigned kAAt = 0;
inline constexpr unsigned kBAt = kAAt + 136 * 128;
inline constexpr unsigned kScalesAAt = kBAt + 256 * 128;  // 128 rows
inline constexpr unsigned kScalesBAt = kScalesAAt + 512;  // 256 rows
inline constexpr unsigned kOperandBytes = kScalesBAt + 1024;
static_assert(kBAt % 1024 == 0 && kScalesAAt % 128 == 0);

// A hash, for operands that look like noise and are the same in every run.
inline std::uint32_t noise(std::uint32_t seed, std::uint32_t i) {
  std::uint32_t x = seed * 0x9E3779B9U + i * 0x85EBCA6BU + 0x7F4A7C15U;
  x = (x ^ (x >> 16)) * 0x21F0AAADU;
  x = (x ^ (x >> 15)) * 0x735A2D97U;
  return x ^ (x >> 15);
}

// E4M3 of an integer with at most four significant bits.
inline std::uint8_t e4m3(int value) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<unsigned>(std::abs(value));
  const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const unsigned fraction = (magnitude << 3 >> exponent) & 7U;
  return static_cast<std::uint8_t>((value < 0 ? 0x80U : 0U) | static_cast<unsigned>(exponent + 7) << 3 | fraction);
}
inline std::uint16_t bf16(int value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

// One step of k: 32 elements of 8 bits, or the first 16 of them as BF16.
struct Operands {
  int rows = 0, columns = 0;                      // of D
  std::vector<int> a, b;                          // [rows][32], [columns][32]
  std::vector<int> exponents_a{}, exponents_b{};  // of the scales: [rows], [columns]

  [[nodiscard]] float value(int m, int n, int depth = 32) const {
    int sum = 0;
    for (int k = 0; k < depth; ++k) {
      sum += a[static_cast<std::size_t>(m * 32 + k)] * b[static_cast<std::size_t>(n * 32 + k)];
    }
    return static_cast<float>(sum);
  }
  [[nodiscard]] float scaled(int m, int n) const {
    return std::ldexp(value(m, n), exponents_a[static_cast<std::size_t>(m)] + exponents_b[static_cast<std::size_t>(n)]);
  }
};

// Integers from `low` on, `count` of them, and exponents of 0 to 3.
inline Operands draw(int rows, int columns, int low, int count, std::uint32_t seed) {
  Operands o{.rows = rows, .columns = columns, .a = {}, .b = {}};
  std::uint32_t i = 0;
  const auto next = [&](int from, int of) {
    return from + static_cast<int>(noise(seed, i++) % static_cast<unsigned>(of));
  };
  for (int at = 0; at < rows * 32; ++at) o.a.push_back(next(low, count));
  for (int at = 0; at < columns * 32; ++at) o.b.push_back(next(low, count));
  for (int m = 0; m < rows; ++m) o.exponents_a.push_back(next(0, 4));
  for (int n = 0; n < columns; ++n) o.exponents_b.push_back(next(0, 4));
  return o;
}

class Image {
 public:
  explicit Image(std::size_t bytes) : bytes_(bytes) {}

  // Up to 32 bytes of a row, from `at` on.
  void put(unsigned tile, int row, std::span<const std::uint8_t> codes, unsigned at = 0) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::size_t linear = static_cast<std::size_t>(row) * 128 + at + i;
      bytes_.at(tile + (linear ^ ((linear >> 7 & 7) << 4))) = codes[i];
    }
  }
  // The same scale for all four steps of k.
  void put_scale(unsigned chunks, int row, std::uint8_t code) {
    const auto r = static_cast<std::size_t>(row % 128);
    const std::size_t word = chunks + static_cast<std::size_t>(row / 128) * 512 + r % 32 * 16 + r / 32 * 4;
    for (std::size_t j = 0; j < 4; ++j) bytes_.at(word + j) = code;
  }
  // Rows of a matrix of E4M3, or of BF16.
  void put_rows(unsigned tile, std::span<const int> values, unsigned at = 0, bool halves = false) {
    std::vector<std::uint8_t> codes(32);
    for (std::size_t row = 0; row < values.size() / 32; ++row) {
      for (std::size_t k = 0; k < 32; ++k) {
        const int v = values[row * 32 + (halves ? k / 2 : k)];
        codes[k] = halves ? static_cast<std::uint8_t>(bf16(v) >> (8 * (k % 2))) : e4m3(v);
      }
      put(tile, static_cast<int>(row), codes, at);
    }
  }
  void put_scales(unsigned chunks, std::span<const int> exponents) {
    for (std::size_t row = 0; row < exponents.size(); ++row) {
      put_scale(chunks, static_cast<int>(row), static_cast<std::uint8_t>(127 + exponents[row]));
    }
  }
  [[nodiscard]] std::vector<std::uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

inline Image image_of(const Operands& o, bool halves = false) {
  Image image(kOperandBytes);
  image.put_rows(kAAt, o.a, 0, halves);
  image.put_rows(kBAt, o.b, 0, halves);
  image.put_scales(kScalesAAt, o.exponents_a);
  image.put_scales(kScalesBAt, o.exponents_b);
  return image;
}

inline std::uint32_t word_of(float value) { return std::bit_cast<std::uint32_t>(value == 0 ? 0.0F : value); }

// Where kernels put the word of a column and lane, of the CTA `rank`.
inline std::size_t cell_at(int lane, int column, int columns, int rank = 0) {
  return (static_cast<std::size_t>(rank) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column)) * 128 +
         static_cast<std::size_t>(lane);
}

}  // namespace mxcheck::sm100::probe

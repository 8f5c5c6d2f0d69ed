#pragma once
// Matrices for tests: owned bytes behind a MatrixView, poisoned between the rows, and reproducible values.

#include "numerics/format/codec.h"
#include "reference/common/matrix.h"
#include "reference/quantize/quantize.h"
#include "tests/testing.h"

namespace mxcheck::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
  #if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kSanitized = true;
  #else
inline constexpr bool kSanitized = false;
  #endif
#else
inline constexpr bool kSanitized = false;
#endif

class TestMatrix {
 public:
  // Values are rounded to the type; gaps between rows hold 0xFF (NaN in every type), before the first row too.
  TestMatrix(Format dtype, std::int64_t rows, std::int64_t cols, const std::vector<float>& values, std::int64_t gap = 0)
      : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + gap) {
    const std::size_t size = dtype == Format::fp32 ? 4 : 2;
    bytes_.assign(kLead + static_cast<std::size_t>(rows * stride_) * size, std::byte{0xFF});
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      std::uint32_t bits = std::bit_cast<std::uint32_t>(values.at(static_cast<std::size_t>(i)));
      if (dtype != Format::fp32)
        bits = encode(dtype, values[static_cast<std::size_t>(i)], Rounding::nearest_even, Overflow::non_saturate);
      const std::int64_t at = (i / cols) * stride_ + i % cols;
      std::memcpy(bytes_.data() + kLead + static_cast<std::size_t>(at) * size, &bits, size);  // little-endian
    }
  }

  [[nodiscard]] MatrixView view() const { return {dtype_, bytes_.data() + kLead, rows_, cols_, stride_}; }

  // Rows [first, last) of the same memory.
  [[nodiscard]] MatrixView rows(std::int64_t first, std::int64_t last) const {
    const std::int64_t size = dtype_ == Format::fp32 ? 4 : 2;
    return {dtype_, bytes_.data() + kLead + first * stride_ * size, last - first, cols_, stride_};
  }

 private:
  static constexpr std::size_t kLead = 5;  // odd: nothing here may rely on alignment
  Format dtype_;
  std::int64_t rows_, cols_, stride_;
  std::vector<std::byte> bytes_;
};

inline TestMatrix fp32_matrix(std::int64_t rows, std::int64_t cols, const std::vector<float>& values) {
  return {Format::fp32, rows, cols, values};
}

// Values over 30 binades with whole blocks of differing size, signed zeros, ties and, one time in rare, Inf or NaN.
inline std::vector<float> random_values(std::int64_t count, std::uint64_t seed, std::uint64_t rare = 0) {
  std::mt19937_64 engine(seed);  // the engine is specified bit for bit; distributions are not
  std::vector<float> values;
  int block_exponent = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t r = engine();
    if (i % 16 == 0) block_exponent = static_cast<int>(r >> 58) % 30 - 15;
    const int significand = static_cast<int>(r & ((r >> 32 & 1) != 0 ? 0x1F : 0xFFFFFF));  // short ones make ties
    const float magnitude =
        std::ldexp(static_cast<float>(significand), block_exponent - static_cast<int>(r >> 40 & 15));
    float value = (r >> 33 & 1) != 0 ? -magnitude : magnitude;
    if (rare != 0 && (r >> 44) % rare == 0)
      value = (r >> 34 & 1) != 0 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
    values.push_back(value);
  }
  return values;
}

template <class T>
std::vector<T> transposed(const std::vector<T>& values, std::int64_t rows, std::int64_t cols) {
  std::vector<T> out;
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) out.push_back(values.at(static_cast<std::size_t>(i * cols + j)));
  }
  return out;
}

// The named shapes and some that are not: whole extents, and blocks smaller than anything the field uses.
inline constexpr std::array<BlockShape, 12> kShapes{
    {{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}, {0, 1}, {0, 0}, {3, 5}, {1, 1}, {0, 7}}};

// Codes of either width.
inline std::vector<std::uint32_t> codes_of(const QuantizedTensor& q) {
  std::vector<std::uint32_t> codes;
  for (std::size_t i = 0; i < q.codes.size(); ++i) codes.push_back(q.codes.code(i));
  return codes;
}

// Scales of either kind, as bits.
inline std::vector<std::uint32_t> scales_of(const QuantizedTensor& q) {
  std::vector<std::uint32_t> bits;
  for (std::size_t i = 0; i < q.scales().size(); ++i) bits.push_back(q.scales().code(i));
  return bits;
}

}  // namespace mxcheck::test

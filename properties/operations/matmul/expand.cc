// Operands of GEMMs. Element (row, k) is a pure function of the case, the operand and its place.
//
//   codes       integers from -2 to 2: up to 4095 of k every sum is exact, and every order and contract agrees
//   normal      normal, the rows' sizes spread over 2^-6 to 2^5, one in 256 eight times larger
//   boundaries  pairs k, k + 1 that nearly cancel, next to terms at the edge of the window
//   bits        uniform codes, NaN and infinities included
//   wide        finite codes with uniform exponents
//   specials    normal with a NaN or an infinity in one row in eight, zeros, subnormals, and the largest values
//   sparse      one code in 32 is not zero
//   slots       a value that encodes its position: neighbouring rows, blocks of k and operands differ
//   every_word  one-hot rows: row r of one operand has a single 1, at k = (r + seed / 2) modulo the depth, and the
//               other encodes its position, so that D is that one's columns; A is one-hot where the seed is even, else
// B E8M0 scales are 2^-20 to 2^20, under wide and bits anything from 0 to 254, under specials 255 now and then. FP32
// scales have the same exponents and random significands.

#include <bit>
#include <cstring>

#include "numerics/format/codec.h"
#include "properties/core/input.h"
#include "properties/operations/matmul/problem.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

// Normal ones alone.
double two_to(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

class OperandCodes {
 public:
  OperandCodes(const Case& c, Format format, std::uint64_t salt, std::int64_t depth)
      : data_(c.data),
        f_(spec(format)),
        format_(format),
        seed_(c.seed ^ salt),
        depth_(depth),
        step_(c.seed / 2),
        one_hot_((c.seed & 1) == (salt == 0xA ? 0 : 1)) {}

  // What the elements of a row share. To be called before at().
  void go_to(std::int64_t row) {
    row_ = row;
    const auto number = static_cast<std::uint64_t>(row);
    size_ = two_to(static_cast<int>(random_word(seed_ ^ 0x2074, number) % 12) - 6);
    kind_ = random_word(seed_ ^ 0x59EC, number) % 8;
    hot_ = depth_ == 0 ? 0 : static_cast<std::int64_t>((number + step_) % static_cast<std::uint64_t>(depth_));
  }

  [[nodiscard]] std::uint32_t at(std::int64_t k) const {
    const std::uint64_t word = random_word(seed_, static_cast<std::uint64_t>(row_ * depth_ + k));
    switch (data_) {
      case Data::zeros: return 0;
      case Data::codes: return near(static_cast<double>(word % 5) - 2);
      case Data::boundaries: return cancelling(k, word);
      case Data::bits: return static_cast<std::uint32_t>(word >> 32) & (sign_bit(format_) * 2 - 1);
      case Data::wide: return any_finite(format_, word);
      case Data::specials: return special(word);
      case Data::sparse: return word % 32 == 0 ? normal(mix64(word)) : 0;
      case Data::slots: return slot(k);
      case Data::every_word: return one_hot_ ? one_hot(k) : slot(k);
      default: return normal(word);
    }
  }

 private:
  [[nodiscard]] std::uint32_t near(double value) const { return nearest_bits(format_, value); }
  [[nodiscard]] std::uint32_t normal(std::uint64_t word) const {
    return near(four_uniforms(word) * 1.75 * size_ * ((mix64(word) & 0xFF) == 0 ? 8 : 1));
  }
  [[nodiscard]] std::uint32_t cancelling(std::int64_t k, std::uint64_t word) const {
    const std::uint64_t pair = random_word(seed_ ^ 0xCA9CE1, static_cast<std::uint64_t>(row_ * depth_ + k / 2));
    if (pair % 4 == 0)
      return near((static_cast<double>(word % 15) - 7) * two_to(-6 - static_cast<int>(word >> 32) % 4));
    const double value = (1 + static_cast<double>(pair >> 32 & 7) / 8) * two_to(static_cast<int>(pair >> 40) % 5);
    return near((k & 1) != 0 ? -value : value);
  }
  [[nodiscard]] std::uint32_t special(std::uint64_t word) const {
    const std::uint32_t sign = word >> 63 != 0 ? sign_bit(format_) : 0;
    if (kind_ == 0 && word % 61 == 0) return sign | f_.nan_code;
    if (kind_ == 1 && word % 61 == 0 && f_.encoding == Encoding::ieee) return sign | (f_.max_code + 1);
    if (kind_ == 2) return sign;
    if (kind_ == 3) return sign | (static_cast<std::uint32_t>(word) & ((std::uint32_t{1} << f_.mantissa_bits) - 1));
    if (kind_ == 4) return sign | (f_.max_code - static_cast<std::uint32_t>(word % 3));
    return normal(word);
  }
  [[nodiscard]] std::uint32_t one_hot(std::int64_t k) const { return k == hot_ ? near(1) : 0; }
  [[nodiscard]] std::uint32_t slot(std::int64_t k) const {
    const std::int64_t place = row_ * 7 + k / 32 * 5 + k % 32 * 3 + static_cast<std::int64_t>(seed_ % 13);
    return near((1 + static_cast<double>(place % 8) / 8) * two_to(static_cast<int>(place / 8 % 4) - 2) *
                ((place / 3) % 2 == 0 ? 1 : -1));
  }

  Data data_;
  const FormatSpec& f_;
  Format format_;
  std::uint64_t seed_;
  std::int64_t depth_;
  std::uint64_t step_;
  bool one_hot_;
  std::int64_t row_ = 0;
  double size_ = 1;         // of normal data
  std::uint64_t kind_ = 0;  // of specials
  std::int64_t hot_ = 0;    // the k of a one-hot row
};

std::uint8_t scale_byte(Data data, std::uint64_t word, std::int64_t row) {
  switch (data) {
    case Data::zeros:
    case Data::codes: return 127;
    case Data::bits:
    case Data::wide: return static_cast<std::uint8_t>(word % 255);
    case Data::specials:
      if (word % 97 == 0) return 255;
      if (word % 97 < 8) return word % 2 == 0 ? 0 : 254;
      break;
    case Data::slots: return static_cast<std::uint8_t>(row);  // 256 rows: every byte, on both sides every pair
    default: break;
  }
  return static_cast<std::uint8_t>(107 + (word >> 8) % 41);
}

float scale_value(Data data, std::uint64_t word, std::int64_t row) {
  const std::uint8_t byte = scale_byte(data, word, row);
  if (data == Data::zeros || data == Data::codes) return 1;
  const std::uint32_t mantissa = static_cast<std::uint32_t>(word >> 40) & 0x7FFFFF;
  if (data == Data::specials && word % 97 == 9) return 0;
  return std::bit_cast<float>(std::uint32_t{byte} << 23 | mantissa);
}

}  // namespace

std::vector<std::byte> expand_operand(const Case& c, Format format, std::uint64_t salt, std::int64_t rows,
                                      std::int64_t depth) {
  const std::size_t width = code_width(format);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * depth) * width);
  parallel_ranges(rows, rows * depth, 0, [&](std::int64_t begin, std::int64_t end) {
    OperandCodes codes(c, format, salt, depth);
    std::byte* to = bytes.data() + static_cast<std::size_t>(begin * depth) * width;
    for (std::int64_t row = begin; row < end; ++row) {
      codes.go_to(row);
      for (std::int64_t k = 0; k < depth; ++k, to += width) {
        const std::uint32_t code = codes.at(k);
        std::memcpy(to, &code, width);
      }
    }
  });
  return bytes;
}

std::vector<std::byte> expand_operand_scales(const Case& c, std::uint64_t salt, std::int64_t rows,
                                             std::int64_t blocks) {
  const bool bytes_only = matmul_of(c.variant).scales == MXCHECK_E8M0;
  std::vector<std::byte> out(static_cast<std::size_t>(rows * blocks) * (bytes_only ? 1 : 4));
  for (std::int64_t i = 0; i < rows * blocks; ++i) {
    const std::uint64_t word = random_word(c.seed ^ salt ^ 0x5CA1E, static_cast<std::uint64_t>(i));
    const std::uint8_t byte = scale_byte(c.data, word, i / blocks);
    const float value = scale_value(c.data, word, i / blocks);
    if (bytes_only)
      out[static_cast<std::size_t>(i)] = std::byte{byte};
    else
      std::memcpy(out.data() + 4 * i, &value, 4);
  }
  return out;
}

std::vector<std::byte> expand_c(const Case& c, std::int64_t count) {
  const Format format = c.variant.dtype;
  const std::size_t width = code_width(format);
  std::vector<std::byte> out(static_cast<std::size_t>(count) * width);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = random_word(c.seed ^ 0xC, static_cast<std::uint64_t>(i));
    std::uint32_t bits = static_cast<std::uint32_t>(word >> 32);  // bits, wide: any word
    if (format != Format::fp32) bits &= 0xFFFF;
    const double value = (static_cast<double>(word % 4096) - 2048) / 256;
    const bool far = word >> 60 == 0;  // a C that rules the window
    if (c.data == Data::zeros)
      bits = 0;
    else if (c.data == Data::codes)
      bits = nearest_bits(format, static_cast<double>(word % 9) - 4);
    else if (c.data != Data::bits && c.data != Data::wide) {
      bits = nearest_bits(format, value * (far ? two_to(static_cast<int>(word >> 16) % 24) : 1));
    }
    std::memcpy(out.data() + static_cast<std::size_t>(i) * width, &bits, width);
  }
  return out;
}

}  // namespace mxcheck

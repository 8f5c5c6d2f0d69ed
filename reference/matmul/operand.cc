#include "reference/matmul/operand.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

std::uint32_t load(const void* base, std::int64_t at, std::size_t width) {
  std::uint32_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(base) + at * static_cast<std::int64_t>(width), width);
  return word;
}

// take(code * scale) for each element of the window, row by row. The product is exact in double: 24 bits by 24.
template <class Take>
void each_value(const OperandWindow& w, const Take& take) {
  const MatmulOperand& x = *w.operand;
  const std::size_t width = code_width(x.format);
  const std::int64_t block = x.scaled() ? x.block.cols : std::max<std::int64_t>(1, w.depth);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const std::int64_t row = w.index != nullptr ? w.index[i] : w.first_row + i;
    for (std::int64_t k = 0; k < w.depth; k += block) {
      const double scale{w.scale(i, k)};
      const std::int64_t first = row * x.row_stride + w.first_k * x.depth_stride;
      for (std::int64_t at = k; at < std::min(w.depth, k + block); ++at)
        take(decode(x.format, load(x.codes, first + at * x.depth_stride, width)) * scale);
    }
  }
}

// A number that is a normal BF16, as nearly all are that E8M0 scales give, is the upper half of its FP32.
std::uint16_t nearest_bf16(double value) {
  const auto fp32 = static_cast<float>(value);
  const auto word = std::bit_cast<std::uint32_t>(fp32);
  const std::uint32_t exponent = word >> 23 & 0xFF;
  const bool is_bf16 = static_cast<double>(fp32) == value && (word & 0xFFFF) == 0 && exponent != 0 && exponent != 255;
  if (is_bf16) return static_cast<std::uint16_t>(word >> 16);
  return encode<Bf16>(value, Rounding::nearest_even, Overflow::non_saturate).bits;
}

}  // namespace

std::size_t code_width(Format format) { return spec(format).bits <= 8 ? 1 : spec(format).bits <= 16 ? 2 : 4; }

OperandWindow OperandWindow::rows_from(std::int64_t row, std::int64_t count) const {
  OperandWindow part = *this;
  part.rows = count;
  if (index != nullptr) part.index = index + row;
  if (index == nullptr) part.first_row += row;
  if (index == nullptr && operand->scaled()) part.scale_row += row / operand->block.rows;
  return part;
}

std::uint32_t OperandWindow::code(std::int64_t i, std::int64_t k) const {
  const std::int64_t row = index != nullptr ? index[i] : first_row + i;
  return load(operand->codes, row * operand->row_stride + (first_k + k) * operand->depth_stride,
              code_width(operand->format));
}

std::uint32_t OperandWindow::scale_code(std::int64_t i, std::int64_t k) const {
  const std::int64_t row = index != nullptr ? index[i] / operand->block.rows : scale_row + i / operand->block.rows;
  const std::int64_t depth_block = scale_depth + k / operand->block.cols;
  return load(operand->scales, row * operand->scale_row_stride + depth_block * operand->scale_depth_stride,
              code_width(operand->scale_format));
}

float OperandWindow::scale(std::int64_t i, std::int64_t k) const {
  if (!operand->scaled()) return 1;
  const std::uint32_t code = scale_code(i, k);
  if (operand->scale_format == Format::fp32) return std::bit_cast<float>(code);
  const std::uint32_t mask = operand->scale_format == Format::e8m0 ? 0xFF : 0x7F;  // UE4M3's sign is ignored
  return static_cast<float>(decode(operand->scale_format, code & mask));
}

std::vector<std::byte> gathered_codes(const OperandWindow& w) {
  const std::size_t width = code_width(w.operand->format);
  std::vector<std::byte> codes(static_cast<std::size_t>(w.rows * w.depth) * width);
  const auto* base = static_cast<const std::byte*>(w.operand->codes);
  std::byte* to = codes.data();
  for (std::int64_t i = 0; i < w.rows && w.depth != 0; ++i) {
    const std::int64_t row = w.index != nullptr ? w.index[i] : w.first_row + i;
    const std::int64_t at = row * w.operand->row_stride + w.first_k * w.operand->depth_stride;
    if (w.operand->depth_stride == 1) {
      std::memcpy(to, base + at * static_cast<std::int64_t>(width), static_cast<std::size_t>(w.depth) * width);
      to += static_cast<std::size_t>(w.depth) * width;
      continue;
    }
    for (std::int64_t k = 0; k < w.depth; ++k, to += width) {
      std::memcpy(to, base + (at + k * w.operand->depth_stride) * static_cast<std::int64_t>(width), width);
    }
  }
  return codes;
}

std::vector<std::uint16_t> decoded_bf16(const OperandWindow& w) {
  const MatmulOperand& x = *w.operand;
  const auto codes_of_format = std::size_t{1} << std::min(spec(x.format).bits, 8);
  std::array<double, 256> values{};
  for (std::size_t code = 0; code < codes_of_format; ++code)
    values[code] = decode(x.format, static_cast<std::uint32_t>(code));
  std::vector<std::uint16_t> words(static_cast<std::size_t>(w.rows * w.depth));
  const auto* codes = static_cast<const std::uint8_t*>(x.codes);
  const std::int64_t block = x.scaled() ? x.block.cols : std::max<std::int64_t>(1, w.depth);
  auto to = words.begin();
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const std::int64_t row = w.index != nullptr ? w.index[i] : w.first_row + i;
    const std::int64_t first = row * x.row_stride + w.first_k * x.depth_stride;
    for (std::int64_t k = 0; k < w.depth; k += block) {
      const double scale{w.scale(i, k)};
      for (std::int64_t at = k; at < std::min(w.depth, k + block); ++at)
        *to++ = nearest_bf16(values[codes[first + at * x.depth_stride] & (codes_of_format - 1)] * scale);
    }
  }
  return words;
}

std::vector<std::uint32_t> decoded_fp32(const OperandWindow& w) {
  std::vector<std::uint32_t> words;
  words.reserve(static_cast<std::size_t>(w.rows * w.depth));
  each_value(w, [&](double value) {
    words.push_back(encode(Format::fp32, value, Rounding::nearest_even, Overflow::non_saturate));
  });
  return words;
}

std::vector<Factor> exact_factors(const OperandWindow& w, std::int64_t i) {
  std::vector<Factor> factors;
  factors.reserve(static_cast<std::size_t>(w.depth));
  for (std::int64_t k = 0; k < w.depth; ++k) {
    Factor f = factor(w.operand->format, w.code(i, k));
    if (w.operand->scaled()) {
      const float scale = w.scale(i, k);
      const Factor s = factor(Format::fp32, std::bit_cast<std::uint32_t>(scale));
      const int trailing = s.significand == 0 ? 0 : std::countr_zero(s.significand);
      const std::uint64_t significand = std::uint64_t{f.significand} * (s.significand >> trailing);
      if (significand >> 32 != 0) {
        throw Error(ErrorKind::usage,
                    "an exact sum of " +
                        std::string(spec(f.kind == Factor::Kind::finite ? w.operand->format : Format::fp32).name) +
                        " codes needs scales that are powers of two");
      }
      if (f.kind == Factor::Kind::nan || s.kind == Factor::Kind::nan)
        f.kind = Factor::Kind::nan;
      else if (f.kind == Factor::Kind::infinite || s.kind == Factor::Kind::infinite) {
        const bool zero = (f.kind == Factor::Kind::finite && f.significand == 0) ||
                          (s.kind == Factor::Kind::finite && s.significand == 0);
        f.kind = zero ? Factor::Kind::nan : Factor::Kind::infinite;
      }
      f.negative = f.negative != s.negative;
      f.significand = static_cast<std::uint32_t>(significand);
      f.exponent += s.exponent;
      f.fraction_bits += s.fraction_bits - trailing;
    }
    factors.push_back(f);
  }
  return factors;
}

std::vector<Factor> plain_factors(const Contract& contract, const OperandWindow& w, std::int64_t i) {
  std::vector<Factor> factors;
  factors.reserve(static_cast<std::size_t>(w.depth));
  for (std::int64_t k = 0; k < w.depth; ++k) factors.push_back(operand(contract, w.operand->format, w.code(i, k)));
  return factors;
}

std::vector<std::uint8_t> step_scales(const OperandWindow& w, std::int64_t i, std::int64_t terms) {
  std::vector<std::uint8_t> scales;
  for (std::int64_t k = 0; k < w.depth; k += terms) scales.push_back(static_cast<std::uint8_t>(w.scale_code(i, k)));
  return scales;
}

}  // namespace mxcheck

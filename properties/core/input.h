#pragma once
// A matrix of values that an operation reads (x, logits), and how one is drawn: element (i, j) is a pure function of
// the case and its place, so that any thread can draw any row. A third of the gate's time goes into drawing: what is
// large is drawn a row at a time.
//
// The gap after each row of a strided matrix holds NaN, so that reading it shows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "numerics/format/codec.h"
#include "properties/core/call.h"
#include "properties/core/case.h"
#include "properties/core/compare.h"
#include "properties/core/rng.h"
#include "reference/common/matrix.h"
#include "reference/common/parallel.h"

namespace mxcheck {

inline std::size_t value_bytes(Format dtype) { return static_cast<std::size_t>(spec(dtype).bits) / 8; }
inline std::uint32_t sign_bit(Format dtype) { return std::uint32_t{1} << (spec(dtype).bits - 1); }
// The bits of the type nearest to value, finite. One codec for each type of values: the compiler then folds its fields
// and its rounding into the loops that draw elements.
inline std::uint32_t nearest_bits(Format dtype, double value) {
  switch (dtype) {
    case Format::bf16: return encode<Bf16>(value, Rounding::nearest_even, Overflow::saturate).bits;
    case Format::fp16: return encode<Fp16>(value, Rounding::nearest_even, Overflow::saturate).bits;
    case Format::fp32:
      return detail::encode_with(spec(Format::fp32), value, Rounding::nearest_even, Overflow::saturate, 0);
    default: return encode(dtype, value, Rounding::nearest_even, Overflow::saturate);
  }
}

struct Input {
  std::vector<std::byte> bytes;  // rows * stride values
  Format dtype = Format::bf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // in values, at least cols

  [[nodiscard]] MatrixView view() const { return {dtype, bytes.data(), rows, cols, stride}; }
  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(stride) * value_bytes(dtype); }
  [[nodiscard]] std::uint32_t bits(std::int64_t i, std::int64_t j) const {
    return word_at(bytes, dtype, static_cast<std::size_t>(i * stride + j));
  }
  [[nodiscard]] Plant plant(std::int64_t i, std::int64_t j) const { return {i, j, bits(i, j)}; }
};

// A matrix from a function that writes the bits of a row's elements: fill(row, to).
template <class FillRow>
Input make_input_by_row(Format dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride, const FillRow& fill) {
  Input input{{}, dtype, rows, cols, stride};
  input.bytes.resize(static_cast<std::size_t>(rows) * input.row_bytes());
  if (stride == 0) return input;
  constexpr std::int64_t kValuesAtOnce = 2048;  // short rows go to memory several at a time
  const std::int64_t rows_at_once =
      std::clamp<std::int64_t>(kValuesAtOnce / stride, 1, std::max<std::int64_t>(rows, 1));
  parallel_ranges(rows, rows * stride, 0, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(rows_at_once * stride), spec(dtype).nan_code);
    std::vector<std::uint16_t> narrow(value_bytes(dtype) == 2 ? words.size() : 0);
    std::byte* to = input.bytes.data() + static_cast<std::size_t>(begin) * input.row_bytes();
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t stop = std::min(end, i + rows_at_once);
      const std::size_t bytes = static_cast<std::size_t>(stop - i) * input.row_bytes();
      for (std::uint32_t* row = words.data(); i < stop; ++i, row += stride) fill(i, row);
      std::transform(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(narrow.size()), narrow.begin(),
                     [](std::uint32_t bits) { return static_cast<std::uint16_t>(bits); });
      std::memcpy(to, narrow.empty() ? static_cast<const void*>(words.data()) : narrow.data(), bytes);
      to += bytes;
    }
  });
  return input;
}

// A matrix from a function of (row, column) to bits.
template <class BitsAt>
Input make_input(Format dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride, const BitsAt& bits_at) {
  return make_input_by_row(dtype, rows, cols, stride, [&](std::int64_t i, std::uint32_t* to) {
    for (std::int64_t j = 0; j < cols; ++j) to[j] = bits_at(i, j);
  });
}

// The case's matrix: its rows, and the plants over them. Contiguous where there is a column stride: the problem lays it
// out.
template <class FillRow>
Input expand_input_by_row(const Case& c, const FillRow& fill) {
  return make_input_by_row(c.variant.dtype, c.rows, c.cols, c.col_stride != 0 ? c.cols : std::max(c.stride, c.cols),
                           [&](std::int64_t i, std::uint32_t* to) {
                             fill(i, to);
                             for (const Plant& p : c.plants) {  // of several in one place the last one stays
                               if (p.row == i && p.col >= 0 && p.col < c.cols) to[p.col] = p.bits;
                             }
                           });
}

template <class BitsAt>
Input expand_input(const Case& c, const BitsAt& bits_at) {
  return expand_input_by_row(c, [&](std::int64_t i, std::uint32_t* to) {
    for (std::int64_t j = 0; j < c.cols; ++j) to[j] = bits_at(i, j);
  });
}

// The input as a call's tensor; pointers into the bytes. The gap after the last row is no part of a strided tensor: in
// a slice of a larger one there may be nothing.
inline CallTensor values_tensor(Format dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                                const std::vector<std::byte>& bytes) {
  CallTensor t;
  t.dtype = dtype;
  t.shape = {rows, cols};
  t.row_stride = stride > cols ? stride : 0;
  t.data = bytes.data();
  if (rows * cols != 0) t.bytes = static_cast<std::uint64_t>((rows - 1) * stride + cols) * value_bytes(dtype);
  return t;
}

// Four uniforms summed: mean 0, variance 1/3; exact in double, the same on every machine.
inline double four_uniforms(std::uint64_t word) {
  double sum = -2;
  for (int n = 0; n < 4; ++n) sum += static_cast<double>((word >> (16 * n)) & 0xFFFF) / 65536;
  return sum;
}

// A finite code with a uniform exponent.
inline std::uint32_t any_finite(Format format, std::uint64_t word) {
  const FormatSpec& f = spec(format);
  const std::uint32_t exponents = (f.max_code >> f.mantissa_bits) + 1;
  const auto exponent = static_cast<std::uint32_t>((word >> 32) % exponents);
  const std::uint32_t mantissa = static_cast<std::uint32_t>(word) & ((std::uint32_t{1} << f.mantissa_bits) - 1);
  return (word >> 63 != 0 ? sign_bit(format) : 0) | std::min(f.max_code, exponent << f.mantissa_bits | mantissa);
}

// Data::real: a window of one of a file's BF16 matrices, repeated beyond its edges.
class RealWindow {
 public:
  RealWindow() = default;
  RealWindow(const SafetensorsFile& file, std::uint64_t seed, std::uint64_t col_multiple)
      : tensor_(&file.tensors[seed % file.tensors.size()]),
        row_(static_cast<std::int64_t>(mix64(seed) % static_cast<std::uint64_t>(tensor_->shape[0]))),
        col_(static_cast<std::int64_t>(mix64(seed + 1) % static_cast<std::uint64_t>(tensor_->shape[1]) / col_multiple *
                                       col_multiple)) {}
  [[nodiscard]] std::uint32_t bits(Format dtype, std::int64_t i, std::int64_t j) const {
    const std::int64_t row = (row_ + i) % tensor_->shape[0];
    const std::int64_t col = (col_ + j) % tensor_->shape[1];
    const std::uint32_t bits = tensor_->code(static_cast<std::size_t>(row * tensor_->shape[1] + col));
    return dtype == Format::bf16 ? bits : nearest_bits(dtype, decode(Format::bf16, bits));
  }

 private:
  const Tensor* tensor_ = nullptr;
  std::int64_t row_ = 0;
  std::int64_t col_ = 0;
};

}  // namespace mxcheck

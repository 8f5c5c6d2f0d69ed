#pragma once
// Rows of an operand as doubles, for sums of products that are rounded once: codes, or codes times scales, without any
// rounding, in panels of 16 rows, with what exact_tile.h must know of their range.
//
//   ExactRows x(rows, k);
//   x.set_row(0, values);    // k doubles
//
// A double holds each factor that numerics' accumulate() takes: significands have at most 32 bits, and exponents are
// those of FP32 codes times FP32 scales, so that a value is 0, infinite, NaN or in [2^-298, 2^256). A product is then
// in [2^-596, 2^512): no double here is ever subnormal or overflows.
//
// Does not promise: low memory use. 8 bytes an element.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "numerics/accumulate/fused_sum.h"

namespace mxcheck {

// The factor, as what it stands for: exact.
inline double value_of(const Factor& x) {
  const auto field = static_cast<std::uint64_t>(1023 + x.exponent - x.fraction_bits);  // the bias, and -298 to 254
  double magnitude = static_cast<double>(x.significand) * std::bit_cast<double>(field << 52);
  if (x.kind == Factor::Kind::infinite) magnitude = std::numeric_limits<double>::infinity();
  if (x.kind == Factor::Kind::nan) magnitude = std::numeric_limits<double>::quiet_NaN();
  return x.negative ? -magnitude : magnitude;
}

class ExactRows {
 public:
  static constexpr std::int64_t kPanel = 16;   // rows that lie side by side
  static constexpr std::int64_t kBlock = 256;  // of k, that has a range of its own

  // Finite values are multiples of 2^quantum and below 2^top. Of zeros alone: {kZeroQuantum, kZeroTop}.
  struct Range {
    std::int16_t quantum;
    std::int16_t top;
  };
  static constexpr std::int16_t kZeroQuantum = 300;
  static constexpr std::int16_t kZeroTop = -300;

  struct Row {
    double norm = 0;             // sqrt of the sum of squares of finite values, right to within a millionth
    int quantum = kZeroQuantum;  // of all blocks
    int bits = 0;                // of the longest significand
  };

  ExactRows(std::int64_t rows, std::int64_t k);

  // Different rows may be set by several threads at once.
  void set_row(std::int64_t row, std::span<const double> values);

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
  [[nodiscard]] std::int64_t k() const { return k_; }

  // values(p)[k * kPanel + lane] is of row p * kPanel + lane; lanes beyond the rows are zeros.
  [[nodiscard]] const double* values(std::int64_t panel) const { return values_.data() + panel * k_ * kPanel; }
  [[nodiscard]] const double* values_of_row(std::int64_t row) const { return values(row / kPanel) + row % kPanel; }
  [[nodiscard]] const Row& row(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] Range range(std::int64_t row, std::int64_t block) const {
    return ranges_[static_cast<std::size_t>(row * blocks_ + block)];
  }

 private:
  [[nodiscard]] std::size_t length(std::int64_t block) const {
    return static_cast<std::size_t>(std::min(kBlock, k_ - block * kBlock));
  }

  std::int64_t k_;
  std::int64_t blocks_;
  std::vector<double> values_;
  std::vector<Range> ranges_;
  std::vector<Row> rows_;
};

}  // namespace mxcheck

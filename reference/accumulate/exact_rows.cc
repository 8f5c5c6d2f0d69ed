#include "reference/accumulate/exact_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/common/checked_size.h"

namespace mxcheck {

double value_of(const Factor& x) {
  double magnitude = 0;
  switch (x.kind) {
    case Factor::Kind::nan: return std::numeric_limits<double>::quiet_NaN();
    case Factor::Kind::infinite: magnitude = std::numeric_limits<double>::infinity(); break;
    case Factor::Kind::finite: {
      const auto field = static_cast<std::uint64_t>(1023 + x.exponent - x.fraction_bits);  // -298 to 254 and the bias
      magnitude = static_cast<double>(x.significand) * std::bit_cast<double>(field << 52);
    }
  }
  return x.negative ? -magnitude : magnitude;
}

ExactRows::ExactRows(std::int64_t rows, std::int64_t k) : k_(k), blocks_(ceil_div(k, kBlock)) {
  const std::int64_t panels = ceil_div(rows, kPanel);
  values_.resize(static_cast<std::size_t>(checked_product(checked_product(panels, kPanel, "rows"), k, "exact rows")));
  ranges_.resize(static_cast<std::size_t>(rows * blocks_), Range{kZeroQuantum, kZeroTop});
  rows_.resize(static_cast<std::size_t>(rows));
}

void ExactRows::set_row(std::int64_t row, std::span<const double> values) {
  double* to = values_.data() + row / kPanel * k_ * kPanel + row % kPanel;
  Row& of_row = rows_[static_cast<std::size_t>(row)];
  double squares = 0;
  for (std::int64_t k = 0; k < k_; ++k, to += kPanel) {
    const double x = values[static_cast<std::size_t>(k)];
    *to = x;
    if (x == 0 || !std::isfinite(x)) continue;
    squares += x * x;
    const auto word = std::bit_cast<std::uint64_t>(x);
    const int exponent = static_cast<int>(word >> 52 & 0x7FF) - 1023;
    const int below = 52 - std::countr_zero(word | std::uint64_t{1} << 52);  // fraction bits that are used
    Range& range = ranges_[static_cast<std::size_t>(row * blocks_ + k / kBlock)];
    range.quantum = static_cast<std::int16_t>(std::min<int>(range.quantum, exponent - below));
    range.top = static_cast<std::int16_t>(std::max<int>(range.top, exponent + 1));
    of_row.quantum = std::min<int>(of_row.quantum, exponent - below);
    of_row.bits = std::max(of_row.bits, 1 + below);
  }
  of_row.norm = std::sqrt(squares);
}

}  // namespace mxcheck

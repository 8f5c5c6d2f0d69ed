#include "reference/accumulate/exact_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/common/checked_size.h"

namespace mxcheck {

ExactRows::ExactRows(std::int64_t rows, std::int64_t k) : k_(k), blocks_(ceil_div(k, kBlock)) {
  const std::int64_t panels = ceil_div(rows, kPanel);
  values_.resize(static_cast<std::size_t>(checked_product(checked_product(panels, kPanel, "rows"), k, "exact rows")));
  ranges_.resize(static_cast<std::size_t>(rows * blocks_), Range{kZeroQuantum, kZeroTop});
  rows_.resize(static_cast<std::size_t>(rows));
}

void ExactRows::set_row(std::int64_t row, std::span<const double> values) {
  double* to = values_.data() + row / kPanel * k_ * kPanel + row % kPanel;
  Row of_row;
  double squares = 0;
  for (std::int64_t block = 0; block < blocks_; ++block) {
    int quantum = kZeroQuantum;
    int top = kZeroTop;
    for (double x : values.subspan(static_cast<std::size_t>(block * kBlock)).first(length(block))) {
      *to = x;
      to += kPanel;
      if (x == 0 || !std::isfinite(x)) continue;
      squares += x * x;
      const auto word = std::bit_cast<std::uint64_t>(x);
      const int exponent = static_cast<int>(word >> 52 & 0x7FF) - 1023;
      const int fraction_bits = 52 - std::countr_zero(word | std::uint64_t{1} << 52);  // that are used
      quantum = std::min(quantum, exponent - fraction_bits);
      top = std::max(top, exponent + 1);
      of_row.bits = std::max(of_row.bits, 1 + fraction_bits);
    }
    ranges_[static_cast<std::size_t>(row * blocks_ + block)] = {static_cast<std::int16_t>(quantum),
                                                                static_cast<std::int16_t>(top)};
    of_row.quantum = std::min(of_row.quantum, quantum);
  }
  of_row.norm = std::sqrt(squares);
  rows_[static_cast<std::size_t>(row)] = of_row;
}

}  // namespace mxcheck

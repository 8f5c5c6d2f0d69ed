#include "reference/accumulate/exact_blocks.h"

#include <algorithm>
#include <cmath>

#include "reference/accumulate/exact_engine.h"

namespace mxcheck::detail {
namespace {

constexpr std::int64_t kPanel = ExactRows::kPanel;
constexpr std::int64_t kBlock = ExactRows::kBlock;

void add(ExactSum& sum, double x) {
  if (x == 0) return;
  const OddSignificand odd(x);
  sum.add(odd.negative, odd.significand, odd.exponent);
}

// The third way. Significands have up to 32 bits each.
void add_products(ExactSum& sum, const double* a, const double* b, std::int64_t count) {
  for (std::int64_t at = 0; at < count * kPanel; at += kPanel) {
    if (a[at] == 0 || b[at] == 0) continue;
    const OddSignificand x(a[at]);
    const OddSignificand y(b[at]);
    sum.add(x.negative != y.negative, x.significand * y.significand, x.exponent + y.exponent);
  }
}

}  // namespace

void ExactBlocks::start(std::int64_t row, std::int64_t panel) {
  first_row_ = row, panel_ = panel;
  wanted_.fill(0);
}

void ExactBlocks::want(std::size_t row, std::size_t lane, double c) {
  wanted_[row] |= 1U << lane;
  sums_[row][lane] = ExactSum();
  add(sums_[row][lane], c);
}

void ExactBlocks::compute() {
  for (std::int64_t k = k_.begin; k < k_.end;) {
    const Extent part{k, std::min(k_.end, (k / kBlock + 1) * kBlock)};
    for (std::size_t row = 0; row < kRows; ++row) {
      if (wanted_[row] != 0) add_block(row, part);
    }
    k = part.end;
  }
}

// k lies within one of the blocks that ranges are known of.
void ExactBlocks::add_block(std::size_t row, Extent k) {
  const std::int64_t i = first_row_ + static_cast<std::int64_t>(row);
  const ExactRows::Range of_a = a_.range(i, k.begin / kBlock);
  const double* a = a_.values_of_row(i) + k.begin * kPanel;
  const double* b = b_.values(panel_) + k.begin * kPanel;
  std::uint32_t fits = 0;
  bool wide = false;
  std::array<double, kLanes> sigma;
  sigma.fill(1);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (!wants(row, lane)) continue;
    const std::int64_t j = panel_ * kPanel + static_cast<std::int64_t>(lane);
    const ExactRows::Range of_b = b_.range(j, k.begin / kBlock);
    const int top = of_a.top + of_b.top;
    if (top - of_a.quantum - of_b.quantum <= 89) fits |= 1U << lane;
    sigma[lane] = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + top + 9) << 52 | std::uint64_t{1} << 51);
    wide = wide || a_.row(i).bits + b_.row(j).bits > 53;
  }
  std::array<double, kLanes> high;
  std::array<double, kLanes> low;
  if (fits != 0 && !run_split_sums({a, b, k.end - k.begin, sigma.data(), high.data(), low.data(), wide})) fits = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (!wants(row, lane)) continue;
    ExactSum& sum = sums_[row][lane];
    if ((fits >> lane & 1) != 0) {
      add(sum, high[lane]);
      add(sum, low[lane]);
    } else {
      add_products(sum, a, b + lane, k.end - k.begin);
    }
  }
}

}  // namespace mxcheck::detail

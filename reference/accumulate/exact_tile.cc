#include "reference/accumulate/exact_tile.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "numerics/accumulate/exact_sum.h"
#include "reference/accumulate/engine.h"
#include "reference/accumulate/exact_rows.h"
#include "reference/accumulate/operand.h"
#include "reference/common/checked_size.h"

// Outputs whose sums are computed to the last bit, block of k by block: the second and third way of exact_tile.h.
//
//   ExactBlocks blocks(a, b, k);
//   blocks.start(row, panel);      // rows from there on by a panel of b
//   blocks.want(0, 3, c);          // row + 0, lane 3, and what the sum starts from
//   blocks.compute();
//   blocks.word(0, 3)              // the FP32 word
//
// Needs rounding to nearest, subnormals kept, and finite values where outputs are wanted. Internal.

namespace mxcheck::detail {

// A finite double that is not 0: +-significand * 2^exponent, the significand odd.
struct OddSignificand {
  explicit OddSignificand(double x) {
    const auto word = std::bit_cast<std::uint64_t>(x);
    significand = (word & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
    const int trailing = std::countr_zero(significand);
    significand >>= trailing;
    exponent = static_cast<int>(word >> 52 & 0x7FF) - 1075 + trailing;
    negative = word >> 63 != 0;
  }
  std::uint64_t significand;
  int exponent;
  bool negative;
};

class ExactBlocks {
 public:
  static constexpr std::size_t kRows = 16;  // that share a block of b's panel while it is in L1
  static constexpr std::size_t kLanes = ExactRows::kPanel;

  ExactBlocks(const ExactRows& a, const ExactRows& b, Extent k) : a_(a), b_(b), k_(k) {}

  void start(std::int64_t row, std::int64_t panel);
  void want(std::size_t row, std::size_t lane, double c);
  void compute();
  [[nodiscard]] bool wants(std::size_t row, std::size_t lane) const { return (wanted_[row] >> lane & 1) != 0; }
  [[nodiscard]] std::uint32_t word(std::size_t row, std::size_t lane) const {
    return sums_[row][lane].rounded(Format::fp32);
  }

 private:
  void add_block(std::size_t row, Extent k);

  const ExactRows& a_;
  const ExactRows& b_;
  const Extent k_;
  std::int64_t first_row_ = 0;
  std::int64_t panel_ = 0;
  std::array<std::uint32_t, kRows> wanted_{};  // a bit a lane
  std::array<std::array<ExactSum, kLanes>, kRows> sums_{};
};

}  // namespace mxcheck::detail

namespace mxcheck {
namespace {

constexpr std::int64_t kPanel = ExactRows::kPanel;
constexpr std::int64_t kBlock = ExactRows::kBlock;
constexpr std::int64_t kRows = 64;          // of sums at a time,
constexpr std::int64_t kCols = 8 * kPanel;  // by columns: 64 KiB, beside 128 KiB of a's block in L2

// Rounding to nearest and subnormals kept, while it lives.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&callers_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t callers_{};
};

std::uint32_t word_of(double x) { return std::bit_cast<std::uint32_t>(static_cast<float>(x)); }

// The first way: what `sum`, of n products and c, decides.
std::optional<std::uint32_t> decided(double sum, double c, const ExactRows::Row& a, const ExactRows::Row& b,
                                     std::int64_t n) {
  if (std::isnan(sum)) return 0x7FFFFFFF;
  if (std::isinf(sum)) return word_of(sum);
  const double magnitude = std::abs(c) + a.norm * b.norm;
  const int of_c = c == 0 ? ExactRows::kZeroQuantum : detail::OddSignificand(c).exponent;
  if (magnitude <= std::ldexp(1, 52 + std::min(a.quantum + b.quantum, of_c))) return sum == 0 ? 0 : word_of(sum);
  const std::int64_t roundings = std::min(n, kBlock) + 1 + ceil_div(n, kBlock);
  const double error = static_cast<double>(roundings + 2) * 0x1p-52 * magnitude;
  const std::uint32_t low = word_of(sum - error);
  return low == word_of(sum + error) ? std::optional(low) : std::nullopt;
}

// Tiles of up to kRows x kCols.
class ExactTile {
 public:
  ExactTile(const ExactRows& a, const ExactRows& b, Extent k) : a_(a), b_(b), k_(k), blocks_(a, b, k) {}

  void compute(Extent rows, Extent cols, std::uint32_t* acc, std::int64_t ld) {
    rows_ = rows, cols_ = cols, acc_ = acc, ld_ = ld;
    panels_ = {cols.begin / kPanel, ceil_div(cols.end, kPanel)};
    width_ = (panels_.end - panels_.begin) * kPanel;
    sums_.assign(static_cast<std::size_t>((rows.end - rows.begin) * width_), 0);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t j = cols.begin; j < cols.end; ++j) sum(i, j) = std::bit_cast<float>(word(i, j));
    }
    detail::run_dot_products({a_, b_, rows, panels_, k_, sums_.data(), width_});
    for (std::int64_t i = rows.begin; i < rows.end; i += kRowsAtOnce) {
      for (std::int64_t p = panels_.begin; p < panels_.end; ++p) {
        finish({i, std::min(rows.end, i + kRowsAtOnce)},
               {std::max(cols.begin, p * kPanel), std::min(cols.end, (p + 1) * kPanel)}, p);
      }
    }
  }

 private:
  static constexpr auto kRowsAtOnce = static_cast<std::int64_t>(detail::ExactBlocks::kRows);

  double& sum(std::int64_t i, std::int64_t j) {
    return sums_[static_cast<std::size_t>((i - rows_.begin) * width_ + j - panels_.begin * kPanel)];
  }
  [[nodiscard]] std::uint32_t& word(std::int64_t i, std::int64_t j) const {
    return acc_[(i - rows_.begin) * ld_ + j - cols_.begin];
  }

  // Some rows, and columns of one panel.
  void finish(Extent rows, Extent cols, std::int64_t panel) {
    const auto row = [&](std::int64_t i) { return static_cast<std::size_t>(i - rows.begin); };
    const auto lane = [&](std::int64_t j) { return static_cast<std::size_t>(j - panel * kPanel); };
    bool all_decided = true;
    blocks_.start(rows.begin, panel);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t j = cols.begin; j < cols.end; ++j) {
        const double c = std::bit_cast<float>(word(i, j));
        const auto found = decided(sum(i, j), c, a_.row(i), b_.row(j), k_.end - k_.begin);
        if (found.has_value()) {
          word(i, j) = *found;
        } else {
          blocks_.want(row(i), lane(j), c);
          all_decided = false;
        }
      }
    }
    if (all_decided) return;
    blocks_.compute();
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t j = cols.begin; j < cols.end; ++j) {
        if (blocks_.wants(row(i), lane(j))) word(i, j) = blocks_.word(row(i), lane(j));
      }
    }
  }

  const ExactRows& a_;
  const ExactRows& b_;
  const Extent k_;
  detail::ExactBlocks blocks_;
  Extent rows_{0, 0};
  Extent cols_{0, 0};
  Extent panels_{0, 0};
  std::uint32_t* acc_ = nullptr;  // of (rows_.begin, cols_.begin)
  std::int64_t ld_ = 0;
  std::int64_t width_ = 0;    // of sums_, in whole panels
  std::vector<double> sums_;  // c, then the dot products
};

}  // namespace

void exact_tile(const ExactRows& a, Extent rows, const ExactRows& b, Extent cols, Extent k, std::uint32_t* acc,
                std::int64_t ld) {
  const DefaultArithmetic arithmetic;
  ExactTile tile(a, b, k);
  for (std::int64_t i = rows.begin; i < rows.end; i += kRows) {
    for (std::int64_t j = cols.begin; j < cols.end;) {
      const std::int64_t end = std::min(cols.end, (j / kCols + 1) * kCols);
      tile.compute({i, std::min(rows.end, i + kRows)}, {j, end}, acc + (i - rows.begin) * ld + j - cols.begin, ld);
      j = end;
    }
  }
}

}  // namespace mxcheck

namespace mxcheck::detail {
namespace {

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

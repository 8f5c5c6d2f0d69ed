#include "reference/accumulate/exact_tile.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <optional>
#include <vector>

#include "numerics/accumulate/exact_sum.h"
#include "reference/accumulate/exact_engine.h"
#include "reference/common/checked_size.h"

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

// A finite double that is not 0 as +-significand * 2^exponent, the significand odd.
struct Odd {
  explicit Odd(double x) {
    const auto word = std::bit_cast<std::uint64_t>(x);
    significand = (word & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
    const int trailing = std::countr_zero(significand);
    significand >>= trailing;
    exponent = static_cast<int>(word >> 52 & 0x7FF) - 1075 + trailing;
    negative = word >> 63 != 0;
  }
  bool negative;
  std::uint64_t significand;
  int exponent;
};

void add(ExactSum& sum, double x) {
  if (x == 0) return;
  const Odd odd(x);
  sum.add(odd.negative, odd.significand, odd.exponent);
}

// The first way: what `sum`, of n products and c, decides.
std::optional<std::uint32_t> decided(double sum, double c, const ExactRows::Row& a, const ExactRows::Row& b,
                                     std::int64_t n) {
  if (std::isnan(sum)) return 0x7FFFFFFF;
  if (std::isinf(sum)) return word_of(sum);
  const double magnitude = std::abs(c) + a.norm * b.norm;
  const int quantum = std::min(a.quantum + b.quantum, c == 0 ? ExactRows::kZeroQuantum : Odd(c).exponent);
  if (magnitude <= std::ldexp(1, 52 + quantum)) return sum == 0 ? 0 : word_of(sum);
  const double error = static_cast<double>(n + 2) * 0x1p-52 * magnitude;
  const std::uint32_t low = word_of(sum - error);
  return low == word_of(sum + error) ? std::optional(low) : std::nullopt;
}

class ExactTile {
 public:
  ExactTile(const ExactRows& a, const ExactRows& b, Extent k) : a_(a), b_(b), k_(k) {}

  void compute(Extent rows, Extent cols, std::uint32_t* acc, std::int64_t ld) {
    const Extent panels{cols.begin / kPanel, ceil_div(cols.end, kPanel)};
    const std::int64_t width = (panels.end - panels.begin) * kPanel;
    sums_.assign(static_cast<std::size_t>((rows.end - rows.begin) * width), 0);
    const auto sum_of = [&](std::int64_t i, std::int64_t j) {
      return sums_.data() + (i - rows.begin) * width + j - panels.begin * kPanel;
    };
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const std::uint32_t* c = acc + (i - rows.begin) * ld;
      for (std::int64_t j = cols.begin; j < cols.end; ++j)
        *sum_of(i, j) = std::bit_cast<float>(c[j - cols.begin]);
    }
    detail::run_dot_products({a_, b_, rows, panels, k_, sums_.data(), width});
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t p = panels.begin; p < panels.end; ++p) {
        const Extent part{std::max(cols.begin, p * kPanel), std::min(cols.end, (p + 1) * kPanel)};
        finish(i, part, sum_of(i, part.begin), acc + (i - rows.begin) * ld + part.begin - cols.begin);
      }
    }
  }

 private:
  // Columns of one panel.
  void finish(std::int64_t row, Extent cols, const double* sums, std::uint32_t* acc) {
    wanted_.clear();
    for (std::int64_t j = cols.begin; j < cols.end; ++j) {
      const double c = std::bit_cast<float>(acc[j - cols.begin]);
      const auto word = decided(sums[j - cols.begin], c, a_.row(row), b_.row(j), k_.end - k_.begin);
      if (word.has_value()) acc[j - cols.begin] = *word;
      if (!word.has_value()) wanted_.push_back(j);
    }
    if (wanted_.empty()) return;
    exact_.fill(ExactSum());
    for (std::int64_t j : wanted_) add(exact_[j % kPanel], std::bit_cast<float>(acc[j - cols.begin]));
    for (std::int64_t k = k_.begin; k < k_.end;) {
      const Extent part{k, std::min(k_.end, (k / kBlock + 1) * kBlock)};
      add_block(row, part);
      k = part.end;
    }
    for (std::int64_t j : wanted_) acc[j - cols.begin] = exact_[j % kPanel].rounded(Format::fp32);
  }

  // To the sums of wanted columns, the products of a block's k: the second way, and the third where that is not exact.
  void add_block(std::int64_t row, Extent k) {
    const ExactRows::Range of_a = a_.range(row, k.begin / kBlock);
    const std::int64_t first = wanted_.front() / kPanel * kPanel;
    std::array<double, kPanel> sigma;
    std::array<double, kPanel> high;
    std::array<double, kPanel> low;
    std::array<bool, kPanel> fits{};
    sigma.fill(1);
    bool wide = false;
    for (std::int64_t j : wanted_) {
      const ExactRows::Range of_b = b_.range(j, k.begin / kBlock);
      const int top = of_a.top + of_b.top;
      fits[j - first] = top - of_a.quantum - of_b.quantum <= 89;
      sigma[j - first] = std::ldexp(1.5, top + 9);
      wide = wide || a_.row(row).bits + b_.row(j).bits > 53;
    }
    const double* a = a_.values_of_row(row) + k.begin * kPanel;
    const double* b = b_.values(first / kPanel) + k.begin * kPanel;
    if (std::find(fits.begin(), fits.end(), true) != fits.end() &&
        !detail::run_split_sums({a, b, k.end - k.begin, sigma.data(), high.data(), low.data(), wide})) {
      fits.fill(false);
    }
    for (std::int64_t j : wanted_) {
      ExactSum& sum = exact_[j - first];
      if (fits[j - first]) {
        add(sum, high[j - first]);
        add(sum, low[j - first]);
      } else {
        add_products(sum, a, b + j - first, k.end - k.begin);
      }
    }
  }

  static void add_products(ExactSum& sum, const double* a, const double* b, std::int64_t count) {
    for (std::int64_t at = 0; at < count * kPanel; at += kPanel) {
      if (a[at] == 0 || b[at] == 0) continue;
      const Odd x(a[at]);
      const Odd y(b[at]);
      sum.add(x.negative != y.negative, x.significand * y.significand, x.exponent + y.exponent);  // 32 bits by 32
    }
  }

  const ExactRows& a_;
  const ExactRows& b_;
  const Extent k_;
  std::vector<double> sums_;
  std::vector<std::int64_t> wanted_;      // columns of a panel that the first way has not decided
  std::array<ExactSum, kPanel> exact_{};  // their sums
};

}  // namespace

void exact_tile(const ExactRows& a, Extent rows, const ExactRows& b, Extent cols, Extent k, std::uint32_t* acc,
                std::int64_t ld) {
  const DefaultArithmetic arithmetic;
  ExactTile tile(a, b, k);
  for (std::int64_t i = rows.begin; i < rows.end; i += kRows) {
    for (std::int64_t j = cols.begin; j < cols.end;) {
      const std::int64_t end = std::min(cols.end, (j / kCols + 1) * kCols);
      tile.compute({i, std::min(rows.end, i + kRows)}, {j, end},
                   acc + (i - rows.begin) * ld + j - cols.begin, ld);
      j = end;
    }
  }
}

}  // namespace mxcheck

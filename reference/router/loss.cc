// The auxiliary losses of docs/router.md. Sums that no order defines are exact; all else is FP32 step by step.

#include "reference/router/loss.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "numerics/accumulate/exact_sum.h"
#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/router/parts.h"

namespace mxcheck {
namespace {

using router_parts::softmax;

// a * b without rounding, for finite numbers.
void add_product(ExactSum& sum, float a, float b) {
  const double product = static_cast<double>(a) * static_cast<double>(b);  // 48 bits, exact
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(product), &exponent);
  sum.add(product < 0, static_cast<std::uint64_t>(std::ldexp(fraction, 53)), exponent - 53);
}

float rounded(const ExactSum& sum) { return std::bit_cast<float>(sum.rounded(Format::fp32)); }

void check_logits(const MatrixView& logits) {
  check_matrix(logits);
  if (logits.rows == 0 || logits.cols == 0) {
    throw Error(ErrorKind::usage, "logits of " + std::to_string(logits.rows) + " x " + std::to_string(logits.cols) +
                                      ": a loss needs a token and an expert at least");
  }
}

void read_finite(const MatrixView& logits, std::int64_t row, std::span<float> values) {
  logits.read_row(row, values);
  for (std::size_t col = 0; col < values.size(); ++col) {
    if (std::isfinite(values[col])) continue;
    throw Error(ErrorKind::input, (std::isnan(values[col]) ? "NaN" : "Inf") + (" at row " + std::to_string(row)) +
                                      ", column " + std::to_string(col) + ": a loss takes finite logits alone");
  }
}

// f_e, from counts that must fit.
std::vector<float> shares(const MatrixView& logits, std::span<const std::int32_t> counts) {
  if (static_cast<std::int64_t>(counts.size()) != logits.cols) {
    throw Error(ErrorKind::usage, "counts of " + std::to_string(counts.size()) +
                                      " experts: must be one of each of the " + std::to_string(logits.cols));
  }
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] >= 0) continue;
    throw Error(ErrorKind::usage,
                "count " + std::to_string(counts[e]) + " of expert " + std::to_string(e) + ": must be 0 or more");
  }
  const std::int64_t routes = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (routes == 0) throw Error(ErrorKind::usage, "counts of 0 routes (top_k of 0): must have one at least");
  std::vector<float> f;
  for (const std::int32_t count : counts) f.push_back(static_cast<float>(count) / static_cast<float>(routes));
  return f;
}

std::span<float> row_of(std::vector<float>& matrix, std::int64_t row, std::size_t cols) {
  return std::span(matrix).subspan(static_cast<std::size_t>(row) * cols, cols);
}

// P_e from the softmax of all tokens.
std::vector<float> means(std::span<const float> scores, std::int64_t tokens, std::size_t experts, int threads) {
  std::vector<float> mean(experts);
  const auto work = static_cast<std::int64_t>(scores.size());
  parallel_ranges(static_cast<std::int64_t>(experts), work, threads, [&](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin);
    std::vector<ExactSum> sums(static_cast<std::size_t>(end) - first);
    for (std::size_t row = 0; row < scores.size(); row += experts) {
      for (std::size_t i = 0; i < sums.size(); ++i) add_product(sums[i], scores[row + first + i], 1);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) mean[first + i] = rounded(sums[i]) / static_cast<float>(tokens);
  });
  return mean;
}

}  // namespace

RouterLoss load_balancing_loss(const MatrixView& logits, std::span<const std::int32_t> counts, float coefficient,
                               int threads) {
  check_logits(logits);
  const std::vector<float> f = shares(logits, counts);
  const std::size_t experts = f.size();
  RouterLoss loss;
  const std::int64_t elements = checked_product(logits.rows, logits.cols, "router loss");
  resize_or_throw(loss.gradient, elements, "router loss");  // the softmax at first
  parallel_ranges(logits.rows, elements, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(experts);
    for (std::int64_t t = begin; t < end; ++t) {
      read_finite(logits, t, values);
      softmax(values, row_of(loss.gradient, t, experts));
    }
  });

  const float factor = coefficient * static_cast<float>(experts);
  const std::vector<float> mean = means(loss.gradient, logits.rows, experts, threads);
  ExactSum sum;
  for (std::size_t e = 0; e < experts; ++e) add_product(sum, f[e], mean[e]);
  loss.value = rounded(sum) * factor;

  std::vector<float> c(experts);
  for (std::size_t e = 0; e < experts; ++e) c[e] = (factor * f[e]) / static_cast<float>(logits.rows);
  parallel_ranges(logits.rows, elements, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::span<float> p = row_of(loss.gradient, t, experts);
      float weighted = 0;
      for (std::size_t e = 0; e < experts; ++e) weighted = std::fma(c[e], p[e], weighted);
      for (std::size_t e = 0; e < experts; ++e) p[e] *= c[e] - weighted;
    }
  });
  return loss;
}

RouterLoss router_z_loss(const MatrixView& logits, float coefficient, int threads) {
  check_logits(logits);
  const auto experts = static_cast<std::size_t>(logits.cols);
  const auto tokens = static_cast<float>(logits.rows);
  RouterLoss loss;
  const std::int64_t elements = checked_product(logits.rows, logits.cols, "router loss");
  resize_or_throw(loss.gradient, elements, "router loss");
  std::vector<float> lse;
  resize_or_throw(lse, logits.rows, "router loss");
  const float slope = (2 * coefficient) / tokens;
  parallel_ranges(logits.rows, elements, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(experts);
    for (std::int64_t t = begin; t < end; ++t) {
      read_finite(logits, t, values);
      const std::span<float> p = row_of(loss.gradient, t, experts);
      float& log_sum_exp = lse[static_cast<std::size_t>(t)];
      softmax(values, p, &log_sum_exp);
      const float factor = slope * log_sum_exp;
      for (float& v : p) v *= factor;
    }
  });
  ExactSum squares;
  for (const float x : lse) add_product(squares, x, x);
  loss.value = (coefficient / tokens) * rounded(squares);
  return loss;
}

}  // namespace mxcheck

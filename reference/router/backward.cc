// The gradient of a token's weights becomes that of its logits: through the weights, then through the scores.

#include "reference/router/loss.h"

#include <algorithm>
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

using namespace router_parts;

void check_sizes(const MatrixView& logits, std::span<const std::int32_t> experts, std::span<const float> gradient,
                 std::int64_t width) {
  if (width < 0) throw Error(ErrorKind::usage, "width " + std::to_string(width) + ": must be 0 or more");
  const std::int64_t routes = checked_product(logits.rows, width, "routes");
  const auto check = [routes](std::size_t size, const char* what) {
    if (static_cast<std::int64_t>(size) != routes) {
      throw Error(ErrorKind::usage, std::string(what) + " of " + std::to_string(size) +
                                        " elements: must be one of each of the " + std::to_string(routes) + " routes");
    }
  };
  check(experts.size(), "experts");
  check(gradient.size(), "gradient of the weights");
}

// Each expert in [-1, experts), and of each but -1 at most one in a token.
void backward_check_experts(const MatrixView& logits, std::span<const std::int32_t> experts, std::int64_t width) {
  std::vector<std::int64_t> token_of(static_cast<std::size_t>(logits.cols), -1);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const std::int32_t e = experts[i];
    if (e == -1) continue;
    const std::int64_t token = static_cast<std::int64_t>(i) / width;
    const auto where = [&] { return "expert " + std::to_string(e) + " of route " + std::to_string(i); };
    if (e < -1 || e >= logits.cols) {
      throw Error(ErrorKind::input, where() + ": must be from -1 (none) to " + std::to_string(logits.cols - 1));
    }
    if (token_of[static_cast<std::size_t>(e)] == token) {
      throw Error(ErrorKind::input, where() + ": token " + std::to_string(token) + " has it twice");
    }
    token_of[static_cast<std::size_t>(e)] = token;
  }
}

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}

// The gradient of a row, one after the other.
class RowGradient {
 public:
  RowGradient(const Router& router, std::int64_t experts)
      : router_(router),
        bits_(router.variant->packed ? packed_bits(experts) : 0),
        values_(static_cast<std::size_t>(experts)),
        scores_(values_.size()) {}

  std::span<float> logits() { return values_; }  // to be filled before

  void compute(std::span<const std::int32_t> experts, std::span<const float> gradient, std::span<float> out) {
    const RouterVariant& variant = *router_.variant;
    collect(experts, gradient);
    std::fill(out.begin(), out.end(), 0.0F);
    if (variant.score == RouterScore::logits) {
      through_softmax_of_kept(out);
    } else {
      if (variant.score == RouterScore::softmax) softmax(values_, scores_);
      through_weights();
      if (variant.score == RouterScore::softmax) {
        through_softmax(out);
      } else {
        through_element(out);
      }
    }
    for (std::size_t e = 0; e < out.size(); ++e) {
      if (std::isnan(values_[e])) out[e] = 0;
    }
  }

 private:
  // The routes that there are, and their gradients times `scale`.
  void collect(std::span<const std::int32_t> experts, std::span<const float> gradient) {
    experts_.clear();
    gradient_.clear();
    for (std::size_t k = 0; k < experts.size(); ++k) {
      if (experts[k] < 0) continue;
      experts_.push_back(static_cast<std::size_t>(experts[k]));
      gradient_.push_back(gradient[k] * router_.scale);
    }
    kept_.resize(experts_.size());
    weights_.resize(experts_.size());
  }

  void through_softmax_of_kept(std::span<float> out) {
    for (std::size_t k = 0; k < experts_.size(); ++k) kept_[k] = cleared(values_[experts_[k]], bits_);
    kept_weights(router_, kept_, weights_);
    const float sum = dot(gradient_, weights_);
    for (std::size_t k = 0; k < experts_.size(); ++k) out[experts_[k]] = weights_[k] * (gradient_[k] - sum);
  }

  // Makes h, the gradient of scores, of g, that of weights.
  void through_weights() {
    for (std::size_t k = 0; k < experts_.size(); ++k) kept_[k] = score(experts_[k]);
    const float divisor = kept_weights(router_, kept_, weights_);
    const bool raw = router_.variant->weights == RouterWeights::raw ||
                     (router_.variant->weights == RouterWeights::sum_plus_tiny && router_.top_k == 1);
    if (raw) return;
    const float sum = dot(gradient_, weights_);
    for (float& g : gradient_) g = divisor == 0 ? 0.0F : (g - sum) / divisor;
  }

  void through_softmax(std::span<float> out) {
    const float sum = dot(gradient_, kept_);
    for (std::size_t e = 0; e < out.size(); ++e) out[e] = scores_[e] * (0.0F - sum);
    for (std::size_t k = 0; k < experts_.size(); ++k) out[experts_[k]] = kept_[k] * (gradient_[k] - sum);
  }

  void through_element(std::span<float> out) {
    for (std::size_t k = 0; k < experts_.size(); ++k) {
      const float x = values_[experts_[k]];
      if (router_.variant->score == RouterScore::sigmoid) {
        out[experts_[k]] = gradient_[k] * (sigmoid(x) * sigmoid(-x));
      } else if (kept_[k] != 0) {
        out[experts_[k]] = gradient_[k] * (sigmoid(x) / (2 * kept_[k]));
      }
    }
  }

  [[nodiscard]] float score(std::size_t expert) const {
    if (router_.variant->score == RouterScore::softmax) return scores_[expert];
    float s = 0;
    scores_of(router_.variant->score, std::span(&values_[expert], 1), std::span(&s, 1));
    return s;
  }

  const Router& router_;
  int bits_;
  std::vector<float> values_, scores_;
  std::vector<std::size_t> experts_;
  std::vector<float> gradient_, kept_, weights_;
};

}  // namespace

std::vector<float> route_backward(const Router& router, const MatrixView& logits, std::span<const std::int32_t> experts,
                                  std::span<const float> gradient, std::int64_t width, int threads) {
  check_router(router, logits);
  check_sizes(logits, experts, gradient, width);
  backward_check_experts(logits, experts, width);
  std::vector<float> out;
  const std::int64_t elements = checked_product(logits.rows, logits.cols, "gradient of the logits");
  resize_or_throw(out, elements, "gradient of the logits");
  parallel_ranges(logits.rows, elements, threads, [&](std::int64_t begin, std::int64_t end) {
    RowGradient row(router, logits.cols);
    const auto cols = static_cast<std::size_t>(logits.cols);
    const auto routes = static_cast<std::size_t>(width);
    for (std::int64_t t = begin; t < end; ++t) {
      read_logits(router, logits, t, row.logits());
      const auto i = static_cast<std::size_t>(t);
      row.compute(experts.subspan(i * routes, routes), gradient.subspan(i * routes, routes),
                  std::span(out).subspan(i * cols, cols));
    }
  });
  return out;
}

// The auxiliary losses of docs/router.md. Sums that no order defines are exact; all else is FP32 step by step.

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
  if (logits.cols != 0) return;
  throw Error(ErrorKind::usage, "logits of " + std::to_string(logits.rows) + " x 0: a loss needs an expert at least");
}

void read_finite(const MatrixView& logits, std::int64_t row, std::span<float> values) {
  logits.read_row(row, values);
  for (std::size_t col = 0; col < values.size(); ++col) {
    if (std::isfinite(values[col])) continue;
    throw Error(ErrorKind::input, (std::isnan(values[col]) ? "NaN" : "Inf") + (" at row " + std::to_string(row)) +
                                      ", column " + std::to_string(col) + ": a loss takes finite logits alone");
  }
}

// f_e, from counts that must fit; nothing where there are no tokens.
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
  if (logits.rows == 0) return {};
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
  if (logits.rows == 0) return loss;
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
  if (logits.rows == 0) return loss;
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

// From the gradient of a token's weights to that of its logits: through the weights, then through the scores.

#include <algorithm>
#include <cmath>

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
void check_experts(const MatrixView& logits, std::span<const std::int32_t> experts, std::int64_t width) {
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

  // From g, the gradient of weights, to h, that of scores.
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
  check_experts(logits, experts, width);
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

}  // namespace mxcheck

// Scores of single logits and of rows, and the weights of those that are kept.

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/elementary/elementary.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/router/parts.h"

namespace mxcheck {
namespace router_parts {
namespace {

constexpr float kTiny = 1e-20F;

// The largest that is no NaN; NaN where there is none.
float largest_of(std::span<const float> values) {
  float largest = std::numeric_limits<float>::quiet_NaN();
  for (const float x : values) {
    if (!(x <= largest) && !std::isnan(x)) largest = x;
  }
  return largest;
}

// exp(x - m): 1 where x is m, infinities included, +0 for NaN and where there is no m.
void exponentials(std::span<const float> values, float largest, std::span<float> terms) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    terms[i] = x == largest ? 1.0F : std::isnan(x) ? 0.0F : exp_rn(x - largest);
  }
}

void divide(std::span<float> values, float divisor) {
  for (float& v : values) v /= divisor;
}

float softmax_of_kept(std::span<const float> kept, std::span<float> weights) {
  const float largest = largest_of(kept);
  exponentials(kept, largest, weights);
  float sum = 0;
  for (const float w : weights) sum += w;
  if (!std::isnan(largest)) divide(weights, sum);
  return 1;
}

}  // namespace

float sigmoid(float x) {
  const float e = exp_rn(-std::fabs(x));
  return (x >= 0 ? 1.0F : e) / (1.0F + e);
}

float sqrtsoftplus(float x) { return std::sqrt(std::max(x, 0.0F) + log1p_rn(exp_rn(-std::fabs(x)))); }

void softmax(std::span<const float> values, std::span<float> scores, float* log_sum_exp) {
  const float largest = largest_of(values);
  exponentials(values, largest, scores);
  if (std::isnan(largest)) return;
  const float sum = pairwise_sum(scores);
  if (log_sum_exp != nullptr) *log_sum_exp = largest + log_rn(sum);
  divide(scores, sum);
}

void scores_of(RouterScore score, std::span<const float> values, std::span<float> scores) {
  if (score == RouterScore::logits || score == RouterScore::softmax) return softmax(values, scores);
  const auto function = score == RouterScore::sigmoid ? sigmoid : sqrtsoftplus;
  for (std::size_t i = 0; i < values.size(); ++i) scores[i] = std::isnan(values[i]) ? 0.0F : function(values[i]);
}

float kept_weights(const Router& router, std::span<const float> kept, std::span<float> weights) {
  RouterWeights rule = router.variant->weights;
  if (rule == RouterWeights::sum_plus_tiny && router.top_k == 1) rule = RouterWeights::raw;
  if (rule == RouterWeights::softmax_of_kept) return softmax_of_kept(kept, weights);
  std::copy(kept.begin(), kept.end(), weights.begin());
  if (rule == RouterWeights::raw) return 1;
  float sum = rule == RouterWeights::tiny_then_sum ? kTiny : 0.0F;
  for (const float score : kept) sum += score;
  if (rule == RouterWeights::sum_plus_tiny) sum += kTiny;
  if (sum == 0) {
    std::fill(weights.begin(), weights.end(), 0.0F);
  } else {
    divide(weights, sum);
  }
  return sum;
}

}  // namespace router_parts

std::vector<float> router_scores(const Router& router, const MatrixView& logits, int threads) {
  router_parts::check_router(router, logits);
  std::vector<float> scores;
  const std::int64_t elements = checked_product(logits.rows, logits.cols, "router scores");
  resize_or_throw(scores, elements, "router scores");
  parallel_ranges(logits.rows, elements, threads, [&](std::int64_t begin, std::int64_t end) {
    const auto experts = static_cast<std::size_t>(logits.cols);
    std::vector<float> values(experts);
    for (std::int64_t t = begin; t < end; ++t) {
      router_parts::read_logits(router, logits, t, values);
      const auto row = std::span(scores).subspan(static_cast<std::size_t>(t) * experts, experts);
      router_parts::scores_of(router.variant->score, values, row);
    }
  });
  return scores;
}

}  // namespace mxcheck

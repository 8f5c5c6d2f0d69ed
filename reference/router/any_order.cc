#include "reference/router/any_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/router/parts.h"

namespace mxcheck {
namespace {

constexpr double kStep = 0x1p-23;
constexpr double kMayVanish = 0x1p-120;  // below it roundings of subnormal numbers, or flushing, may be all there is
constexpr double kDeepest = 60;

struct Score {
  double value = 0;
  double off = 0;  // relative
};

bool is_ordinary(float x) { return std::isfinite(x) && (x == 0 || std::fabs(x) >= 0x1p-126F); }

// exp(x - M) of each value, M the largest of the row.
std::vector<Score> terms_of(std::span<const float> values, double largest) {
  std::vector<Score> terms;
  for (const float x : values) {
    const double depth = largest - double{x};
    terms.push_back({std::exp(-depth),
                     (2 + 1.173 * depth) * kStep + (depth + std::fabs(double{x}) + std::fabs(largest)) * 2 * kStep});
  }
  return terms;
}

Score sum_of(std::span<const Score> terms) {
  Score sum;
  for (const Score& t : terms) sum.value += t.value, sum.off += t.value * t.off;
  sum.off = (sum.value == 0 ? 0 : 2 * sum.off / sum.value) + static_cast<double>(terms.size()) * 2 * kStep;
  return sum;
}

Score over(const Score& x, const Score& sum) { return {x.value / sum.value, x.off + sum.off + 0x1p-20}; }

std::vector<Score> scores_of_row(const Router& router, std::span<const float> logits) {
  std::vector<Score> scores;
  if (router.variant->score == RouterScore::sigmoid) {
    for (const float x : logits) {
      const double rest = 1 / (1 + std::exp(double{x}));
      scores.push_back({1 / (1 + std::exp(-double{x})), 0x1p-20 + rest * (2 + 1.173 * std::fabs(double{x})) * kStep});
    }
    return scores;
  }
  scores = terms_of(logits, *std::max_element(logits.begin(), logits.end()));
  const Score sum = sum_of(scores);
  for (Score& s : scores) s = over(s, sum);
  return scores;
}

OutputRange range_of(const Score& w, double scale) {
  const double value = w.value * scale, size = std::fabs(value);
  const bool may_vanish = w.value < kMayVanish || size < kMayVanish;
  const double most = size * (1 + w.off) + (may_vanish ? 0x1p-140 * std::max(1.0, std::fabs(scale)) : 0);
  const double least = may_vanish ? 0 : size * (1 - w.off);
  return value < 0 || std::signbit(scale) ? OutputRange{-most, -least} : OutputRange{least, most};
}

bool are_different(std::span<const std::int32_t> experts, std::size_t count) {
  std::vector<bool> seen(count);
  for (const std::int32_t e : experts) {
    if (e < 0 || static_cast<std::size_t>(e) >= count || seen[static_cast<std::size_t>(e)]) return false;
    seen[static_cast<std::size_t>(e)] = true;
  }
  return true;
}

// No expert comes before, or in place of, one whose key is larger whatever was rounded.
bool may_be_in_this_order(const Router& router, std::span<const Score> scores, std::span<const std::int32_t> experts) {
  const auto key = [&](std::size_t e, double side) {
    const double bias = router.bias.empty() ? 0 : double{router.bias[e]}, s = scores[e].value;
    const double off = s * scores[e].off + 0x1p-140 + (router.bias.empty() ? 0 : (s + std::fabs(bias)) * kStep);
    return s + bias + side * (off + (s < kMayVanish ? s : 0));
  };
  double least = std::numeric_limits<double>::infinity();  // of the largest that keys so far may be
  std::vector<bool> chosen(scores.size());
  for (const std::int32_t e : experts) {
    const auto at = static_cast<std::size_t>(e);
    if (key(at, -1) > least) return false;
    least = std::min(least, key(at, 1)), chosen[at] = true;
  }
  for (std::size_t e = 0; e < scores.size(); ++e) {
    if (!chosen[e] && key(e, -1) > least) return false;
  }
  return true;
}

bool experts_may_be(const Router& router, std::span<const float> logits, std::span<const Score> scores,
                    std::span<const std::int32_t> experts, std::span<const std::int32_t> reference) {
  bool is_exact = router.groups == 0;
  for (std::size_t e = 0; e < logits.size(); ++e) {
    const bool adds = !router.bias.empty();
    is_exact &=
        is_ordinary(logits[e]) && (!adds || (is_ordinary(router.bias[e]) && is_ordinary(logits[e] + router.bias[e])));
  }
  if (!is_exact) return true;
  if (router.variant->score == RouterScore::logits) return std::ranges::equal(experts, reference);
  return may_be_in_this_order(router, scores, experts);
}

// The weights before `scale`; none where nothing is said.
std::vector<Score> weights_of(const Router& router, std::span<const float> logits, std::span<const Score> scores,
                              std::span<const std::int32_t> experts) {
  std::vector<Score> kept;
  if (router.variant->score == RouterScore::logits) {
    const int bits = router.variant->packed ? router_parts::packed_bits(std::ssize(logits)) : 0;
    std::vector<float> values;
    for (const std::int32_t e : experts)
      values.push_back(router_parts::cleared(logits[static_cast<std::size_t>(e)], bits));
    const double largest = *std::max_element(logits.begin(), logits.end());
    if (largest - *std::max_element(values.begin(), values.end()) > kDeepest) return {};
    kept = terms_of(values, largest);
  } else {
    for (const std::int32_t e : experts) kept.push_back(scores[static_cast<std::size_t>(e)]);
  }
  RouterWeights rule = router.variant->weights;
  if (rule == RouterWeights::sum_plus_tiny && router.top_k == 1) rule = RouterWeights::raw;
  if (rule == RouterWeights::raw) return kept;
  Score sum = sum_of(kept);
  if (sum.value < (router.variant->score == RouterScore::logits ? std::exp(-2 * kDeepest) : 0x1p-40)) return {};
  if (rule == RouterWeights::sum_plus_tiny || rule == RouterWeights::tiny_then_sum) sum.value += 1e-20;
  for (Score& w : kept) w = over(w, sum);
  return kept;
}

}  // namespace

bool has_weight_ranges(const RouterVariant& variant) { return variant.score != RouterScore::sqrtsoftplus; }

JudgedRoute judge_route(const Router& router, std::span<const float> logits, std::span<const std::int32_t> experts,
                        std::span<const std::int32_t> reference) {
  JudgedRoute judged;
  if (!are_different(experts, logits.size())) return {false, {}, {}};
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  judged.weights.assign(experts.size(), {0, 0, false, true});
  judged.exact.assign(experts.size(), {kNone, kNone, 0});
  const auto is_finite = [](float x) { return std::isfinite(x); };
  if (!std::ranges::all_of(logits, is_finite) || !std::ranges::all_of(router.bias, is_finite)) return judged;
  const std::vector<Score> scores =
      router.variant->score == RouterScore::logits ? std::vector<Score>{} : scores_of_row(router, logits);
  if (!experts_may_be(router, logits, scores, experts, reference)) return {false, {}, {}};
  const std::vector<Score> weights = weights_of(router, logits, scores, experts);
  if (weights.empty() || !std::isfinite(router.scale)) return judged;
  const double scale{router.scale};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    judged.weights[i] = range_of(weights[i], scale);
    const double value = weights[i].value * scale;
    if (weights[i].value >= kMayVanish) judged.exact[i] = {value, std::fabs(value), std::fabs(value) * 0x1p-44};
  }
  return judged;
}

}  // namespace mxcheck

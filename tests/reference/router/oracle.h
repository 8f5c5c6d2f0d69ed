#pragma once
// Token choice once more, for one row at a time, the slow way: indices sorted stably by values as they are, sums padded
// and added level by level, packed words by division. Shares exp_rn and log1p_rn with the reference and nothing else.

#include "numerics/elementary/elementary.h"
#include "reference/router/router.h"
#include "tests/testing.h"

namespace mxcheck::test {

using Row = std::vector<float>;

inline Router router_of(std::string_view name, std::int64_t top_k, NanLogits nan = NanLogits::refuse) {
  Router r;
  r.variant = &router_variant_named(name);
  r.top_k = top_k;
  r.nan = nan;
  return r;
}

// Bits, all NaN as one: IEEE 754 leaves their sign and payload open.
inline std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> out;
  for (const float v : values) out.push_back(std::isnan(v) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(v));
  return out;
}

// The order itself: descending, NaN last; stable, so that the smaller index comes first.
inline std::vector<std::size_t> in_order(const Row& values) {
  std::vector<std::size_t> index(values.size());
  std::iota(index.begin(), index.end(), std::size_t{0});
  std::stable_sort(index.begin(), index.end(), [&](std::size_t a, std::size_t b) {
    if (std::isnan(values[a]) || std::isnan(values[b])) return !std::isnan(values[a]) && std::isnan(values[b]);
    return values[a] > values[b];
  });
  return index;
}

inline float level_by_level(Row v) {
  while (!std::has_single_bit(v.size())) v.push_back(0.0F);
  for (; v.size() > 1; v.resize(v.size() / 2)) {
    for (std::size_t i = 0; 2 * i < v.size(); ++i) v[i] = v[2 * i] + v[2 * i + 1];
  }
  return v.front();
}

// exp(x - m), or +0 all over where there is no m.
inline Row shifted_exponentials(const Row& x) {
  const float m = x[in_order(x).front()];
  Row terms;
  for (const float v : x) {
    const bool nothing = std::isnan(v) || std::isnan(m);
    terms.push_back(nothing ? 0.0F : exp_rn(v == m ? 0.0F : v - m));
  }
  return terms;
}

inline Row softmax_row(const Row& x) {
  Row p = shifted_exponentials(x);
  const float sum = level_by_level(p);
  for (float& v : p) v = sum == 0 ? 0.0F : v / sum;
  return p;
}

inline float sigmoid_of(float x) {
  if (std::isnan(x)) return 0;
  const float e = exp_rn(x < 0 ? x : -x);
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

inline float sqrtsoftplus_of(float x) {
  if (std::isnan(x)) return 0;
  return std::sqrt((x > 0 ? x : 0.0F) + log1p_rn(exp_rn(x < 0 ? x : -x)));
}

inline Row scores_row(RouterScore score, const Row& x) {
  if (score == RouterScore::logits || score == RouterScore::softmax) return softmax_row(x);
  Row s;
  for (const float v : x) s.push_back(score == RouterScore::sigmoid ? sigmoid_of(v) : sqrtsoftplus_of(v));
  return s;
}

inline std::uint32_t power_of_two_from(std::size_t experts) {
  std::uint32_t power = 1;
  while (power < experts) power *= 2;
  return power;
}

inline float cleared_of(float v, std::uint32_t power) {
  const auto word = std::bit_cast<std::uint32_t>(v);
  return std::bit_cast<float>(word - word % power);
}

inline float packed_of(float v, std::size_t index, std::uint32_t power) {
  const auto i = static_cast<std::uint32_t>(index);
  const auto word = std::bit_cast<std::uint32_t>(v);
  return std::bit_cast<float>(word - word % power + (v < 0 ? i : power - 1 - i));
}

// The kept values in the order chosen to weights before `scale`; divisor: what scores were divided by.
inline Row weights_row(const Router& router, const Row& kept, float* divisor = nullptr) {
  Row w = kept;
  float sum = 0;
  if (router.variant->weights == RouterWeights::softmax_of_kept) {
    w = shifted_exponentials(kept);
    for (const float t : w) sum += t;
    for (float& t : w) t = sum == 0 ? 0.0F : t / sum;
    return w;
  }
  if (router.variant->weights == RouterWeights::raw) return w;
  if (router.variant->weights == RouterWeights::sum_plus_tiny && router.top_k == 1) return w;
  if (router.variant->weights == RouterWeights::tiny_then_sum) sum = 1e-20F;
  for (const float s : kept) sum += s;
  if (router.variant->weights == RouterWeights::sum_plus_tiny) sum += 1e-20F;
  for (float& t : w) t = sum == 0 ? 0.0F : t / sum;
  if (divisor != nullptr) *divisor = sum;
  return w;
}

struct Choice {
  std::vector<std::int32_t> experts;
  Row weights;
};

inline Choice choose(const Router& router, const Row& x) {
  const RouterVariant& variant = *router.variant;
  const std::uint32_t power = variant.packed ? power_of_two_from(x.size()) : 1;
  const Row weighed = variant.score == RouterScore::logits ? x : scores_row(variant.score, x);
  Row keys = weighed;
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (std::isnan(x[e])) keys[e] = x[e];
    if (!router.bias.empty()) keys[e] += router.bias[e];
    if (variant.packed) keys[e] = packed_of(keys[e], e, power);
  }

  std::vector<bool> allowed(x.size(), router.groups == 0);
  if (router.groups != 0) {
    const std::size_t length = x.size() / static_cast<std::size_t>(router.groups);
    Row values;
    for (std::size_t begin = 0; begin < x.size(); begin += length) {
      Row group(keys.begin() + static_cast<std::ptrdiff_t>(begin),
                keys.begin() + static_cast<std::ptrdiff_t>(begin + length));
      const std::vector<std::size_t> order = in_order(group);
      float sum = 0;
      for (std::int64_t i = 0; i < std::max<std::int64_t>(1, router.top_k / router.groups_kept); ++i) {
        const float key = group[order[static_cast<std::size_t>(i)]];
        sum += std::isnan(key) ? -std::numeric_limits<float>::infinity() : key;
      }
      values.push_back(sum);
    }
    std::vector<std::size_t> order = in_order(values);
    order.resize(static_cast<std::size_t>(router.groups_kept));
    for (const std::size_t g : order)
      std::fill_n(allowed.begin() + static_cast<std::ptrdiff_t>(g * length), length, true);
  }

  Choice choice;
  Row kept;
  for (const std::size_t e : in_order(keys)) {
    if (!allowed[e] || std::cmp_equal(choice.experts.size(), router.top_k)) continue;
    choice.experts.push_back(static_cast<std::int32_t>(e));
    kept.push_back(cleared_of(weighed[e], power));
  }
  choice.weights = weights_row(router, kept);
  for (float& w : choice.weights) w *= router.scale;
  return choice;
}

}  // namespace mxcheck::test

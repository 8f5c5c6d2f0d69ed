// Experts and weights of token choice without promised bits: no kernel with the errors that CUDA documents is outside,
// whatever the order of its sums, and wrong weights are.

#include "reference/router/any_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

struct TokenRow {
  std::vector<float> logits;
  Routes reference;
  Router router;
  std::vector<float> bias;
};

TokenRow token_row(std::string_view variant, std::int64_t experts, std::int64_t top_k, bool has_bias, double spread,
                   std::mt19937& random) {
  TokenRow row;
  std::normal_distribution<float> normal;
  for (std::int64_t e = 0; e < experts; ++e) row.logits.push_back(static_cast<float>(spread) * normal(random));
  for (std::int64_t e = 0; has_bias && e < experts; ++e) row.bias.push_back(normal(random));
  row.router.variant = &router_variant_named(variant);
  row.router.top_k = top_k, row.router.scale = random() % 2 == 0 ? 1.0F : 2.5F;
  row.router.bias = row.bias;
  row.reference =
      route(row.router, {Format::fp32, std::as_bytes(std::span(row.logits)).data(), 1, experts, experts}, 1);
  return row;
}

// A kernel: exp off by its documented error times `most` (-1 to 1, or drawn), sums in an order that is drawn.
struct RouteKernel {
  double most;
  std::mt19937& random;
  bool in_base_two = false, online = false, largest_of_row = false;

  [[nodiscard]] float exp(float x) const {
    const double ulps = most * (2 + std::floor(std::fabs(1.173 * double{x})));
    return static_cast<float>(std::exp(double{x}) * (1 + ulps * 0x1p-24));
  }
  [[nodiscard]] float term(float x, float largest) const {
    if (!in_base_two) return exp(x - largest);
    const float log2e = 1.44269504F;
    return static_cast<float>(std::exp2(double{x * log2e - largest * log2e}) * (1 + 2 * most * 0x1p-23));
  }
  [[nodiscard]] float sum(std::vector<float> terms) const {
    std::shuffle(terms.begin(), terms.end(), random);
    return std::accumulate(terms.begin(), terms.end(), 0.0F);
  }
  [[nodiscard]] float quotient(float x, float y) const {
    const float q = x / y;
    return most < 0 ? std::nextafter(std::nextafter(q, 0.0F), 0.0F) : q;
  }
  // Scores of a row: softmax, perhaps over blocks that are rescaled, or sigmoid.
  [[nodiscard]] std::vector<float> scores(const TokenRow& row) const {
    std::vector<float> scores;
    if (row.router.variant->score == RouterScore::sigmoid) {
      for (const float x : row.logits) scores.push_back(quotient(1, 1 + exp(-x)));
      return scores;
    }
    const float largest = *std::max_element(row.logits.begin(), row.logits.end());
    for (const float x : row.logits) scores.push_back(term(x, largest));
    float all = sum(scores);
    if (online) {
      float m = -std::numeric_limits<float>::infinity();
      all = 0;
      for (const float x : row.logits) {
        const float next = std::max(m, x);
        all = (std::isinf(m) ? 0 : all * exp(m - next)) + exp(x - next);
        m = next;
      }
    }
    for (float& s : scores) s = quotient(s, all);
    return scores;
  }
  // Its experts by its own scores, as equal ones may fall; of logits the reference's.
  [[nodiscard]] std::vector<std::int32_t> experts(const TokenRow& row) const {
    if (row.router.variant->score == RouterScore::logits) return row.reference.experts;
    std::vector<float> keys = scores(row);
    for (std::size_t e = 0; e < row.bias.size(); ++e) keys[e] += row.bias[e];
    std::vector<std::int32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const auto key = [&](std::int32_t e) { return keys[static_cast<std::size_t>(e)]; };
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t x, std::int32_t y) { return key(x) > key(y); });
    order.resize(static_cast<std::size_t>(row.router.top_k));
    return order;
  }
  [[nodiscard]] std::vector<float> weights(const TokenRow& row, std::span<const std::int32_t> experts) const {
    std::vector<float> kept;
    const RouterWeights rule = row.router.variant->weights;
    if (row.router.variant->score == RouterScore::logits) {
      float largest = -std::numeric_limits<float>::infinity();
      for (const std::int32_t e : experts) largest = std::max(largest, row.logits[static_cast<std::size_t>(e)]);
      if (largest_of_row) largest = *std::max_element(row.logits.begin(), row.logits.end());
      for (const std::int32_t e : experts) kept.push_back(term(row.logits[static_cast<std::size_t>(e)], largest));
    } else {
      const std::vector<float> all = scores(row);
      for (const std::int32_t e : experts) kept.push_back(all[static_cast<std::size_t>(e)]);
    }
    if (rule != RouterWeights::raw && !(rule == RouterWeights::sum_plus_tiny && kept.size() == 1)) {
      const float all = sum(kept) + (rule == RouterWeights::softmax_of_kept || rule == RouterWeights::sum ? 0 : 1e-20F);
      for (float& w : kept) w = quotient(w, all);
    }
    for (float& w : kept) w *= row.router.scale;
    return kept;
  }
};

bool holds_route(const TokenRow& row, std::span<const std::int32_t> experts, std::span<const float> weights) {
  const JudgedRoute judged = judge_route(row.router, row.logits, experts, row.reference.experts);
  if (!judged.experts_are_right) return false;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!judged.weights[i].holds(Format::fp32, std::bit_cast<std::uint32_t>(weights[i]))) return false;
  }
  return true;
}

constexpr const char* kVariants[] = {"topk-softmax", "softmax-topk", "softmax-topk-renorm",
                                     "sigmoid",      "sigmoid-raw",  "sigmoid-tiny-first"};

TEST(RouteRanges, hold_the_reference_and_every_kernel_with_the_errors_that_cuda_documents) {
  std::mt19937 random(1);
  for (const char* variant : kVariants) {
    for (int n = 0; n < 400; ++n) {
      const std::int64_t experts = 1 + static_cast<std::int64_t>(random() % 64);
      const std::int64_t top_k =
          1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(std::min<std::int64_t>(8, experts)));
      const double spread = std::ldexp(1.0, static_cast<int>(random() % 12) - 7);  // nearly equal, to 16
      const TokenRow row = token_row(variant, experts, top_k, n % 3 == 0, spread, random);
      ASSERT_TRUE(holds_route(row, row.reference.experts, row.reference.weights)) << variant << " " << n;
      for (int k = 0; k < 24; ++k) {
        const RouteKernel kernel{k % 3 - 1.0, random, (k & 1) != 0, (k & 4) != 0, (k & 8) != 0};
        const std::vector<std::int32_t> chosen = kernel.experts(row);
        ASSERT_TRUE(holds_route(row, chosen, kernel.weights(row, chosen)))
            << variant << " " << n << " kernel " << k << " of " << experts << " spread " << spread;
      }
    }
  }
}

TEST(RouteRanges, lack_other_weights_and_experts) {
  std::mt19937 random(2);
  for (const char* variant : kVariants) {
    int wrong_sum = 0, bf16 = 0, exchanged = 0, all = 0;
    for (int n = 0; n < 200; ++n) {
      const TokenRow row = token_row(variant, 32, 4, false, 2, random);
      std::vector<float> weights = row.reference.weights;
      for (float& w : weights) w *= 1 + 0x1p-12F;
      wrong_sum += holds_route(row, row.reference.experts, weights) ? 0 : 1;
      weights = row.reference.weights;
      for (float& w : weights) w = std::bit_cast<float>(std::bit_cast<std::uint32_t>(w) & 0xFFFF0000);
      bf16 += holds_route(row, row.reference.experts, weights) ? 0 : 1;
      std::vector<std::int32_t> experts = row.reference.experts;
      std::swap(experts[0], experts[3]);
      exchanged += judge_route(row.router, row.logits, experts, row.reference.experts).experts_are_right ? 0 : 1;
      ++all;
    }
    EXPECT_EQ(wrong_sum, all) << variant;
    EXPECT_EQ(bf16, all) << variant;
    EXPECT_GT(exchanged, all * 95 / 100) << variant;
  }
}

TEST(RouteRanges, leave_open_what_is_not_finite_and_refuse_an_expert_twice) {
  std::mt19937 random(3);
  TokenRow row = token_row("softmax-topk", 8, 2, false, 1, random);
  std::vector<std::int32_t> twice{3, 3}, beyond{0, 8};
  EXPECT_FALSE(judge_route(row.router, row.logits, twice, row.reference.experts).experts_are_right);
  EXPECT_FALSE(judge_route(row.router, row.logits, beyond, row.reference.experts).experts_are_right);
  row.logits[0] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(judge_route(row.router, row.logits, row.reference.experts, row.reference.experts).weights[0].unbounded);
  EXPECT_TRUE(has_weight_ranges(router_variant_named("topk-softmax-packed")));
  EXPECT_FALSE(has_weight_ranges(router_variant_named("sqrtsoftplus")));
}

}  // namespace
}  // namespace mxcheck

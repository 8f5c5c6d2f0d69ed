// Steps after the choice: rows by expert under every rule, metadata and gradients, as the reference has them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "tests/kernels/cpu/route/comparison.h"

namespace mxcheck {
namespace {

TokenRounding random_token_rounding(Words& words, TokenRoundingRule rule, std::int64_t tokens) {
  TokenRounding a;
  a.rule = rule;
  a.tile = std::array<std::int64_t, 7>{
      1, 2, 3, 4, 16, tokens + 1, std::numeric_limits<std::int64_t>::max()}[static_cast<std::size_t>(words.below(7))];
  a.capacity = words.below(tokens + 3), a.renormalize = words.below(3) != 0, a.seed = words.next();
  a.layer = static_cast<std::uint32_t>(words.next()), a.step = words.next();
  return a;
}

template <class T>
void expect_equal_rows(std::uint64_t seed) {
  Words words(seed);
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    for (const LogitKind kind : kLogitKinds) {
      const std::int64_t experts = std::array{1, 2, 7, 32, 50}[static_cast<std::size_t>(words.below(5))];
      const std::int64_t tokens = std::array{0, 1, 15, 16, 33, 80}[static_cast<std::size_t>(words.below(6))];
      RouteCase c;
      const auto variants = all_router_variants();
      c.variant = variants[static_cast<std::size_t>(words.below(static_cast<std::int64_t>(variants.size())))].name;
      c.top_k = 1 + words.below(std::min<std::int64_t>(experts, 6));
      c.scale = words.below(2) == 0 ? 1.0F : 2.5F;
      if (words.below(2) == 0) {
        for (std::int64_t e = 0; e < experts; ++e) c.bias.push_back(static_cast<float>(words.below(9)) * 0.25F - 1);
      }
      c.token_rounding = random_token_rounding(words, rule.rule, tokens);
      ASSERT_EQ(round_difference(c, random_logits<T>(kind, words.next(), tokens, experts, experts + 1)), "")
          << tokens << " x " << experts << ", kind " << static_cast<int>(kind) << ", seed " << seed;
    }
  }
}

TEST(CpuRouteRound, equals_the_reference_of_bf16) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) expect_equal_rows<std::uint16_t>(seed);
}
TEST(CpuRouteRound, equals_the_reference_of_fp32) {
  for (std::uint64_t seed = 500; seed < 525; ++seed) expect_equal_rows<std::uint32_t>(seed);
}

// Scores that are equal make nr-s a tie, and ranks a matter of tokens alone.
TEST(CpuRouteRound, of_equal_scores) {
  const std::vector<std::uint16_t> ones(40 * 6, 0x3F80);
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    for (const std::int64_t tile : {1, 4, 7, 16, 80}) {
      RouteCase c{
          .variant = "sigmoid", .top_k = 2, .token_rounding = {.rule = rule.rule, .tile = tile, .capacity = tile}};
      ASSERT_EQ(round_difference(c, sample_of<std::uint16_t>(40, 6, ones)), "");
    }
  }
}

TEST(CpuRouteRound, does_not_depend_on_threads) {
  const auto x = random_logits<std::uint16_t>(LogitKind::close, 2, 4000, 96, 96);
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    for (const std::int32_t threads : {1, 2, 3}) {
      RouteCase c{.variant = "softmax-topk",
                  .top_k = 6,
                  .token_rounding = {.rule = rule.rule, .tile = 128, .capacity = 200},
                  .threads = threads,
                  .best_target_only = true};
      ASSERT_EQ(round_difference(c, x), "");
    }
  }
}

std::vector<std::int32_t> random_slots(Words& words, std::int64_t slots, std::int64_t experts) {
  std::vector<std::int32_t> s(static_cast<std::size_t>(slots));
  for (std::int32_t& e : s) e = static_cast<std::int32_t>(words.below(experts + 1)) - 1;
  return s;
}

TEST(CpuRouteMetadata, equals_the_reference) {
  Words words(21);
  for (int i = 0; i < 400; ++i) {
    const std::int64_t experts = 1 + words.below(20);
    const std::int64_t tokens = words.below(30);
    const std::int64_t width = 1 + words.below(5);
    const std::int64_t tile = 1 + words.below(9);
    ASSERT_EQ(metadata_difference(random_slots(words, tokens * width, experts), width, {}, experts, tile, 1), "");
    std::vector<std::int64_t> offsets{0};
    for (std::int64_t t = 0; t < tokens; ++t) offsets.push_back(offsets.back() + words.below(4));
    ASSERT_EQ(metadata_difference(random_slots(words, offsets.back(), experts), 0, offsets, experts, tile, 1), "");
  }
}

TEST(CpuRouteMetadata, does_not_depend_on_threads) {
  Words words(22);
  for (const std::int32_t threads : {1, 2, 3}) {
    const std::vector<std::int32_t> slots = random_slots(words, 300000, 64);
    ASSERT_EQ(metadata_difference(slots, 6, {}, 64, 128, threads), "");
    ASSERT_EQ(metadata_difference(slots, 0, {0, 1000, 1000, 250000, 300000}, 64, 1, threads), "");
  }
}

TEST(CpuRouteMetadata, refuses_experts_and_offsets_as_the_reference_does) {
  for (const std::int32_t wrong : {-2, 4, std::numeric_limits<std::int32_t>::min()}) {
    ASSERT_EQ(metadata_difference({0, 1, wrong, 3}, 2, {}, 4, 1, 1), "");
  }
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{1, 2, 4}, {0, 3, 2, 4}, {0, 2, 3}, {0, 2, 5}, {0, -1, 4}, {0, 9, 4}}) {
    ASSERT_EQ(metadata_difference({0, 1, 2, 3}, 0, wrong, 4, 1, 1), "");
  }
}

// Some of the experts of each token in any order, -1 among them.
std::vector<std::int32_t> random_experts(Words& words, std::int64_t tokens, std::int64_t experts, std::int64_t top_k) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::int32_t> chosen;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t k = 0; k < top_k; ++k) {
      std::swap(all[static_cast<std::size_t>(k)], all[static_cast<std::size_t>(k + words.below(experts - k))]);
      chosen.push_back(words.below(6) == 0 ? -1 : all[static_cast<std::size_t>(k)]);
    }
  }
  return chosen;
}

template <class T>
void expect_equal_gradients(std::uint64_t seed) {
  Words words(seed);
  for (const RouterVariant& variant : all_router_variants()) {
    for (const LogitKind kind : kLogitKinds) {
      const std::int64_t experts = std::array{1, 2, 7, 32, 50, 129}[static_cast<std::size_t>(words.below(6))];
      const std::int64_t tokens = words.below(12);
      RouteCase c;
      c.variant = std::string(variant.name), c.top_k = 1 + words.below(std::min<std::int64_t>(experts, 9));
      c.scale = words.below(2) == 0 ? 1.0F : 2.5F;
      std::vector<float> gradient(static_cast<std::size_t>(tokens * c.top_k));
      for (float& g : gradient) g = static_cast<float>(words.below(4001) - 2000) * 0x1p-9F;
      if (words.below(4) == 0 && !gradient.empty()) gradient[0] = std::numeric_limits<float>::infinity();
      ASSERT_EQ(backward_difference(c, random_logits<T>(kind, words.next(), tokens, experts, experts + 3),
                                    random_experts(words, tokens, experts, c.top_k), gradient),
                "")
          << tokens << " x " << experts << ", kind " << static_cast<int>(kind) << ", seed " << seed;
    }
  }
}

TEST(CpuRouteBackward, equals_the_reference_of_bf16) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) expect_equal_gradients<std::uint16_t>(seed);
}
TEST(CpuRouteBackward, equals_the_reference_of_fp32) {
  for (std::uint64_t seed = 700; seed < 730; ++seed) expect_equal_gradients<std::uint32_t>(seed);
}

TEST(CpuRouteBackward, does_not_depend_on_threads) {
  Words words(3);
  const auto x = random_logits<std::uint16_t>(LogitKind::normal, 4, 6000, 64, 64);
  const std::vector<std::int32_t> experts = random_experts(words, 6000, 64, 4);
  const std::vector<float> gradient(6000 * 4, 0.37F);
  for (const char* variant : {"topk-softmax", "softmax-topk-renorm", "sqrtsoftplus"}) {
    for (const std::int32_t threads : {1, 2, 3}) {
      RouteCase c{.variant = variant, .top_k = 4, .threads = threads, .best_target_only = true};
      ASSERT_EQ(backward_difference(c, x, experts, gradient), "");
    }
  }
}

TEST(CpuRouteBackward, refuses_experts_that_are_none_or_come_twice) {
  const auto x = random_logits<std::uint32_t>(LogitKind::normal, 4, 2, 5, 5);
  RouteCase c;
  c.top_k = 2;
  for (const std::vector<std::int32_t>& wrong :
       {std::vector<std::int32_t>{0, 1, 5, 2}, {0, 1, -2, 2}, {0, 0, 1, 2}, {0, 1, 3, 3}}) {
    ASSERT_EQ(backward_difference(c, x, wrong, {1, 2, 3, 4}), "");
  }
  ASSERT_EQ(backward_difference(c, x, {-1, -1, 1, -1}, {1, 2, 3, 4}), "");
}

}  // namespace
}  // namespace mxcheck

// The CPU library's routers give the reference's bits: choice, weights, rows and gradients, for every variant and rule,
// on every SIMD target that this machine has. Tensors end where their memory does: reading or writing beyond one
// crashes.

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tests/kernels/cpu/route/comparison.h"

namespace mxcheck {
namespace {

// Around vectors, their multiples, and the places where one way of choosing gives way to another.
constexpr std::array<std::int64_t, 14> kExperts{1, 2, 3, 8, 15, 16, 17, 31, 48, 64, 100, 128, 257, 384};

RouteCase random_case(Words& words, std::int64_t experts) {
  RouteCase c;
  const auto variants = all_router_variants();
  c.variant = variants[static_cast<std::size_t>(words.below(static_cast<std::int64_t>(variants.size())))].name;
  c.top_k = 1 + words.below(words.below(3) == 0 ? experts : std::min<std::int64_t>(experts, 12));
  if (words.below(3) == 0) {
    c.groups = 1 + words.below(experts);
    while (experts % c.groups != 0) --c.groups;
    c.groups_kept = 1 + words.below(c.groups), c.top_k = std::min(c.top_k, experts / c.groups * c.groups_kept);
  }
  if (words.below(2) == 0) {
    for (std::int64_t e = 0; e < experts; ++e) c.bias.push_back(static_cast<float>(words.below(64)) * 0x1p-5F - 1);
  }
  c.nan = words.below(4) == 0 ? NanLogits::refuse : NanLogits::last;
  c.scale = std::array{1.0F, 2.5F, 0.0F, -0x1p-130F}[static_cast<std::size_t>(words.below(4))];
  return c;
}

template <class T>
Sample<T> random_rows(Words& words, LogitKind kind, std::int64_t tokens, std::int64_t experts) {
  return random_logits<T>(kind, words.next(), tokens, experts, experts + words.below(2) * 5);
}

template <class T>
void expect_equal_routes(std::uint64_t seed) {
  Words words(seed);
  for (const LogitKind kind : kLogitKinds) {
    for (const std::int64_t experts : kExperts) {
      for (int i = 0; i < 4; ++i) {
        const RouteCase c = random_case(words, experts);
        ASSERT_EQ(route_difference(c, random_rows<T>(words, kind, 7, experts)), "")
            << experts << " experts, kind " << static_cast<int>(kind) << ", seed " << seed;
      }
    }
  }
}

TEST(CpuRoute, equals_the_reference_of_bf16) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) expect_equal_routes<std::uint16_t>(seed);
}
TEST(CpuRoute, equals_the_reference_of_fp32) {
  for (std::uint64_t seed = 100; seed < 112; ++seed) expect_equal_routes<std::uint32_t>(seed);
}

TEST(CpuRoute, equals_the_reference_of_every_variant_and_top_k) {
  Words words(7);
  for (const RouterVariant& variant : all_router_variants()) {
    for (const std::int64_t experts : {1, 5, 64, 130}) {
      const auto x = random_rows<std::uint32_t>(words, LogitKind::few_values, 3, experts);
      for (std::int64_t k = 1; k <= experts; ++k) {
        RouteCase c{.variant = std::string(variant.name), .top_k = k, .nan = NanLogits::refuse};
        ASSERT_EQ(route_difference(c, x), "") << experts;
      }
    }
  }
}

// All keys equal, or all but a few: more candidates than are ranked by counting.
TEST(CpuRoute, settles_ties_of_any_number) {
  for (const std::int64_t experts : {64, 65, 200, 1000}) {
    Sample<std::uint16_t> x =
        sample_of<std::uint16_t>(2, experts, std::vector<std::uint16_t>(static_cast<std::size_t>(2 * experts), 0x3F80));
    x.bits[static_cast<std::size_t>(experts - 1)] = 0x3F90;
    for (const std::int64_t k : {1, 8, 31, 64}) {
      for (const char* variant : {"topk-softmax", "topk-softmax-packed", "softmax-topk-renorm"}) {
        RouteCase c{.variant = variant, .top_k = k};
        ASSERT_EQ(route_difference(c, x), "") << experts;
      }
    }
  }
}

TEST(CpuRoute, of_a_bias_that_is_no_number) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto x = random_logits<std::uint32_t>(LogitKind::infinities, 5, 9, 40, 40);
  const auto y = random_logits<std::uint32_t>(LogitKind::wide, 6, 9, 40, 40);
  for (const RouterVariant& variant : all_router_variants()) {
    for (const NanLogits nan : {NanLogits::last, NanLogits::refuse}) {
      for (const float odd : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
        RouteCase c{.variant = std::string(variant.name), .top_k = 6, .nan = nan};
        c.bias.assign(40, 0.5F);
        c.bias[3] = c.bias[20] = odd;
        ASSERT_EQ(route_difference(c, x), "") << odd;
        ASSERT_EQ(route_difference(c, y), "") << odd;
        c.groups = 8, c.groups_kept = 3;
        ASSERT_EQ(route_difference(c, x), "") << odd;
      }
    }
  }
}

// A NaN in a group's sum counts as -Inf, and a sum of both infinities is NaN and comes last.
TEST(CpuRoute, of_groups_without_a_sum) {
  constexpr std::uint16_t kNan = 0x7FC0;
  constexpr std::uint16_t kInf = 0x7F80;
  constexpr std::uint16_t kMinus = 0xFF80;
  for (const std::vector<std::uint16_t>& row : {std::vector<std::uint16_t>{kNan, 0, kMinus, kMinus},
                                                {kMinus, kMinus, 0, kNan},
                                                {kInf, kMinus, kMinus, kMinus},
                                                {kNan, kNan, kMinus, kMinus},
                                                {kInf, kNan, kNan, 0}}) {
    for (const std::int64_t top_k : {1, 2}) {
      RouteCase c{.top_k = top_k, .groups = 2, .groups_kept = 1};
      ASSERT_EQ(route_difference(c, sample_of<std::uint16_t>(1, 4, row)), "");
    }
  }
}

// A caller may have set flushing of subnormals, or another rounding.
TEST(CpuRoute, arithmetic_is_not_the_callers) {
  const auto x = random_logits<std::uint32_t>(LogitKind::wide, 3, 50, 33, 33);
  for (const std::uint32_t control : {0x8040U, 0x2000U, 0x4000U, 0x6000U}) {
    for (const RouterVariant& variant : all_router_variants()) {
      RouteCase c{.variant = std::string(variant.name), .top_k = 5, .mxcsr = control};
      ASSERT_EQ(route_difference(c, x), "") << control;
      c.scale = 0x1p-126F;
      ASSERT_EQ(route_difference(c, x), "") << control;
    }
  }
}

TEST(CpuRoute, does_not_depend_on_threads) {
  const auto x = random_logits<std::uint16_t>(LogitKind::few_values, 11, 5000, 128, 128);
  for (const std::int32_t threads : {1, 2, 3, 0}) {
    RouteCase c{.top_k = 8, .threads = threads, .best_target_only = true};
    ASSERT_EQ(route_difference(c, x), "");
    c.variant = "sqrtsoftplus";
    ASSERT_EQ(route_difference(c, x), "");
  }
}

TEST(CpuRoute, refuses_a_nan_wherever_it_is) {
  RouteCase c{.top_k = 3, .nan = NanLogits::refuse};
  for (std::int64_t at = 0; at < 3 * 45; ++at) {
    auto x = random_logits<std::uint16_t>(LogitKind::normal, 1, 3, 45, 45);
    x.bits[static_cast<std::size_t>(at)] = at % 2 == 0 ? 0x7F81 : 0xFFC0;
    ASSERT_EQ(route_difference(c, x), "") << at;
    auto y = random_logits<std::uint32_t>(LogitKind::normal, 1, 3, 45, 45);
    y.bits[static_cast<std::size_t>(at)] = at % 2 == 0 ? 0x7F800001 : 0xFFFFFFFF;
    ASSERT_EQ(route_difference(c, y), "") << at;
    ASSERT_EQ(round_difference(c, y), "") << at;
    y.bits[static_cast<std::size_t>(at)] = 0xFF800000;  // of packed order's alone
    ASSERT_EQ(route_difference(c, y), "") << at;
    RouteCase packed = c;
    packed.variant = "topk-softmax-packed", packed.nan = NanLogits::last;
    ASSERT_EQ(route_difference(packed, y), "") << at;
  }
}

}  // namespace
}  // namespace mxcheck

// Token choice against rows worked out by hand and against the slow oracle, over every row of a small alphabet.

#include "reference/router/router.h"

#include <gtest/gtest.h>

#include <iostream>

#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/oracle.h"

namespace mxcheck {
namespace {

using test::bits;
using test::choose;
using test::fp32_matrix;
using test::router_of;
using test::Row;
using test::TestMatrix;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Routes route_row(const Router& router, const Row& row) {
  return route(router, fp32_matrix(1, static_cast<std::int64_t>(row.size()), row).view());
}

void expect_routes(std::string_view name, const Row& row, const std::vector<std::int32_t>& experts, const Row& weights,
                   NanLogits nan = NanLogits::refuse) {
  const Router router = router_of(name, static_cast<std::int64_t>(experts.size()), nan);
  const Routes r = route_row(router, row);
  EXPECT_EQ(r.experts, experts) << name;
  EXPECT_EQ(bits(r.weights), bits(weights)) << name << " " << testing::PrintToString(r.weights);
}

TEST(Route, by_hand_topk_softmax) {
  const float e1 = exp_rn(-1);
  expect_routes("topk-softmax", {0, 2, 1}, {1}, {1});
  expect_routes("topk-softmax", {0, 2, 1}, {1, 2}, {1 / (1 + e1), e1 / (1 + e1)});
  expect_routes("topk-softmax", {3, 3, 3, 3}, {0, 1, 2, 3}, {0.25F, 0.25F, 0.25F, 0.25F});
  expect_routes("topk-softmax", {-0.0F, 0, -0.0F}, {0, 1, 2}, {1 / 3.0F, 1 / 3.0F, 1 / 3.0F});
}

TEST(Route, by_hand_infinities_share_the_weight) {
  expect_routes("topk-softmax", {kInf, 1, kInf}, {0, 2, 1}, {0.5F, 0.5F, 0});
  expect_routes("topk-softmax", {-kInf, -kInf}, {0, 1}, {0.5F, 0.5F});
  expect_routes("topk-softmax", {-kInf, 5}, {1, 0}, {1, 0});
  expect_routes("softmax-topk", {-kInf, -kInf, -kInf, -kInf}, {0, 1}, {0.25F, 0.25F});
  expect_routes("sigmoid-raw", {-kInf, 0, kInf}, {2, 1, 0}, {1, 0.5F, 0});
  expect_routes("sqrtsoftplus-raw", {-kInf, kInf}, {1, 0}, {kInf, 0});
  expect_routes("sqrtsoftplus", {-kInf, kInf}, {1, 0}, {kNaN, 0});
}

TEST(Route, by_hand_nan_comes_last_with_weight_0) {
  expect_routes("topk-softmax", {kNaN, 1, -kInf}, {1, 2, 0}, {1, 0, 0}, NanLogits::last);
  expect_routes("topk-softmax", {kNaN, -kNaN, kNaN}, {0, 1, 2}, {0, 0, 0}, NanLogits::last);
  expect_routes("softmax-topk-renorm", {kNaN, kNaN}, {0, 1}, {0, 0}, NanLogits::last);
  expect_routes("softmax-topk", {kNaN, 0, 0}, {1, 2, 0}, {0.5F, 0.5F, 0}, NanLogits::last);
  // A score of +0 comes before a NaN, whose score is +0 too.
  expect_routes("sigmoid-raw", {kNaN, -kInf}, {1, 0}, {0, 0}, NanLogits::last);
}

TEST(Route, by_hand_scores_over_their_sum) {
  expect_routes("sigmoid", {0, 0}, {0}, {0.5F});
  expect_routes("sigmoid", {0, 0}, {0, 1}, {0.5F, 0.5F});
  expect_routes("sigmoid-tiny-first", {0, 0}, {0}, {1});
  expect_routes("softmax-topk-renorm", {0, 0, 0, 0}, {0, 1}, {0.5F, 0.5F});
  // Both scores are 2.9e-39, a subnormal: 1e-20 is all there is in the sum.
  const float tiny = exp_rn(-88.7F);
  expect_routes("sigmoid", {-88.7F, -88.7F}, {0, 1}, {tiny / 1e-20F, tiny / 1e-20F});
  const float s0 = std::sqrt(log1p_rn(1));
  expect_routes("sqrtsoftplus-raw", {0, -200}, {0, 1}, {s0, 0});
}

TEST(Route, scale_multiplies_every_weight_once) {
  Router router = router_of("topk-softmax", 2);
  router.scale = 2.5F;
  EXPECT_EQ(route_row(router, {1, 1, 0}).weights, (Row{1.25F, 1.25F}));
  router.scale = 0.1F;
  const float e1 = exp_rn(-1);
  EXPECT_EQ(route_row(router, {1, 0}).weights, (Row{0.1F * (1 / (1 + e1)), 0.1F * (e1 / (1 + e1))}));
}

TEST(Route, bias_chooses_and_does_not_weigh) {
  const Row bias{0, 0, 1};
  Router router = router_of("sigmoid-raw", 2);
  router.bias = bias;
  const Routes r = route_row(router, {0, 3, -3});
  EXPECT_EQ(r.experts, (std::vector<std::int32_t>{2, 1}));
  EXPECT_EQ(r.weights, (Row{test::sigmoid_of(-3), test::sigmoid_of(3)}));
  // The largest of the kept is no longer the first: m is the largest all the same.
  router.variant = &router_variant_named("topk-softmax");
  const Row far{0, 0, 300};
  router.bias = far;
  EXPECT_EQ(route_row(router, {0, 200, -1}).weights, (Row{0, 1}));
}

TEST(Route, groups_are_chosen_by_the_sum_of_their_largest_keys) {
  Router router = router_of("sigmoid-raw", 2);
  router.groups = 2;
  router.groups_kept = 1;  // two keys a group: 0.9999 + 0.0001 is less than 0.5 + 0.52
  EXPECT_EQ(route_row(router, {9, -9, 0, 0.1F}).experts, (std::vector<std::int32_t>{3, 2}));
  EXPECT_EQ(route_row(router, {9, 0, 0, 0}).experts, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(route_row(router, {0, 0, 0, 0}).experts, (std::vector<std::int32_t>{0, 1}));
  router.groups_kept = 2;  // both groups: no limit
  EXPECT_EQ(route_row(router, {-1, 0, 1, 2}).experts, (std::vector<std::int32_t>{3, 2}));
  router.top_k = 1;
  router.groups_kept = 1;  // one key a group
  EXPECT_EQ(route_row(router, {9, -9, 8, 8}).experts, (std::vector<std::int32_t>{0}));
}

TEST(Route, groups_whose_sum_is_nan_come_last) {
  Router router = router_of("topk-softmax", 2, NanLogits::last);
  router.groups = 2;
  router.groups_kept = 1;
  EXPECT_EQ(route_row(router, {kInf, kNaN, -kInf, -kInf}).experts, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(route_row(router, {kInf, -kInf, kNaN, kNaN}).experts, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(route_row(router, {kInf, -kInf, kInf, kNaN}).experts, (std::vector<std::int32_t>{0, 1}));
}

// Every row of `experts` letters, as one matrix.
TestMatrix all_rows(std::span<const float> alphabet, std::int64_t experts, std::vector<Row>& rows) {
  std::int64_t count = 1;
  for (std::int64_t i = 0; i < experts; ++i) count *= static_cast<std::int64_t>(alphabet.size());
  std::vector<float> values;
  rows.clear();
  for (std::int64_t n = 0; n < count; ++n) {
    Row row;
    for (std::int64_t rest = n; std::ssize(row) < experts; rest /= std::ssize(alphabet)) {
      row.push_back(alphabet[static_cast<std::size_t>(rest % std::ssize(alphabet))]);
    }
    values.insert(values.end(), row.begin(), row.end());
    rows.push_back(row);
  }
  return fp32_matrix(count, experts, values);
}

// How many rows were compared.
std::size_t compare(const Router& router, const TestMatrix& matrix, const std::vector<Row>& rows) {
  const Routes routes = route(router, matrix.view());
  const auto k = static_cast<std::size_t>(router.top_k);
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const test::Choice expected = choose(router, rows[t]);
    const std::span experts = std::span(routes.experts).subspan(t * k, k);
    const std::span weights = std::span(routes.weights).subspan(t * k, k);
    const bool equal =
        std::equal(experts.begin(), experts.end(), expected.experts.begin()) && bits(weights) == bits(expected.weights);
    if (equal) continue;
    ADD_FAILURE() << router.variant->name << " top_k " << router.top_k << " groups " << router.groups << " kept "
                  << router.groups_kept << " row " << testing::PrintToString(rows[t]) << " weights "
                  << testing::PrintToString(std::vector<float>(weights.begin(), weights.end())) << " expected "
                  << testing::PrintToString(expected.weights);
    return t;
  }
  return rows.size();
}

// exp(-46) is 1.05e-20, next to which the 1e-20 in sums counts.
constexpr std::array kLetters{-kInf, kNaN, 1.0F, 0.0F, -0.0F, -46.0F, kInf};
constexpr std::array kFinite{-1.0F, -0.0F, 0.0F, 1.0F, 1 + 0x1p-23F, -1 - 0x1p-23F};

std::span<const float> alphabet_of(const RouterVariant& variant) {
  return variant.packed ? std::span<const float>(kFinite) : kLetters;
}

TEST(Route, every_row_of_seven_letters_and_up_to_five_experts) {
  std::size_t compared = 0;
  for (const RouterVariant& variant : all_router_variants()) {
    std::vector<Row> rows;
    for (std::int64_t experts = 1; experts <= (test::kSanitized ? 3 : 5); ++experts) {
      const TestMatrix matrix = all_rows(alphabet_of(variant), experts, rows);
      for (std::int64_t k = 1; k <= experts; ++k) {
        compared += compare(router_of(variant.name, k, NanLogits::last), matrix, rows);
      }
    }
  }
  std::cout << compared << " rows\n";
}

TEST(Route, every_row_with_every_bias_and_choice_of_groups) {
  const std::array<Row, 4> biases{Row{}, Row{0, 0.5F, -0.5F, 0}, Row{kInf, -kInf, kNaN, 0}, Row{1, -1, 2.5F, -2.5F}};
  for (const RouterVariant& variant : all_router_variants()) {
    std::vector<Row> rows;
    const std::span<const float> letters = alphabet_of(variant);
    const TestMatrix matrix = all_rows(letters.first(test::kSanitized ? 3 : letters.size()), 4, rows);
    for (std::size_t b = 0; b < biases.size(); ++b) {
      if (variant.packed && b == 2) continue;
      for (const std::int64_t groups : {0, 1, 2, 4}) {
        for (std::int64_t kept = groups == 0 ? 0 : 1; kept <= groups; ++kept) {
          for (std::int64_t k = 1; k <= (groups == 0 ? 4 : 4 / groups * kept); ++k) {
            Router router = router_of(variant.name, k, NanLogits::last);
            router.bias = biases.at(b);
            router.groups = groups;
            router.groups_kept = kept;
            router.scale = 1.5F;
            compare(router, matrix, rows);
          }
        }
      }
    }
  }
}

TEST(Route, larger_rows_of_all_three_types_with_strides) {
  for (const RouterVariant& variant : all_router_variants()) {
    for (const Format dtype : {Format::fp32, Format::bf16, Format::fp16}) {
      for (const std::int64_t experts : {8, 60, 128, 257}) {
        std::vector<float> values = test::random_values(20 * experts, 3 + static_cast<std::uint64_t>(experts));
        for (float& v : values) v *= 0x1p-24F;  // below 2^15, so that FP16 has no infinities
        const TestMatrix matrix(dtype, 20, experts, values, 3);
        std::vector<Row> rows;
        for (std::int64_t t = 0; t < 20; ++t) {
          Row& row = rows.emplace_back(static_cast<std::size_t>(experts));
          matrix.view().read_row(t, row);
        }
        for (const std::int64_t k : {1, 8, 33, 60}) {
          if (k <= experts) compare(router_of(variant.name, k), matrix, rows);
        }
      }
    }
  }
}

TEST(Route, threads_change_nothing) {
  const TestMatrix matrix = fp32_matrix(3000, 64, test::random_values(3000 * 64, 5));
  for (const RouterVariant& variant : all_router_variants()) {
    const Router router = router_of(variant.name, 6);
    const Routes one = route(router, matrix.view(), 1);
    const std::vector<float> scores = router_scores(router, matrix.view(), 1);
    for (const int threads : {0, 2, 3, 7}) {
      const Routes many = route(router, matrix.view(), threads);
      EXPECT_EQ(many.experts, one.experts) << variant.name;
      EXPECT_EQ(bits(many.weights), bits(one.weights)) << variant.name;
      EXPECT_EQ(bits(router_scores(router, matrix.view(), threads)), bits(scores)) << variant.name;
    }
  }
}

TEST(RouterScores, are_the_definitions_for_every_row) {
  for (const RouterVariant& variant : all_router_variants()) {
    std::vector<Row> rows;
    const TestMatrix matrix = all_rows(alphabet_of(variant), 4, rows);
    const std::vector<float> scores = router_scores(router_of(variant.name, 1, NanLogits::last), matrix.view());
    for (std::size_t t = 0; t < rows.size(); ++t) {
      const Row expected = test::scores_row(variant.score, rows[t]);
      ASSERT_EQ(bits(std::span(scores).subspan(4 * t, 4)), bits(expected))
          << variant.name << " " << testing::PrintToString(rows[t]);
    }
  }
}

TEST(Route, no_tokens_no_routes) {
  const MatrixView none{Format::bf16, nullptr, 0, 8, 8};
  EXPECT_TRUE(route(router_of("sigmoid", 2), none).experts.empty());
  EXPECT_TRUE(router_scores(router_of("sigmoid", 2), none).empty());
}

}  // namespace
}  // namespace mxcheck

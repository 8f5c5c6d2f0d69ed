// The router with switches: off, it is the reference.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "properties/core/compare.h"
#include "properties/operations/router/faults.h"
#include "properties/operations/router/problem.h"
#include "tests/properties/operations/router/some_cases.h"

namespace mxcheck {
namespace {

using test::cases_of;

void expect_same_floats(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  TensorInfo info{"weights", Format::fp32, 1, static_cast<std::int64_t>(a.size()), 0, 0, true};
  EXPECT_FALSE(compare(info, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), 0xA5)) << what;
}

TEST(RouterModel, without_faults_gives_the_references_routes) {
  for (const Case& c : cases_of("route")) {
    const ChoiceProblem p(c);
    const Routes want = route(p.router(), p.input.view());
    const Routes got = model_routes(p.router(), p.input.view(), {});
    ASSERT_EQ(want.experts, got.experts) << to_text(c);
    expect_same_floats(want.weights, got.weights, to_text(c));
  }
}

TEST(RouterModel, without_faults_gives_the_references_rows) {
  for (const Case& c : cases_of("route_round")) {
    const RoundingProblem p(c);
    const RoundedTokens want = round_tokens(p.router(), p.token_rounding(), p.input.view());
    const RoundedTokens got = model_rows(p.router(), p.token_rounding(), p.input.view(), {});
    ASSERT_EQ(want.chosen, got.chosen) << to_text(c);
    ASSERT_EQ(want.offsets, got.offsets) << to_text(c);
    ASSERT_EQ(want.row_token, got.row_token) << to_text(c);
    ASSERT_EQ(want.token_offsets, got.token_offsets) << to_text(c);
    ASSERT_EQ(want.token_rows, got.token_rows) << to_text(c);
    expect_same_floats(want.row_weight, got.row_weight, to_text(c));
  }
}

TEST(RouterModel, without_faults_gives_the_references_losses) {
  for (const char* operation : {"route_balance_loss", "route_z_loss"}) {
    for (const Case& c : test::some_losses(operation)) {
      const LossProblem p(c);
      const RouterLoss want = loss_of(p.of());
      const RouterLoss got = model_loss(p.of(), {});
      expect_same_floats({want.value}, {got.value}, to_text(c));
      expect_same_floats(want.gradient, got.gradient, to_text(c));
    }
  }
}

TEST(RouterModel, metadata_in_descending_order_is_still_an_inverse) {
  const std::vector<std::int32_t> slots{1, 0, -1, 1, 1, 0};
  const RouteMetadata m = metadata_descending(slots, 2, {}, 2, 4);
  EXPECT_EQ(m.row_slot, (std::vector<std::int32_t>{5, 1, -1, -1, 4, 3, 0, -1, -1, -1, -1, -1}));
  EXPECT_EQ(m.row_token, (std::vector<std::int32_t>{2, 0, -1, -1, 2, 1, 0, -1, -1, -1, -1, -1}));
  EXPECT_EQ(m.slot_row, (std::vector<std::int32_t>{6, 1, -1, 5, 4, 0}));
}

}  // namespace
}  // namespace mxcheck

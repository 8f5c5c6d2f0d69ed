// The explanation of a router's difference, which a person reads first.

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "properties/core/check.h"
#include "properties/core/compare.h"
#include "properties/operations/router/faults.h"
#include "properties/operations/router/problem.h"
#include "tests/properties/operations/router/some_cases.h"

namespace mxcheck {
namespace {

std::string explained(const Case& c, std::size_t output, std::size_t element) {
  const std::unique_ptr<Problem> p = make_problem(c);
  const ExpectedTensor expected = p->answer()[output];
  std::vector<std::byte> observed = expected.bytes;
  const std::size_t width = bytes_of_element(expected.info);
  observed.at(element * width) ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  p->explain(output, f);
  std::string text;
  for (const std::string& line : f.element) text += line + "\n";
  return text;
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(RouteExplanation, the_explanation_shows_the_order_around_the_boundary) {
  const Case c =
      parse_case("op=route variant=sigmoid x=bf16 nan=refuse bias=1 limited=0 rows=4 cols=9 k=5 data=codes seed=3");
  expect_parts(explained(c, 0, 2 * 5 + 4),
               {"token     2: 5 of 9 experts, sigmoid", "... 2 ranks before", "rank 4 ", "logit 0x", "; score 0x",
                "; bias 0x", "; weight 0x", "; chosen", "; not chosen", "expected  ", "observed  "});
  EXPECT_NE(explained(c, 1, 3).find("expected  0x"), std::string::npos);
}

TEST(RouteExplanation, the_explanation_shows_the_decision_and_the_ranks) {
  const Case c = parse_case(
      "op=route_round variant=softmax-topk x=fp32 nan=refuse bias=0 limited=0 rule=balance-f weights=renorm rows=40 "
      "cols=6 k=2 tile=8 data=normal seed=3");
  expect_parts(explained(c, 1, 3), {"expert    2: ", "tokens chose it, rule balance-f to multiples of 8: down ",
                                    "; added so far ", "; it keeps ", "rank ", ": score 0x", "not kept"});
  expect_parts(explained(c, 3, 0), {"expert    ", "token     ", "expected  0x"});
  for (std::size_t output = 0; output < 6; ++output)
    expect_parts(explained(c, output, 0), {"expected  ", "observed  "});
  Case chance = c;
  route_of(chance.variant).rule = "sr-f";
  expect_parts(explained(chance, 1, 1), {"; word 0x"});
}

TEST(RouteExplanation, metadata_and_gradients_are_explained_too) {
  const Case c = parse_case("op=route_metadata rows=20 cols=5 k=2 tile=4 drops=10 data=normal seed=3");
  for (std::size_t output = 0; output < 6; ++output)
    expect_parts(explained(c, output, 3), {output <= 1   ? "expert    3"
                                           : output <= 4 ? "row       3"
                                                         : "slot      3",
                                           "expected  "});
  const Case back =
      parse_case("op=route_backward variant=sigmoid x=bf16 rows=4 cols=9 k=5 drops=20 data=normal seed=3");
  expect_parts(explained(back, 0, 11), {"input     logit(1, 2) = 0x", "route     0: ", "gradient 0x", "expected  0x"});
}

TEST(RouteExplanation, losses_are_explained_too) {
  const Case c = parse_case("op=route_balance_loss x=bf16 rows=4 cols=9 scale=0.5 loads=equal data=normal seed=3");
  expect_parts(explained(c, 0, 0), {"loss      of 4 tokens and 9 experts, coefficient 0x", "expected  0x"});
  expect_parts(explained(c, 1, 11), {"input     logit(1, 2) = 0x", "count     4 of 36 routes", "expected  0x"});
  const Case z = parse_case("op=route_z_loss x=fp32 rows=4 cols=6 data=normal seed=3");
  expect_parts(explained(z, 1, 6), {"input     logit(1, 0) = 0x", "observed  0x"});
}

TEST(RouteExplanation, the_logits_of_a_token_with_few_experts_are_relevant) {
  const ChoiceProblem p(parse_case("op=route variant=sigmoid x=bf16 rows=4 cols=6 k=2 data=normal seed=3"));
  const ExpectedTensor expected = p.answer()[1];
  std::vector<std::byte> observed = expected.bytes;
  observed[4 * (2 * 2)] ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  p.explain(1, f);
  ASSERT_EQ(f.relevant.size(), 6U);
  for (std::int64_t e = 0; e < 6; ++e) EXPECT_EQ(f.relevant[static_cast<std::size_t>(e)], p.input.plant(2, e));
}

}  // namespace

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

// Calls of routers: shapes, sizes, the way from a call back to its problem, and what a person reads of a difference.

#include <gtest/gtest.h>

#include "properties/operations/router/problem.h"
#include "properties/records/record.h"
#include "properties/records/reference_runner.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

std::vector<Case> some_cases() {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const char* operation : {"route", "route_round", "route_metadata", "route_backward"}) {
    const std::vector<Variant> all = askable_routes(operation);
    for (std::size_t i = 0; i<all.size(); i += all.size()> 200 ? 7 : 1) {
      Case c =
          route_corner(all[i], 0 + static_cast<std::int64_t>(seed % 40), 8, 1 + static_cast<std::int64_t>(seed % 3),
                       seed % 2 == 0 ? Data::specials : Data::normal, seed);
      if (c.variant.operation == "route_metadata") c.top_k = static_cast<std::int64_t>(seed % 2);
      c.tile = 1 + static_cast<std::int64_t>(seed % 9), c.capacity = static_cast<std::int64_t>(seed % 11);
      if (reads_logits(c.variant) && seed % 5 == 0) c.stride = 11;
      if (seed % 3 == 0) c.drops = 20;
      cases.push_back(c), ++seed;
    }
  }
  return cases;
}

TEST(RouteOperations, expected_tensors_have_the_sizes_that_the_call_hands_over) {
  for (const Case& c : some_cases()) {
    const Problem p = make_problem(c);
    const Call call = p.call();
    const std::vector<ExpectedTensor> expected = reference_answer(p);
    ASSERT_EQ(call.outputs.size(), expected.size());
    ASSERT_LE(call.inputs.size() + call.outputs.size(), static_cast<std::size_t>(wire::kMaxTensors));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(call.outputs[i].bytes, expected[i].bytes.size()) << to_text(c) << ' ' << i;
      EXPECT_EQ(call.outputs[i].is_index, expected[i].info.integer_bits == 32);
      EXPECT_EQ(call.outputs[i].is_offsets, expected[i].info.integer_bits == 64);
    }
    if (c.variant.operation != "route_round") continue;
    EXPECT_EQ(rows_capacity(c, 0), token_rounding_capacity(router_of(p), token_rounding_of(c), c.rows, c.cols))
        << to_text(c);
  }
}

TEST(RouteOperations, a_call_gives_its_problem_back) {
  for (const Case& c : some_cases()) {
    const Problem p = make_problem(c);
    const std::vector<ExpectedTensor> want = reference_answer(p);
    const std::vector<ExpectedTensor> got = reference_answer(problem_of(p.call()));
    ASSERT_EQ(want.size(), got.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(want[i].bytes, got[i].bytes) << to_text(c) << ' ' << i;
  }
}

TEST(RouteOperations, the_policy_says_what_the_case_says) {
  const Case c = parse_case(
      "op=route_round variant=sigmoid x=fp32 nan=last bias=1 limited=1 rule=capacity-score weights=raw rows=9 cols=8 "
      "k=2 groups=4 kept=3 tile=2 capacity=5 scale=0.5 step=3 layer=4 data=normal seed=7 threads=2");
  const wire::Policy p = to_policy(c);
  EXPECT_EQ(p.is_route, 1);
  EXPECT_EQ(p.is_product, 0);
  EXPECT_STREQ(p.recipe, "sigmoid");
  EXPECT_STREQ(p.rule, "capacity-score");
  EXPECT_STREQ(p.format, "");
  EXPECT_EQ(p.block_rows + p.block_cols + p.layout, 0);
  EXPECT_EQ(p.rows, 9);
  EXPECT_EQ(p.cols, 8);
  EXPECT_EQ(p.top_k, 2);
  EXPECT_EQ(p.groups, 4);
  EXPECT_EQ(p.groups_kept, 3);
  EXPECT_EQ(p.tile, 2);
  EXPECT_EQ(p.capacity, 5);
  EXPECT_EQ(p.scale, 0.5F);
  EXPECT_EQ(p.seed, 7U);
  EXPECT_EQ(p.step, 3U);
  EXPECT_EQ(p.layer, 4U);
  EXPECT_EQ(p.nan, 1);
  EXPECT_EQ(p.bias, 1);
  EXPECT_EQ(p.renormalize, 0);
  EXPECT_EQ(p.threads, 2);
  const wire::Policy q = route_question(c.variant);
  EXPECT_EQ(q.rows + q.cols + q.top_k + q.groups_kept + q.tile + q.capacity, 0);
  EXPECT_EQ(q.seed + q.step + q.layer, 0U);
  EXPECT_EQ(q.groups, 1);
  EXPECT_EQ(q.scale, 1);
}

TEST(RouteOperations, bf16_gradients_are_rounded_to_nearest_even) {
  const Case c = parse_case("op=route_backward variant=sigmoid-raw x=bf16 rows=40 cols=6 k=2 data=normal seed=3");
  const Problem p = make_problem(c);
  const auto words = values_in<std::uint16_t>(reference_answer(p)[0].bytes);
  const std::vector<float> exact = route_backward(router_of(p), p.input.view, p.routes, p.gradient, 2);
  for (std::size_t i = 0; i < words.size(); ++i)
    EXPECT_EQ(words[i], to_wide_bits(Format::bf16, static_cast<double>(exact[i])));
}

TEST(RouteOperations, nan_is_made_equal_in_weights_and_minus_one_stays_in_integers) {
  std::vector<std::byte> bytes(4, std::byte{0xFF});
  const auto ones = bytes;
  CallTensor index;
  index.is_index = true;
  make_nans_equal(bytes, index);
  EXPECT_EQ(bytes, ones);
  make_nans_equal(bytes, CallTensor{});
  EXPECT_EQ(values_in<std::uint32_t>(bytes)[0], 0x7FC00000U);
  EXPECT_TRUE(nans_are_equal("route_round"));
}

std::string explained(const Case& c, std::size_t output, std::size_t element) {
  const Problem p = make_problem(c);
  const ExpectedTensor expected = reference_answer(p)[output];
  std::vector<std::byte> observed = expected.bytes;
  const std::size_t width = bytes_of_element(expected.info);
  observed.at(element * width) ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  explain(p, output, f);
  std::string text;
  for (const std::string& line : f.element) text += line + "\n";
  return text;
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(RouteOperations, the_explanation_shows_the_order_around_the_boundary) {
  const Case c =
      parse_case("op=route variant=sigmoid x=bf16 nan=refuse bias=1 limited=0 rows=4 cols=9 k=5 data=codes seed=3");
  expect_parts(explained(c, 0, 2 * 5 + 4),
               {"token     2: 5 of 9 experts, sigmoid", "... 2 ranks before", "rank 4 ", "logit 0x", "; score 0x",
                "; bias 0x", "; weight 0x", "; chosen", "; not chosen", "expected  ", "observed  "});
  EXPECT_NE(explained(c, 1, 3).find("expected  0x"), std::string::npos);
}

TEST(RouteOperations, the_explanation_shows_the_decision_and_the_ranks) {
  const Case c = parse_case(
      "op=route_round variant=softmax-topk x=fp32 nan=refuse bias=0 limited=0 rule=balance-f weights=renorm rows=40 "
      "cols=6 k=2 tile=8 data=normal seed=3");
  expect_parts(explained(c, 1, 3), {"expert    2: ", "tokens chose it, rule balance-f to multiples of 8: down ",
                                    "; added so far ", "; it keeps ", "rank ", ": score 0x", "not kept"});
  expect_parts(explained(c, 3, 0), {"expert    ", "token     ", "expected  0x"});
  for (std::size_t output = 0; output < 6; ++output)
    expect_parts(explained(c, output, 0), {"expected  ", "observed  "});
  Case chance = c;
  chance.variant.rule = "sr-f";
  expect_parts(explained(chance, 1, 1), {"; word 0x"});
}

TEST(RouteOperations, metadata_and_gradients_are_explained_too) {
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

}  // namespace
}  // namespace mxcheck

// Calls of routers: shapes, sizes, the way from a call back to its problem.

#include "properties/operations/router/problem.h"

#include <gtest/gtest.h>

#include "kernels/candidate_route.h"
#include "numerics/bytes.h"
#include "properties/operations/router/operation.h"
#include "properties/process/wire.h"
#include "properties/records/record.h"

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
      if (c.variant.operation == "route_metadata") route_case(c).top_k = static_cast<std::int64_t>(seed % 2);
      route_case(c).tile = 1 + static_cast<std::int64_t>(seed % 9);
      route_case(c).capacity = static_cast<std::int64_t>(seed % 11);
      if (reads_logits(c.variant) && seed % 5 == 0) c.stride = 11;
      if (seed % 3 == 0) route_case(c).drops = 20;
      cases.push_back(c), ++seed;
    }
  }
  return cases;
}

TEST(RouteProblems, expected_tensors_have_the_sizes_that_the_call_hands_over) {
  for (const Case& c : some_cases()) {
    const RouteProblem p(c);
    const Call call = p.call();
    const std::vector<ExpectedTensor> expected = p.answer();
    ASSERT_EQ(call.outputs.size(), expected.size());
    ASSERT_LE(call.inputs.size() + call.outputs.size(), static_cast<std::size_t>(wire::kMaxTensors));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(call.outputs[i].bytes, expected[i].bytes.size()) << to_text(c) << ' ' << i;
      EXPECT_EQ(call.outputs[i].is_index, expected[i].info.integer_bits == 32);
      EXPECT_EQ(call.outputs[i].is_offsets, expected[i].info.integer_bits == 64);
    }
    if (c.variant.operation != "route_round") continue;
    EXPECT_EQ(p.outputs[2].cols, token_rounding_capacity(p.router(), p.token_rounding(), c.rows, c.cols)) << to_text(c);
  }
}

TEST(RouteProblems, a_call_gives_its_problem_back) {
  for (const Case& c : some_cases()) {
    const RouteProblem p(c);
    const std::vector<ExpectedTensor> want = p.answer();
    const std::vector<ExpectedTensor> got = RouteProblem(p.call()).answer();
    ASSERT_EQ(want.size(), got.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(want[i].bytes, got[i].bytes) << to_text(c) << ' ' << i;
  }
}

TEST(RouteProblems, the_policy_says_what_the_case_says) {
  const Case c = parse_case(
      "op=route_round variant=sigmoid x=fp32 nan=last bias=1 limited=1 rule=capacity-score weights=raw rows=9 cols=8 "
      "k=2 groups=4 kept=3 tile=2 capacity=5 scale=0.5 step=3 layer=4 data=normal seed=7 threads=2");
  const Policy packed = operation_named(c.variant.operation).policy(c);
  const auto p = read<mxcheck_route_policy>(packed);
  EXPECT_EQ(p.policy.size, sizeof(mxcheck_route_policy));
  EXPECT_STREQ(p.policy.recipe, "sigmoid");
  EXPECT_STREQ(p.rule, "capacity-score");
  EXPECT_STREQ(p.policy.format, "");
  EXPECT_EQ(p.policy.block_rows + p.policy.block_cols + p.policy.layout, 0);
  EXPECT_EQ(p.policy.rows, 9);
  EXPECT_EQ(p.policy.cols, 8);
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
  EXPECT_EQ(p.policy.threads, 2);
  const Policy question = operation_named(c.variant.operation).question(c.variant);
  const auto q = read<mxcheck_route_policy>(question);
  EXPECT_EQ(q.policy.rows + q.policy.cols + q.top_k + q.groups_kept + q.tile + q.capacity, 0);
  EXPECT_EQ(q.seed + q.step + q.layer, 0U);
  EXPECT_EQ(q.groups, 1);
  EXPECT_EQ(q.scale, 1);
}

TEST(RouteProblems, bf16_gradients_are_rounded_to_nearest_even) {
  const Case c = parse_case("op=route_backward variant=sigmoid-raw x=bf16 rows=40 cols=6 k=2 data=normal seed=3");
  const RouteProblem p(c);
  const auto words = values_in<std::uint16_t>(p.answer()[0].bytes);
  const std::vector<float> exact = route_backward(p.router(), p.input.view(), p.routes, p.gradient, 2);
  for (std::size_t i = 0; i < words.size(); ++i)
    EXPECT_EQ(words[i], nearest_bits(Format::bf16, static_cast<double>(exact[i])));
}

TEST(RouteProblems, nan_is_made_equal_in_weights_and_minus_one_stays_in_integers) {
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

}  // namespace
}  // namespace mxcheck

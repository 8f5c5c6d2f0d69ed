// Variants of layers that keep their weights (kernels/candidate_kept_weights.h), and the policy of their calls.

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/candidate_kept_weights.h"
#include "tests/properties/operations/moe/some_layers.h"

namespace mxcheck {
namespace {

constexpr const char* kKeptCase =
    "op=moe_forward recipe=dsv3 gate_up=halves weights=kept rows=20 cols=64 inner=32 k=2 experts=0,13,13,32 "
    "data=normal "
    "seed=7";

TEST(MoeKeptWeights, a_case_is_parsed_back) {
  EXPECT_EQ(to_text(parse_case(kKeptCase)), kKeptCase);
  EXPECT_TRUE(keeps_weights(parse_case(kKeptCase).variant));
}

TEST(MoeKeptWeights, only_a_library_with_their_contract_is_asked_for_any) {
  for (const char* operation : test::kLayerOperations) {
    const Operation& o = operation_named(operation);
    const auto count = [&](const char* contract) {
      const std::vector<Variant> all = o.askable_under(operation, contract);
      return std::count_if(all.begin(), all.end(), [](const Variant& v) { return keeps_weights(v); });
    };
    EXPECT_EQ(count("exact"), 0) << operation;
    EXPECT_GT(count(MXCHECK_KEPT_WEIGHTS_CONTRACT), 0) << operation;
    EXPECT_EQ(o.variant_name(MXCHECK_KEPT_WEIGHTS_CONTRACT), operation);
  }
}

// The backward pass of quartet2 rounds its weights by random words, which are others at each step.
TEST(MoeKeptWeights, recipes_with_random_words_in_weights_are_not_asked) {
  const auto is_asked = [](const char* operation, const char* recipe) {
    const std::vector<Variant> all = askable_kept_weights(operation);
    return std::any_of(all.begin(), all.end(), [&](const Variant& v) { return moe_of(v).recipe == recipe; });
  };
  EXPECT_TRUE(is_asked("moe_forward", "quartet2"));
  EXPECT_FALSE(is_asked("moe_backward", "quartet2"));
  EXPECT_TRUE(is_asked("moe_backward", "nvfp4"));
  EXPECT_TRUE(is_asked("moe_backward", "dsv3"));
}

TEST(MoeKeptWeights, a_call_keeps_its_weights_in_fresh_memory) {
  const Call call = make_problem(parse_case(kKeptCase))->call();
  const auto policy = read<mxcheck_moe_kept_policy>(call.policy);
  EXPECT_EQ(policy.moe.policy.size, sizeof policy);
  EXPECT_EQ(policy.kept.mode, MXCHECK_WEIGHTS_KEEP);
  EXPECT_EQ(call.memory.policy_offset, offsetof(mxcheck_moe_kept_policy, kept));
  EXPECT_TRUE(call.memory.is_fresh);
  Case plain = parse_case(kKeptCase);
  moe_of(plain.variant).keeps_weights = false;
  EXPECT_EQ(make_problem(plain)->call().policy.num_bytes, sizeof(mxcheck_moe_policy));
  EXPECT_EQ(make_problem(plain)->call().memory.policy_offset, 0U);
}

}  // namespace
}  // namespace mxcheck

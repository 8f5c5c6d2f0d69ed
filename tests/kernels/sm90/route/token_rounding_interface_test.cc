// The Hopper library's route_round and route_metadata: what they offer, and what they refuse before they enqueue
// anything. No GPU is needed: every refusal here comes before a tensor's memory is asked about, or is about just that.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/candidate_route.h"
#include "tests/kernels/loaded_library.h"

namespace {

constexpr std::int64_t kTokens = 70;
constexpr std::int64_t kExperts = 16;
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kFp32{kDLFloat, 32, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};
constexpr std::size_t kBytes = std::size_t{1} << 16;

// A call whose tensors lie in host memory: the last thing that is refused.
class RouteCall : public ::testing::Test {
 protected:
  explicit RouteCall(const char* name) : operation_(mxcheck::operation(*mxcheck_candidate(), name)) {
    policy.policy.size = sizeof(policy), policy.policy.recipe = "softmax-topk", policy.policy.format = "";
    policy.policy.rows = kTokens, policy.policy.cols = kExperts;
    policy.top_k = 2, policy.scale = 1, policy.renormalize = 1, policy.rule = "nr-f", policy.tile = 8;
    call.size = sizeof(call), call.policy = &policy.policy;
    call.message = message, call.message_bytes = sizeof(message);
  }

  DLTensor tensor(DLDataType type, std::vector<std::int64_t> shape) {
    shapes.push_back(std::move(shape));
    DLTensor t{};
    t.data = memory.data(), t.device = {kDLCUDA, 0}, t.dtype = type;
    t.ndim = static_cast<std::int32_t>(shapes.back().size()), t.shape = shapes.back().data();
    return t;
  }
  void fill_in() {
    call.num_inputs = static_cast<std::int32_t>(inputs.size()), call.inputs = inputs.data();
    call.num_outputs = static_cast<std::int32_t>(outputs.size()), call.outputs = outputs.data();
  }
  std::uint64_t workspace() {
    fill_in();
    std::uint64_t bytes = 0;
    EXPECT_EQ(operation_.workspace(&call, &bytes), MXCHECK_OK) << message;
    return bytes;
  }
  void expect_refused(const char* words, mxcheck_status status = MXCHECK_INVALID) {
    fill_in();
    EXPECT_EQ(operation_.run(&call), status);
    EXPECT_NE(std::string(message).find(words), std::string::npos) << message;
  }

  const mxcheck_operation& operation_;
  mxcheck_route_policy policy{};
  mxcheck_call call{};
  char message[512] = "";
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<DLTensor> inputs;
  std::vector<DLTensor> outputs;
};

class Sm90RouteRound : public RouteCall {
 protected:
  static constexpr std::int64_t kRows = kTokens * 2 + kExperts * 7;
  Sm90RouteRound() : RouteCall("route_round") {
    inputs = {tensor(kBf16, {kTokens, kExperts})};
    outputs = {tensor(kInt32, {kExperts}), tensor(kInt64, {kExperts + 1}), tensor(kInt32, {kRows}),
               tensor(kFp32, {kRows}),     tensor(kInt64, {kTokens + 1}),  tensor(kInt32, {kRows})};
  }
};

class Sm90RouteMetadata : public RouteCall {
 protected:
  static constexpr std::int64_t kSlots = kTokens * 2;
  static constexpr std::int64_t kRows = kSlots + kExperts * 7;
  Sm90RouteMetadata() : RouteCall("route_metadata") {
    inputs = {tensor(kInt32, {kSlots})};
    outputs = {tensor(kInt32, {kExperts}), tensor(kInt64, {kExperts + 1}), tensor(kInt32, {kRows}),
               tensor(kInt32, {kRows}),    tensor(kInt32, {kRows}),        tensor(kInt32, {kSlots})};
  }
};

TEST_F(Sm90RouteRound, every_rule_is_offered_with_every_variant_but_packed) {
  policy.policy.rows = policy.policy.cols = policy.top_k = policy.tile = 0;
  for (const char* rule : {"none", "nr-f", "sr-f", "nr-s", "balance-f", "up", "down", "nr-even", "expert-choice",
                           "capacity-order", "capacity-score"}) {
    policy.rule = rule;
    for (const char* variant : {"topk-softmax", "softmax-topk", "softmax-topk-renorm", "sigmoid", "sigmoid-raw",
                                "sigmoid-tiny-first", "sqrtsoftplus", "sqrtsoftplus-raw"}) {
      policy.policy.recipe = variant;
      EXPECT_EQ(operation_.supports(&policy.policy, kBf16), MXCHECK_OK) << rule << " " << variant;
      EXPECT_EQ(operation_.supports(&policy.policy, kFp32), MXCHECK_OK) << rule << " " << variant;
    }
    policy.policy.recipe = "topk-softmax-packed";
    EXPECT_EQ(operation_.supports(&policy.policy, kBf16), MXCHECK_UNSUPPORTED) << rule;
  }
}

TEST_F(Sm90RouteRound, unknown_rules_are_not_offered_and_named) {
  policy.rule = "nr";
  EXPECT_EQ(operation_.supports(&policy.policy, kBf16), MXCHECK_UNSUPPORTED);
  expect_refused("rule nr is not offered: offered are none, nr-f,", MXCHECK_UNSUPPORTED);
}

TEST_F(Sm90RouteRound, a_rule_that_is_null_is_refused) {
  policy.rule = nullptr;
  EXPECT_EQ(operation_.supports(&policy.policy, kBf16), MXCHECK_UNSUPPORTED);
  expect_refused("policy.rule is null");
}

TEST_F(Sm90RouteRound, a_policy_of_another_operation_is_refused) {
  policy.policy.size = sizeof(mxcheck_policy);
  expect_refused("policy.size is");
}

TEST_F(Sm90RouteRound, a_tile_of_0_is_refused_where_the_rule_rounds_to_tiles) {
  policy.tile = 0;
  expect_refused("policy.tile is 0: must be 1 or more");
  policy.rule = "capacity-order";
  EXPECT_NE(workspace(), 0U);
}

TEST_F(Sm90RouteRound, a_capacity_below_0_is_refused_where_the_rule_has_one) {
  policy.rule = "expert-choice", policy.capacity = -1;
  expect_refused("policy.capacity is -1: must be 0 or more");
}

TEST_F(Sm90RouteRound, more_routes_than_int32_counts_are_refused) {
  policy.policy.rows = INT32_MAX;
  expect_refused("4294967294 routes: at most 2^31 - 1 are possible");
}

TEST_F(Sm90RouteRound, more_rows_than_int32_counts_are_refused) {
  policy.policy.rows = std::int64_t{1} << 28, policy.tile = INT64_MAX;
  expect_refused("4294967296 rows: at most 2^31 - 1 are possible");
}

TEST_F(Sm90RouteRound, a_missing_bias_is_refused) {
  policy.bias = 1;
  expect_refused("1 inputs: must be 2");
}

TEST_F(Sm90RouteRound, a_bias_that_was_not_announced_is_refused) {
  inputs.push_back(tensor(kFp32, {kExperts}));
  expect_refused("2 inputs: must be 1");
}

TEST_F(Sm90RouteRound, a_missing_output_is_refused) {
  outputs.pop_back();
  expect_refused("5 outputs: must be 6");
}

TEST_F(Sm90RouteRound, a_call_without_inputs_is_refused) {
  inputs.clear();
  expect_refused("inputs are missing");
}

TEST_F(Sm90RouteRound, logits_of_another_type_are_not_offered) {
  inputs[0].dtype = {kDLFloat, 16, 1};
  expect_refused("are not offered", MXCHECK_UNSUPPORTED);
}

TEST_F(Sm90RouteRound, logits_of_one_dimension_are_refused) {
  inputs[0] = tensor(kBf16, {kTokens});
  expect_refused("logits has 1 dimensions: must have 2");
}

TEST_F(Sm90RouteRound, logits_that_say_they_are_on_the_host_are_refused) {
  inputs[0].device = {kDLCPU, 0};
  expect_refused("logits is on DLPack device 1: must be on CUDA, 2");
}

TEST_F(Sm90RouteRound, a_host_pointer_is_refused) {
  expect_refused("logits does not start in memory of a CUDA device");
}

TEST_F(Sm90RouteRound, tiles_too_large_for_shared_memory_are_given_workspace_by_nr_s) {
  policy.policy.rows = 8192;
  for (const auto& [tile, more] : {std::pair{4096, 4096 * kExperts * 4}, std::pair{2048, 0 * kExperts}}) {
    policy.tile = tile;
    policy.rule = "nr-f";
    const std::uint64_t without = workspace();
    policy.rule = "nr-s";
    EXPECT_EQ(workspace(), without + static_cast<std::uint64_t>(more)) << tile;
  }
}

TEST_F(Sm90RouteMetadata, is_offered) {
  policy.policy.rows = policy.policy.cols = policy.top_k = policy.tile = 0;
  EXPECT_EQ(operation_.supports(&policy.policy, kInt32), MXCHECK_OK);
}

TEST_F(Sm90RouteMetadata, a_tile_of_0_is_refused) {
  policy.tile = 0;
  expect_refused("policy.tile is 0: must be 1 to");
}

TEST_F(Sm90RouteMetadata, negative_extents_are_refused) {
  policy.policy.rows = -1;
  expect_refused("policy.rows is -1");
  policy.policy.rows = kTokens, policy.top_k = -2;
  expect_refused("policy.top_k is -2");
}

TEST_F(Sm90RouteMetadata, more_experts_than_offered_are_unsupported) {
  policy.policy.cols = 4097;
  expect_refused("4097 experts are not offered: at most 4096", MXCHECK_UNSUPPORTED);
}

TEST_F(Sm90RouteMetadata, more_slots_than_int32_counts_are_refused) {
  policy.policy.rows = std::int64_t{1} << 30;
  expect_refused("the number of slots is 2147483648");
}

TEST_F(Sm90RouteMetadata, more_rows_than_int32_counts_are_refused) {
  policy.tile = std::int64_t{1} << 28;
  expect_refused("rows: at most 2^31 - 1 are possible");
}

TEST_F(Sm90RouteMetadata, missing_token_offsets_are_refused) {
  policy.top_k = 0;
  expect_refused("1 inputs: must be 2");
}

TEST_F(Sm90RouteMetadata, token_offsets_that_were_not_announced_are_refused) {
  inputs.push_back(tensor(kInt64, {kTokens + 1}));
  expect_refused("2 inputs: must be 1");
}

TEST_F(Sm90RouteMetadata, slots_of_two_dimensions_are_refused) {
  policy.top_k = 0;
  inputs = {tensor(kInt32, {kTokens, 2}), tensor(kInt64, {kTokens + 1})};
  expect_refused("slot_experts must have one dimension");
}

TEST_F(Sm90RouteMetadata, slots_of_another_type_are_refused) {
  inputs[0].dtype = kInt64;
  expect_refused("slot_experts has DLPack type code 0, 64 bits");
}

TEST_F(Sm90RouteMetadata, a_host_pointer_is_refused) {
  expect_refused("slot_experts does not start in memory of a CUDA device");
}

}  // namespace

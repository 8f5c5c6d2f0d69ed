// The Hopper library's route and route_backward: what they offer, what they refuse before they enqueue anything, and
// they refuse on the device: a status, a sentence, and no output byte changed. The last needs a GPU, and is skipped
// without.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/candidate_route.h"
#include "tests/kernels/sm90/device_interface.h"

namespace {

constexpr std::int64_t kTokens = 70;
constexpr std::int64_t kExperts = 24;
constexpr std::int64_t kTopK = 3;
constexpr std::size_t kBiasAt = 32 << 10;
constexpr std::size_t kRoutesAt = 40 << 10;
constexpr std::size_t kGradientAt = 48 << 10;
constexpr std::size_t kOutputsAt = 64 << 10;
constexpr std::size_t kSecondOutputAt = 96 << 10;
constexpr std::size_t kWorkspaceAt = 128 << 10;
constexpr std::size_t kReportAt = 160 << 10;
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kFp32{kDLFloat, 32, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// topk-softmax of FP32 ones.
class Sm90Route : public mxcheck::test::DeviceInterface {
 protected:
  explicit Sm90Route(const char* name = "route")
      : DeviceInterface(name, {kOutputsAt, kWorkspaceAt, kWorkspaceAt, 4096, kReportAt}, policy.policy) {
    fill(logits, 1.0F), put(0, logits);
    put(kBiasAt, std::vector<float>(kExperts, 0.5F));
    policy.policy.size = sizeof(policy), policy.policy.format = "", policy.policy.recipe = "topk-softmax";
    policy.policy.rows = kTokens, policy.policy.cols = kExperts;
    policy.top_k = kTopK, policy.scale = 1, policy.nan = MXCHECK_NAN_REFUSE;
    inputs = {tensor(0, kFp32, shapes[0])};
    outputs = {tensor(kOutputsAt, kInt32, shapes[1]), tensor(kSecondOutputAt, kFp32, shapes[2])};
  }

  static void fill(std::vector<float>& values, float value) { values.assign(kTokens * kExperts, value); }
  void add_bias() {
    policy.bias = 1;
    inputs.push_back(tensor(kBiasAt, kFp32, shapes[3], 1));
  }

  mxcheck_route_policy policy{};
  std::int64_t shapes[4][2] = {{kTokens, kExperts}, {kTokens, kTopK}, {kTokens, kTopK}, {kExperts, 0}};
  std::int64_t strides[2] = {kExperts, 1};
  std::vector<float> logits;
};

class Sm90RouteBackward : public Sm90Route {
 protected:
  Sm90RouteBackward() : Sm90Route("route_backward") {
    put(kRoutesAt, routes);
    put(kGradientAt, std::vector<float>(kTokens * kTopK, 2.0F));
    inputs = {tensor(0, kFp32, shapes[0]), tensor(kRoutesAt, kInt32, shapes[1]), tensor(kGradientAt, kFp32, shapes[2])};
    outputs = {tensor(kOutputsAt, kFp32, shapes[0])};
  }
  std::vector<std::int32_t> routes = std::vector<std::int32_t>(kTokens * kTopK, -1);
};

TEST_F(Sm90Route, every_variant_but_packed_is_offered_for_both_types) {
  policy.policy.rows = policy.policy.cols = policy.top_k = 0;
  for (const std::int64_t groups : {0, 1}) {
    policy.groups = groups;
    for (const char* variant : {"topk-softmax", "softmax-topk", "softmax-topk-renorm", "sigmoid", "sigmoid-raw",
                                "sigmoid-tiny-first", "sqrtsoftplus", "sqrtsoftplus-raw"}) {
      policy.policy.recipe = variant;
      EXPECT_EQ(operation->supports(&policy.policy, kBf16), MXCHECK_OK) << variant;
      EXPECT_EQ(operation->supports(&policy.policy, kFp32), MXCHECK_OK) << variant;
      EXPECT_EQ(operation->supports(&policy.policy, {kDLFloat, 16, 1}), MXCHECK_UNSUPPORTED) << variant;
    }
    policy.policy.recipe = "topk-softmax-packed";
    EXPECT_EQ(operation->supports(&policy.policy, kFp32), MXCHECK_UNSUPPORTED);
  }
}

TEST_F(Sm90Route, unknown_variants_are_named) {
  policy.policy.recipe = "topk";
  expect_refused("variant topk is not offered: offered are topk-softmax, softmax-topk,", MXCHECK_UNSUPPORTED);
}

TEST_F(Sm90Route, a_policy_of_another_operation_is_refused) {
  policy.policy.size = sizeof(mxcheck_policy);
  expect_refused("policy.size is");
}

TEST_F(Sm90Route, more_than_128_of_more_than_4096_experts_are_not_offered) {
  policy.policy.cols = 4097;
  expect_refused("4097 experts are not offered: at most 4096 are", MXCHECK_UNSUPPORTED);
  policy.policy.cols = 4096, policy.top_k = 129;
  expect_refused("a top_k of 129 is not offered: at most 128 is", MXCHECK_UNSUPPORTED);
  policy.policy.rows = std::int64_t{1} << 31, policy.top_k = 3;
  expect_refused("2147483648 tokens are not offered: at most 2^31 - 1 are", MXCHECK_UNSUPPORTED);
}

TEST_F(Sm90Route, a_top_k_that_the_experts_cannot_give_is_refused) {
  for (const std::int64_t top_k : {std::int64_t{-1}, std::int64_t{0}, kExperts + 1}) {
    policy.top_k = top_k;
    expect_refused(("policy.top_k is " + std::to_string(top_k) + ": must be").c_str());
  }
}

TEST_F(Sm90Route, groups_that_do_not_fit_are_refused) {
  policy.groups = 5, policy.groups_kept = 1;
  expect_refused("policy.groups is 5: must divide the 24 experts");
  policy.groups = 12, policy.groups_kept = 13;
  expect_refused("policy.groups_kept is 13: must be 1 to 12");
  policy.groups_kept = 1;
  expect_refused("policy.top_k is 3: must be at most 2, the experts of the groups kept");
  policy.groups = 0;
  expect_refused("policy.groups_kept is 1: must be 0 without groups");
}

TEST_F(Sm90Route, tensors_of_another_shape_or_number_are_refused) {
  shapes[0][1] = kExperts - 1;
  expect_refused(on_device ? "logits has shape 70 x 23: must be 70 x 24" : "logits does not start in memory");
  policy.bias = 1;
  expect_refused("1 inputs: must be 2");
}

TEST_F(Sm90Route, a_host_pointer_is_refused) {
  inputs[0].data = host.data();
  expect_refused("logits does not start in memory of a CUDA device");
}

TEST_F(Sm90RouteBackward, the_number_of_tensors_is_looked_at) {
  inputs.pop_back();
  expect_refused("2 inputs: must be 3");
}

// From here on: on a device.
#define MXCHECK_NEEDS_DEVICE() \
  if (!on_device) GTEST_SKIP() << "no CUDA device"

TEST_F(Sm90Route, the_good_call_is_good) {
  MXCHECK_NEEDS_DEVICE();
  add_bias();
  EXPECT_EQ(run(), MXCHECK_OK) << message;
  EXPECT_FALSE(untouched());
}

TEST_F(Sm90Route, logits_that_are_aligned_to_their_element_alone_are_taken) {
  MXCHECK_NEEDS_DEVICE();
  strides[0] = kExperts + 1;
  inputs[0].strides = strides, inputs[0].byte_offset = 4;
  outputs[0].byte_offset = 4;
  policy.nan = MXCHECK_NAN_LAST;
  EXPECT_EQ(run(), MXCHECK_OK) << message;
  EXPECT_FALSE(untouched());
}

TEST_F(Sm90Route, outputs_that_overlap_are_refused) {
  MXCHECK_NEEDS_DEVICE();
  outputs[1].data = arena + kOutputsAt + kTokens * kTopK * 4 - 4;
  expect_refused("output 1 overlaps output 0");
}

TEST_F(Sm90Route, a_workspace_that_is_too_small_is_refused_where_one_is_needed) {
  MXCHECK_NEEDS_DEVICE();
  call.workspace_bytes = 128;
  // 256 of the check, then experts and weights of 210 routes, in whole 256 bytes each.
  expect_refused("the workspace has 128 bytes: must have 2304");
  policy.nan = MXCHECK_NAN_LAST;
  EXPECT_EQ(run(), MXCHECK_OK) << message;
}

TEST_F(Sm90Route, the_first_nan_of_the_logits_is_named) {
  MXCHECK_NEEDS_DEVICE();
  logits[40 * kExperts + 5] = logits[69 * kExperts + 23] = kNaN, put(0, logits);
  expect_refused_on_the_device("logits[index] is NaN", 40 * kExperts + 5, 0);
}

TEST_F(Sm90Route, the_first_nan_of_rows_that_are_not_aligned_is_named) {
  MXCHECK_NEEDS_DEVICE();
  strides[0] = kExperts + 1;
  inputs[0].strides = strides, inputs[0].byte_offset = 4;
  logits[1 + 10 * (kExperts + 1) + 3] = kNaN, put(0, logits);
  expect_refused_on_the_device("logits[index] is NaN", 10 * kExperts + 3, 0);
}

TEST_F(Sm90Route, a_nan_of_the_bias_is_named) {
  MXCHECK_NEEDS_DEVICE();
  add_bias();
  std::vector<float> bias(kExperts);
  bias[23] = kNaN, put(kBiasAt, bias);
  expect_refused_on_the_device("bias[index] is NaN", 23, 0);
}

TEST_F(Sm90RouteBackward, no_routes_are_taken) {
  MXCHECK_NEEDS_DEVICE();
  EXPECT_EQ(run(), MXCHECK_OK) << message;
  EXPECT_FALSE(untouched());
}

TEST_F(Sm90RouteBackward, the_first_expert_that_is_none_is_named) {
  MXCHECK_NEEDS_DEVICE();
  routes[100] = kExperts, routes[150] = -2, put(kRoutesAt, routes);
  expect_refused_on_the_device("experts[index] must be -1 (none) or an expert", 100, kExperts);
}

TEST_F(Sm90RouteBackward, a_nan_comes_before_an_expert) {
  MXCHECK_NEEDS_DEVICE();
  routes[0] = -2, put(kRoutesAt, routes);
  logits.back() = kNaN, put(0, logits);
  expect_refused_on_the_device("logits[index] is NaN", kTokens * kExperts - 1, 0);
}

}  // namespace

#include "cost/cluster.h"

#include "tests/cost/cost_testing.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::round_card;

// Bounds below: up to ten operations on doubles, each off by 2^-53 of its result, are off by 1.2e-15 of it: 1e-9 bytes
// of a million, 1e-12 us of a thousand. 1e-6 and 1e-9 have room for that, and for no wrong term.
constexpr LayerShape kShape{1000, 128, 64, 8, 2};

ClusterEstimate on(const ClusterSpec& spec, const char* recipe = "bf16") {
  static const Card card = round_card(Architecture::hopper);
  return estimate_cluster(kShape, layer_recipe_named(recipe), card, spec, test::kBalanced);
}

TEST(NoneOf, counts_choices_without_those) {
  EXPECT_DOUBLE_EQ(none_of(2, 4, 2), 1.0 / 6);  // one pair of six
  EXPECT_DOUBLE_EQ(none_of(1, 8, 2), 6.0 / 8);
  EXPECT_DOUBLE_EQ(none_of(3, 4, 2), 0);
  EXPECT_DOUBLE_EQ(none_of(0, 4, 4), 1);
}

TEST(Cluster, one_gpu_sends_nothing) {
  const ClusterEstimate c = on({});
  EXPECT_EQ(c.transfer_us(), 0);
  EXPECT_EQ(c.step_us(), c.compute_us());
  EXPECT_EQ(c.weight_bytes, 3 * 8 * 128 * 64 * 2);
  EXPECT_EQ(c.gradient_bytes, 3 * 8 * 128 * 64 * 4);
  EXPECT_EQ(c.received_x, 0);
}

// Four GPUs of two experts: a token goes to another one with 1 - C(6,2)/C(8,2) = 13/28. Bytes here are below 2^19, so
// that each rounding of a double is off by 2^-35 at most: 1e-6 is 30,000 of them, and no other count of rows is as
// near.
TEST(Cluster, tokens_go_once_to_each_gpu_of_a_node) {
  const ClusterEstimate c = on({.gpus = 4});
  EXPECT_EQ(c.expert_parallel, 4);
  EXPECT_EQ(c.replicas, 1);
  EXPECT_NEAR(c.dispatch.nvlink_bytes, 3 * 13.0 / 28 * 1000 * 128 * 2, 1e-6);
  EXPECT_EQ(c.dispatch.network_bytes, 0);
  EXPECT_NEAR(c.dispatch.us, c.dispatch.nvlink_bytes / 100e9 * 1e6 + kNvlinkLatency, 1e-9);  // 0.5 of 200 GB/s
  EXPECT_EQ(c.combine.us, c.dispatch.us);
  EXPECT_EQ(c.gradients.us, 0);
  EXPECT_NEAR(c.received_x, 4 * 13.0 / 28 * 1000 * 128 * 2, 1e-6);
  EXPECT_EQ(c.weight_bytes, 3 * 2 * 128 * 64 * 2);
}

// Two nodes of two GPUs: to the other node with 1 - C(4,2)/C(8,2) = 22/28, over the network; over NVLink to one of two
// GPUs of each node.
TEST(Cluster, tokens_go_once_to_each_node_and_from_there_over_nvlink) {
  const ClusterEstimate c = on({.gpus = 4, .node = 2});
  EXPECT_NEAR(c.dispatch.network_bytes, 22.0 / 28 * 1000 * 128 * 2, 1e-6);
  EXPECT_NEAR(c.dispatch.nvlink_bytes, 2 * 13.0 / 28 * 1000 * 128 * 2, 1e-6);
  EXPECT_NEAR(c.dispatch.us, c.dispatch.network_bytes / 10e9 * 1e6 + kNetworkLatency, 1e-9);  // 0.5 of 20 GB/s
  const ClusterEstimate fast = on({.gpus = 4, .node = 2, .network = 1000});
  EXPECT_NEAR(fast.dispatch.us, c.dispatch.nvlink_bytes / 100e9 * 1e6 + kNetworkLatency, 1e-9);
}

// 16 GPUs and 8 experts: two replicas, whose gradients go over the network.
TEST(Cluster, replicas_sum_gradients) {
  const ClusterEstimate c = on({.gpus = 16});
  EXPECT_EQ(c.expert_parallel, 8);
  EXPECT_EQ(c.replicas, 2);
  const double bytes = 3 * 1 * 128 * 64 * 4;
  EXPECT_EQ(c.gradients.network_bytes, 2 * bytes / 2);
  EXPECT_NEAR(c.gradients.us, bytes / 10e9 * 1e6 + 2 * kNetworkLatency, 1e-9);
  const ClusterEstimate near = on({.gpus = 4, .expert_parallel = 2});
  EXPECT_EQ(near.gradients.network_bytes, 0);
  EXPECT_EQ(near.gradients.nvlink_bytes, 2 * 3 * 4 * 128 * 64 * 4 / 2.0);
}

TEST(Cluster, microbatches_share_a_sum_of_gradients) {
  static const Card card = round_card(Architecture::hopper);
  EstimateOptions options = test::kBalanced;
  options.microbatches = 8;
  const ClusterEstimate one = on({.gpus = 16});
  const ClusterEstimate eight = estimate_cluster(kShape, layer_recipe_named("bf16"), card, {.gpus = 16}, options);
  EXPECT_DOUBLE_EQ(eight.gradients.us, one.gradients.us / 8);
  EXPECT_DOUBLE_EQ(eight.gradients.network_bytes, one.gradients.network_bytes / 8);
}

TEST(Cluster, expert_parallel_is_the_largest_common_divisor) {
  EXPECT_EQ(on({.gpus = 6}).expert_parallel, 2);
  EXPECT_EQ(on({.gpus = 10000}).expert_parallel, 8);
  EXPECT_EQ(on({.gpus = 7}).expert_parallel, 1);
}

// dsv3 makes the operand of dW1 from the codes of X, so X travels as codes; mxfp8 makes it from values.
TEST(Cluster, tokens_travel_as_codes_where_every_gemm_can_be_given_them) {
  EXPECT_NEAR(on({.gpus = 4}, "dsv3_pow2").dispatch.nvlink_bytes / on({.gpus = 4}).dispatch.nvlink_bytes,
              (1 + 1.0 / 128) / 2, 1e-12);
  EXPECT_EQ(on({.gpus = 4}, "dsv3_pow2").backward_dispatch.nvlink_bytes, on({.gpus = 4}).dispatch.nvlink_bytes);
  EXPECT_EQ(on({.gpus = 4}, "mxfp8").dispatch.nvlink_bytes, on({.gpus = 4}).dispatch.nvlink_bytes);
  EXPECT_EQ(on({.gpus = 4}, "fp8_tensor").dispatch.nvlink_bytes, on({.gpus = 4}).dispatch.nvlink_bytes);
}

TEST(Cluster, the_busiest_gpu_sets_the_time) {
  const Card card = round_card(Architecture::hopper);
  const EstimateOptions skewed{.load = {LoadKind::counts, 0, {500, 500, 500, 500, 0, 0, 0, 0}}};
  const ClusterEstimate c = estimate_cluster(kShape, layer_recipe_named("bf16"), card, {.gpus = 2}, skewed);
  EXPECT_EQ(c.layer.load.rows, 4000);  // counts are of one GPU's tokens
  EXPECT_EQ(c.layer.load.imbalance, 2);
  const ClusterEstimate even = estimate_cluster(kShape, layer_recipe_named("bf16"), card, {.gpus = 2}, test::kBalanced);
  EXPECT_NEAR(test::step_of(c.layer.forward, "swiglu").us, 2 * test::step_of(even.layer.forward, "swiglu").us, 1e-9);
  EXPECT_NEAR(c.dispatch.nvlink_bytes, 2 * even.dispatch.nvlink_bytes, 1e-6);
}

TEST(Cluster, overlapped_is_the_longer_of_both) {
  const ClusterEstimate c = on({.gpus = 4, .node = 1});
  EXPECT_DOUBLE_EQ(c.step_us(), c.compute_us() + c.transfer_us());
  EXPECT_DOUBLE_EQ(c.overlapped_us(), std::max(c.compute_us(), c.transfer_us()));
}

TEST(Cluster, says_which_number_cannot_be) {
  const auto refused = [](const ClusterSpec& spec, const char* text) {
    expect_error(ErrorKind::usage, text, [&] { on(spec); });
  };
  refused({.gpus = 0}, "GPUs: 0: 1 to 1000000 can be estimated");
  refused({.gpus = std::int64_t{1} << 62}, "1 to 1000000 can be estimated");
  refused({.gpus = 8, .node = 0}, "GPUs of a node: 0: 1 or more are needed");
  refused({.gpus = 8, .network = 0}, "network: a rate above 0 GB/s is needed");
  refused({.gpus = 12, .expert_parallel = 8}, "expert parallel: 8 does not divide both 12 GPUs and 8 experts; 4 does");
  refused({.gpus = 12, .expert_parallel = -1}, "expert parallel: -1 does not divide both");
}

}  // namespace
}  // namespace mxcheck

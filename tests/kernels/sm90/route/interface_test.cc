// The Hopper library's routers: what they offer, what they refuse before they enqueue anything, and, of route and
// route_backward, what they refuse on the device: a status, a sentence, and no output byte changed. The last needs a
// GPU, and is skipped without. Calls of route_round and route_metadata lie in host memory, which is the last to be
// refused.

#include <limits>

#include "kernels/candidate_route.h"
#include "tests/kernels/sm90/device_interface.h"
#include "tests/kernels/sm90/moe/device.h"

namespace {

using mxcheck::test::DeviceCall, mxcheck::test::expect_refused, mxcheck::test::expect_refused_on_the_device;

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
constexpr DLDataType kInt64{kDLInt, 64, 1};
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const char* const kVariants[] = {"topk-softmax", "softmax-topk",       "softmax-topk-renorm", "sigmoid",
                                 "sigmoid-raw",  "sigmoid-tiny-first", "sqrtsoftplus",        "sqrtsoftplus-raw"};

// topk-softmax of FP32 ones.
struct RouteCall : DeviceCall {
  explicit RouteCall(const char* name = "route")
      : DeviceCall(name, {kOutputsAt, kWorkspaceAt, kWorkspaceAt, 4096, kReportAt}, policy.policy) {
    put_logits();
    put(kBiasAt, std::vector<float>(kExperts, 0.5F));
    policy.policy.size = sizeof(policy), policy.policy.format = "", policy.policy.recipe = "topk-softmax";
    policy.policy.rows = kTokens, policy.policy.cols = kExperts;
    policy.top_k = kTopK, policy.scale = 1, policy.nan = MXCHECK_NAN_REFUSE;
    inputs = {tensor(0, kFp32, {kTokens, kExperts})};
    outputs = {tensor(kOutputsAt, kInt32, {kTokens, kTopK}), tensor(kSecondOutputAt, kFp32, {kTokens, kTopK})};
  }
  void put_logits() { put(0, logits); }
  void add_bias() {
    policy.bias = 1;
    inputs.push_back(tensor(kBiasAt, kFp32, {kExperts}));
  }
  // Rows that are aligned to their element alone.
  void shift_logits() {
    set_stride(kExperts + 1, inputs[0]);
    inputs[0].byte_offset = 4;
  }

  mxcheck_route_policy policy{};
  std::vector<float> logits = std::vector<float>(kTokens * kExperts, 1.0F);
};

struct BackwardCall : RouteCall {
  BackwardCall() : RouteCall("route_backward") {
    put_routes();
    put(kGradientAt, std::vector<float>(kTokens * kTopK, 2.0F));
    inputs = {tensor(0, kFp32, {kTokens, kExperts}), tensor(kRoutesAt, kInt32, {kTokens, kTopK}),
              tensor(kGradientAt, kFp32, {kTokens, kTopK})};
    outputs = {tensor(kOutputsAt, kFp32, {kTokens, kExperts})};
  }
  void put_routes() { put(kRoutesAt, routes); }
  std::vector<std::int32_t> routes = std::vector<std::int32_t>(kTokens * kTopK, -1);
};

TEST(Sm90Route, every_variant_but_packed_is_offered_for_both_types) {
  RouteCall c;
  c.policy.policy.rows = c.policy.policy.cols = c.policy.top_k = 0;
  for (const std::int64_t groups : {0, 1}) {
    c.policy.groups = groups;
    for (const char* variant : kVariants) {
      c.policy.policy.recipe = variant;
      EXPECT_EQ(c.operation->supports(&c.policy.policy, kBf16), MXCHECK_OK) << variant;
      EXPECT_EQ(c.operation->supports(&c.policy.policy, kFp32), MXCHECK_OK) << variant;
      EXPECT_EQ(c.operation->supports(&c.policy.policy, {kDLFloat, 16, 1}), MXCHECK_UNSUPPORTED) << variant;
    }
    c.policy.policy.recipe = "topk-softmax-packed";
    EXPECT_EQ(c.operation->supports(&c.policy.policy, kFp32), MXCHECK_UNSUPPORTED);
  }
}

TEST(Sm90Route, refuses_before_anything_is_enqueued) {
  const bool on_device = RouteCall().on_device;
  expect_refused<RouteCall>(
      {{"variant topk is not offered: offered are topk-softmax, softmax-topk,",
        [](auto& c) { c.policy.policy.recipe = "topk"; }, MXCHECK_UNSUPPORTED},
       {"policy.size is", [](auto& c) { c.policy.policy.size = sizeof(mxcheck_policy); }},
       {"4097 experts are not offered: at most 4096 are", [](auto& c) { c.policy.policy.cols = 4097; },
        MXCHECK_UNSUPPORTED},
       {"a top_k of 129 is not offered: at most 128 is",
        [](auto& c) { c.policy.policy.cols = 4096, c.policy.top_k = 129; }, MXCHECK_UNSUPPORTED},
       {"2147483648 tokens are not offered: at most 2^31 - 1 are",
        [](auto& c) { c.policy.policy.cols = 4096, c.policy.policy.rows = std::int64_t{1} << 31; },
        MXCHECK_UNSUPPORTED},
       {"policy.top_k is -1: must be", [](auto& c) { c.policy.top_k = -1; }},
       {"policy.top_k is 0: must be", [](auto& c) { c.policy.top_k = 0; }},
       {"policy.top_k is 25: must be", [](auto& c) { c.policy.top_k = kExperts + 1; }},
       {"policy.groups is 5: must divide the 24 experts",
        [](auto& c) { c.policy.groups = 5, c.policy.groups_kept = 1; }},
       {"policy.groups_kept is 13: must be 1 to 12", [](auto& c) { c.policy.groups = 12, c.policy.groups_kept = 13; }},
       {"policy.top_k is 3: must be at most 2, the experts of the groups kept",
        [](auto& c) { c.policy.groups = 12, c.policy.groups_kept = 1; }},
       {"policy.groups_kept is 1: must be 0 without groups", [](auto& c) { c.policy.groups_kept = 1; }},
       {on_device ? "logits has shape 70 x 23: must be 70 x 24" : "logits does not start in memory",
        [](auto& c) { c.shapes[0][1] = kExperts - 1; }},
       {"1 inputs: must be 2", [](auto& c) { c.policy.bias = 1; }},
       {"logits does not start in memory of a CUDA device", [](auto& c) { c.inputs[0].data = c.host.data(); }}});
  expect_refused<BackwardCall>({{"2 inputs: must be 3", [](auto& c) { c.inputs.pop_back(); }}});
}

// --- on a device

class Sm90RouteOnDevice : public mxcheck::test::DeviceTest {};

template <class Call>
void expect_good(Call& c) {
  EXPECT_EQ(c.run(), MXCHECK_OK) << c.message;
  EXPECT_FALSE(c.untouched());
}

TEST_F(Sm90RouteOnDevice, good_calls_are_good) {
  RouteCall c;
  c.add_bias();
  expect_good(c);
  RouteCall shifted;
  shifted.shift_logits();
  shifted.outputs[0].byte_offset = 4, shifted.policy.nan = MXCHECK_NAN_LAST;
  expect_good(shifted);
  BackwardCall without_routes;
  expect_good(without_routes);
}

TEST_F(Sm90RouteOnDevice, outputs_that_overlap_are_refused) {
  expect_refused<RouteCall>({{"output 1 overlaps output 0",
                              [](auto& c) { c.outputs[1].data = c.arena + kOutputsAt + kTokens * kTopK * 4 - 4; }}});
}

TEST_F(Sm90RouteOnDevice, a_workspace_that_is_too_small_is_refused_where_one_is_needed) {
  RouteCall c;
  c.call.workspace_bytes = 128;
  // 256 of the check, then experts and weights of 210 routes, in whole 256 bytes each.
  c.expect_refused("the workspace has 128 bytes: must have 2304");
  c.policy.nan = MXCHECK_NAN_LAST;
  EXPECT_EQ(c.run(), MXCHECK_OK) << c.message;
}

// The first that is wrong, in rows that are aligned and in others; a NaN before an expert.
TEST_F(Sm90RouteOnDevice, what_is_wrong_first_is_named) {
  expect_refused_on_the_device<RouteCall>(
      {{"logits[index] is NaN", 40 * kExperts + 5, 0,
        [](auto& c) { c.logits[40 * kExperts + 5] = c.logits[69 * kExperts + 23] = kNaN, c.put_logits(); }},
       {"logits[index] is NaN", 10 * kExperts + 3, 0,
        [](auto& c) { c.shift_logits(), c.logits[1 + 10 * (kExperts + 1) + 3] = kNaN, c.put_logits(); }},
       {"bias[index] is NaN", 23, 0, [](auto& c) {
          c.add_bias();
          std::vector<float> bias(kExperts);
          bias[23] = kNaN, c.put(kBiasAt, bias);
        }}});
  expect_refused_on_the_device<BackwardCall>(
      {{"experts[index] must be -1 (none) or an expert", 100, kExperts,
        [](auto& c) { c.routes[100] = kExperts, c.routes[150] = -2, c.put_routes(); }},
       {"logits[index] is NaN", kTokens * kExperts - 1, 0,
        [](auto& c) { c.routes[0] = -2, c.put_routes(), c.logits.back() = kNaN, c.put_logits(); }}});
}

// --- token rounding and metadata, with 16 experts, in host memory

constexpr std::int64_t kFew = 16;

struct HostCall : DeviceCall {
  explicit HostCall(const char* name) : DeviceCall(name, {0, kWorkspaceAt, 0, 0, kWorkspaceAt}, policy.policy, true) {
    policy.policy.size = sizeof(policy), policy.policy.recipe = "softmax-topk", policy.policy.format = "";
    policy.policy.rows = kTokens, policy.policy.cols = kFew;
    policy.top_k = 2, policy.scale = 1, policy.renormalize = 1, policy.rule = "nr-f", policy.tile = 8;
    call.workspace = nullptr, call.report = nullptr;
  }
  mxcheck_route_policy policy{};
};

struct RoundCall : HostCall {
  RoundCall() : HostCall("route_round") {
    constexpr std::int64_t kRows = kTokens * 2 + kFew * 7;
    inputs = {tensor(0, kBf16, {kTokens, kFew})};
    outputs = {tensor(0, kInt32, {kFew}), tensor(0, kInt64, {kFew + 1}),    tensor(0, kInt32, {kRows}),
               tensor(0, kFp32, {kRows}), tensor(0, kInt64, {kTokens + 1}), tensor(0, kInt32, {kRows})};
  }
};

struct MetadataCall : HostCall {
  MetadataCall() : HostCall("route_metadata") {
    constexpr std::int64_t kSlots = kTokens * 2;
    constexpr std::int64_t kRows = kSlots + kFew * 7;
    inputs = {tensor(0, kInt32, {kSlots})};
    outputs = {tensor(0, kInt32, {kFew}),  tensor(0, kInt64, {kFew + 1}), tensor(0, kInt32, {kRows}),
               tensor(0, kInt32, {kRows}), tensor(0, kInt32, {kRows}),    tensor(0, kInt32, {kSlots})};
  }
};

TEST(Sm90RouteRound, every_rule_is_offered_with_every_variant_but_packed) {
  RoundCall c;
  c.policy.policy.rows = c.policy.policy.cols = c.policy.top_k = c.policy.tile = 0;
  const auto supports = [&c] { return c.operation->supports(&c.policy.policy, kBf16); };
  for (const char* rule : {"none", "nr-f", "sr-f", "nr-s", "balance-f", "up", "down", "nr-even", "expert-choice",
                           "capacity-order", "capacity-score"}) {
    c.policy.rule = rule;
    for (const char* variant : kVariants) {
      c.policy.policy.recipe = variant;
      EXPECT_EQ(supports(), MXCHECK_OK) << rule << " " << variant;
      EXPECT_EQ(c.operation->supports(&c.policy.policy, kFp32), MXCHECK_OK) << rule << " " << variant;
    }
    c.policy.policy.recipe = "topk-softmax-packed";
    EXPECT_EQ(supports(), MXCHECK_UNSUPPORTED) << rule;
  }
  c.policy.policy.recipe = "softmax-topk";
  for (const char* rule : {"nr", static_cast<const char*>(nullptr)}) {
    c.policy.rule = rule;
    EXPECT_EQ(supports(), MXCHECK_UNSUPPORTED);
  }
}

TEST(Sm90RouteRound, refuses_before_anything_is_enqueued) {
  expect_refused<RoundCall>(
      {{"rule nr is not offered: offered are none, nr-f,", [](auto& c) { c.policy.rule = "nr"; }, MXCHECK_UNSUPPORTED},
       {"policy.rule is null", [](auto& c) { c.policy.rule = nullptr; }},
       {"policy.size is", [](auto& c) { c.policy.policy.size = sizeof(mxcheck_policy); }},
       {"policy.tile is 0: must be 1 or more", [](auto& c) { c.policy.tile = 0; }},
       {"policy.capacity is -1: must be 0 or more",
        [](auto& c) { c.policy.rule = "expert-choice", c.policy.capacity = -1; }},
       {"4294967294 routes: at most 2^31 - 1 are possible", [](auto& c) { c.policy.policy.rows = INT32_MAX; }},
       {"4294967296 rows: at most 2^31 - 1 are possible",
        [](auto& c) { c.policy.policy.rows = std::int64_t{1} << 28, c.policy.tile = INT64_MAX; }},
       {"1 inputs: must be 2", [](auto& c) { c.policy.bias = 1; }},
       {"2 inputs: must be 1", [](auto& c) { c.inputs.push_back(c.tensor(0, kFp32, {kFew})); }},
       {"5 outputs: must be 6", [](auto& c) { c.outputs.pop_back(); }},
       {"inputs are missing", [](auto& c) { c.inputs.clear(); }},
       {"are not offered", [](auto& c) { c.inputs[0].dtype.code = kDLFloat; }, MXCHECK_UNSUPPORTED},
       {"logits has 1 dimensions: must have 2", [](auto& c) { c.inputs[0] = c.tensor(0, kBf16, {kTokens}); }},
       {"logits is on DLPack device 1: must be on CUDA, 2", [](auto& c) { c.inputs[0].device.device_type = kDLCPU; }},
       {"logits does not start in memory of a CUDA device", [](auto&) {}}});
}

TEST(Sm90RouteRound, workspaces_are_what_the_rule_needs) {
  RoundCall c;
  c.policy.tile = 0, c.policy.rule = "capacity-order";
  EXPECT_NE(c.workspace(), 0U);
  // Tiles too large for shared memory are given workspace by nr-s.
  c.policy.policy.rows = 8192;
  for (const auto& [tile, more] : {std::pair{4096, 4096 * kFew * 4}, std::pair{2048, 0 * kFew}}) {
    c.policy.tile = tile, c.policy.rule = "nr-f";
    const std::uint64_t without = c.workspace();
    c.policy.rule = "nr-s";
    EXPECT_EQ(c.workspace(), without + static_cast<std::uint64_t>(more)) << tile;
  }
}

TEST(Sm90RouteMetadata, is_offered_and_refuses_before_anything_is_enqueued) {
  MetadataCall offered;
  offered.policy.policy.rows = offered.policy.policy.cols = offered.policy.top_k = offered.policy.tile = 0;
  EXPECT_EQ(offered.operation->supports(&offered.policy.policy, kInt32), MXCHECK_OK);
  expect_refused<MetadataCall>(
      {{"policy.tile is 0: must be 1 to", [](auto& c) { c.policy.tile = 0; }},
       {"policy.rows is -1", [](auto& c) { c.policy.policy.rows = -1; }},
       {"policy.top_k is -2", [](auto& c) { c.policy.top_k = -2; }},
       {"4097 experts are not offered: at most 4096", [](auto& c) { c.policy.policy.cols = 4097; },
        MXCHECK_UNSUPPORTED},
       {"the number of slots is 2147483648", [](auto& c) { c.policy.policy.rows = std::int64_t{1} << 30; }},
       {"rows: at most 2^31 - 1 are possible", [](auto& c) { c.policy.tile = std::int64_t{1} << 28; }},
       {"1 inputs: must be 2", [](auto& c) { c.policy.top_k = 0; }},
       {"2 inputs: must be 1", [](auto& c) { c.inputs.push_back(c.tensor(0, kInt64, {kTokens + 1})); }},
       {"slot_experts must have one dimension",
        [](auto& c) {
          c.policy.top_k = 0;
          c.inputs = {c.tensor(0, kInt32, {kTokens, 2}), c.tensor(0, kInt64, {kTokens + 1})};
        }},
       {"slot_experts has DLPack type code 0, 64 bits", [](auto& c) { c.inputs[0].dtype = kInt64; }},
       {"slot_experts does not start in memory of a CUDA device", [](auto&) {}}});
}

}  // namespace

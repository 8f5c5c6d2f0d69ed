// The CPU library's routers through the C interface alone: what they offer, and that every wrong call is refused with
// one line of text and not a byte written.

#include <limits>

#include "kernels/candidate_route.h"
#include "tests/kernels/refusals.h"

namespace mxcheck {
namespace {

const mxcheck_candidate_table& library() {
  static const mxcheck_candidate_table& table = load_candidate(MXCHECK_CPU_LIBRARY);
  return table;
}

constexpr DLDataType kI32Type{kDLInt, 32, 1};
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;

mxcheck_route_policy make_route_policy(const char* variant, const char* rule = "nr-f") {
  mxcheck_route_policy p{};
  p.policy = make_policy("", variant, 0, 0), p.policy.size = sizeof p, p.top_k = 2, p.scale = 1, p.renormalize = 1;
  p.rule = rule, p.tile = 4;
  return p;
}

// A valid call of one operation, to be made invalid: 5 tokens, 6 experts, of which each token chooses 2.
struct Valid : ValidCall {
  mxcheck_route_policy policy = make_route_policy("softmax-topk-renorm");

  explicit Valid(const std::string& name) {
    policy.policy.rows = 5, policy.policy.cols = 6;
    const std::vector<std::byte> zeros(256);
    const auto bytes = [&](std::size_t count) { return std::span(zeros).first(count); };
    if (name == "route_metadata") {
      const std::array<std::int32_t, 7> experts{0, 5, -1, 2, 2, 0, 1};
      const std::array<std::int64_t, 6> offsets{0, 2, 2, 3, 6, 7};
      policy.top_k = 0;
      in = {&memory.flat(kI32Type, 7, std::as_bytes(std::span(experts))), &memory.offsets(offsets)};
      out = {&memory.flat(kI32Type, 6),         &memory.flat(kI64Type, 7),         &memory.flat(kI32Type, 7 + 6 * 3),
             &memory.flat(kI32Type, 7 + 6 * 3), &memory.flat(kI32Type, 7 + 6 * 3), &memory.flat(kI32Type, 7)};
    } else if (name == "route_backward") {
      const std::array<std::int32_t, 10> experts{0, 5, -1, -1, 2, 0, 1, 3, 5, 4};
      in = {&memory.matrix(kFp32Type, 5, 6, 0, bytes(120)),
            &memory.matrix(kI32Type, 5, 2, 0, std::as_bytes(std::span(experts))),
            &memory.matrix(kFp32Type, 5, 2, 0, bytes(40))};
      out = {&memory.matrix(kFp32Type, 5, 6)};
    } else {
      policy.bias = 1;
      in = {&memory.matrix(kFp32Type, 5, 6, 0, bytes(120)), &memory.flat(kFp32Type, 6, bytes(24))};
      if (name == "route") {
        out = {&memory.matrix(kI32Type, 5, 2), &memory.matrix(kFp32Type, 5, 2)};
      } else {
        out = {&memory.flat(kI32Type, 6),        &memory.flat(kI64Type, 7), &memory.flat(kI32Type, 10 + 6 * 3),
               &memory.flat(kFp32Type, 10 + 18), &memory.flat(kI64Type, 6), &memory.flat(kI32Type, 10 + 6 * 3)};
      }
    }
    bind(policy.policy);
  }
};

using Refusals = std::vector<InvalidCall<Valid>>;

void expect_refusals(const std::string& name, const Refusals& refusals) {
  mxcheck::expect_refusals(library(), name, refusals);
}

TEST(RouteRefusals, hold_for_every_operation) {
  const Refusals refusals{
      {"a policy of other operations", "policy.size", [](Valid& v) { v.policy.policy.size = sizeof(mxcheck_policy); }},
      {"one input more", "inputs: must be", [](Valid& v) { ++v.call.num_inputs; }},
      {"one input less", "inputs: must be", [](Valid& v) { --v.call.num_inputs; }},
      {"one output more", "outputs: must be", [](Valid& v) { ++v.call.num_outputs; }},
      {"one output less", "outputs: must be", [](Valid& v) { --v.call.num_outputs; }},
      {"negative threads", "threads is -1", [](Valid& v) { v.policy.policy.threads = -1; }},
      {"another layout", "layout 1", [](Valid& v) { v.policy.policy.layout = 1; }, MXCHECK_UNSUPPORTED},
      {"blocks", "1 x 32", [](Valid& v) { v.policy.policy.block_rows = 1, v.policy.policy.block_cols = 32; },
       MXCHECK_UNSUPPORTED},
      {"a format", "format e4m3", [](Valid& v) { v.policy.policy.format = "e4m3"; }, MXCHECK_UNSUPPORTED},
      {"other tokens", "must", [](Valid& v) { v.policy.policy.rows = 4; }},
      {"other experts", "must", [](Valid& v) { v.policy.policy.cols = 7; }},
      {"no experts", "cols is 0: must be 1 to", [](Valid& v) { v.policy.policy.cols = 0; }},
      {"negative tokens", "rows is -1", [](Valid& v) { v.policy.policy.rows = -1; }},
      {"tokens beyond int32", "rows is 2147483648", [](Valid& v) { v.policy.policy.rows = std::int64_t{1} << 31; }},
      {"experts beyond int32", "cols is 2147483648", [](Valid& v) { v.policy.policy.cols = std::int64_t{1} << 31; }},
      {"top_k", "top_k is -1", [](Valid& v) { v.policy.top_k = -1; }},
      {"huge top_k", "must be", [](Valid& v) { v.policy.top_k = kHuge; }},
      {"a negative size", "-5", [](Valid& v) { v.in[0]->shape[0] = -5; }},
      {"an odd address", "multiple", [](Valid& v) { v.inputs[0].byte_offset = 1; }},
      {"bits of an output", "bits", [](Valid& v) { v.outputs[0].dtype.bits = 16; }},
      {"lanes of an input", "", [](Valid& v) { v.inputs[1].dtype.lanes = 2; }},
  };
  for (const char* name : {"route", "route_round", "route_metadata", "route_backward"}) {
    expect_refusals(name, common_refusals<Valid>());
    expect_refusals(name, refusals);
    EXPECT_EQ(operation(library(), name).run(nullptr), MXCHECK_INVALID);
    Valid v(name);
    for (std::size_t i = 0; i < v.out.size(); ++i) {
      const Refusals of_output{
          {"shape of an output", "must",
           [i](Valid& w) { ++w.out[i]->shape[static_cast<std::size_t>(w.outputs[i].ndim) - 1]; }},
          {"type of an output", "must be code", [i](Valid& w) { w.outputs[i].dtype.code = kDLUInt; }},
          {"no data of an output", "data is null", [i](Valid& w) { w.outputs[i].data = nullptr; }}};
      expect_refusals(name, of_output);
    }
    for (std::size_t i = 0; i < v.in.size(); ++i) {
      expect_refusals(name,
                      {{"shape of an input", "must", [i](Valid& w) { --w.in[i]->shape[0]; }},
                       {"no data of an input", "data is null", [i](Valid& w) { w.inputs[i].data = nullptr; }},
                       {"type of an input", "", [i](Valid& w) { w.inputs[i].dtype.code = kDLUInt; },
                        i == 0 && std::string(name) != "route_metadata" ? MXCHECK_UNSUPPORTED : MXCHECK_INVALID}});
    }
  }
}

const Refusals kOfVariants{
    {"no variant", "recipe is null", [](Valid& v) { v.policy.policy.recipe = nullptr; }},
    {"an unknown variant", "variant softmax is not offered: offered are topk-softmax,",
     [](Valid& v) { v.policy.policy.recipe = "softmax"; }, MXCHECK_UNSUPPORTED},
    {"fp16", "16 bits", [](Valid& v) { v.inputs[0].dtype.bits = 16; }, MXCHECK_UNSUPPORTED},
    {"an unknown treatment of NaN", "nan 2", [](Valid& v) { v.policy.nan = 2; }, MXCHECK_UNSUPPORTED},
    {"a bias that is no flag", "bias is 2", [](Valid& v) { v.policy.bias = 2; }},
    {"top_k of 0", "top_k is 0: must be 1 to 6", [](Valid& v) { v.policy.top_k = 0; }},
    {"top_k above experts", "top_k is 7: must be 1 to 6", [](Valid& v) { v.policy.top_k = 7; }},
    {"negative groups", "groups is -1", [](Valid& v) { v.policy.groups = -1, v.policy.groups_kept = 1; }},
    {"groups that do not divide", "must divide the experts, 6",
     [](Valid& v) { v.policy.groups = 4, v.policy.groups_kept = 2; }},
    {"no groups kept", "groups_kept is 0: must be 1 to 3", [](Valid& v) { v.policy.groups = 3; }},
    {"more groups kept than there are", "groups_kept is 4: must be 1 to 3",
     [](Valid& v) { v.policy.groups = 3, v.policy.groups_kept = 4; }},
    {"groups kept without groups", "groups_kept is 1: must be 0", [](Valid& v) { v.policy.groups_kept = 1; }},
    {"top_k above the experts of the groups kept", "top_k is 2: must be 1 to 1",
     [](Valid& v) { v.policy.groups = 6, v.policy.groups_kept = 1; }},
    {"row stride", "row stride 5", [](Valid& v) { v.set_strides(v.inputs[0], 5, 1); }},
    {"column stride", "column stride 2", [](Valid& v) { v.set_strides(v.inputs[0], 12, 2); }},
    {"row stride that overflows", "overflows", [](Valid& v) { v.set_strides(v.inputs[0], kHuge, 1); }},
    {"a NaN", "logits[4, 5] is NaN", [](Valid& v) { v.set(0, 29, std::numeric_limits<float>::quiet_NaN()); }},
    {"two NaN", "logits[1, 0] is NaN",
     [](Valid& v) {
       v.set(0, 7, -std::numeric_limits<float>::quiet_NaN());
       v.set(0, 6, std::numeric_limits<float>::quiet_NaN());
     }},
    {"infinity in packed order", "logits[0, 2]", [](Valid& v) {
       v.policy.policy.recipe = "topk-softmax-packed", v.policy.nan = MXCHECK_NAN_LAST;
       v.set(0, 2, std::numeric_limits<float>::infinity());
     }}};

TEST(RouteRefusals, of_the_variants) {
  for (const char* name : {"route", "route_round", "route_backward"}) expect_refusals(name, kOfVariants);
  const Refusals of_bias{
      {"bias not announced", "2 inputs: must be 1", [](Valid& v) { v.policy.bias = 0; }},
      {"no bias", "1 inputs: must be 2, logits, bias", [](Valid& v) { v.call.num_inputs = 1; }},
      {"bias of 5", "bias has 5 elements: must have 6", [](Valid& v) { v.in[1]->shape[0] = 5; }},
      {"a NaN in the bias", "bias[3] is NaN", [](Valid& v) { v.set(1, 3, std::numeric_limits<float>::quiet_NaN()); }},
      {"a sum that packed order cannot hold", "logits[0, 1] with its bias", [](Valid& v) {
         v.policy.policy.recipe = "topk-softmax-packed";
         v.set(0, 1, 3e38F);
         v.set(1, 1, 3e38F);
       }}};
  expect_refusals("route", of_bias);
  expect_refusals("route_round", of_bias);
  expect_refusals("route", {{"other top_k", "must be 5 x 3", [](Valid& v) { v.policy.top_k = 3; }}});
}

TEST(RouteRefusals, of_the_rules) {
  expect_refusals(
      "route_round",
      {{"no rule", "rule is null", [](Valid& v) { v.policy.rule = nullptr; }},
       {"an unknown rule", "rule nr is not offered: offered are none, nr-f,", [](Valid& v) { v.policy.rule = "nr"; },
        MXCHECK_UNSUPPORTED},
       {"a tile of 0", "tile is 0: must be 1", [](Valid& v) { v.policy.tile = 0; }},
       {"a negative tile", "tile is -4", [](Valid& v) { v.policy.tile = -4; }},
       {"another tile's capacity", "row_token has 28 elements: must have 22", [](Valid& v) { v.policy.tile = 3; }},
       {"a tile of all", "must have 30", [](Valid& v) { v.policy.tile = kHuge * 2; }},
       {"another rule's capacity", "must have 10", [](Valid& v) { v.policy.rule = "capacity-order"; }},
       {"expert choice's capacity", "must have 18",
        [](Valid& v) { v.policy.rule = "expert-choice", v.policy.capacity = 3; }},
       {"a negative capacity", "capacity is -1",
        [](Valid& v) { v.policy.rule = "capacity-score", v.policy.capacity = -1; }},
       {"weights that are no flag", "renormalize is 2", [](Valid& v) { v.policy.renormalize = 2; }},
       {"outputs on each other", "output 5 overlaps output 2",
        [](Valid& v) { v.outputs[5].data = v.outputs[2].data; }}});
}

TEST(RouteRefusals, of_metadata) {
  expect_refusals(
      "route_metadata",
      {{"a tile of 0", "tile is 0", [](Valid& v) { v.policy.tile = 0; }},
       {"a tile of all", "what int32 counts", [](Valid& v) { v.policy.tile = kHuge * 2; }},
       {"another tile's capacity", "must have 7", [](Valid& v) { v.policy.tile = 1; }},
       {"an expert too many", "slot_experts[3] is 6: must be in [0, 6)", [](Valid& v) { v.set(0, 3, 6); }},
       {"a negative expert", "slot_experts[6] is -2", [](Valid& v) { v.set(0, 6, -2); }},
       {"first offset", "token_offsets[0] is 1", [](Valid& v) { v.set(1, 0, std::int64_t{1}); }},
       {"falling offsets", "token_offsets[2] is 1", [](Valid& v) { v.set(1, 2, std::int64_t{1}); }},
       {"offsets that fall below 0", "token_offsets[1] is -1", [](Valid& v) { v.set(1, 1, std::int64_t{-1}); }},
       {"last offset", "token_offsets[5] is 8: must be the number of slots, 7",
        [](Valid& v) { v.set(1, 5, std::int64_t{8}); }},
       {"offsets and a top_k", "2 inputs: must be 1, slot_experts", [](Valid& v) { v.policy.top_k = 2; }},
       {"neither offsets nor a top_k", "1 inputs: must be 2, slot_experts, token_offsets",
        [](Valid& v) { v.call.num_inputs = 1; }},
       {"slots that top_k does not make", "slot_experts has 7 elements: must have 10",
        [](Valid& v) { v.policy.top_k = 2, v.call.num_inputs = 1; }}});
}

TEST(RouteRefusals, of_backward) {
  expect_refusals("route_backward",
                  {{"an expert too many", "experts[3] is 6: must be in [0, 6)", [](Valid& v) { v.set(1, 3, 6); }},
                   {"a negative expert", "experts[9] is -2", [](Valid& v) { v.set(1, 9, -2); }},
                   {"an expert twice", "experts[5] is 2: token 2 has it before", [](Valid& v) { v.set(1, 5, 2); }},
                   {"another type of output", "must be code 2", [](Valid& v) { v.outputs[0].dtype = kBf16Type; }},
                   {"gradient's shape", "gradient has shape 5 x 3", [](Valid& v) { v.in[2]->shape[1] = 3; }}});
}

// The first NaN is named, whichever thread finds one first.
TEST(RouteRefusals, name_the_first_of_several) {
  mxcheck_route_policy policy = make_route_policy("topk-softmax");
  policy.policy.rows = 8192, policy.policy.cols = 128, policy.policy.threads = 3;
  std::vector<float> logits(8192 * 128);
  for (const std::size_t at : {2000U * 128 + 7, 5000U * 128, 8191U * 128 + 127}) {
    logits[at] = std::numeric_limits<float>::quiet_NaN();
  }
  CandidateCall call(policy.policy);
  std::array inputs{call.matrix(kFp32Type, 8192, 128, 0, std::as_bytes(std::span(logits))).dl};
  std::array outputs{call.matrix(kI32Type, 8192, 2).dl, call.matrix(kFp32Type, 8192, 2).dl};
  const mxcheck_call c = call_of(policy.policy, inputs, outputs, call.message);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(operation(library(), "route").run(&c), MXCHECK_INVALID);
    EXPECT_NE(std::string(call.message.data()).find("logits[2000, 7] is NaN"), std::string::npos)
        << call.message.data();
  }
}

TEST(RouteSupports, every_variant_and_rule_and_no_other) {
  const auto supports = [](const char* name, const mxcheck_route_policy& p, DLDataType type) {
    return operation(library(), name).supports(&p.policy, type) == MXCHECK_OK;
  };
  const std::array variants{"topk-softmax", "topk-softmax-packed", "softmax-topk", "softmax-topk-renorm", "sigmoid",
                            "sigmoid-raw",  "sigmoid-tiny-first",  "sqrtsoftplus", "sqrtsoftplus-raw"};
  const std::array rules{"none", "nr-f",    "sr-f",          "nr-s",           "balance-f",     "up",
                         "down", "nr-even", "expert-choice", "capacity-order", "capacity-score"};
  for (const char* name : {"route", "route_round", "route_backward"}) {
    for (const char* variant : variants) {
      mxcheck_route_policy p = make_route_policy(variant);
      p.top_k = p.tile = 0;  // as supports() is asked
      p.groups = 1;
      EXPECT_TRUE(supports(name, p, kBf16Type)) << variant;
      EXPECT_TRUE(supports(name, p, kFp32Type)) << variant;
      EXPECT_FALSE(supports(name, p, DLDataType{kDLFloat, 16, 1})) << variant;
    }
    EXPECT_FALSE(supports(name, make_route_policy("topk"), kBf16Type));
    EXPECT_FALSE(supports(name, make_route_policy(nullptr), kBf16Type));
    EXPECT_EQ(operation(library(), name).supports(nullptr, kBf16Type), MXCHECK_UNSUPPORTED);
    mxcheck_route_policy small = make_route_policy("sigmoid");
    small.policy.size = sizeof small.policy;
    EXPECT_FALSE(supports(name, small, kBf16Type));
  }
  for (const char* rule : rules) EXPECT_TRUE(supports("route_round", make_route_policy("sigmoid", rule), kBf16Type));
  EXPECT_FALSE(supports("route_round", make_route_policy("sigmoid", "nr-t"), kBf16Type));
  EXPECT_TRUE(supports("route", make_route_policy("sigmoid", nullptr), kBf16Type));
  EXPECT_TRUE(supports("route_metadata", make_route_policy(nullptr, nullptr), kI32Type));
}

TEST(RouteMemory, no_tokens_need_no_data) {
  for (const char* name : {"route", "route_round", "route_backward", "route_metadata"}) {
    Valid v(name);
    v.policy.policy.rows = 0;
    if (std::string(name) == "route_metadata") v.policy.top_k = 1, v.call.num_inputs = 1;
    for (std::size_t i = 0; i < v.in.size(); ++i) {
      if (i == 1 && v.policy.bias != 0) continue;
      v.in[i]->shape[0] = 0, v.inputs[i].data = nullptr;
    }
    if (std::string(name) == "route_round") {
      for (const std::size_t i : {2U, 3U, 5U}) v.out[i]->shape[0] = 0, v.outputs[i].data = nullptr;
      v.out[4]->shape[0] = 1;
    } else if (std::string(name) == "route_metadata") {
      for (const std::size_t i : {2U, 3U, 4U}) v.out[i]->shape[0] = 18;
      v.out[5]->shape[0] = 0, v.outputs[5].data = nullptr;
    } else {
      for (std::size_t i = 0; i < v.out.size(); ++i) v.out[i]->shape[0] = 0, v.outputs[i].data = nullptr;
    }
    EXPECT_EQ(operation(library(), name).run(&v.call), MXCHECK_OK) << name << ": " << v.message.data();
    if (v.out.size() != 6) continue;
    EXPECT_EQ(v.out[0]->values<std::int32_t>(), std::vector<std::int32_t>(6)) << name;
    EXPECT_EQ(v.out[1]->values<std::int64_t>(), std::vector<std::int64_t>(7)) << name;
  }
}

TEST(RouteMemory, later_versions_of_the_policy_are_accepted) {
  Valid v("route");
  v.policy.policy.size += 16;
  EXPECT_EQ(operation(library(), "route").run(&v.call), MXCHECK_OK) << v.message.data();
}

}  // namespace
}  // namespace mxcheck

// Calls of a layer: sizes, what is kept as tensors, the way from a call back to its problem, the reference's answer.

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "numerics/bytes.h"
#include "numerics/format/packing.h"
#include "properties/core/check.h"
#include "properties/operations/moe/problem.h"
#include "properties/records/replay.h"
#include "tests/properties/operations/moe/some_layers.h"

namespace mxcheck {
namespace {

// Against the reference itself, called as its header says.
TEST(MoeProblems, outputs_are_those_of_the_layer_in_the_header_s_order) {
  const Case c = parse_case(
      "op=moe_backward recipe=dsv3_pow2 gate_up=interleaved rows=9 cols=136 inner=20 k=2 experts=0,9,9,14 data=normal "
      "seed=5");
  const MoeInputs in = expand_moe(c);
  const LayerRoutes routes = in.slots.routes(3);
  const Layer layer{{9, 136, 20, 3}, &layer_recipe_named("dsv3_pow2"), GateUp::interleaved, in.w1, in.w2};
  const LayerForward f = layer_forward(layer, in.x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, in.d_o, routes);
  const std::vector<ExpectedTensor> backward = make_problem(c)->answer();
  ASSERT_EQ(backward.size(), 4U);
  EXPECT_EQ(backward[0].bytes, to_bytes(b.dx));
  EXPECT_EQ(backward[1].bytes, to_bytes(b.dw1));
  EXPECT_EQ(backward[2].bytes, to_bytes(b.dw2));
  EXPECT_EQ(backward[3].bytes, to_bytes(b.ds));
  Case forward = c;
  forward.variant.operation = "moe_forward";
  const std::vector<ExpectedTensor> answer = make_problem(forward)->answer();
  ASSERT_EQ(answer.size(), 5U);
  EXPECT_EQ(answer[0].bytes, to_bytes(f.o));
  EXPECT_EQ(answer[1].info.cols, 60);  // 12 bytes for each eight of 40
  EXPECT_EQ(answer[1].bytes, to_bytes(pack_e5m6(values_in<std::uint16_t>(f.kept.h.quantized.codes.data))));
  EXPECT_EQ(answer[2].bytes, f.kept.h.quantized.scales().data);
  EXPECT_EQ(answer[3].bytes, f.kept.x.quantized.codes.data);
  EXPECT_EQ(answer[4].bytes, f.kept.x.quantized.scales().data);
  EXPECT_EQ(answer[4].info.cols, 2);  // 136 in blocks of 128
}

// The domain's largest inner width is 2,048; production's are larger.
TEST(MoeProblems, an_inner_width_beyond_the_domain_is_a_case) {
  const Case c = parse_case(
      "op=moe_forward recipe=mxfp8 gate_up=halves rows=2 cols=16 inner=4096 k=1 experts=0,1 data=zeros seed=5");
  EXPECT_EQ(moe_case(c).inner, 4096);
  EXPECT_EQ(make_problem(c)->answer()[0].bytes, std::vector<std::byte>(2 * 16 * 2));
}

// A step as a run of training has it, without an upper half, and a call that was read keeps it.
TEST(MoeProblems, a_small_step_has_no_upper_half) {
  const Case c = parse_case(
      "op=moe_backward recipe=nvfp4 gate_up=halves rows=2 cols=16 inner=16 k=1 zero=4 experts=0,1 data=normal seed=5");
  const auto policy = [](const Case& of) {
    return read<mxcheck_moe_policy>(operation_named("moe_backward").policy(of));
  };
  EXPECT_GT(policy(c).step, 0U);
  EXPECT_LE(policy(c).step, 1000U);
  EXPECT_LE(policy(c).layer, 61U);
  const std::unique_ptr<Problem> problem = make_problem(c);
  const MoeProblem again(problem->call());
  EXPECT_EQ(policy(again.c).step, policy(c).step);
}

// The ends of the three numbers, which a call that was read keeps.
TEST(MoeProblems, seed_step_and_layer_have_ends) {
  struct Ends {
    int zero;
    std::uint64_t seed, step_below_2_to_32;
    std::uint32_t layer;
  };
  constexpr std::uint64_t kWord = 0xFFFF'FFFF;
  for (const Ends& ends : {Ends{5, 0, 0, 0}, {6, ~std::uint64_t{0}, kWord, 0xFFFF}, {7, 0, 0, 1}}) {
    const Case c = parse_case("op=moe_backward recipe=nvfp4 gate_up=halves rows=2 cols=16 inner=16 k=1 zero=" +
                              std::to_string(ends.zero) + " experts=0,1 data=normal seed=5");
    const auto p = read<mxcheck_moe_policy>(operation_named("moe_backward").policy(c));
    EXPECT_EQ(ends.zero == 7 ? p.seed & kWord : p.seed, ends.seed);
    EXPECT_EQ(p.step & kWord, ends.step_below_2_to_32);
    EXPECT_EQ(p.step >> 32 != 0, ends.zero == 7);
    EXPECT_EQ(p.layer, ends.layer);
    const std::unique_ptr<Problem> problem = make_problem(c);
    const MoeProblem again(problem->call());
    EXPECT_EQ(read<mxcheck_moe_policy>(operation_named("moe_backward").policy(again.c)).step, p.step);
  }
}

TEST(MoeProblems, each_row_of_packed_codes_ends_with_zeros) {
  const Case c = parse_case(
      "op=moe_forward recipe=dsv3_pow2 gate_up=halves rows=3 cols=8 inner=5 k=1 experts=0,3 data=normal seed=5");
  const std::vector<ExpectedTensor> answer = make_problem(c)->answer();
  ASSERT_EQ(answer[1].info.cols, 24);  // two groups for ten codes
  const auto words = values_in<std::uint32_t>(answer[1].bytes);
  for (std::size_t row = 0; row < 3; ++row) {
    const std::vector<std::uint32_t> of_row(words.begin() + static_cast<std::ptrdiff_t>(6 * row),
                                            words.begin() + static_cast<std::ptrdiff_t>(6 * row + 6));
    const std::vector<std::uint16_t> codes = unpack_e5m6(of_row);
    EXPECT_TRUE(std::all_of(codes.begin() + 10, codes.end(), [](std::uint16_t code) { return code == 0; }));
    EXPECT_FALSE(std::all_of(codes.begin(), codes.begin() + 10, [](std::uint16_t code) { return code == 0; }));
  }
}

TEST(MoeProblems, the_policy_says_what_the_case_says) {
  const Case c = parse_case(
      "op=moe_backward recipe=mxfp8_floor gate_up=interleaved rows=9 cols=64 inner=32 k=2 experts=0,9,9,14 data=normal "
      "seed=7 threads=2");
  const Policy packed = operation_named(c.variant.operation).policy(c);
  const auto p = read<mxcheck_moe_policy>(packed);
  EXPECT_EQ(p.policy.size, sizeof(mxcheck_moe_policy));
  EXPECT_STREQ(p.policy.recipe, "mxfp8_floor");
  EXPECT_STREQ(p.policy.format, "");
  EXPECT_EQ(p.policy.block_rows + p.policy.block_cols, 0);
  EXPECT_EQ(p.policy.rows, 9);
  EXPECT_EQ(p.policy.cols, 64);
  EXPECT_EQ(p.policy.threads, 2);
  EXPECT_EQ(p.inner, 32);
  EXPECT_EQ(p.experts, 3);
  EXPECT_EQ(p.routed, 14);
  EXPECT_EQ(p.gate_up, MXCHECK_INTERLEAVED);
}

TEST(MoeProblems, a_difference_is_explained_and_the_inputs_are_saved) {
  for (const Case& c : test::some_layers()) {
    const auto p = make_problem(c);
    const std::vector<ExpectedTensor> answer = p->answer();
    std::vector<std::vector<std::byte>> observed;
    for (const ExpectedTensor& t : answer) observed.push_back(t.bytes);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      if (answer[i].bytes.empty()) continue;
      auto wrong = observed;
      wrong[i].back() ^= std::byte{0x11};
      const auto finding = first_difference(*p, answer, wrong, " from it");
      if (!finding) continue;  // a NaN, and another NaN
      EXPECT_GE(finding->element.size(), 4U) << to_text(c);
      for (const Case& simpler : operation_named(c.variant.operation).simpler(c, *finding))
        EXPECT_EQ(parse_case(to_text(simpler)), simpler) << to_text(simpler);
    }
    EXPECT_FALSE(p->saved().empty());
  }
}

float bf16_of(float x) { return std::bit_cast<float>(std::uint32_t{layer_bf16(x)} << 16); }

TEST(MoeProblems, a_recipe_or_a_mistake_that_gives_the_outputs_is_named) {
  const Case c = parse_case(
      "op=moe_forward recipe=mxfp8 gate_up=halves rows=9 cols=64 inner=32 k=3 experts=0,9,18,24 data=normal seed=7");
  const MoeProblem p(c);
  const auto named = [&](const std::vector<ExpectedTensor>& answer) {
    std::vector<std::vector<std::byte>> outputs;
    for (const ExpectedTensor& t : answer) outputs.push_back(t.bytes);
    Finding finding;
    tell_matches(p, p.answer(), outputs, finding);
    return finding.matches;
  };
  Layer floor = p.layer();
  floor.recipe = &layer_recipe_named("mxfp8_floor");
  EXPECT_EQ(named(p.answer_with(floor, p.routes)), std::vector<std::string>{"recipe mxfp8_floor"});
  LayerRoutes ones = p.routes;
  std::fill(ones.row_weight.begin(), ones.row_weight.end(), 1.0F);
  EXPECT_EQ(named(p.answer_with(p.layer(), ones)),
            (std::vector<std::string>{"all weights of routes taken for 1", "the route's weights not applied (in O)"}));
  Layer interleaved = p.layer();
  interleaved.gate_up = GateUp::interleaved;
  EXPECT_EQ(named(p.answer_with(interleaved, p.routes)),
            (std::vector<std::string>{"gate and up values taken in the other order",
                                      "columns of H in the other order (halves for interleaved) (in A)"}));
  // The bytes of one tensor, and what follows from it.
  LayerRoutes halved = p.routes;
  for (float& w : halved.row_weight) w = bf16_of(w);
  EXPECT_EQ(named(p.answer_with(p.layer(), halved)),
            std::vector<std::string>{"the route's weights rounded to BF16 (in O)"});
}

}  // namespace

// Inputs of a layer: routes that are what the case says, elements that do not depend on how large it is.

namespace {

float value(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }

TEST(MoeInputs, routes_have_the_rows_that_the_case_gives_each_expert) {
  for (const Case& c : test::some_layers()) {
    const MoeSlots slots = expand_moe_slots(c);
    const LayerRoutes routes = slots.routes(moe_experts(c));
    EXPECT_EQ(routes.offsets, c.experts) << to_text(c);
    EXPECT_NO_THROW(check(routes, c.rows, moe_experts(c))) << to_text(c);
    for (std::size_t t = 0; t + 1 < slots.token_offsets.size(); ++t) {
      const auto begin = slots.experts.begin() + slots.token_offsets[t];
      const auto end = slots.experts.begin() + slots.token_offsets[t + 1];
      if (moe_case(c).k > 0) {
        EXPECT_EQ(end - begin, moe_case(c).k);
      }
      std::multiset<std::int32_t> experts(begin, end);
      experts.erase(-1);
      EXPECT_EQ(experts.size(), std::set<std::int32_t>(experts.begin(), experts.end()).size()) << to_text(c);
    }
  }
}

TEST(MoeInputs, without_k_experts_of_a_token_ascend_and_with_it_they_do_not) {
  const auto ascends = [](const Case& c) {
    const MoeSlots slots = expand_moe_slots(c);
    for (std::size_t t = 0; t + 1 < slots.token_offsets.size(); ++t) {
      std::vector<std::int32_t> experts(slots.experts.begin() + slots.token_offsets[t],
                                        slots.experts.begin() + slots.token_offsets[t + 1]);
      std::erase(experts, -1);
      if (!std::is_sorted(experts.begin(), experts.end())) return false;
    }
    return true;
  };
  Case c = parse_case(
      "op=moe_forward recipe=bf16 gate_up=halves rows=40 cols=8 inner=8 k=4 experts=0,40,75,115,150 data=normal "
      "seed=7");
  const auto dropped = [](const Case& of) {
    const MoeSlots slots = expand_moe_slots(of);
    return std::count(slots.experts.begin(), slots.experts.end(), -1);
  };
  EXPECT_FALSE(ascends(c));
  EXPECT_EQ(dropped(c), 10);
  moe_case(c).k = 0;
  EXPECT_TRUE(ascends(c));
  EXPECT_EQ(dropped(c), 0);
  moe_case(c).drops = 100;
  EXPECT_TRUE(ascends(c));
  EXPECT_EQ(dropped(c), 40);
}

TEST(MoeInputs, an_element_does_not_depend_on_how_large_the_case_is) {
  for (const Data data : {Data::normal, Data::boundaries, Data::specials, Data::wide, Data::slots, Data::sparse}) {
    Case c = parse_case(
        "op=moe_backward recipe=bf16 gate_up=halves rows=9 cols=40 inner=16 k=0 experts=0,3,12 data=normal seed=7");
    c.data = data;
    Case fewer = c;
    fewer.rows = 5, fewer.experts = {0, 3};
    const MoeInputs all = expand_moe(c);
    const MoeInputs some = expand_moe(fewer);
    EXPECT_TRUE(std::equal(some.x.begin(), some.x.end(), all.x.begin()));
    EXPECT_TRUE(std::equal(some.d_o.begin(), some.d_o.end(), all.d_o.begin()));
    EXPECT_TRUE(std::equal(some.w1.begin(), some.w1.end(), all.w1.begin()));
    EXPECT_TRUE(std::equal(some.w2.begin(), some.w2.end(), all.w2.begin()));
  }
}

TEST(MoeInputs, both_orders_of_gate_and_up_value_hold_the_same) {
  const Case halves = parse_case(
      "op=moe_forward recipe=bf16 gate_up=halves rows=2 cols=8 inner=5 k=0 experts=0,1,2 data=normal seed=7");
  Case interleaved = halves;
  moe_of(interleaved.variant).gate_up = MXCHECK_INTERLEAVED;
  const auto a = expand_moe(halves).w1;
  const auto b = expand_moe(interleaved).w1;
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_EQ(a[row * 10 + j], b[row * 10 + 2 * j]);
      EXPECT_EQ(a[row * 10 + 5 + j], b[row * 10 + 2 * j + 1]);
    }
  }
}

// Every intermediate of usual data is in the range in which training has it: no gate saturates, nothing vanishes.
TEST(MoeInputs, usual_data_keeps_gates_and_outputs_in_range) {
  const Case c = parse_case(
      "op=moe_forward recipe=bf16 gate_up=halves rows=64 cols=128 inner=128 k=2 experts=0,64,128 data=normal seed=7");
  const MoeInputs in = expand_moe(c);
  const LayerRoutes routes = in.slots.routes(2);
  Layer layer{{64, 128, 128, 2}, &layer_recipe_named("bf16"), GateUp::halves, in.w1, in.w2};
  const LayerForward f = layer_forward(layer, in.x, routes);
  double squares = 0;
  float most = 0;
  for (const std::uint16_t w : f.h) most = std::max(most, std::fabs(value(w))), squares += value(w) * value(w);
  EXPECT_LT(most, 40);
  EXPECT_GT(squares / static_cast<double>(f.h.size()), 0.05);
  double of_o = 0;
  for (const std::uint16_t w : f.o) of_o += value(w) * value(w);
  EXPECT_GT(of_o / static_cast<double>(f.o.size()), 1e-4);
  EXPECT_LT(of_o / static_cast<double>(f.o.size()), 100);
}

TEST(MoeInputs, specials_are_few_and_there) {
  const Case c = parse_case(
      "op=moe_backward recipe=bf16 gate_up=halves rows=64 cols=64 inner=64 k=2 experts=0,64,128 data=specials seed=7");
  const MoeInputs in = expand_moe(c);
  for (const auto* tensor : {&in.x, &in.w1, &in.w2, &in.d_o}) {
    const auto count =
        std::count_if(tensor->begin(), tensor->end(), [](std::uint16_t w) { return (w & 0x7F80) == 0x7F80; });
    EXPECT_GT(count, 0);
    EXPECT_LT(count, std::ssize(*tensor) / 20);
  }
}

}  // namespace
}  // namespace mxcheck

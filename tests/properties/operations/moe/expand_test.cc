// Inputs of a layer: routes that are what the case says, elements that do not depend on how large it is.

#include "properties/operations/moe/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "tests/properties/operations/moe/some_layers.h"

namespace mxcheck {
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

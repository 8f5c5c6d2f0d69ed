// Variants, the text of cases, those that no call can pose, what shrinking and options make of a case.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "numerics/error.h"
#include "tests/properties/operations/moe/some_layers.h"

namespace mxcheck {
namespace {

constexpr const char* kCase =
    "op=moe_forward recipe=dsv3 gate_up=halves rows=20 cols=64 inner=32 k=2 experts=0,13,13,32 data=normal seed=7";

TEST(MoeVariants, every_recipe_is_asked_for_in_both_orders) {
  for (const char* operation : test::kLayerOperations)
    EXPECT_EQ(operation_named(operation).askable(operation).size(), 2 * all_layer_recipes().size());
}

TEST(MoeVariants, a_case_is_parsed_back) { EXPECT_EQ(to_text(parse_case(kCase)), kCase); }

TEST(MoeVariants, cases_that_no_call_can_pose_are_refused) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kCase;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text :
       {with("cols=64", "cols=0"), with("inner=32", "inner=0"), with(" experts=0,13,13,32", ""),
        with("experts=0,13,13,32", "experts=0,21,21,32"), with("experts=0,13,13,32", "experts=0,13,11,32"),
        with("experts=0,13,13,32", "experts=1,13,13,32"), with("k=2", "k=1"), with("k=2", "k=2 drops=10"),
        with("k=2", "k=0 drops=101"), with("k=2", "k=-1"), with("recipe=dsv3", "recipe=dsv4"),
        with("gate_up=halves", "gate_up=thirds"), with("inner=32", "inner=32 stride=90"),
        with("inner=32", "inner=2000000"), with("inner=32", "inner=32 gather=3"), with("rows=20", "rows=2000000")}) {
    EXPECT_THROW((void)parse_case(text), Error) << text;
  }
}

TEST(MoeVariants, fewer_tokens_leave_a_case_that_can_be) {
  const Operation& operation = operation_named("moe_forward");
  for (const std::int64_t rows : {0, 1, 12, 19}) {
    Case c = parse_case(kCase);
    c.rows = rows;
    operation.fit(c);
    EXPECT_EQ(parse_case(to_text(c)), c) << to_text(c);
    EXPECT_LE(moe_routed(c), 2 * rows);
  }
  Case halved = parse_case(kCase);
  operation.halve_rows(halved);
  EXPECT_EQ(parse_case(to_text(halved)), halved);
  EXPECT_EQ(moe_experts(halved), 3);
}

// A library may leave out widths beside multiples of 128 and addresses beside multiples of 16, and nothing else.
TEST(MoeVariants, what_a_library_may_leave_out) {
  const Operation& operation = operation_named("moe_forward");
  Case c = parse_case(kCase);
  EXPECT_TRUE(operation.is_option(c));
  const Case plain = operation.without_options(c);
  EXPECT_EQ(plain.cols, 128);
  EXPECT_EQ(moe_case(plain).inner, 128);
  EXPECT_EQ(plain.experts, c.experts);
  EXPECT_FALSE(operation.is_option(plain));
  c = plain;
  c.misaligned.inputs[2] = 16, c.misaligned.outputs[1] = 32;
  EXPECT_FALSE(operation.is_option(c));
  c.misaligned.inputs[3] = 1;  // of routes
  EXPECT_FALSE(operation.is_option(c));
  c.variant.operation = "moe_backward";
  EXPECT_TRUE(operation.is_option(c));                      // of H too
  c.misaligned.inputs[3] = 0, c.misaligned.outputs[3] = 4;  // of dS
  EXPECT_FALSE(operation.is_option(c));
  c.misaligned.outputs[1] = 8;
  EXPECT_TRUE(operation.is_option(c));
  EXPECT_FALSE(operation.is_option(operation.without_options(c)));
  c = plain;
  moe_case(c).inner = 64;
  EXPECT_TRUE(operation.is_option(c));
}

TEST(MoeVariants, simpler_cases_can_be_and_cost_no_more) {
  for (const Case& c : test::some_layers()) {
    const Operation& operation = operation_named(c.variant.operation);
    const std::vector<Case> simpler = operation.simpler(c, {});
    EXPECT_FALSE(simpler.empty());
    for (const Case& s : simpler) {
      EXPECT_LE(operation.work(s), operation.work(c)) << to_text(c) << " -> " << to_text(s);
    }
  }
}

}  // namespace
}  // namespace mxcheck

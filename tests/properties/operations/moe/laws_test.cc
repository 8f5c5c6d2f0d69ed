// Each statement about whole layers holds for the reference and names what is wrong with a candidate that is not: for
// every statement a fault that it finds.

#include <gtest/gtest.h>

#include "tests/properties/operations/moe/some_layers.h"
#include "tests/properties/spoilt_runner.h"

namespace mxcheck {
namespace {

using test::bit_of;
using test::found;
using test::Spoil;

constexpr const char* kForward =
    "op=moe_forward recipe=mxfp8 gate_up=halves rows=12 cols=40 inner=24 k=2 experts=0,12,12,20 data=normal seed=8";
constexpr const char* kBackward =
    "op=moe_backward recipe=dsv3 gate_up=interleaved rows=12 cols=40 inner=24 k=2 experts=0,12,12,20 data=normal "
    "seed=8";

TEST(MoeLaws, every_statement_of_the_module_holds_for_the_reference) {
  test::expect_module_holds("moe_forward", 14U, test::some_layers(), true);
}

// Recipes whose scales several tokens share make no promise about one of them.
TEST(MoeLaws, what_recipes_share_is_not_promised) {
  const auto applies = [](const char* statement, const char* operation, const char* recipe) {
    Variant v{operation};
    moe_of(v).recipe = recipe;
    return test::statement_named(statement).applies(v, {});
  };
  const char* alone = "a_token_does_not_depend_on_what_others_hold";
  const char* moved = "permuting_tokens_permutes_o_and_dx";
  EXPECT_TRUE(applies(alone, "moe_forward", "dsv3_128x128_grad"));
  EXPECT_FALSE(applies(alone, "moe_backward", "dsv3_128x128_grad"));
  EXPECT_FALSE(applies(moved, "moe_backward", "dsv3_128x128_grad"));
  EXPECT_FALSE(applies(alone, "moe_forward", "fp8_tensor"));
  EXPECT_FALSE(applies(alone, "moe_backward", "fp8_tensor"));
  EXPECT_TRUE(applies(moved, "moe_backward", "fp8_tensor"));
  EXPECT_TRUE(applies(alone, "moe_backward", "dsv3"));
  EXPECT_FALSE(applies("powers_of_two_pass_from_do_to_every_gradient", "moe_backward", "broken"));
  EXPECT_FALSE(applies("powers_of_two_pass_from_do_to_every_gradient", "moe_forward", "mxfp8"));
}

TEST(MoeLaws, equality_names_the_tensor) {
  EXPECT_EQ(found("moe_forward_equals_the_reference", parse_case(kForward), bit_of(0, 1)),
            "o differ from the reference");
  EXPECT_EQ(found("moe_forward_equals_the_reference", parse_case(kForward), bit_of(1, 1)),
            "h differ from the reference");
  EXPECT_EQ(found("moe_backward_equals_the_reference", parse_case(kBackward), bit_of(2, 1)),
            "dw2 differ from the reference");
  EXPECT_EQ(found("moe_backward_equals_the_reference", parse_case(kBackward), bit_of(3, 1)),
            "ds differ from the reference");
}

TEST(MoeLaws, tokens) {
  struct Row {
    const char* name;
    const char* summary;
    std::size_t from_end;  // of the token that is spoilt, which must be one that is looked at
  };
  const Row rows[] = {
      {"permuting_tokens_permutes_o_and_dx", "of tokens that stand in another order are others", 0},
      {"a_token_does_not_depend_on_how_many_others_there_are", "of tokens are others where there are fewer beside them",
       0},
      {"a_token_does_not_depend_on_what_others_hold", "of tokens are others where those beside them are NaN", 160},
  };
  for (const Row& row : rows) {
    for (const char* text : {kForward, kBackward}) {
      EXPECT_EQ(found(row.name, parse_case(text)), "") << row.name;
      const std::string name = text == kForward ? "o " : "dx ";
      EXPECT_EQ(found(row.name, parse_case(text), bit_of(0, 2, {false, row.from_end})), name + row.summary);
    }
  }
  const char* moved = "permuting_tokens_permutes_o_and_dx";
  EXPECT_EQ(found(moved, parse_case(kBackward), bit_of(3, 2)), "ds of tokens that stand in another order are others");
}

TEST(MoeLaws, powers_of_two) {
  const char* name = "powers_of_two_pass_from_do_to_every_gradient";
  EXPECT_EQ(found(name, parse_case(kBackward)), "");
  EXPECT_EQ(found(name, parse_case(kBackward), bit_of(0, 2)), "dx of 2^5 dO is not 2^5 times that of dO");
  EXPECT_EQ(found(name, parse_case(kBackward), bit_of(3, 2)), "ds of 2^5 dO is not 2^5 times that of dO");
}

TEST(MoeLaws, experts_have_no_names) {
  const char* name = "permuting_experts_permutes_the_gradients_of_their_weights_and_nothing_else";
  for (const char* text : {kForward, kBackward}) EXPECT_EQ(found(name, parse_case(text)), "");
  EXPECT_EQ(found(name, parse_case(kForward), bit_of(1, 2)), "h are others where experts have other numbers");
  for (const std::size_t output : {std::size_t{1}, std::size_t{2}}) {
    const std::string tensor = output == 1 ? "dw1" : "dw2";
    EXPECT_EQ(found(name, parse_case(kBackward), bit_of(output, 2)),
              tensor + " are others where experts have other numbers");
  }
}

TEST(MoeLaws, experts_without_tokens) {
  const char* name = "an_expert_without_tokens_changes_nothing_and_has_gradients_of_zero";
  for (const char* text : {kForward, kBackward}) EXPECT_EQ(found(name, parse_case(text)), "");
  EXPECT_EQ(found(name, parse_case(kForward), bit_of(0, 2)), "o are others with further experts that have no tokens");
  // The last expert is one that was added.
  EXPECT_EQ(found(name, parse_case(kBackward), bit_of(2, 2, {false, 1})),
            "dw2 of an expert without tokens is not zero");
}

constexpr const char* kOrder = "gate_and_up_interleaved_give_the_layer_of_halves";

TEST(MoeLaws, gate_and_up_in_either_order) {
  const auto found_in = [](const char* operation, const std::string& recipe, const Spoil& spoil = {}) {
    const std::string text = std::string("op=") + operation + " recipe=" + recipe +
                             " gate_up=interleaved rows=12 cols=40 inner=24 k=2 experts=0,12,12,20 data=normal seed=8";
    return found(kOrder, parse_case(text), spoil);
  };
  const std::string summary = " of gates and up values interleaved is not that of halves";
  EXPECT_EQ(found_in("moe_forward", "mxfp8"), "");
  EXPECT_EQ(found_in("moe_forward", "mxfp8", bit_of(0, 2)), "o" + summary);
  EXPECT_EQ(found_in("moe_forward", "mxfp8", bit_of(1, 2)), "h" + summary);
  EXPECT_EQ(found_in("moe_backward", "dsv3"), "");
  EXPECT_EQ(found_in("moe_backward", "dsv3", bit_of(0, 2)), "") << "dX is a sum along 2n";
  EXPECT_EQ(found_in("moe_backward", "dsv3", bit_of(1, 2)), "dw1" + summary);
  EXPECT_EQ(found_in("moe_backward", "dsv3_128x128_grad", bit_of(1, 2)), "") << "blocks of dH have 128 columns";
  EXPECT_EQ(found_in("moe_backward", "dsv3_128x128_grad", bit_of(2, 2)), "dw2" + summary);
  EXPECT_EQ(found_in("moe_backward", "fp8_tensor", bit_of(3, 2)), "ds" + summary);
}

// Each recipe's own blocks along 2n, and what the candidate offers.
TEST(MoeLaws, which_recipes_are_asked_for_either_order) {
  const auto applies = [](const char* operation, const char* recipe) {
    const std::vector<Variant> all = operation_named(operation).askable(operation);
    Variant v{operation};
    moe_of(v).recipe = recipe, moe_of(v).gate_up = MXCHECK_INTERLEAVED;
    EXPECT_FALSE(test::statement_named(kOrder).applies(v, {}));
    return test::statement_named(kOrder).applies(v, all);
  };
  for (const char* recipe : {"bf16", "mxfp8", "mxfp8_floor", "mxfp8_e5m2_grad", "fp8_tensor", "broken"}) {
    EXPECT_TRUE(applies("moe_forward", recipe)) << recipe;
    EXPECT_TRUE(applies("moe_backward", recipe)) << recipe;
  }
  for (const char* recipe : {"dsv3", "dsv3_128x128_grad"}) {
    EXPECT_FALSE(applies("moe_forward", recipe)) << recipe;
    EXPECT_TRUE(applies("moe_backward", recipe)) << recipe;
  }
  EXPECT_FALSE(applies("moe_forward", "dsv3_pow2"));
  EXPECT_FALSE(applies("moe_backward", "dsv3_pow2"));
}

}  // namespace
}  // namespace mxcheck

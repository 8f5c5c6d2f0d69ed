// Each statement about the steps of a layer holds for the reference and names what is wrong with a candidate that is
// not: for every statement a fault that it finds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "properties/operations/layer/fields.h"
#include "tests/properties/operations/layer/some_steps.h"
#include "tests/properties/spoilt_runner.h"

namespace mxcheck {
namespace {

using test::bit_of;
using test::found;
using test::Spoil;

constexpr const char* kSwiglu =
    "op=swiglu x=bf16 gate_up=halves outputs=values+rows+columns format=e4m3 recipe=rceil block=32 rows=70 cols=65 "
    "experts=0,10,70 data=normal seed=8";
constexpr const char* kBackward =
    "op=swiglu_backward x=bf16 gate_up=interleaved outputs=rows+columns format=e5m2 recipe=fp32 block=32 scaled=e4m3 "
    "rows=70 cols=65 experts=0,10,70 data=normal seed=8";
constexpr const char* kRows =
    "op=swiglu_backward x=bf16 gate_up=interleaved outputs=rows format=e4m3 recipe=rceil block=32 rows=9 cols=40 "
    "data=normal seed=8";
constexpr const char* kValues = "op=swiglu x=bf16 gate_up=halves outputs=values rows=9 cols=40 data=normal seed=8";
constexpr const char* kAggregate = "op=aggregate weighted=1 rows=40 cols=33 y=60 k=4 drops=20 data=normal seed=8";
constexpr const char* kTransposed =
    "op=quantize_transposed format=e4m3 recipe=rceil block=32x1 layout=compact x=bf16 rows=70 cols=9 experts=0,10,70 "
    "data=slots seed=8";

TEST(StepLaws, every_statement_of_the_module_holds_for_the_reference) {
  test::expect_module_holds("swiglu", 23U, test::some_steps(), false);
}

TEST(StepLaws, equality_names_the_tensor) {
  EXPECT_EQ(found("swiglu_equals_the_reference", parse_case(kSwiglu), bit_of(0, 1)), "a differ from the reference");
  EXPECT_EQ(found("swiglu_equals_the_reference", parse_case(kSwiglu), bit_of(4, 1)),
            "scales of transposed a differ from the reference");
  EXPECT_EQ(found("swiglu_backward_equals_the_reference", parse_case(kBackward), bit_of(1, 1)),
            "codes of dh differ from the reference");
  EXPECT_EQ(found("aggregate_equals_the_reference", parse_case(kAggregate), bit_of(0, 1)),
            "o differ from the reference");
  EXPECT_EQ(found("quantize_transposed_equals_the_reference", parse_case(kTransposed), bit_of(1, 1)),
            "transposed scales differ from the reference");
}

TEST(StepLaws, outputs_asked_together) {
  const char* name = "outputs_asked_together_are_those_asked_alone";
  EXPECT_EQ(found(name, parse_case(kSwiglu)), "");
  EXPECT_EQ(found(name, parse_case(kBackward)), "");
  EXPECT_EQ(found(name, parse_case(kSwiglu), bit_of(3, 1, {true})),
            "codes of transposed a asked for with other outputs are not those asked for alone");
  EXPECT_EQ(found(name, parse_case(kSwiglu), bit_of(0, 2, {true})),
            "a asked for with other outputs are not those asked for alone");
}

TEST(StepLaws, codes_are_those_of_the_values) {
  const char* name = "codes_of_a_step_are_those_of_its_values";
  EXPECT_EQ(found(name, parse_case(kSwiglu)), "");
  EXPECT_EQ(found(name, parse_case(kBackward)), "");
  EXPECT_EQ(found(name, parse_case(kSwiglu), bit_of(1, 1, {true})),
            "codes of a are not those of the values that the candidate gives");
  EXPECT_EQ(found(name, parse_case(kBackward), bit_of(6, 1, {true})),
            "scales of transposed dh are not those of the values that the candidate gives");
  // Values of one call that are wrong as the codes are not.
  EXPECT_NE(found(name, parse_case(kSwiglu), bit_of(0, 2, {true})), "");
}

TEST(StepLaws, a_row_depends_on_itself_alone) {
  const char* name = "a_row_of_a_step_depends_on_itself_alone";
  EXPECT_EQ(found(name, parse_case(kRows)), "");
  EXPECT_EQ(found(name, parse_case(kValues)), "");
  // A fault by place, which leaves the first row right: a bit of the last row's dS in both calls.
  const Spoil by_place = [](const Call&, int, Outcome& outcome) { outcome.outputs[0].back() ^= std::byte{0x40}; };
  EXPECT_EQ(found(name, parse_case(kRows), by_place),
            "ds of a row are others where it stands elsewhere among other rows");
}

TEST(StepLaws, interleaved_and_halves) {
  const char* name = "interleaved_and_in_halves_give_the_same";
  for (const char* outputs : {"values", "values+rows+columns", "columns"}) {
    for (const char* operation : {"swiglu", "swiglu_backward"}) {
      Case c = parse_case(std::string("op=") + operation + " x=bf16 gate_up=interleaved outputs=" + outputs +
                          " rows=40 cols=35 data=normal seed=8");
      EXPECT_EQ(found(name, c), "") << to_text(c);
      const std::size_t last = found(name, c, bit_of(0, 2)).size();
      EXPECT_GT(last, 0U);
      const std::string dh = found(name, c, bit_of(std::string(outputs) == "columns" ? 3 : 2, 2));
      EXPECT_EQ(dh.empty(), std::string(operation) == "swiglu" && std::string(outputs) != "values+rows+columns") << dh;
    }
  }
}

TEST(StepLaws, powers_of_two_of_up_values) {
  const char* name = "powers_of_two_pass_from_the_up_value_to_a";
  EXPECT_EQ(found(name, parse_case(kValues)), "");
  EXPECT_NE(found(name, parse_case(kValues), bit_of(0, 2)).find("times A"), std::string::npos);
}

TEST(StepLaws, empty_experts) {
  const char* name = "an_expert_without_rows_changes_nothing";
  for (const char* text : {kSwiglu, kBackward, kRows, kValues, kTransposed})
    EXPECT_EQ(found(name, parse_case(text)), "");
  EXPECT_EQ(found(name, parse_case(kTransposed), bit_of(1, 2)),
            "transposed scales are others with experts that have no rows");
}

TEST(StepLaws, an_expert_alone) {
  const char* name = "blocks_along_tokens_end_with_their_expert";
  for (const char* text : {kSwiglu, kBackward, kTransposed}) EXPECT_EQ(found(name, parse_case(text)), "");
  Case gathered = parse_case(kTransposed);
  gathered.gather = 11;
  EXPECT_EQ(found(name, gathered), "");
  EXPECT_EQ(found(name, parse_case(kSwiglu), bit_of(4, 2)),
            "scales of transposed a of an expert among others are not those of it alone");
  // A library that lets blocks run on: the first call's offsets are not looked at.
  const Spoil runs_on = [](const Call& call, int number, Outcome& outcome) {
    if (number != 1) return;
    Call none = call;
    none.inputs.pop_back();
    Outcome other;
    for (ExpectedTensor& t : problem_of(none)->answer()) other.outputs.push_back(std::move(t.bytes));
    outcome.outputs[0] = std::move(other.outputs[0]);
  };
  EXPECT_EQ(found(name, parse_case(kTransposed), runs_on),
            "transposed codes of an expert among others are not those of it alone");
}

TEST(StepLaws, aggregation) {
  struct Row {
    const char* name;
    const char* summary;
  };
  const Row rows[] = {
      {"permuting_tokens_permutes_o", "o of tokens that moved is another"},
      {"a_dropped_slot_is_as_one_that_is_absent", "o is another where slots that were dropped are left out"},
      {"rows_that_no_token_has_change_nothing", "o is another where rows of y that no token has hold NaN"},
      {"weights_of_one_add_up_as_none", "o with weights of 1 is not that without weights"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(found(row.name, parse_case(kAggregate)), "");
    EXPECT_EQ(found(row.name, parse_case(kAggregate), bit_of(0, 2)), row.summary);
  }
}

}  // namespace
}  // namespace mxcheck

// Variants that the steps of a layer can be asked for, and descriptors of their cases.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/goldens/temporary_directory.h"
#include "tests/properties/drawn.h"
#include "tests/properties/operations/layer/some_steps.h"

namespace mxcheck {
namespace {

TEST(StepCase, reads_an_example_with_every_field) {
  const std::string text =
      "op=swiglu_backward x=bf16 gate_up=interleaved outputs=values+rows+columns format=e5m2 recipe=floor block=128 "
      "scaled=e4m3 rows=33 cols=64 at=3,40 stride=70 experts=0,5,33 data=normal seed=7 threads=2";
  const Case c = parse_case(text);
  const LayerVariant& v = layer_of(c.variant);
  EXPECT_EQ(v.gate_up, MXCHECK_INTERLEAVED);
  EXPECT_EQ(v.outputs, 7);
  EXPECT_EQ(v.format, Format::e5m2);
  EXPECT_EQ(v.scaled, Format::e4m3);
  EXPECT_EQ(v.recipe, "floor");
  EXPECT_EQ(v.block, 128);
  EXPECT_EQ(layer_case(c).first_row, 3);
  EXPECT_EQ(layer_case(c).first_col, 40);
  EXPECT_EQ(stride_of_h(c), 134);
  EXPECT_EQ(to_text(c), text);
  const std::string slots = "op=aggregate weighted=1 rows=20 cols=48 y=37 k=4 drops=10 data=normal seed=7";
  EXPECT_EQ(to_text(parse_case(slots)), slots);
  EXPECT_EQ(layer_case(parse_case(slots)).y_rows, 37);
}

TEST(StepCase, variants_are_all_asked_for) {
  std::set<std::string> texts;
  for (const Variant& v : test::all_step_variants()) texts.insert(to_text(v));
  for (const char* text :
       {"op=swiglu x=bf16 gate_up=interleaved outputs=values", "op=swiglu x=e5m2 gate_up=halves outputs=values",
        "op=swiglu x=bf16 gate_up=halves outputs=rows+columns format=e5m2 recipe=fp32 block=128",
        "op=swiglu x=bf16 gate_up=halves outputs=values+rows+columns format=e4m3 recipe=rceil block=32",
        "op=swiglu_backward x=bf16 gate_up=halves outputs=columns format=e5m2 recipe=te block=32 scaled=e4m3",
        "op=swiglu_backward x=bf16 gate_up=halves outputs=columns format=e5m2 recipe=te block=32 scaled=e5m2",
        "op=swiglu_backward x=bf16 gate_up=halves outputs=rows format=mxint8 recipe=rceil block=32",
        "op=aggregate weighted=0", "op=aggregate weighted=1",
        "op=quantize_transposed format=e4m3 recipe=fp32 block=128x1 layout=compact x=fp32"}) {
    EXPECT_TRUE(texts.contains(text)) << text;
  }
  for (const std::string& text : texts) {
    EXPECT_EQ(text.find("recipe=dsv3_fp32"), std::string::npos) << text;
    EXPECT_TRUE(text.find("quantize_transposed") == std::string::npos || text.find("x=fp16") == std::string::npos);
  }
}

TEST(StepCase, refuses_what_no_call_can_pose) {
  test::expect_refused({
      {"op=swiglu x=fp32 gate_up=halves outputs=values rows=1 cols=1", "h is bf16, or codes"},
      {"op=swiglu x=bf16 gate_up=thirds rows=1 cols=1", "gate_up=thirds is not one of halves, interleaved"},
      {"op=swiglu x=bf16 outputs=values+all rows=1 cols=1", "outputs=all is not one of values, rows, columns"},
      {"op=swiglu x=bf16 outputs=rows block=64 rows=1 cols=1", "block is 32 or 128"},
      {"op=swiglu x=bf16 outputs=rows format=e2m1 rows=1 cols=1", "codes are of a byte"},
      {"op=swiglu x=e4m3 outputs=values rows=1 cols=4 stride=5", "codes of h have no stride"},
      {"op=swiglu x=bf16 rows=1 cols=4 gather=2", "neither gathered rows nor plants"},
      {"op=swiglu x=bf16 rows=1 cols=4 plant=0,0:0", "neither gathered rows nor plants"},
      {"op=swiglu x=bf16 rows=1 cols=4 at=1", "at=1 is not ROW,COL"},
      {"op=swiglu x=bf16 rows=1 cols=4 at=-1,0", "at is 0 to 2^30"},
      {"op=swiglu x=bf16 rows=1 cols=4 y=3", "y=3 is not a field of op=swiglu"},
      {"op=aggregate weighted=2 rows=1 cols=1", "weighted=2 is not one of 0, 1"},
      {"op=aggregate weighted=1 rows=1 cols=1 y=-1", "y is 0 to 2^30 rows"},
      {"op=aggregate weighted=1 rows=1073741824 cols=1 k=2", "slots at most 2^30"},
      {"op=aggregate weighted=1 rows=1 cols=1 drops=101", "drops is a percentage"},
      {"op=aggregate weighted=1 rows=1 cols=1 experts=0,1", "neither expert offsets nor a stride"},
      {"op=aggregate weighted=1 rows=1 cols=1 format=e4m3", "format=e4m3 is not a field of op=aggregate"},
  });
}

TEST(StepCase, drawn_cases_are_cases_and_shrink_to_cases) {
  for (const char* operation : test::kStepOperations) {
    const std::vector<Variant> variants = operation_named(operation).askable(operation);
    const test::LimitsOnly process({operation, "exact"});
    const Statement& s = test::statement_named(std::string(operation) + "_equals_the_reference");
    Draw draw(3);
    for (int i = 0; i < 200; ++i) {
      const Case c = test::draw_case(s, variants, process, draw);
      test::expect_well_formed(c);
      for (const Case& simpler : operation_named(operation).simpler(c, {})) test::expect_well_formed(simpler);
    }
  }
}

}  // namespace
}  // namespace mxcheck

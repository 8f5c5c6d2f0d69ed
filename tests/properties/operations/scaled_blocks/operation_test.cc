// Common parts of the operations on scaled blocks: variants, texts, and the way from a call to its case.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "properties/process/candidate_process.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/drawn.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

TEST(ScaledBlocks, tiles_are_asked_for_where_there_are_some) {
  for (const char* name : {"quantize", "quantize_dual", "dequantize", "scale_layout", "cast"}) {
    for (const Variant& v : operation_named(name).askable(name)) {
      const bool tiled = blocks_of(v).layout == MXCHECK_TCGEN05;
      ASSERT_TRUE(!tiled || has_tiles(blocks_of(v).block)) << to_text(v);
    }
  }
}

TEST(ScaledBlocks, every_field_of_a_case_survives_the_way_to_text_and_back) {
  const char* text =
      "op=quantize format=e5m2 recipe=floor block=32x1 layout=tcgen05 x=fp16 rows=6 cols=5 stride=7 experts=0,2,6 "
      "data=codes seed=9 plant=1,2:7c00 pad=255 threads=3";
  const Case c = parse_case(text);
  EXPECT_EQ(to_text(c), text);
  EXPECT_EQ(blocks_of(c.variant).format, Format::e5m2);
  EXPECT_EQ(blocks_of(c.variant).recipe, "floor");
  EXPECT_EQ(blocks_of(c.variant).block, (BlockShape{32, 1}));
  EXPECT_EQ(blocks_of(c.variant).layout, MXCHECK_TCGEN05);
  EXPECT_EQ(blocks_case(c).pad, 255);
  test::expect_error(ErrorKind::usage, "case field pad=256", [] { (void)parse_case("op=quantize pad=256"); });
  test::expect_error(ErrorKind::usage, "case field layout=tiles", [] { (void)parse_case("op=quantize layout=tiles"); });
  test::expect_error(ErrorKind::usage, "case field tile=4", [] { (void)parse_case("op=quantize tile=4"); });
}

TEST(ScaledBlocks, a_call_says_its_case) {
  for (const char* name : {"quantize", "quantize_dual", "dequantize", "scale_layout"}) {
    Case c = test::some_case(name, {1, 32}, MXCHECK_TCGEN05, {0, 40, 150});
    c.threads = 2;
    const auto p = make_problem(c);
    const Case back = case_of(p->call(), c.variant.dtype);
    EXPECT_EQ(back.variant.operation, name);
    EXPECT_EQ(blocks_of(back.variant), blocks_of(c.variant)) << name;
    EXPECT_EQ(blocks_case(back), blocks_case(c)) << name;
    EXPECT_EQ(back.experts, c.experts) << name;
    EXPECT_EQ(back.rows, c.rows);
    EXPECT_EQ(back.cols, c.cols);
    EXPECT_EQ(back.threads, 2);
  }
}

TEST(ScaledBlocks, simpler_cases_are_possible_and_never_the_same) {
  Case c = test::some_case("quantize", {32, 1}, MXCHECK_TCGEN05, {0, 40, 40, 150});
  c.stride = 140, c.threads = 2, c.seed = 77;
  Finding finding;
  finding.relevant = {{149, 130, 0x3F80}};
  const std::vector<Case> simpler = operation_named("quantize").simpler(c, finding);
  EXPECT_GT(simpler.size(), 10U);
  for (const Case& n : simpler) {
    ASSERT_NE(n, c);
    ASSERT_NO_THROW(ASSERT_EQ(parse_case(to_text(n)), n)) << to_text(n);
    ASSERT_LE(n.elements(), c.elements()) << to_text(n);
  }
  EXPECT_EQ(to_text(simpler.front()),
            "op=quantize format=e4m3 recipe=rceil block=32x1 layout=tcgen05 x=bf16 rows=1 cols=1 data=zeros seed=77 "
            "plant=0,0:3f80 pad=90");
}

}  // namespace

// Cases that a failing case of the operations on scaled blocks is shrunk to (operations/scaled_blocks/simpler.cc).

namespace {

using test::draw_case;
using test::expect_well_formed;
using test::statement_named;
using test::three_variants;

std::vector<Case> simpler_cases(const Case& c, const Finding& finding) {
  return operation_named(c.variant.operation).simpler(c, finding);
}

// The measure that each simpler case decreases: a shrink cannot go round in circles.
std::vector<std::int64_t> measure(const Case& c) {
  std::int64_t coordinates = 0;
  for (const Plant& p : c.plants) coordinates += p.row + p.col;
  const std::int64_t data = c.data == Data::zeros ? 0 : c.data == Data::codes ? 1 : 2;
  const auto flag = [](bool b) { return b ? std::int64_t{1} : std::int64_t{0}; };
  return {data,
          c.rows + c.cols,
          static_cast<std::int64_t>(c.experts.size()),
          flag(c.stride != 0),
          c.gather,
          flag(c.threads != 0),
          static_cast<std::int64_t>(c.plants.size()),
          coordinates,
          flag(blocks_case(c).pad != 0),
          flag(c.misaligned.inputs != decltype(c.misaligned.inputs){}) +
              flag(c.misaligned.outputs != decltype(c.misaligned.outputs){}),
          flag(c.seed > 1)};
}

TEST(Simpler, simpler_cases_are_simpler_and_well_formed) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  Draw words(4);
  for (int i = 0; i < 400; ++i) {
    Case c = draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
    if (c.elements() == 0) continue;
    Finding finding;
    if (i % 2 == 0) finding.relevant = {{c.rows - 1, c.cols - 1, 0x3F80}, {0, 0, 0x4000}};
    if (i % 3 == 0) c.plants = {{c.rows - 1, 0, 1}, {0, c.cols - 1, 2}};
    for (int depth = 0; depth < 200; ++depth) {
      const std::vector<Case> simpler = simpler_cases(c, finding);
      if (simpler.empty()) break;
      for (const Case& n : simpler) {
        expect_well_formed(n);
        ASSERT_NE(n, c);
        // Lexicographically smaller: going to zeros with the relevant elements planted is the one step that adds
        // plants.
        ASSERT_LT(measure(n), measure(c)) << to_text(c) << "\n" << to_text(n);
        ASSERT_EQ(n.variant, c.variant);
      }
      c = simpler[words.below(simpler.size())];
    }
    EXPECT_LE(c.elements(), 50'000);
  }
}

TEST(Simpler, the_boldest_step_keeps_the_relevant_elements_alone) {
  Case c = parse_case("op=quantize block=1x32 rows=70 cols=90 data=normal seed=5 experts=0,3,70");
  Finding f;
  f.relevant = {{10, 20, 0x3F80}, {10, 21, 0x4000}};
  const std::vector<Case> simpler = simpler_cases(c, f);
  const bool there = std::any_of(simpler.begin(), simpler.end(), [](const Case& n) {
    return n.rows == 1 && n.cols == 2 && n.data == Data::zeros &&
           n.plants == std::vector<Plant>{{0, 0, 0x3F80}, {0, 1, 0x4000}};
  });
  EXPECT_TRUE(there);
  blocks_of(c.variant).block = {32, 1};
  const std::vector<Case> columns = simpler_cases(c, f);
  EXPECT_TRUE(std::any_of(columns.begin(), columns.end(), [](const Case& n) { return n.rows == 2 && n.cols == 1; }));
}

}  // namespace
}  // namespace mxcheck

#include "properties/gate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "reference/common/matrix.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

const Statement& statement(std::string_view name) {
  for (const Statement& s : all_statements()) {
    if (s.name == name) return s;
  }
  throw Error(ErrorKind::internal, "no such statement");
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{{"quantize", Format::e4m3, "rceil", {1, 32}, 0, Format::bf16},
                                        {"quantize", Format::e4m3, "rceil", {128, 128}, 0, Format::bf16},
                                        {"quantize", Format::e4m3, "rceil", {1, 0}, 1, Format::fp32}};
  return all;
}

void expect_well_formed(const Case& c) {
  EXPECT_EQ(parse_case(to_text(c)), c) << to_text(c);
  EXPECT_TRUE(c.stride == 0 || c.stride >= c.cols);
  if (!c.experts.empty()) {
    EXPECT_NO_THROW(check_offsets(c.experts, c.rows)) << to_text(c);
  }
  for (const Plant& p : c.plants) {
    EXPECT_TRUE(p.row < c.rows && p.col < c.cols) << to_text(c);
  }
}

TEST(Generate, draws_well_formed_cases_of_many_shapes) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  std::map<std::string, int> classes;
  Draw words(1);
  for (int i = 0; i < 3000; ++i) {
    const Case c = draw_case(statement("quantize_equals_the_reference"), variants(), process, words);
    expect_well_formed(c);
    EXPECT_LE(c.elements(), 50'000);
    for (const std::string& name : classes_of(c)) ++classes[name];
    for (std::int64_t extent : {31, 32, 33, 128}) classes["rows " + std::to_string(extent)] += c.rows == extent ? 1 : 0;
    for (std::int64_t extent : {31, 32, 33, 128}) classes["cols " + std::to_string(extent)] += c.cols == extent ? 1 : 0;
  }
  for (const auto& [name, count] : classes) {
    EXPECT_GE(count, 30) << name;
  }
  for (const char* name : {"experts", "experts without rows", "row stride", "shape empty", "shape with a cut block",
                           "shape one row or column", "shape of whole blocks"}) {
    EXPECT_GE(classes[name], 90) << name;  // 3 %
  }
}

TEST(Generate, stays_within_the_candidates_multiples_and_limits) {
  for (const char* mode : {"multiples", "limits"}) {
    const test::Toy toy(mode);
    const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
    Draw words(2);
    int nonempty = 0;
    for (int i = 0; i < 1000; ++i) {
      const Case c = draw_case(statement("quantize_equals_the_reference"), variants(), process, words);
      expect_well_formed(c);
      ASSERT_TRUE(is_within_limits(c, *process.operation("quantize"))) << to_text(c);
      nonempty += c.elements() > 0 ? 1 : 0;
    }
    EXPECT_GT(nonempty, 900);
  }
}

TEST(Generate, multiples_larger_than_the_usual_case_end_the_draw) {
  const OperationInfo huge{"quantize", "exact", 0, 0, 1024, 1024};
  const Case c = within_limits(parse_case("op=quantize rows=3 cols=2000 stride=2003 experts=0,1,3"), huge);
  EXPECT_EQ(c.rows, 1024);
  EXPECT_EQ(c.cols, 2048);
  EXPECT_EQ(c.stride, 2051);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 1, 1024}));
  const test::Toy toy("huge_multiples");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  Draw words(3);
  for (int i = 0; i < 100; ++i) (void)draw_case(statement("quantize_equals_the_reference"), variants(), process, words);
}

TEST(Generate, limits_clip_and_move_plants_and_experts_inside) {
  const OperationInfo small{"quantize", "exact", 40, 100, 16, 8};
  const Case c = within_limits(parse_case("op=quantize rows=90 cols=200 experts=0,50,90 plant=80,150:1"), small);
  EXPECT_EQ(c.rows, 32);
  EXPECT_EQ(c.cols, 96);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 32, 32}));
  EXPECT_EQ(c.plants, (std::vector<Plant>{{31, 95, 1}}));
}

// What each simpler case decreases: a shrink cannot go round in circles.
std::vector<std::int64_t> measure(const Case& c) {
  std::int64_t coordinates = 0;
  for (const Plant& p : c.plants) coordinates += p.row + p.col;
  const std::int64_t data = c.data == Data::zeros ? 0 : c.data == Data::codes ? 1 : 2;
  const auto flag = [](bool b) { return b ? std::int64_t{1} : std::int64_t{0}; };
  return {data,
          c.rows + c.cols,
          static_cast<std::int64_t>(c.experts.size()),
          flag(c.stride != 0),
          flag(c.threads != 0),
          static_cast<std::int64_t>(c.plants.size()),
          coordinates,
          flag(c.pad != 0),
          flag(c.seed > 1)};
}

TEST(Generate, simpler_cases_are_simpler_and_well_formed) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  Draw words(4);
  for (int i = 0; i < 400; ++i) {
    Case c = draw_case(statement("quantize_equals_the_reference"), variants(), process, words);
    if (c.elements() == 0) continue;
    Finding finding;
    if (i % 2 == 0) finding.culprits = {{c.rows - 1, c.cols - 1, 0x3F80}, {0, 0, 0x4000}};
    if (i % 3 == 0) c.plants = {{c.rows - 1, 0, 1}, {0, c.cols - 1, 2}};
    for (int depth = 0; depth < 200; ++depth) {
      const std::vector<Case> simpler = simpler_cases(c, finding);
      if (simpler.empty()) break;
      for (const Case& n : simpler) {
        expect_well_formed(n);
        ASSERT_NE(n, c);
        // Lexicographically smaller: going to zeros with the culprits planted is the one step that adds plants.
        ASSERT_LT(measure(n), measure(c)) << to_text(c) << "\n" << to_text(n);
        ASSERT_EQ(n.variant, c.variant);
      }
      c = simpler[words.below(simpler.size())];
    }
    EXPECT_LE(c.elements(), 50'000);
  }
}

TEST(Generate, the_boldest_step_keeps_the_culprits_alone) {
  Case c = parse_case("op=quantize block=1x32 rows=70 cols=90 data=normal seed=5 experts=0,3,70");
  Finding f;
  f.culprits = {{10, 20, 0x3F80}, {10, 21, 0x4000}};
  const std::vector<Case> simpler = simpler_cases(c, f);
  const bool there = std::any_of(simpler.begin(), simpler.end(), [](const Case& n) {
    return n.rows == 1 && n.cols == 2 && n.data == Data::zeros &&
           n.plants == std::vector<Plant>{{0, 0, 0x3F80}, {0, 1, 0x4000}};
  });
  EXPECT_TRUE(there);
  c.variant.block = {32, 1};
  const std::vector<Case> columns = simpler_cases(c, f);
  EXPECT_TRUE(std::any_of(columns.begin(), columns.end(), [](const Case& n) { return n.rows == 2 && n.cols == 1; }));
}

}  // namespace
}  // namespace mxcheck

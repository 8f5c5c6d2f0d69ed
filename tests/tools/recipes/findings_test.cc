#include <gtest/gtest.h>

#include "tools/recipes/recipes.h"

namespace mxcheck {
namespace {

using Kinds = std::vector<std::string>;

StudyLine line_of(const char* recipe) {
  StudyLine line{{Format::e4m3, {1, 32}, recipe_named(recipe)}, {}};
  line.study.blocks = 100;
  line.study.error.sqnr_db = 30;
  return line;
}

TensorReport tensor_with(const std::vector<StudyLine>& lines) {
  TensorReport t;
  t.name = "x", t.dtype = Format::fp32, t.facts.count = 3200;
  t.lines = lines;
  return t;
}

Kinds kinds_of(const TensorReport& t) {
  Kinds kinds;
  for (const RecipeFinding& f : findings_of({{t}, {}, {}})) kinds.push_back(f.kind);
  return kinds;
}

TEST(Findings, are_none_where_nothing_is_lost) { EXPECT_EQ(kinds_of(tensor_with({line_of("rceil")})), Kinds()); }

TEST(Findings, begin_at_their_thresholds) {
  const auto with = [](auto change) {
    StudyLine line = line_of("floor");
    change(line.study);
    return kinds_of(tensor_with({line_of("rceil"), line}));
  };
  EXPECT_EQ(with([](Study& s) { s.zeroed_share = 0.0099; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.zeroed_share = 0.01; }), Kinds{"erased"});
  EXPECT_EQ(with([](Study& s) { s.clamped_blocks = 9; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.clamped_blocks = 10; }), Kinds{"clamped"});
  EXPECT_EQ(with([](Study& s) { s.error.saturated_share = 0.0009; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.error.saturated_share = 0.001; }), Kinds{"saturated"});
  EXPECT_EQ(with([](Study& s) { s.dead_blocks = 1; }), Kinds{"dead_blocks"});
  EXPECT_EQ(with([](Study& s) { s.error.sqnr_db = 27.01; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.error.sqnr_db = 27; }), Kinds{"behind"});
  EXPECT_EQ(with([](Study& s) { s.error.nan_lost = 1; }), Kinds{"not_finite"});
}

TEST(Findings, say_once_what_several_recipes_do) {
  StudyLine a = line_of("floor"), b = line_of("te");
  a.study.dead_blocks = b.study.dead_blocks = 2;
  const std::vector<RecipeFinding> findings = findings_of({{tensor_with({a, b})}, {}, {}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text, "floor, te (e4m3 1x32): 2 of 100 blocks with data become all zero");
}

TEST(Findings, are_about_the_tensor_and_the_matmul_too) {
  TensorReport t = tensor_with({});
  t.dtype = Format::bf16, t.facts.nan = 1, t.facts.zeros = t.facts.count;
  EXPECT_EQ(kinds_of(t), (Kinds{"not_finite", "zero", "bf16"}));
  MatmulReport m;
  m.activations = "a", m.weights = "w";
  m.lines.push_back({{Format::e4m3, {1, 32}, recipe_named("rceil")}, {}});
  m.lines[0].error.frobenius = 0.1;
  EXPECT_TRUE(findings_of({{}, {m}, {}}).empty());
  m.lines[0].error.frobenius = 0.11;
  ASSERT_EQ(findings_of({{}, {m}, {}}).size(), 1U);
  EXPECT_EQ(findings_of({{}, {m}, {}})[0].text, "rceil (e4m3 1x32): the product is off by 11.00 % of its own norm");
}

}  // namespace
}  // namespace mxcheck

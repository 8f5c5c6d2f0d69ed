#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/pages/xml_checker.h"
#include "tests/tools/command.h"
#include "tools/recipes/recipes.h"

namespace mxcheck {
namespace {

TEST(RecipeFigures, are_short_and_never_round_to_none_or_all) {
  EXPECT_EQ(percent(0), "0 %");
  EXPECT_EQ(percent(1e-9), "<0.01 %");
  EXPECT_EQ(percent(0.03125), "3.12 %");
  EXPECT_EQ(percent(1 - 1e-9), ">99.99 %");
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(figure(0.00123456), "0.00123");
  EXPECT_EQ(figure(std::copysign(NAN, -1.0)), "nan");
  EXPECT_EQ(decibels(31.416), "31.42");
  EXPECT_EQ(decibels(INFINITY), "inf");
  Study study;
  study.scales[120] = 1;
  EXPECT_EQ(scale_range(study), "120");
  study.scales[118] = 2;
  EXPECT_EQ(scale_range(study), "118-120");
}

RecipesReport sample_recipes() {
  TensorReport t;
  t.name = "x.npy", t.rows = 1, t.cols = 32;
  for (const char* name : {"rceil", "floor", "te"}) {
    StudyLine line{{Format::e4m3, {1, 32}, recipe_named(name)}, {}};
    line.study.scales[119] = 1;
    t.lines.push_back(line);
  }
  MatmulReport m;
  m.activations = "x.npy", m.weights = "w.npy", m.m = 1, m.n = 2, m.k = 32;
  m.lines.push_back({{Format::e4m3, {1, 32}, recipe_named("rceil")}, {}});
  return {{t}, {m}, {{"x.npy", "zero", "every element is zero"}}};
}

TEST(RecipesReport, cuts_its_tables_and_keeps_its_findings) {
  const std::string all = to_text(sample_recipes(), 0), two = to_text(sample_recipes(), 2);
  EXPECT_NE(all.find("   3  te "), std::string::npos) << all;
  EXPECT_EQ(two.find("   3  te "), std::string::npos);
  EXPECT_NE(two.find("      ... 1 more\n"), std::string::npos);
  EXPECT_NE(two.find("x.npy x w.npy: 1 x 2 x 32 (M x N x K), weights nk\n"), std::string::npos) << two;
  EXPECT_NE(two.find("Findings\n  x.npy\n    every element is zero\n"), std::string::npos);
  EXPECT_NE(to_text(RecipesReport(), 0).find("Findings: none\n"), std::string::npos);
}

TEST(RecipesReport, has_every_line_in_json) {
  const Json json = to_json(sample_recipes());
  const auto& tensors = *json.find("tensors")->get_if<Json::Array>();
  const auto& lines = *tensors.at(0).find("recipes")->get_if<Json::Array>();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(to_text(*lines[1].find("recipe"), {-1}), "\"floor\"");
  EXPECT_EQ(to_text(*lines[1].find("rank"), {-1}), "2");
  EXPECT_EQ(to_text(*lines[1].find("scale_bytes"), {-1}), R"({"119":1})");
  EXPECT_EQ(to_text(*json.find("findings"), {-1}),
            R"([{"where":"x.npy","kind":"zero","text":"every element is zero"}])");
  EXPECT_EQ(json.find("products")->size(), 1U);
}

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

class RecipesPage : public test::ToolTest {};

TEST_F(RecipesPage, writes_a_page_that_is_well_formed_and_needs_nothing_else) {
  ASSERT_EQ(mxcheck("recipes real:layer0.dh --pair real:layer0.x real:layer0.w1 --html p.html").code, 0);
  const std::string page = test::read_file(dir / "p.html");
  EXPECT_EQ(test::not_well_formed(page), "");
  for (const char* word : {"http", "<script", "src=", "href=", "url(", "@import", "nan\"", "inf\""})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  for (const char* word :
       {"<svg", "<title>SQNR by recipe</title>", "<title>Elements lost by recipe</title>", "prefers-color-scheme: dark",
        "lies below the clamp", "scope=\"col\"", "<caption>", "&lt;0.01 %"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
}

TEST_F(RecipesPage, escapes_names_in_the_page) {
  const std::string name = "<script>&\"'\xFF.npy";
  write_npy(dir / name, test::make_tensor("t", Format::fp32, {1, 32}, std::vector<float>(32, 1)));
  ASSERT_EQ(mxcheck("recipes ./*.npy --html p.html").code, 0);
  const std::string page = test::read_file(dir / "p.html");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;&amp;&quot;&#39;\xEF\xBF\xBD.npy"), std::string::npos);
  EXPECT_EQ(test::not_well_formed(page), "");
}

TEST_F(RecipesPage, is_well_formed_with_numbers_that_are_not_finite) {
  std::vector<float> values(64, 1);
  values[3] = std::nanf("");
  values[40] = INFINITY;
  write_npy(dir / "x.npy", test::make_tensor("t", Format::fp32, {1, 64}, values));
  EXPECT_EQ(mxcheck("recipes x.npy --html p.html").code, 0);
  EXPECT_EQ(test::not_well_formed(test::read_file(dir / "p.html")), "");
}

TEST_F(RecipesPage, opens_in_a_browser_where_there_is_one) {
  if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium";
  ASSERT_EQ(mxcheck("recipes real:layer3.dh --html p.html").code, 0);
  const std::string command =
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir=" + (dir / "profile") +
      " --dump-dom file://" + (dir / "p.html") + " > " + (dir / "dom") + " 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string dom = test::read_file(dir / "dom");
  EXPECT_NE(dom.find("lies below the clamp"), std::string::npos);
  EXPECT_NE(dom.find("</main>"), std::string::npos);
}

}  // namespace
}  // namespace mxcheck

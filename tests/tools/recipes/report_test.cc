#include <gtest/gtest.h>

#include <cmath>

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

RecipesReport sample() {
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
  const std::string all = to_text(sample(), 0), two = to_text(sample(), 2);
  EXPECT_NE(all.find("   3  te "), std::string::npos) << all;
  EXPECT_EQ(two.find("   3  te "), std::string::npos);
  EXPECT_NE(two.find("      ... 1 more\n"), std::string::npos);
  EXPECT_NE(two.find("x.npy x w.npy: 1 x 2 x 32 (M x N x K), weights nk\n"), std::string::npos) << two;
  EXPECT_NE(two.find("Findings\n  x.npy\n    every element is zero\n"), std::string::npos);
  EXPECT_NE(to_text(RecipesReport(), 0).find("Findings: none\n"), std::string::npos);
}

TEST(RecipesReport, has_every_line_in_json) {
  const Json json = to_json(sample());
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

}  // namespace
}  // namespace mxcheck

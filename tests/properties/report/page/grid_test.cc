#include "properties/report/page/grid.h"

#include <gtest/gtest.h>

#include "properties/report/page/coverage_map.h"
#include "properties/report/page/states.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::run_toy;

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

GateReport of_variants(const std::vector<VariantCount>& counts) {
  GateReport r = run_toy("", "quantize_equals_the_reference", 5);
  for (std::size_t i = 1; i < counts.size(); ++i) {
    r.variants.push_back(r.variants[0]);
    r.variants[i].dtype = static_cast<Format>(i);
  }
  r.statements[0].by_variant = counts;
  return r;
}

TEST(StatementGrid, counts_cases_of_each_variant) {
  const GateReport r = run_toy("no_experts", "quantize_equals_the_reference", 60);
  const StatementResult& s = r.statements[0];
  ASSERT_EQ(s.by_variant.size(), 1U);
  EXPECT_EQ(s.by_variant[0].variant, 0U);
  EXPECT_EQ(s.by_variant[0].checked, s.cases);
  EXPECT_EQ(s.by_variant[0].refused, s.options_not_offered);
  EXPECT_EQ(s.by_variant[0].nothing_claimed, s.nothing_claimed);
  EXPECT_GT(s.options_not_offered, 0);
  ASSERT_EQ(s.slowest.size(), kSlowCases);
  EXPECT_GE(s.slowest[0].seconds, s.slowest[1].seconds);
  EXPECT_GE(s.slowest[1].seconds, s.slowest[2].seconds);
}

TEST(StatementGrid, has_a_state_for_each_variant) {
  GateReport r = of_variants({{0, 7, 1, 0}, {1, 0, 3, 0}, {2, 0, 0, 0}});
  const std::string held = statement_grid(r);
  EXPECT_NE(held.find("quantize: 1 held, 1 not offered, 1 not drawn; 7 cases"), std::string::npos) << held;
  r.statements[0].verdict = Verdict::inconclusive;
  const std::string open = statement_grid(r);
  EXPECT_NE(open.find("quantize: 1 held, 1 not reached, 1 not offered; 7 cases"), std::string::npos) << open;
  r.statements[0].verdict = Verdict::failed;
  r.statements[0].counterexample.emplace();
  r.statements[0].counterexample->original.variant = r.variants[2];
  const std::string failed = statement_grid(r);
  EXPECT_NE(failed.find("quantize: 1 held, 1 FAILED, 1 not offered; 7 cases"), std::string::npos) << failed;
}

TEST(StatementGrid, of_thousands_of_variants_is_small_and_shows_the_one_that_failed) {
  std::vector<VariantCount> counts(3000);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = {0, 1, 0, 0};
  GateReport r = of_variants({{0, 1, 0, 0}, {1, 1, 0, 0}});
  r.statements[0].by_variant = counts;
  r.statements[0].by_variant[1500].variant = 1;
  r.statements[0].verdict = Verdict::failed;
  r.statements[0].counterexample.emplace();
  r.statements[0].counterexample->original.variant = r.variants[1];
  const std::string grid = statement_grid(r);
  EXPECT_NE(grid.find("class=\"failed\" x=\"66.00\" y=\"0\" width=\"2.50\""), std::string::npos) << grid;
  EXPECT_LT(grid.size(), 4000U);
}

TEST(CoverageMap, has_each_bin_with_its_cases_and_marks_those_below_one_percent) {
  GateReport r = run_toy("", "quantize_equals_the_reference", 5);
  CoverageReport c;
  c.operation = "quantize";
  c.axes = {{"rows", {{"0", 995, 0, 0}, {"1", 5, 0, 0}, {"2-31", 0, 4, 0}, {"32", 0, 0, 0}}}};
  r.statements[0].coverage = {c};
  const std::string map = coverage_map(r);
  EXPECT_NE(map.find("1,000 cases of 1 statement; 4 bins, 1 below 1 %, 2 not met or refused"), std::string::npos)
      << map;
  EXPECT_EQ(times(map, " few\" title"), 1U);
  EXPECT_EQ(times(map, " refused\" title"), 1U);
  EXPECT_EQ(times(map, " unmet\" title"), 1U);
  EXPECT_NE(map.find(">0<b>995</b>"), std::string::npos);
  r.statements.push_back(r.statements[0]);  // another statement about the operation adds up
  EXPECT_NE(coverage_map(r).find("2,000 cases of 2 statements"), std::string::npos);
  r.statements[0].counterexample.emplace();  // what it did not come to is no gap of the suite
  EXPECT_EQ(times(coverage_map(r), " unmet\" title"), 0U);
  r.statements.clear();
  EXPECT_EQ(coverage_map(r), "");
}

}  // namespace
}  // namespace mxcheck

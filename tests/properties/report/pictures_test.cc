#include <gtest/gtest.h>

#include "properties/report/pictures.h"
#include "tests/pages/xml_checker.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::times;
using test::XmlChecker;

// Codes whose observed bytes differ by `bits` where `wrong` says so.
struct Example {
  Example(std::int64_t rows, std::int64_t cols, bool (*wrong)(std::int64_t, std::int64_t), unsigned bits = 1)
      : info{"codes", Format::e4m3, rows, cols, 1, 32},
        expected(static_cast<std::size_t>(rows * cols), std::byte{0x30}) {
    observed = expected;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      if (wrong(i / cols, i % cols))
        observed[static_cast<std::size_t>(i)] ^= std::byte{static_cast<unsigned char>(bits)};
    }
  }
  [[nodiscard]] DifferingTensor tensor() const { return {info, expected, observed}; }
  TensorInfo info;
  std::vector<std::byte> expected, observed;
};

std::string is_well_formed(const std::string& svg) { return XmlChecker("<!DOCTYPE html>\n" + svg).check(); }

TEST(WrongMap, has_a_mark_for_each_wrong_element_of_a_small_matrix) {
  const Example e(5, 40, [](std::int64_t row, std::int64_t col) { return col == 33 && row != 2; });
  const std::string svg = wrong_map(e.tensor());
  EXPECT_EQ(is_well_formed(svg), "");
  EXPECT_EQ(times(svg, "class=\"wrong\""), 4U);
  EXPECT_NE(svg.find("<title>(3, 33)</title>"), std::string::npos);
  EXPECT_EQ(times(svg, "class=\"blocks\""), 1U);  // the edge between two blocks of 32 columns
}

TEST(WrongMap, of_a_large_matrix_is_small) {
  const Example e(1000, 1024, [](std::int64_t, std::int64_t) { return true; });
  const std::string svg = wrong_map(e.tensor());
  EXPECT_EQ(is_well_formed(svg), "");
  EXPECT_EQ(times(svg, "class=\"wrong\""), 128U * 63U);  // cells of 16 x 8 elements; 1000 / 16 rounded up
  EXPECT_NE(svg.find("128 of 128 from (0, 8)"), std::string::npos);
  EXPECT_NE(svg.find("64 of 64 from (992, 0)"), std::string::npos);  // the last row of cells is cut
  EXPECT_LT(svg.size(), 1'500'000U);
}

TEST(WrongMap, is_empty_where_nothing_differs) {
  const Example e(3, 3, [](std::int64_t, std::int64_t) { return false; });
  EXPECT_EQ(wrong_map(e.tensor()), "");
  EXPECT_EQ(block_bits(e.tensor()), "");
}

TEST(BlockBits, shows_the_block_of_the_first_wrong_element) {
  const Example e(
      3, 70, [](std::int64_t row, std::int64_t col) { return row == 1 && col == 40; }, 0x81);
  const std::string svg = block_bits(e.tensor());
  EXPECT_EQ(is_well_formed(svg), "");
  EXPECT_EQ(times(svg, "<g>"), 32U);  // columns 32 to 63
  EXPECT_EQ(times(svg, "<rect"), 32U * 16U);
  EXPECT_EQ(times(svg, "class=\"x1\""), 2U);  // 0x30 ^ 0x81 sets two bits
  EXPECT_EQ(times(svg, "class=\"x0\""), 0U);
  EXPECT_NE(svg.find("(1, 40): expected 0x30 = 0.0110.000"), std::string::npos);
  EXPECT_NE(svg.find("observed 0xb1"), std::string::npos);
}

TEST(BlockBits, of_a_large_block_shows_part_of_a_row) {
  Example e(128, 200, [](std::int64_t row, std::int64_t col) { return row == 77 && col == 130; });
  e.info.block_rows = e.info.block_cols = 128;
  const std::string svg = block_bits(e.tensor());
  EXPECT_EQ(times(svg, "<g>"), 32U);
  EXPECT_NE(svg.find("<title>(77, 130): "), std::string::npos);
  e.info.block_rows = 128, e.info.block_cols = 1;  // of a column
  const std::string column = block_bits(e.tensor());
  EXPECT_EQ(times(column, "<g>"), 32U);
  EXPECT_NE(column.find("<title>(92, 130): "), std::string::npos);
}

TEST(BlockBits, of_integers_and_of_fp32_have_their_width) {
  std::vector<std::int32_t> want{1, 2, 3}, got{1, 7, 3};
  const TensorInfo rows{"rows", Format::fp32, 1, 3, 0, 0, false, 32};
  const std::string svg = block_bits({rows, std::as_bytes(std::span(want)), std::as_bytes(std::span(got))});
  EXPECT_EQ(times(svg, "<rect"), 3U * 64U);
  EXPECT_NE(svg.find(">+5<"), std::string::npos);
  EXPECT_NE(svg.find("expected 2, observed 7"), std::string::npos);
}

TEST(StepBars, has_a_bar_for_each_distance) {
  Difference d;
  d.histogram = {{"1 step", 12}, {"2 to 3 steps", 3}};
  const std::string svg = step_bars(d);
  EXPECT_EQ(is_well_formed(svg), "");
  EXPECT_EQ(times(svg, "<rect"), 2U);
  EXPECT_EQ(step_bars({}), "");
}

using test::run_toy;

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
  EXPECT_EQ(s.by_variant[0].not_applicable, s.not_applicable);
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
  EXPECT_NE(grid.find("class=\"failed\" x=\"66\" y=\"0\" width=\"2.5\""), std::string::npos) << grid;
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

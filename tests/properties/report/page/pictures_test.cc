#include "properties/report/page/pictures.h"

#include <gtest/gtest.h>

#include "tests/properties/report/xml_checker.h"

namespace mxcheck {
namespace {

using test::XmlChecker;

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

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

}  // namespace
}  // namespace mxcheck

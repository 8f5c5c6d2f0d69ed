#include "benchmarks/sm90/moe/report/comparison.h"

#include <gtest/gtest.h>

namespace mxcheck::bench {
namespace {

// Two experts of 3 x 4 outputs, all compared and equal.
ModelComparison sample() {
  ModelComparison c;
  c.direction = Direction::backward, c.step = "d_w2";
  c.m = 3, c.n = 4, c.outputs = 24, c.products = 4'000'000'000, c.seconds = 2;
  c.report = {24, 0, ~std::uint64_t{0}, 0, 0, 0, 0};
  return c;
}

bool says(const ModelComparison& c, const char* text) { return comparison_line(c).find(text) != std::string::npos; }

TEST(ModelComparison, is_equal_where_every_output_was_compared_and_none_differs) {
  EXPECT_TRUE(sample().equal());
  EXPECT_EQ(comparison_line(sample()),
            "backward  d_w2                  24            24           0    2.0000       2.0\n");
  EXPECT_EQ(comparison_line(sample()).size(), comparison_head().size());
}

TEST(ModelComparison, says_which_output_differs_and_both_words) {
  ModelComparison c = sample();
  c.report.differing = 2, c.report.first = 17, c.report.expected = 0x3F800000, c.report.observed = 0x3F800001;
  EXPECT_FALSE(c.equal());
  EXPECT_TRUE(says(c, "DIFFERS, first at expert 1 row 1 column 1: expected 3f800000, observed 3f800001"));
  c.outputs = c.report.compared = 12, c.report.first = 5;
  EXPECT_TRUE(says(c, "DIFFERS, first at row 1 column 1:"));
}

TEST(ModelComparison, is_not_equal_where_outputs_were_left_out) {
  ModelComparison c = sample();
  c.report.compared = 23;
  EXPECT_FALSE(c.equal());
  EXPECT_TRUE(says(c, "NOT ALL COMPARED"));
  c.report.compared = 0;
  EXPECT_FALSE(c.equal());
}

TEST(ModelComparison, is_not_equal_where_the_model_found_offsets_or_rows_wrong) {
  ModelComparison c = sample();
  c.report.bad_offsets = 1;
  EXPECT_FALSE(c.equal());
  EXPECT_TRUE(says(c, "BAD OFFSETS"));
  c = sample();
  c.report.bad_rows = 1;
  EXPECT_FALSE(c.equal());
  EXPECT_TRUE(says(c, "BAD ROWS"));
}

}  // namespace
}  // namespace mxcheck::bench

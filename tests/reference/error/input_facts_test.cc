#include "reference/error/input_facts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::fp32_matrix;
using test::TestMatrix;

TEST(InputFacts, find_bf16_exact_for_bf16_and_half_an_ulp_off_for_fp32) {
  const TestMatrix bf16(Format::bf16, 8, 8, test::random_values(64, 9));
  EXPECT_EQ(study_bf16(bf16.view()).sqnr_db, std::numeric_limits<double>::infinity());
  const ErrorMeasures m = study_bf16(fp32_matrix(1, 1, {1 + 0x1p-9F}).view());  // to 1
  EXPECT_DOUBLE_EQ(m.max_relative, 0x1p-9 / (1 + 0x1p-9));
}

TEST(InputFacts, count_what_the_input_holds) {
  const float inf = std::numeric_limits<float>::infinity();
  const InputFacts f = input_facts(fp32_matrix(1, 6, {0, -0.0F, -3, 0.5, inf, std::nanf("")}).view());
  EXPECT_EQ(f.count, 6U);
  EXPECT_EQ(f.zeros, 2U);
  EXPECT_EQ(f.nan, 1U);
  EXPECT_EQ(f.infinite, 1U);
  EXPECT_EQ(f.smallest, 0.5F);
  EXPECT_EQ(f.largest, 3);
}

TEST(InputFacts, of_parts_are_those_of_the_whole) {
  InputFacts sum = input_facts(fp32_matrix(1, 3, {0, 0, std::nanf("")}).view());
  EXPECT_EQ(sum.smallest, 0);
  sum.add(input_facts(fp32_matrix(1, 2, {3, -0.5}).view()));
  sum.add(input_facts(fp32_matrix(1, 1, {2}).view()));
  EXPECT_EQ(sum.count, 6U);
  EXPECT_EQ(sum.zeros, 2U);
  EXPECT_EQ(sum.smallest, 0.5F);
  EXPECT_EQ(sum.largest, 3);
}

TEST(InputFacts, of_bf16_count_what_rounding_loses) {
  // Half of BF16's smallest subnormal is a tie with 0; what lies above its largest becomes infinite, or that by a tie.
  const ErrorMeasures m = study_bf16(fp32_matrix(1, 4, {0x1p-134F, 0x1p-133F, 0x1.FEp127F, 0x1.FEFFFEp127F}).view());
  EXPECT_EQ(m.flushed, 1U);
  EXPECT_EQ(m.saturated, 1U);
  EXPECT_TRUE(std::isfinite(m.max_relative));
}

}  // namespace
}  // namespace mxcheck

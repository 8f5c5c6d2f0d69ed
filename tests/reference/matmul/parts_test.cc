#include "reference/matmul/parts.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <vector>

#include "tests/reference/matmul/test_matmul.h"

namespace mxcheck {
namespace {

using test::fill;
using test::Owned;

TEST(MatmulParts, are_one_without_groups) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {6, 8, 256}, {1, 128}, {128, 128}, Format::e8m0, 1);
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].a.rows, 6);
  EXPECT_EQ(parts[0].b.rows, 8);
  EXPECT_EQ(parts[0].a.depth, 256);
  EXPECT_EQ(parts[0].d_first, 0);
}

// Rows 0..2, none, 3..5 of a; b's experts lie one after the other, with ceil(8 / 128) = 1 row of scales each.
TEST(MatmulParts, of_groups_along_rows_begin_where_the_experts_rows_and_scales_do) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {6, 8, 256, 3}, {2, 128}, {128, 128}, Format::e8m0, 2);
  o.offsets = {0, 3, 3, 6};
  o.m.grouping = Grouping::rows, o.m.offsets = o.offsets;
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 3U);
  const std::int64_t rows[] = {3, 0, 3}, first_row[] = {0, 3, 3}, scale_row[] = {0, 2, 2};
  for (std::size_t e = 0; e < 3; ++e) {
    const auto expert = static_cast<std::int64_t>(e);
    EXPECT_EQ(parts[e].expert, expert);
    EXPECT_EQ(parts[e].a.rows, rows[e]);
    EXPECT_EQ(parts[e].a.first_row, first_row[e]);
    EXPECT_EQ(parts[e].a.scale_row, scale_row[e]);  // blocks of two rows restart: ceil(3 / 2) of the first expert
    EXPECT_EQ(parts[e].b.first_row, expert * 8);
    EXPECT_EQ(parts[e].b.scale_row, expert);
    EXPECT_EQ(parts[e].d_first, first_row[e] * 8);
  }
}

TEST(MatmulParts, of_gathered_rows_follow_the_index) {
  Owned o;
  fill(o, "sm90_fp8", {6, 8, 32, 2}, {0, 0}, {0, 0}, Format::e8m0, 3);
  o.index = {5, 0, 0, 2, 1};
  o.offsets = {0, 2, 5};
  o.m.gathers = true, o.m.row_index = o.index, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets;
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].a.rows, 3);
  for (std::int64_t k = 0; k < 32; ++k) {
    EXPECT_EQ(parts[0].a.code(0, k), o.a[static_cast<std::size_t>(5 * 32 + k)]);
    EXPECT_EQ(parts[1].a.code(1, k), o.a[static_cast<std::size_t>(2 * 32 + k)]);
  }
}

TEST(MatmulParts, of_groups_along_depth_are_whole_outputs_over_their_k) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {6, 8, 256}, {1, 128}, {1, 128}, Format::e8m0, 4);
  o.offsets = {0, 130, 256};
  o.m.grouping = Grouping::depth, o.m.offsets = o.offsets;
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].a.depth, 130);
  EXPECT_EQ(parts[1].b.depth, 126);
  EXPECT_EQ(parts[1].a.first_k, 130);
  EXPECT_EQ(parts[1].b.scale_depth, 2);  // ceil(130 / 128)
  EXPECT_EQ(parts[1].d_first, 6 * 8);
}

TEST(FinishedWord, is_alpha_times_the_sum_plus_c_rounded_to_the_output) {
  Matmul m;
  m.contract = parse_matmul_contract("sm90_fp8");
  const auto word = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  m.alpha = 0.5F;
  EXPECT_EQ(finished_word(m, word(3), word(1), true), word(2.5F));
  EXPECT_EQ(finished_word(m, word(3), word(1), false), word(1.5F));
  EXPECT_EQ(finished_word(m, word(std::numeric_limits<float>::quiet_NaN()), 0, false), 0x7FFFFFFFU);
  m.alpha = 1, m.output = Format::bf16;
  EXPECT_EQ(finished_word(m, 0x3F808000, 0, false), 0x3F80U);      // a tie, to even
  EXPECT_EQ(finished_word(m, 0x3F818000, 0x8000, true), 0x3F82U);  // c is BF16: -0
  EXPECT_EQ(finished_word(m, 0x7F7FFFFF, 0, false), 0x7F80U);      // beyond BF16: Inf
  EXPECT_EQ(finished_word(m, 0x7F800001, 0, false), 0x7FFFU);
  m.contract = parse_matmul_contract("sm90_fp8_fp16"), m.output = Format::fp32;
  EXPECT_EQ(finished_word(m, 0x3C00, 0, false), word(1));  // an accumulator of FP16
}

}  // namespace
}  // namespace mxcheck

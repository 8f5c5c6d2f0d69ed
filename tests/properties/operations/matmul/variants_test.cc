// What a matmul under a contract can be asked for, and its corners.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "properties/operations/matmul/operation.h"

namespace mxcheck {
namespace {

TEST(MatmulVariants, are_all_different_and_are_read_back_from_their_text) {
  for (const char* contract : {"exact", "ieee_fp32", "sm90_fp8", "sm90_fp8+promote128", "sm90_bf16+decode",
                               "sm90_bf16+from_c", "sm90_tf32", "sm100_mxf8f6f4"}) {
    const std::vector<Variant> all = askable_matmuls(std::string("matmul:") + contract);
    std::set<std::string> texts;
    for (const Variant& v : all) {
      ASSERT_EQ(parse_variant(to_text(v)), v) << to_text(v);
      texts.insert(to_text(v));
    }
    EXPECT_FALSE(all.empty()) << contract;
    EXPECT_EQ(texts.size(), all.size()) << contract;
  }
}

TEST(MatmulVariants, are_as_many_as_formats_scales_groups_and_types_of_d) {
  EXPECT_EQ(askable_matmuls("matmul:sm90_bf16").size(), 3U * 2);
  EXPECT_EQ(askable_matmuls("matmul:sm90_bf16+from_c").size(), 3U);  // C is what the sum starts from: D is FP32
  EXPECT_EQ(askable_matmuls("matmul:sm90_fp8").size(), 4U * 3 * 2);
  // None, and 2 types of scales on 2 pairs of blocks: 32 is no multiple of 128.
  EXPECT_EQ(askable_matmuls("matmul:sm90_fp8+promote128").size(), 4U * (1 + 2 * 2) * 3 * 2);
  EXPECT_EQ(askable_matmuls("matmul:sm90_fp8+promote32").size(), 4U * (1 + 2 * 3) * 3 * 2);
  EXPECT_EQ(askable_matmuls("matmul:sm90_bf16+decode").size(), 4U * (2 * 3) * 3 * 2);
}

TEST(MatmulVariants, scales_are_there_where_the_contract_has_them) {
  for (const Variant& v : askable_matmuls("matmul:sm90_fp8+promote128")) {
    const MatmulVariant& m = matmul_of(v);
    EXPECT_EQ(m.scales == MXCHECK_NO_SCALES, m.block == (BlockShape{0, 0}));
    EXPECT_TRUE(m.scales == MXCHECK_NO_SCALES || m.block.cols == 128) << to_text(v);
  }
  for (const Variant& v : askable_matmuls("matmul:sm90_bf16+decode"))
    EXPECT_NE(matmul_of(v).scales, MXCHECK_NO_SCALES) << to_text(v);
}

TEST(MatmulVariants, corners_can_be_posed_and_have_an_empty_group) {
  for (const Variant& v : askable_matmuls("matmul:sm90_fp8+promote128")) {
    for (const std::int64_t depth : {64, 256, 640}) {
      const Case c = matmul_corner(v, 90, 7, depth, Data::normal, 3);
      ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
      EXPECT_EQ(matmul_case(c).depth, depth);
      EXPECT_EQ(c.experts.empty(), matmul_of(v).groups == MXCHECK_DENSE);
      if (c.experts.empty()) continue;
      EXPECT_NE(std::adjacent_find(c.experts.begin(), c.experts.end()), c.experts.end());
      EXPECT_EQ(c.experts.back(), matmul_of(v).groups == MXCHECK_DEPTH ? depth : 90);
    }
  }
}

TEST(MatmulVariants, a_nan_of_the_tensor_core_is_compared_by_its_bits) {
  EXPECT_FALSE(any_nan_in_d_is_equal("matmul:sm90_fp8"));
  EXPECT_FALSE(any_nan_in_d_is_equal("matmul:sm90_bf16+from_c"));
  EXPECT_TRUE(any_nan_in_d_is_equal("matmul:sm90_fp8+promote128"));  // an FP32 addition's
  EXPECT_TRUE(any_nan_in_d_is_equal("matmul:ieee_fp32"));
  EXPECT_TRUE(any_nan_in_d_is_equal("matmul:exact"));
}

}  // namespace
}  // namespace mxcheck

#include "properties/operations/matmul/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "properties/core/layers/layers.h"
#include "properties/core/statement.h"
#include "properties/gpu_model/gpu_model.h"
#include "properties/operations/matmul/fields.h"

namespace mxcheck {
namespace {

Case matmul_case_of(const std::string& fields) { return parse_case("op=matmul:" + fields + " data=normal seed=1"); }

constexpr const char* kPromotedFields =
    "sm90_fp8+promote128 format=e4m3 format_b=e5m2 block=1x128 block_b=128x128 scales=fp32 d=bf16 ";
constexpr const char* kMx = "sm90_bf16+decode format=e4m3 format_b=e4m3 block=1x32 block_b=1x32 scales=e8m0 d=fp32 ";
constexpr const char* kNvfp4 = "sm90_bf16+decode format=e2m1 format_b=e2m1 block=1x16 block_b=1x16 scales=e4m3 d=fp32 ";
constexpr const char* kSums = "sm90_tf32+from_c format=fp32 format_b=fp32 block=none block_b=none scales=none d=fp32 ";

TEST(ModelClaim, each_contract_is_asked_for_in_the_models_words) {
  const auto promoted = model_of(matmul_case_of(std::string(kPromotedFields) + "groups=none rows=3 cols=4 depth=500"));
  ASSERT_TRUE(promoted);
  EXPECT_EQ(promoted->a_format, MXCHECK_GPU_MODEL_E4M3);
  EXPECT_EQ(promoted->b_format, MXCHECK_GPU_MODEL_E5M2);
  EXPECT_EQ(promoted->promotion, 128);
  EXPECT_EQ(promoted->decodes, 0);
  const auto mx = model_of(matmul_case_of(std::string(kMx) + "groups=none rows=3 cols=4 depth=50"));
  ASSERT_TRUE(mx);
  EXPECT_EQ(mx->a_format, MXCHECK_GPU_MODEL_BF16);
  EXPECT_EQ(mx->promotion, 0);
  EXPECT_EQ(mx->decodes, DeviceModel::kDecodesMx);
  const auto nvfp4 = model_of(matmul_case_of(std::string(kNvfp4) + "groups=none rows=3 cols=4 depth=51"));
  ASSERT_TRUE(nvfp4);
  EXPECT_EQ(nvfp4->b_format, MXCHECK_GPU_MODEL_BF16);
  EXPECT_EQ(nvfp4->decodes, DeviceModel::kDecodesNvfp4);
  const auto sums = model_of(matmul_case_of(std::string(kSums) + "groups=none rows=3 cols=4 depth=50"));
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->b_format, MXCHECK_GPU_MODEL_TF32);
}

TEST(ModelClaim, groups_along_depth_start_where_blocks_do) {
  const std::string c = std::string(kPromotedFields) + "groups=depth rows=3 cols=4 depth=500 experts=";
  EXPECT_TRUE(model_of(matmul_case_of(c + "0,128,384,500")));
  EXPECT_TRUE(model_of(matmul_case_of(c + "0,128,128,500,500")));  // nothing starts at 500
  EXPECT_FALSE(model_of(matmul_case_of(c + "0,130,500")));
  const std::string mx = std::string(kMx) + "groups=depth rows=3 cols=4 depth=100 experts=";
  EXPECT_TRUE(model_of(matmul_case_of(mx + "0,32,100")));
  EXPECT_FALSE(model_of(matmul_case_of(mx + "0,33,100")));
  const std::string nvfp4 = std::string(kNvfp4) + "groups=depth rows=3 cols=4 depth=100 experts=";
  EXPECT_TRUE(model_of(matmul_case_of(nvfp4 + "0,48,100")));
  EXPECT_FALSE(model_of(matmul_case_of(nvfp4 + "0,40,100")));
}

TEST(ModelClaim, nothing_is_claimed_of_what_the_model_lacks) {
  for (const std::string& c : {
           std::string(kSums) + "groups=none rows=3 cols=4 depth=50 adds=1",            // a sum that starts from C
           std::string(kPromotedFields) + "groups=none rows=3 cols=4 depth=50 adds=1",  // a C in BF16
       }) {
    EXPECT_TRUE(model_knows(matmul_case_of(c).variant)) << c;
    EXPECT_FALSE(model_of(matmul_case_of(c))) << c;
  }
  const std::string shape = " groups=none d=fp32 rows=3 cols=4 depth=50";
  const std::string scaled = " block=1x128 block_b=1x128 scales=fp32" + shape;
  for (const std::string& c : {
           "sm90_fp8+promote128+a_first format=e4m3 format_b=e4m3" + scaled,
           "sm90_fp8+promote128+descending format=e4m3 format_b=e4m3" + scaled,
           "sm90_fp8+promote256 format=e4m3 format_b=e4m3" + scaled,
           "exact format=e4m3 format_b=e4m3" + scaled,
           std::string("sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 ") +
               "groups=masked d=fp32 rows=6 cols=4 depth=50 counts=1,3",
           "ieee_fp32 format=e4m3 format_b=e4m3" + scaled,
           "sm90_bf16+decode format=e4m3 format_b=e4m3" + scaled,
           "sm90_bf16+decode format=e5m2 format_b=e4m3 block=1x32 block_b=1x32 scales=e8m0" + shape,
       }) {
    EXPECT_FALSE(model_knows(matmul_case_of(c).variant)) << c;
  }
  Case other;
  EXPECT_FALSE(model_knows(other.variant));
}

TEST(ModelClaim, corners_of_production_size_are_read_back_from_their_text) {
  for (const Statement& s : all_statements()) {
    if (s.name != "large_products_equal_the_gpu_model") continue;
    EXPECT_FALSE(s.recorded);
    std::int64_t largest = 0;
    std::int64_t outputs = 0;
    for (const char* groups : {"none", "rows", "depth"}) {
      Variant v = parse_variant(
          "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 groups=" +
          std::string(groups) + " d=fp32");
      EXPECT_EQ(s.corners(v, Suite::quick).size(), 1U);
      for (const Suite suite : {Suite::quick, Suite::full, Suite::exhaustive}) {
        for (const Case& c : s.corners(v, suite)) {
          EXPECT_EQ(parse_case(to_text(c)), c) << to_text(c);
          EXPECT_TRUE(model_of(c)) << to_text(c);
          largest = std::max(largest, c.elements() * matmul_case(c).depth);
          outputs = std::max(outputs, c.elements());
        }
      }
    }
    EXPECT_EQ(largest, std::int64_t{131'072} * 7168 * 2048);
    EXPECT_GT(outputs, std::int64_t{1} << 31);
    return;
  }
  FAIL() << "no such statement";
}

// Each layer's two products and two gradients once, whole and of at most 2^28 weights, whatever the number of variants.
TEST(ModelClaim, of_all_variants_together_each_layer_is_multiplied_whole_once) {
  const std::vector<Statement>& all = all_statements();
  const auto s = std::find_if(all.begin(), all.end(),
                              [](const Statement& one) { return one.name == "large_products_equal_the_gpu_model"; });
  ASSERT_NE(s, all.end());
  std::vector<Variant> variants;
  for (const char* groups : {"groups=none", "groups=rows", "groups=depth"}) {
    variants.push_back(matmul_case_of(std::string(kPromotedFields) + groups + " rows=0 cols=4 depth=0" +
                                      (std::string(groups) == "groups=none" ? "" : " experts=0,0"))
                           .variant);
  }
  EXPECT_TRUE(s->shared_corners(variants, Suite::quick).empty());
  const std::vector<Case> cases = s->shared_corners(variants, Suite::full);
  EXPECT_EQ(cases.size(), 4 * production_layers().size());
  for (const ProductionLayer& layer : production_layers()) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const Case& c) {
      return c.cols == 2 * layer.n && matmul_case(c).depth == layer.d;
    })) << layer.model;
  }
  for (const Case& c : cases) {
    EXPECT_EQ(parse_case(to_text(c)), c);
    const std::int64_t weight =
        matmul_of(c.variant).groups == MXCHECK_ROWS ? c.cols * matmul_case(c).depth : c.elements();
    const auto experts = static_cast<std::int64_t>(c.experts.size()) - 1;
    EXPECT_TRUE(experts == 1 || experts * weight <= std::int64_t{1} << 28) << to_text(c);
  }
}

}  // namespace
}  // namespace mxcheck

#include "benchmarks/sm90/moe/report/results.h"

#include <gtest/gtest.h>

#include "tests/benchmarks/sm90/moe/report/sample.h"

namespace mxcheck::bench {
namespace {

TEST(MoeResults, compare_a_gemm_with_the_tensor_cores_and_other_steps_with_a_copy) {
  const MoeResults r = sample_results();
  const std::vector<StepTime>& steps = r.shapes[0].recipes[1].passes[0].steps;
  EXPECT_DOUBLE_EQ(steps[2].share_of_limit(r.copy_bytes_per_second), 2 * 2199023255552.0 / 6000e-6 / 989e12);
  EXPECT_DOUBLE_EQ(steps[3].share_of_limit(r.copy_bytes_per_second), 1);  // 2.4 GB in 600 us, 4 TB/s
}

TEST(MoeResults, share_the_time_of_the_steps_among_their_kinds) {
  const PassResult& p = sample_results().shapes[0].recipes[1].passes[0];
  EXPECT_DOUBLE_EQ(p.steps_us(), 7000);
  EXPECT_DOUBLE_EQ(p.share(StepKind::quantize), 390.0 / 7000);
  double sum = 0;
  for (const auto& kind : kStepKinds) sum += p.share(kind.value);
  EXPECT_DOUBLE_EQ(sum, 1);
  EXPECT_EQ(PassResult{}.share(StepKind::gemm), 0);
}

TEST(MoeResults, compare_recipes_with_bf16_of_the_same_run) {
  ShapeResult r = sample_results().shapes[0];
  EXPECT_DOUBLE_EQ(r.of_bf16(r.recipes[0].passes[1]).value(), 1);
  EXPECT_DOUBLE_EQ(r.of_bf16(r.recipes[1].passes[1]).value(), 1.25);
  r.recipes.erase(r.recipes.begin());
  EXPECT_FALSE(r.of_bf16(r.recipes[0].passes[1]).has_value());
}

TEST(MoeResults, add_the_router_to_the_forward_pass_where_they_compare_with_sonic_moe) {
  ShapeResult r = sample_results().shapes[0];
  const PassResult& forward = r.recipes[0].passes[0];
  const PassResult& backward = r.recipes[0].passes[1];
  EXPECT_DOUBLE_EQ(r.with_router(forward), 20050);
  EXPECT_DOUBLE_EQ(r.with_router(backward), 40000);
  const double operations = r.shape.operations(Direction::forward);
  EXPECT_DOUBLE_EQ(r.of_sonic_moe(forward).value(), operations / 20050 / 1e6 / 547);
  EXPECT_DOUBLE_EQ(r.of_sonic_moe(backward).value(), 2 * operations / 40000 / 1e6 / 538);
  r.router.reset();
  EXPECT_DOUBLE_EQ(r.of_sonic_moe(forward).value(), operations / 20000 / 1e6 / 547);
  r.shape.top_k = 7;
  EXPECT_FALSE(r.of_sonic_moe(forward).has_value());
}

TEST(MoeResults, know_the_peak_of_a_gemm_by_its_contract) {
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), "up"), kPeakFp8);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), "GEMM d_w1"), kPeakFp8);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("mxfp8"), "up"), kPeakBf16);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), "upper"), kPeakBf16);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), ""), kPeakBf16);
}

}  // namespace
}  // namespace mxcheck::bench

#include "benchmarks/sm90/moe/report.h"

#include <gtest/gtest.h>

#include "tests/benchmarks/sm90/moe/sample.h"

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

// --- JSON

namespace {

const Json& at(const Json& json, std::string_view key) {
  const Json* const found = json.find(key);
  EXPECT_NE(found, nullptr) << key;
  static const Json none;
  return found == nullptr ? none : *found;
}
const Json& first(const Json& json) { return json.get_if<Json::Array>()->front(); }

TEST(MoeJson, has_every_pass_and_step) {
  const Json json = json_of(sample_results());
  const Json& shape = first(at(json, "shapes"));
  EXPECT_EQ(*at(shape, "d").get_if<std::int64_t>(), 4096);
  const Json& recipe = first(at(shape, "recipes"));
  EXPECT_EQ(*at(recipe, "recipe").get_if<std::string>(), "bf16");
  for (const char* pass : {"forward", "backward"}) EXPECT_EQ(at(at(recipe, pass), "steps").size(), 4U);
  EXPECT_EQ(*at(at(recipe, "forward"), "us_with_router").get_if<double>(), 20050);
  EXPECT_EQ(*at(first(at(at(recipe, "forward"), "steps")), "kind").get_if<std::string>(), "check");
}

TEST(MoeJson, can_be_read_again) {
  const std::string text = to_text(json_of(sample_results()));
  EXPECT_EQ(to_text(parse_json(text, "the results", 16, ErrorKind::input), {2, JsonOrder::by_name, NotUtf8::refused}),
            to_text(json_of(sample_results()), {2, JsonOrder::by_name, NotUtf8::refused}));
}

}  // namespace

// --- tables

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(MoeTable, has_a_line_for_each_pass) {
  const std::string text = passes_text(sample_results().shapes[0]);
  EXPECT_TRUE(
      holds(text, "T=32768 d=4096 n=1024 E=128 K=8, uniform routes (the busiest expert has 1.10 of the mean)\n"))
      << text;
  EXPECT_TRUE(holds(text, "router: 50.0 us")) << text;
  EXPECT_TRUE(
      holds(text,
            "mxfp8              forward     16000.0   15900.0-16100.0     412.3    1.250   16050.0        0.751  "
            "    5.6%\n"))
      << text;
}

TEST(MoeTable, says_where_the_router_was_not_measured) {
  ShapeResult r = sample_results().shapes[0];
  r.router.reset();
  EXPECT_TRUE(holds(passes_text(r), "router: not measured"));
}

TEST(MoeTable, has_a_line_for_each_step) {
  const MoeResults r = sample_results();
  const std::string text = steps_text(r.shapes[0], r.copy_bytes_per_second);
  EXPECT_TRUE(holds(
      text, "up                                 gemm           6000.0   85.7%    6.000    1.00   733.0     0.741\n"))
      << text;
  EXPECT_TRUE(holds(
      text, "<aggregate>                        elementwise     600.0    8.6%    2.400    4.00       -     1.000\n"))
      << text;
  EXPECT_TRUE(
      holds(text, "   7000.0   the call: 16000.0   check 0.1%   quantize 5.6%   gemm 85.7%   elementwise 8.6%\n"))
      << text;
}

TEST(MoeTable, compares_what_is_kept_with_sonic_moe) {
  ShapeResult r = sample_results().shapes[0];
  r.recipes[1].kept_bytes = std::uint64_t{1} << 30;
  r.recipes[1].passes[1].tensor_bytes = std::uint64_t{3} << 30;
  r.recipes[1].passes[1].workspace_bytes = std::uint64_t{1} << 29;
  const std::string text = memory_text(r);
  EXPECT_TRUE(holds(text, "gives 1.250.")) << text;
  EXPECT_TRUE(holds(text, "mxfp8                 1.000        0.800")) << text;
  EXPECT_TRUE(holds(text, "     3.000      0.500      3.500\n")) << text;
}

}  // namespace

// --- comparisons

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

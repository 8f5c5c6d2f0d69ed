// What the layer benchmark makes of its results: sums and bounds, JSON, a picture, a table.

#include <gtest/gtest.h>

#include "benchmarks/sm90/moe/report/json.h"
#include "benchmarks/sm90/moe/report/results.h"
#include "benchmarks/sm90/moe/report/svg.h"
#include "benchmarks/sm90/moe/report/table.h"

namespace mxcheck::bench {
namespace {

// One shape of SonicMoE's under bf16 and mxfp8; the layer takes 20 ms forward under bf16, 16 ms under mxfp8.
MoeResults sample_results() {
  const MoeShape shape = default_moe_shapes()[1];
  const auto steps = [](double gemm, double quantize) {
    return std::vector<StepTime>{{"check routes", StepKind::check, 10, 1000000, 0, kPeakBf16},
                                 {"quantize X", StepKind::quantize, quantize, 400000000, 0, kPeakBf16},
                                 {"up", StepKind::gemm, gemm, 6000000000, 2199023255552, kPeakBf16},
                                 {"<aggregate>", StepKind::elementwise, 600, 2400000000, 0, kPeakBf16}};
  };
  RecipeResult bf16{"bf16", 1342177280, {}, "", true};
  bf16.passes[0] = {Direction::forward, {20000, 19900, 20100}, steps(6000, 0.5), 1000, 500};
  bf16.passes[1] = {Direction::backward, {40000, 39000, 41000}, steps(12000, 0.5), 3000, 500};
  RecipeResult mxfp8{"mxfp8", 1342177280, {}, "", true};
  mxfp8.passes[0] = {Direction::forward, {16000, 15900, 16100}, steps(6000, 390), 1000, 700};
  mxfp8.passes[1] = {Direction::backward, {32000, 31000, 33000}, steps(12000, 390), 3000, 700};
  ShapeResult result{shape, "uniform", 1.1, RouterTime{20, 30}, {bf16, mxfp8}};
  return {"a device", "a library", 15, 4e12, {result}};
}

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

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(MoeSvg, has_a_bar_for_each_step_and_kind) {
  const std::string svg = time_line_svg(sample_results());
  // Steps of two passes of two recipes, the legend, and the ground.
  EXPECT_EQ(count_of(svg, "<rect "), 2U * 2 * 4 + 4 + 1);
  EXPECT_EQ(count_of(svg, "bf16 forward: 20.00 ms"), 1U);
  EXPECT_EQ(count_of(svg, "mxfp8 backward: 32.00 ms"), 1U);
}

TEST(MoeSvg, is_one_file_that_escapes_names) {
  const std::string svg = time_line_svg(sample_results());
  EXPECT_EQ(count_of(svg, "<aggregate>"), 0U);
  EXPECT_EQ(count_of(svg, "&lt;aggregate&gt;"), 2U * 2 * 2);  // beside the bar and as its title
  EXPECT_EQ(count_of(svg, "http"), 1U);                       // the name space
  EXPECT_EQ(count_of(svg, "<svg"), count_of(svg, "</svg>"));
}

TEST(MoeSvg, begins_a_bar_where_the_one_before_ends) {
  const std::string svg = time_line_svg(sample_results());
  // The longest pass takes 13000 us, 380 wide; in bf16's forward pass 10.5 us are before "up", 6010.5 to its end.
  EXPECT_NE(svg.find(R"(x="190.31" y="141.0" width="175.38")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(R"(x="365.69" y="157.0" width="17.54")"), std::string::npos) << svg;
}

TEST(MoeSvg, of_nothing_is_a_picture_too) { EXPECT_EQ(count_of(time_line_svg(MoeResults{}), "</svg>"), 1U); }

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
}  // namespace mxcheck::bench

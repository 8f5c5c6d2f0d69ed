#include "benchmarks/sm90/moe/report.h"
#include "benchmarks/sm90/moe/shape.h"
#include "benchmarks/sm90/moe/sublayer.h"
#include "numerics/format/codec.h"
#include "tests/testing.h"

namespace mxcheck::bench {
namespace {

using namespace test;

// Results that nobody measured, for the tests of what is made of them.

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
  ShapeResult result{shape, "uniform", 1.1, RouterTime{20, 30}, {bf16, mxfp8}, "NVIDIA H200"};
  return {{"NVIDIA H200", 132, 1980, 3201, "580.65.06", 13000}, "a library", 15, 4e12, {result}};
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

TEST(MoeResults, are_not_compared_with_sonic_moe_on_another_card) {
  MoeResults r = sample_results();
  r.card.name = r.shapes[0].card = "NVIDIA H100 80GB HBM3";
  for (const PassResult& p : r.shapes[0].recipes[0].passes) EXPECT_FALSE(r.shapes[0].of_sonic_moe(p).has_value());
  EXPECT_NE(head_text(r).find("not of a pass on another card, as here"), std::string::npos) << head_text(r);
  EXPECT_EQ(head_text(sample_results()).find("another card"), std::string::npos);
  const Json json = json_of(r);
  EXPECT_EQ(to_text(json).find("of_sonic_moe"), std::string::npos);
}

TEST(MoeResults, know_the_peak_of_a_gemm_by_its_contract) {
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), "up"), kPeakFp8);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), "GEMM d_w1"), kPeakFp8);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("mxfp8"), "up"), kPeakBf16);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), "upper"), kPeakBf16);
  EXPECT_EQ(peak_tflops_of(layer_recipe_named("dsv3"), ""), kPeakBf16);
}

// --- JSON

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

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

TEST(MoeJson, states_the_card) {
  EXPECT_EQ(to_text(at(json_of(sample_results()), "card"), {-1}),
            R"({"name":"NVIDIA H200","processors":132,"sm_clock_mhz":1980,"memory_clock_mhz":3201,)"
            R"("driver":"580.65.06","driver_cuda":13000})");
  EXPECT_TRUE(holds(head_text(sample_results()),
                    "NVIDIA H200, 132 processors, at most 1980 MHz, memory 3201 MHz; driver 580.65.06, CUDA 13.0\n"));
}

TEST(MoeJson, can_be_read_again) {
  const std::string text = to_text(json_of(sample_results()));
  EXPECT_EQ(to_text(parse_json(text, "the results", 16, ErrorKind::input), {2, JsonOrder::by_name, NotUtf8::refused}),
            to_text(json_of(sample_results()), {2, JsonOrder::by_name, NotUtf8::refused}));
}

// --- tables

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

// --- comparisons

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
  expect_contains(svg, {R"(x="190.31" y="141" width="175.38")", R"(x="365.69" y="157" width="17.54")"});
}

TEST(MoeSvg, of_nothing_is_a_picture_too) { EXPECT_EQ(count_of(time_line_svg(MoeResults{}), "</svg>"), 1U); }

std::string refusal_of(const char* text) {
  try {
    parse_moe_shape(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(MoeShape, reads_five_numbers) {
  const MoeShape right{32768, 4096, 1024, 128, 8};
  EXPECT_EQ(parse_moe_shape("32768,4096,1024,128,8"), right);
  EXPECT_EQ(right.text(), "T=32768 d=4096 n=1024 E=128 K=8");
  EXPECT_EQ(right.rows(), 262144);
}

TEST(MoeShape, refuses_what_is_no_shape) {
  for (const char* text : {"", "1", "1,2,3,4", "1,2,3,4,", "1,2,3,4,x", "1;2,3,4,4", "1,2,3,4,4,5", "1,2,3,4,4 "})
    EXPECT_NE(refusal_of(text), "") << text;
  expect_contains(refusal_of("0,2,3,4,4"), "0 is not in 1 to 1048576");
  expect_contains(refusal_of("1,2,3,4,5"), "K is above E");
}

TEST(MoeShape, counts_the_operations_of_two_gemms_and_of_their_gradients) {
  const MoeShape s = parse_moe_shape("10,7,5,4,3");
  const double up = 2.0 * 30 * 7 * (2 * 5);
  const double down = 2.0 * 30 * 5 * 7;
  EXPECT_EQ(s.operations(Direction::forward), up + down);
  EXPECT_EQ(s.operations(Direction::backward), 2 * (up + down));
  // 6300 operations in 2 microseconds.
  EXPECT_DOUBLE_EQ(s.tflops(Direction::forward, 2), 0.00315);
}

TEST(SonicMoe, has_a_rate_for_each_shape_that_is_measured_by_default) {
  for (const MoeShape& s : default_moe_shapes()) {
    const SonicMoeRate* const rate = find_sonic_moe_rate(s);
    ASSERT_NE(rate, nullptr) << s.text();
    EXPECT_GT(rate->forward, 0);
    EXPECT_GT(rate->backward, 0);
  }
  EXPECT_EQ(find_sonic_moe_rate(parse_moe_shape("32768,4096,1024,128,4")), nullptr);
}

TEST(SonicMoe, keeps_x_and_h) {
  // X of 10 x 7 and H of 30 x 10, both in BF16.
  EXPECT_EQ(sonic_moe_kept_bytes(parse_moe_shape("10,7,5,4,3")), 2U * 70 + 2U * 300);
}

// --- routes

constexpr MoeShape kRoutedShape{600, 64, 64, 16, 4};

TEST(MoeRoutes, are_routes_of_every_token_without_a_dropped_one) {
  for (const auto& load : kRouteLoads) {
    const LayerRoutes r = draw_moe_routes(kRoutedShape, load.value, 3);
    check(r, kRoutedShape.tokens, kRoutedShape.experts);
    EXPECT_EQ(r.offsets.back(), kRoutedShape.rows());
    EXPECT_EQ(std::ranges::count(r.token_rows, -1), 0);
  }
}

TEST(MoeRoutes, have_an_experts_tokens_in_ascending_order) {
  const LayerRoutes r = draw_moe_routes(kRoutedShape, RouteLoad::skewed, 3);
  for (std::size_t e = 0; e + 1 < r.offsets.size(); ++e)
    EXPECT_TRUE(std::is_sorted(r.row_token.begin() + r.offsets[e], r.row_token.begin() + r.offsets[e + 1])) << e;
}

TEST(MoeRoutes, load_experts_as_asked) {
  const double uniform = busiest_expert(draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3));
  const double skewed = busiest_expert(draw_moe_routes(kRoutedShape, RouteLoad::skewed, 3));
  EXPECT_GE(uniform, 1);
  EXPECT_LT(uniform, 1.3);
  EXPECT_GT(skewed, 1.5);
}

TEST(MoeRoutes, depend_on_the_seed_alone) {
  const LayerRoutes first = draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3);
  EXPECT_EQ(first.row_token, draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3).row_token);
  EXPECT_NE(first.row_token, draw_moe_routes(kRoutedShape, RouteLoad::uniform, 4).row_token);
}

// --- tensors

using Names = std::vector<std::string>;

// T = 96, d = 256, n = 128, R = 192.
constexpr MoeShape kTensorShape{96, 256, 128, 4, 2};

TEST(MoeTensors, come_in_the_order_of_the_interface) {
  const MoeTensors t = moe_tensors(kTensorShape, layer_recipe_named("mxfp8"));
  const Names routes{"row_token", "row_weight", "token_offsets", "token_rows", "offsets"};
  Names forward{"x", "w1", "w2"};
  Names backward{"d_o", "w1", "w2", "h", "x"};
  forward.insert(forward.end(), routes.begin(), routes.end());
  backward.insert(backward.end(), routes.begin(), routes.end());
  EXPECT_EQ(moe_inputs(t, Direction::forward), forward);
  EXPECT_EQ(moe_inputs(t, Direction::backward), backward);
  EXPECT_EQ(moe_outputs(t, Direction::forward), (Names{"o", "h"}));
  EXPECT_EQ(moe_outputs(t, Direction::backward), (Names{"dx", "dw1", "dw2", "ds"}));
}

TEST(MoeTensors, have_two_for_what_is_kept_in_codes) {
  const MoeTensors t = moe_tensors(kTensorShape, layer_recipe_named("dsv3_pow2"));
  const Names kept{"h", "h scales", "x codes", "x scales"};
  Names outputs{"o"};
  outputs.insert(outputs.end(), kept.begin(), kept.end());
  EXPECT_EQ(moe_outputs(t, Direction::forward), outputs);
  const Names inputs = moe_inputs(t, Direction::backward);
  EXPECT_EQ(Names(inputs.begin() + 3, inputs.begin() + 7), kept);
  EXPECT_EQ(inputs.size(), 12U);  // the x that was given is not among them
  EXPECT_EQ(t.kept[0].shape, (std::vector<std::int64_t>{192, 384}));
  EXPECT_EQ(t.kept[1].shape, (std::vector<std::int64_t>{192, 2}));
}

TEST(MoeTensors, keep_what_docs_layer_says) {
  const double td = 96.0 * 256;
  const double rn = 192.0 * 128;
  const auto kept = [](const char* recipe) {
    return static_cast<double>(moe_tensors(kTensorShape, layer_recipe_named(recipe)).kept_bytes());
  };
  EXPECT_EQ(kept("bf16"), 2 * td + 4 * rn);
  EXPECT_EQ(kept("bf16"), static_cast<double>(sonic_moe_kept_bytes(kTensorShape)));
  EXPECT_EQ(kept("mxfp8"), 2 * td + 4 * rn);
  EXPECT_EQ(kept("dsv3"), td * (1 + 4.0 / 128) + 4 * rn);
  EXPECT_EQ(kept("dsv3_pow2"), td * (1 + 1.0 / 128) + 2 * rn * (1.5 + 1.0 / 128));
}

TEST(MoeTensors, count_the_bytes_of_a_call) {
  const MoeTensors t = moe_tensors(kTensorShape, layer_recipe_named("bf16"));
  const std::uint64_t routes = 192 * 4 + 192 * 4 + 97 * 8 + 192 * 4 + 5 * 8;
  const std::uint64_t weights = std::uint64_t{4} * 256 * 256 * 2 + std::uint64_t{4} * 128 * 256 * 2;
  const std::uint64_t tokens = std::uint64_t{96} * 256 * 2;
  const std::uint64_t h = std::uint64_t{192} * 256 * 2;
  EXPECT_EQ(moe_call_bytes(t, Direction::forward), tokens + weights + routes + tokens + h);
  EXPECT_EQ(moe_call_bytes(t, Direction::backward),
            tokens + weights + h + tokens + routes + tokens + 2 * weights + 192 * 4);
}

TEST(MoeTensors, refuse_a_recipe_that_the_interface_cannot_keep) {
  LayerRecipe recipe = layer_recipe_named("dsv3_pow2");
  recipe.kept_h.block = {1, 32};
  EXPECT_THROW(moe_tensors(kTensorShape, recipe), Error);
}

using Ids = std::vector<std::int64_t>;

constexpr MoeShape kShape{300, 256, 128, 4, 2};

std::vector<std::uint16_t> drawn(std::int64_t count, double scale, std::uint32_t seed) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::uint16_t& v : values) {
    seed = seed * 1664525 + 1013904223;
    const double uniform = static_cast<double>(seed >> 8) / (1 << 23) - 1;
    v = static_cast<std::uint16_t>(encode(Format::bf16, scale * uniform, Rounding::nearest_even, Overflow::saturate));
  }
  return values;
}

const HostLayer& layer() {
  static const HostLayer made{kShape,
                              GateUp::halves,
                              draw_moe_routes(kShape, RouteLoad::skewed, 5),
                              drawn(300 * 256, 1, 1),
                              drawn(4 * 256 * 256, 0.1, 2),
                              drawn(4 * 128 * 256, 0.1, 3),
                              drawn(300 * 256, 1, 4)};
  return made;
}

// The names of the tensors that a part says something of; each of its rows must be that of the whole layer.
std::vector<std::string> compared(Part part, const Ids& ids, const LayerRecipe& recipe) {
  std::map<std::string, ExpectedRows> whole;
  for (ExpectedRows& e : expected_rows(sublayer_of(layer(), Part::whole, {}), GateUp::halves, recipe))
    whole[e.tensor] = std::move(e);
  std::vector<std::string> names;
  for (const ExpectedRows& e : expected_rows(sublayer_of(layer(), part, ids), GateUp::halves, recipe)) {
    names.push_back(e.tensor);
    const ExpectedRows& all = whole.at(e.tensor);
    EXPECT_EQ(e.row_bytes(), all.row_bytes());
    for (std::size_t i = 0; i < e.rows.size(); ++i) {
      const auto row = e.bytes.begin() + static_cast<std::ptrdiff_t>(i * e.row_bytes());
      const auto right = all.bytes.begin() + e.rows[i] * static_cast<std::ptrdiff_t>(e.row_bytes());
      const auto size = static_cast<std::ptrdiff_t>(e.row_bytes());
      EXPECT_TRUE(std::equal(row, row + size, right)) << recipe.name << ' ' << e.tensor << " row " << e.rows[i];
    }
  }
  return names;
}

bool has(const std::vector<std::string>& names, const char* name) {
  return std::ranges::find(names, name) != names.end();
}

// True if a part of the layer does not know a scale.
bool shares_a_scale(const LayerRecipe& recipe) {
  return recipe.name == "fp8_tensor" || recipe.name == "quartet2" || recipe.name.starts_with("nvfp4");
}

TEST(Sublayer, of_experts_has_their_rows_of_the_whole_layer) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const std::vector<std::string> names = compared(Part::experts, {1, 3}, recipe);
    const bool says = !shares_a_scale(recipe);
    for (const char* name : {"h", "ds", "dw1", "dw2"}) EXPECT_EQ(has(names, name), says) << recipe.name << ' ' << name;
    for (const char* name : {"o", "dx"}) EXPECT_FALSE(has(names, name)) << recipe.name << ' ' << name;
  }
}

TEST(Sublayer, of_tokens_has_their_rows_of_the_whole_layer) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const std::vector<std::string> names = compared(Part::tokens, {0, 1, 77, 299}, recipe);
    const bool says = !shares_a_scale(recipe);
    EXPECT_EQ(has(names, "o"), says) << recipe.name;
    EXPECT_EQ(has(names, "dx"), says && recipe.name != "dsv3_128x128_grad") << recipe.name;
    EXPECT_FALSE(has(names, "dw1")) << recipe.name;
  }
}

TEST(Sublayer, of_the_whole_has_every_row_of_every_output) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const MoeTensors tensors = moe_tensors(kShape, recipe);
    std::map<std::string, std::size_t> sizes;
    for (const auto* list : {&tensors.kept, &tensors.forward, &tensors.backward}) {
      for (const MoeTensor& t : *list) sizes[t.name] = t.bytes();
    }
    for (const ExpectedRows& e : expected_rows(sublayer_of(layer(), Part::whole, {}), GateUp::halves, recipe)) {
      EXPECT_EQ(e.bytes.size(), sizes[e.tensor]) << recipe.name << ' ' << e.tensor;
      sizes.erase(e.tensor);
    }
    EXPECT_TRUE(sizes.empty()) << recipe.name;
  }
}

TEST(Sublayer, of_an_expert_without_rows_says_nothing) {
  HostLayer empty = layer();
  empty.routes.offsets = {0, 0, 300, 600, 600};
  const Sublayer s = sublayer_of(empty, Part::experts, {0});
  EXPECT_TRUE(expected_rows(s, GateUp::halves, layer_recipe_named("bf16")).empty());
}

TEST(ExpertsToCheck, has_the_busiest_and_the_idlest_with_rows) {
  LayerRoutes routes;
  routes.offsets = {0, 5, 5, 25, 26, 40, 41, 50};
  EXPECT_EQ(experts_to_check(routes, 1), (Ids{2}));
  EXPECT_EQ(experts_to_check(routes, 2), (Ids{2, 5}));
  EXPECT_EQ(experts_to_check(routes, 3), (Ids{2, 5, 6}));
  EXPECT_EQ(experts_to_check(routes, 7), (Ids{0, 2, 3, 4, 5, 6}));  // one has none
}

}  // namespace
}  // namespace mxcheck::bench

// Goldens of SwiGLU and of whole layers: what the files hold, against the reference called for each part.

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "goldens/data/embedded.h"
#include "goldens/format/reader.h"
#include "numerics/bytes.h"
#include "properties/goldens/input.h"
#include "properties/goldens/suite.h"
#include "properties/operations/moe/golden.h"
#include "reference/layer/layer.h"
#include "reference/quantize/quantize.h"
#include "reference/router/loss.h"
#include "reference/router/metadata.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/goldens/specs.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::layer_of;
using test::suite_with;
using test::swiglu_of;

// A suite of one golden, g.
class OneGolden : public testing::Test {
 protected:
  void make(const std::string& golden) { make_suite(parse_suite(suite_with(golden), "t"), dir.path(), {}); }
  [[nodiscard]] GoldenInfo info() const { return GoldenReader(dir / "g.h5").info(); }
  template <class T>
  [[nodiscard]] std::vector<T> read(const std::string& dataset) const {
    return values_in<T>(GoldenReader(dir / "g.h5").read(dataset).data);
  }
  test::TemporaryDirectory dir;
};

class LayerGoldens : public OneGolden {};

float value(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

TEST_F(LayerGoldens, swiglu_is_the_definition_element_by_element_in_both_orders) {
  for (const std::string order : {"halves", "interleaved"}) {
    make(swiglu_of(R"(, "gate_up": ")" + order + "\""));
    const auto h = read<std::uint16_t>("H"), a = read<std::uint16_t>("A"), dh = read<std::uint16_t>("dH");
    const auto scaled = read<std::uint16_t>("scaled_A");
    const auto p = read<float>("P"), s = read<float>("row_weight"), ds = read<float>("dS");
    ASSERT_EQ(h.size(), 70U * 80);
    for (std::size_t row = 0; row < 70; ++row) {
      for (std::size_t j = 0; j < 40; ++j) {
        const std::size_t gate = row * 80 + (order == "halves" ? j : 2 * j);
        const std::size_t up = row * 80 + (order == "halves" ? 40 + j : 2 * j + 1), at = row * 40 + j;
        EXPECT_EQ(a[at], layer_bf16(swiglu(value(h[gate]), value(h[up]))));
        EXPECT_EQ(scaled[at], layer_bf16(s[row] * value(a[at])));
        const SwigluGradient d = swiglu_gradient(value(h[gate]), value(h[up]), s[row] * p[at]);
        EXPECT_EQ(dh[gate], layer_bf16(d.dg));
        EXPECT_EQ(dh[up], layer_bf16(d.du));
      }
    }
    EXPECT_GT(std::set<float>(ds.begin(), ds.end()).size(), 60U);
  }
}

TEST_F(LayerGoldens, codes_along_tokens_are_those_of_the_transpose_and_start_again_at_each_expert) {
  make(swiglu_of(R"(, "codes": [
    {"of": "scaled_A", "format": "e4m3", "block": "1x32", "recipe": "rceil", "along": "tokens"},
    {"of": "dH", "format": "e4m3", "block": "1x128", "recipe": "fp32"}])"));
  const auto x = read<std::uint16_t>("scaled_A"), dh = read<std::uint16_t>("dH");
  const GoldenInfo i = info();
  EXPECT_EQ(i.find("scaled_A_T_e4m3_1x32_rceil_codes")->shape, (std::vector<std::int64_t>{40, 70}));
  EXPECT_EQ(i.find("scaled_A_T_e4m3_1x32_rceil_scales")->shape, (std::vector<std::int64_t>{40, 4}));
  EXPECT_EQ(i.find("dH_e4m3_1x128_fp32_scales")->format, "float32");
  const auto codes = read<std::uint8_t>("scaled_A_T_e4m3_1x32_rceil_codes");
  const auto scales = read<std::uint8_t>("scaled_A_T_e4m3_1x32_rceil_scales");
  const std::vector<std::pair<std::size_t, std::size_t>> blocks{{0, 32}, {32, 33}, {33, 65}, {65, 70}};
  for (std::size_t col = 0; col < 40; ++col) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::vector<std::uint16_t> column;  // as a row of its own
      for (std::size_t row = blocks[b].first; row < blocks[b].second; ++row) column.push_back(x[row * 40 + col]);
      const auto n = std::ssize(column);
      const QuantizedTensor q = quantize({Format::bf16, std::as_bytes(std::span(column)).data(), 1, n, n}, Format::e4m3,
                                         {1, 32}, recipe_named("rceil"));
      EXPECT_EQ(scales[col * 4 + b], q.scales().code(0));
      for (std::size_t k = 0; k < column.size(); ++k) EXPECT_EQ(codes[col * 70 + blocks[b].first + k], q.codes.code(k));
    }
  }
  const QuantizedTensor rows = quantize({Format::bf16, std::as_bytes(std::span(dh)).data(), 70, 80, 80}, Format::e4m3,
                                        {1, 128}, recipe_named("fp32"));
  EXPECT_EQ(read<std::uint8_t>("dH_e4m3_1x128_fp32_codes"), values_in<std::uint8_t>(rows.codes.data));
}

TEST_F(LayerGoldens, h_as_codes_stands_for_what_they_decode_to) {
  make(swiglu_of(R"(, "h_codes": {"format": "e4m3", "recipe": "rceil"})"));
  const QuantizedTensor q{
      tensor_of(Format::e4m3, {70, 80}, read<std::uint8_t>("H_codes")),
      {{{1, 32}, ScaleRule::rceil, tensor_of(Format::e8m0, {70, 3}, read<std::uint8_t>("H_scales"))}}};
  const std::vector<float> h = dequantize(q);
  const auto a = read<std::uint16_t>("A");
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i], layer_bf16(swiglu(h[i / 40 * 80 + i % 40], h[i / 40 * 80 + 40 + i % 40])));
  EXPECT_EQ(info().find("H"), nullptr);
}

TEST_F(LayerGoldens, a_layer_is_the_references_and_its_closed_expert_has_no_rows) {
  make(layer_of("dsv3", R"(, "gate_up": "interleaved")"));
  const GoldenInfo i = info();
  const auto x = read<std::uint16_t>("X"), w1 = read<std::uint16_t>("W1"), w2 = read<std::uint16_t>("W2");
  const auto logits = read<std::uint16_t>("logits");
  Router router;
  router.variant = &router_variant_named("softmax-topk"), router.top_k = 2;
  const Routes chosen = route(router, {Format::bf16, std::as_bytes(std::span(logits)).data(), 40, 3, 3});
  const LayerRoutes routes = layer_routes(chosen, 3);
  EXPECT_EQ(routes.offsets[1], routes.offsets[2]);
  EXPECT_EQ(read<std::int64_t>("offsets"), routes.offsets);
  const Layer layer{{40, 64, 32, 3}, &layer_recipe_named("dsv3"), GateUp::interleaved, w1, w2};
  const LayerForward f = layer_forward(layer, x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, read<std::uint16_t>("dO"), routes);
  EXPECT_EQ(read<std::uint16_t>("O"), f.o);
  EXPECT_EQ(read<std::uint16_t>("dX"), b.dx);
  EXPECT_EQ(read<float>("dW1"), b.dw1);
  EXPECT_EQ(read<float>("dW2"), b.dw2);
  const std::vector<float> slots = slot_gradient(routes, b.ds);
  EXPECT_EQ(read<float>("d_logits"),
            route_backward(router, {Format::bf16, std::as_bytes(std::span(logits)).data(), 40, 3, 3}, chosen.experts,
                           slots, 2));
  EXPECT_EQ(attribute(i.attributes, "recipe_name"), "dsv3");
  EXPECT_EQ(attribute(i.attributes, "up.b.block"), "128x128");
  EXPECT_EQ(attribute(i.find("A")->attributes, "step"), "swiglu");
  // Gate and up where the order says: the first expert's first row.
  const GoldenSpec spec = parse_suite(suite_with(layer_of()), "t").goldens.at(0);
  const auto& own = spec.get<LayerGolden>();
  const InputWords gate = read_bf16(own.gate[0], ".", "gate"), up = read_bf16(own.up[0], ".", "up");
  for (std::size_t j = 0; j < 32; ++j) {
    EXPECT_EQ(w1[2 * j], gate.words[j]);
    EXPECT_EQ(w1[2 * j + 1], up.words[j]);
  }
}

TEST_F(LayerGoldens, what_does_not_fit_is_refused_and_leaves_nothing) {
  const auto refused = [&](const std::string& message, const std::string& golden) {
    expect_error(ErrorKind::usage, message, [&] { make(golden); });
    EXPECT_FALSE(std::filesystem::exists(dir / "g.h5")) << golden;
  };
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  refused("up: is 70 x 41; 70 x 40 is needed",
          replaced(swiglu_of(), test::normal_numbers_of(2, 70, 40), test::normal_numbers_of(2, 70, 41)));
  refused("gate: is fp32",
          replaced(swiglu_of(), test::normal_numbers_of(1, 70, 40), test::normal_numbers_of(1, 70, 40, "fp32")));
  refused("weights: is 69 x 1; 70 x 1 is needed",
          replaced(swiglu_of(), test::normal_numbers_of(4, 70, 1), test::normal_numbers_of(4, 69, 1)));
  refused("last offset (offset 3) is 71: must be the number of rows, 70", replaced(swiglu_of(), "33, 70]", "33, 71]"));
  refused("gate[0]: has 63 rows; x has 64 columns", layer_of("mxfp8", "", "63"));
  refused("logits: are 40 x 4",
          replaced(layer_of(), test::normal_numbers_of(3, 40, 3), test::normal_numbers_of(3, 40, 4)));
  refused("closed: expert 1 has 40 rows all the same", replaced(layer_of(), "\"top_k\": 2", "\"top_k\": 3"));
}

}  // namespace

// Goldens about routers: what their specs may say, and what the files hold.

namespace {

using test::expect_error;
using test::golden_of;
using test::ties;

class RouteGoldens : public OneGolden {
 protected:
  // The logits as the file has them.
  [[nodiscard]] std::vector<float> logits() const { return read<float>("logits"); }
};

MatrixView view_of(const std::vector<float>& x, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(x.size()) / cols;
  return {Format::fp32, std::as_bytes(std::span(x)).data(), rows, cols, cols};
}

Router router_of(std::string_view variant, std::int64_t top_k) {
  Router router;
  router.variant = &router_variant_named(variant);
  router.top_k = top_k;
  return router;
}

std::vector<std::string> output_names(const GoldenInfo& info) {
  std::vector<std::string> names;
  for (const DatasetInfo& set : info.datasets) {
    if (set.role == Role::output) names.push_back(set.name);
  }
  return names;
}

TEST_F(RouteGoldens, choice_holds_every_variant) {
  make(golden_of("route", ties(R"("top_k": 3, "scale": "40200000", "bias": ["0", "3f000000", "bf800000", "0", "0", "0",
                               "40000000", "0"], "groups": 4, "groups_kept": 2)")));
  const std::vector<float> x = logits(), bias{0, 0.5F, -1, 0, 0, 0, 2, 0};
  EXPECT_EQ(read<float>("bias"), bias);
  EXPECT_EQ(output_names(info()).size(), 2 * all_router_variants().size());
  for (const RouterVariant& variant : all_router_variants()) {
    Router router = router_of(variant.name, 3);
    router.bias = bias, router.scale = 2.5F, router.groups = 4, router.groups_kept = 2;
    const Routes routes = route(router, view_of(x, 8));
    std::string name(variant.name);
    std::replace(name.begin(), name.end(), '-', '_');
    EXPECT_EQ(read<std::int32_t>("experts_" + name), routes.experts) << name;
    EXPECT_EQ(read<float>("weights_" + name), routes.weights) << name;
  }
  const GoldenInfo i = info();
  EXPECT_EQ(i.find("experts_sigmoid")->dtype, Format::int32);
  EXPECT_EQ(i.find("experts_sigmoid")->format, "int32");
  EXPECT_EQ(i.find("weights_sigmoid")->format, "float32");
  EXPECT_EQ(i.find("logits")->role, Role::input);
  EXPECT_EQ(attribute(i.attributes, "scale"), "0x40200000");
  EXPECT_EQ(attribute(i.attributes, "groups_kept"), "2");
  EXPECT_EQ(attribute(i.attributes, "source"), "made up: logits that tie");
}

TEST_F(RouteGoldens, rounding_holds_every_rule_without_what_lies_behind_the_rows) {
  make(golden_of("route_round", ties(R"("top_k": 2, "variant": "sigmoid", "tile": 4, "capacity": 5, "weights": "raw",
                                     "seed": 9, "layer": 4294967295, "step": 4294967297)")));
  const std::vector<float> x = logits();
  EXPECT_EQ(output_names(info()).size(), 1 + 5 * all_token_rounding_rules().size());
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    TokenRounding token_rounding;
    token_rounding.rule = rule.rule, token_rounding.tile = 4, token_rounding.capacity = 5,
    token_rounding.renormalize = false;
    token_rounding.seed = 9, token_rounding.layer = 4294967295U, token_rounding.step = 4294967297U;
    const RoundedTokens a = round_tokens(router_of("sigmoid", 2), token_rounding, view_of(x, 8));
    const auto first = [&](auto values) { return values.resize(static_cast<std::size_t>(a.offsets.back())), values; };
    std::string end = "_" + std::string(rule.name);
    std::replace(end.begin(), end.end(), '-', '_');
    EXPECT_EQ(read<std::int32_t>("chosen"), a.chosen);
    EXPECT_EQ(read<std::int64_t>("offsets" + end), a.offsets) << end;
    EXPECT_EQ(read<std::int32_t>("row_token" + end), first(a.row_token)) << end;
    EXPECT_EQ(read<float>("row_weight" + end), first(a.row_weight)) << end;
    EXPECT_EQ(read<std::int64_t>("token_offsets" + end), a.token_offsets) << end;
    EXPECT_EQ(read<std::int32_t>("token_rows" + end), first(a.token_rows)) << end;
  }
}

TEST_F(RouteGoldens, metadata_is_of_the_slots_given) {
  make(golden_of("route_metadata", R"("experts": 3, "tile": 2, "width": 2, "slots": [2, 0, -1, 2, 0, 2])"));
  EXPECT_EQ(read<std::int32_t>("slot_experts"), (std::vector<std::int32_t>{2, 0, -1, 2, 0, 2}));
  EXPECT_EQ(read<std::int32_t>("counts"), (std::vector<std::int32_t>{2, 0, 3}));
  EXPECT_EQ(read<std::int64_t>("offsets"), (std::vector<std::int64_t>{0, 2, 2, 6}));
  EXPECT_EQ(read<std::int32_t>("row_slot"), (std::vector<std::int32_t>{1, 4, 0, 3, 5, -1}));
  EXPECT_EQ(read<std::int32_t>("row_token"), (std::vector<std::int32_t>{0, 2, 0, 1, 2, -1}));
  EXPECT_EQ(read<std::int32_t>("row_expert"), (std::vector<std::int32_t>{0, 0, 2, 2, 2, -1}));
  EXPECT_EQ(read<std::int32_t>("slot_row"), (std::vector<std::int32_t>{2, 0, -1, 3, 1, 4}));
  make(golden_of("route_metadata", R"("experts": 3, "tile": 1, "token_offsets": [0, 0, 3, 3], "slots": [2, 0, 1])"));
  EXPECT_EQ(read<std::int64_t>("token_offsets"), (std::vector<std::int64_t>{0, 0, 3, 3}));
  EXPECT_EQ(read<std::int32_t>("row_token"), (std::vector<std::int32_t>{1, 1, 1}));
}

TEST_F(RouteGoldens, gradients_and_losses_are_the_references) {
  make(golden_of("route_backward", ties(R"("top_k": 2, "variants": ["sigmoid", "topk-softmax"])")));
  const std::vector<float> x = logits(), gradient = read<float>("gradient");
  EXPECT_EQ(output_names(info()),
            (std::vector<std::string>{"logits_gradient_sigmoid", "logits_gradient_topk_softmax"}));
  EXPECT_EQ(gradient, synthetic_gradient(40));
  EXPECT_GT(std::set<float>(gradient.begin(), gradient.end()).size(), 38U);
  for (const float g : gradient) EXPECT_TRUE(g >= -1 && g < 1) << g;
  for (const std::string name : {"sigmoid", "topk_softmax"}) {
    const Router router = router_of(name == "sigmoid" ? name : "topk-softmax", 2);
    const auto experts = read<std::int32_t>("experts_" + name);
    EXPECT_EQ(experts, route(router, view_of(x, 8)).experts);
    EXPECT_EQ(read<float>("logits_gradient_" + name), route_backward(router, view_of(x, 8), experts, gradient, 2));
  }
  make(golden_of("route_losses", ties(R"("top_k": 2, "variant": "sigmoid", "coefficient": "3c23d70a")")));
  const auto counts = read<std::int32_t>("counts");
  const RouterLoss balance = load_balancing_loss(view_of(x, 8), counts, 0.01F);
  EXPECT_EQ(read<float>("balance_loss"), std::vector<float>{balance.value});
  EXPECT_EQ(read<float>("balance_gradient"), balance.gradient);
  EXPECT_EQ(read<float>("z_loss"), std::vector<float>{router_z_loss(view_of(x, 8), 0.01F).value});
  EXPECT_EQ(read<float>("z_gradient"), router_z_loss(view_of(x, 8), 0.01F).gradient);
}

TEST_F(RouteGoldens, loads_are_what_one_expert_a_token_gives) {
  for (const std::string dtype : {"fp32", "bf16"}) {
    make(golden_of("route_round", R"("input": {"loads": [0, 3, 1, 7, 4], "dtype": ")" + dtype + R"("}, "top_k": 1,
                                  "variant": "softmax-topk", "tile": 4, "rules": ["nr-f", "nr-even"])"));
    EXPECT_EQ(read<std::int32_t>("chosen"), (std::vector<std::int32_t>{0, 3, 1, 7, 4}));
    EXPECT_EQ(read<std::int64_t>("offsets_nr_f"), (std::vector<std::int64_t>{0, 0, 4, 4, 12, 16}));
  }
}

TEST_F(RouteGoldens, what_does_not_fit_the_logits_is_refused_and_leaves_nothing) {
  const auto refused = [&](ErrorKind kind, const std::string& golden) {
    expect_error(kind, "golden g: ", [&] { make(golden); });
    EXPECT_FALSE(std::filesystem::exists(dir / "g.h5")) << golden;
  };
  refused(ErrorKind::usage, golden_of("route", ties(R"("top_k": 9)")));
  refused(ErrorKind::usage, golden_of("route", ties(R"("top_k": 1, "bias": ["0"])")));
  refused(ErrorKind::usage, golden_of("route", ties(R"("top_k": 1, "groups": 3, "groups_kept": 1)")));
  refused(ErrorKind::input, golden_of("route", R"("top_k": 1, "input": {"ties": "bf16", "rows": 2, "cols": 2,
                                               "plant": [[1, 1, "7fc0"]]})"));
  refused(ErrorKind::input, golden_of("route_metadata", R"("experts": 3, "tile": 1, "slots": [0, 1],
                                                        "token_offsets": [0, 1])"));
  refused(ErrorKind::usage, golden_of("route_metadata", R"("experts": 3, "tile": 1, "slots": [0, 1, 2], "width": 2)"));
}

}  // namespace
}  // namespace mxcheck

// Goldens about routers: what their specs may say, and what the files hold.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "goldens/format/reader.h"
#include "goldens/make/embedded.h"
#include "goldens/make/logits.h"
#include "goldens/make/make.h"
#include "numerics/bytes.h"
#include "reference/router/loss.h"
#include "reference/router/metadata.h"
#include "tests/goldens/make/route_specs.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::golden_of;
using test::suite_with;
using test::ties;

class RouteGoldens : public testing::Test {
 protected:
  void make(const std::string& golden) { make_suite(parse_suite(suite_with(golden), "t"), dir.path(), {}); }
  [[nodiscard]] GoldenInfo info() const { return GoldenReader(dir / "g.h5").info(); }
  template <class T>
  [[nodiscard]] std::vector<T> read(const std::string& dataset) const {
    return values_in<T>(GoldenReader(dir / "g.h5").read(dataset).data);
  }
  // The logits as the file has them.
  [[nodiscard]] std::vector<float> logits() const { return read<float>("logits"); }
  test::TemporaryDirectory dir;
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
  EXPECT_EQ(i.find("experts_sigmoid")->dtype, Dtype::i32);
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

// The experts and active experts of every layer, and its own router where a candidate has that.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "properties/core/limits.h"
#include "properties/gate/statement_run.h"
#include "properties/operations/router/operation.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/router/router.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/drawn.h"
#include "tests/properties/operations/router/some_cases.h"

namespace mxcheck {
namespace {

using test::LimitsOnly;

test::DrawnLayers drawn_of(const OperationInfo& limits, const std::vector<Variant>& variants, std::uint64_t seed) {
  return test::draw_layers(test::statement_named(limits.name + "_equals_the_reference"), limits, variants, Suite::quick,
                           seed);
}

TEST(RouteLayers, of_every_operation_every_layer_is_met_by_cases_that_can_be_posed) {
  for (const char* operation : test::kRouteOperations) {
    const test::DrawnLayers drawn = drawn_of({operation, "exact"}, askable_routes(operation), 1);
    EXPECT_TRUE(drawn.report.missed.empty()) << drawn.report.missed.front();
    EXPECT_EQ(drawn.report.layers.bins.size(), production_layers().size());
    for (const BinCount& layer : drawn.report.layers.bins) EXPECT_GE(layer.checked, 1) << layer.label;
    for (const Case& c : drawn.cases) {
      EXPECT_EQ(parse_case(to_text(c)), c);
      EXPECT_NO_THROW(operation_named(operation).check(c)) << to_text(c);
    }
  }
}

TEST(RouteLayers, a_layers_own_router_has_its_groups_bias_and_scale) {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    const test::DrawnLayers drawn = drawn_of({"route", "exact"}, askable_routes("route"), seed);
    EXPECT_TRUE(std::any_of(drawn.cases.begin(), drawn.cases.end(), [](const Case& c) {  // DeepSeek-V3
      return c.cols == 256 && route_case(c).top_k == 8 && route_case(c).groups == 8 && route_case(c).groups_kept == 4 &&
             route_case(c).scale == 2.5F && route_of(c.variant).router == "sigmoid" && route_of(c.variant).bias;
    }));
    // Kimi-K2's 8 of 384 is drawn for every variant, as a fault may be in one alone.
    for (const RouterVariant& v : all_router_variants()) {
      EXPECT_TRUE(std::any_of(drawn.cases.begin(), drawn.cases.end(), [&](const Case& c) {
        return c.cols == 384 && route_case(c).top_k == 8 && route_of(c.variant).router == v.name;
      })) << v.name;
    }
  }
}

TEST(RouteLayers, stay_within_limits) {
  const OperationInfo limits{"route", "exact", 64, 128, 1, 32};
  const test::DrawnLayers drawn = drawn_of(limits, askable_routes("route"), 1);
  EXPECT_FALSE(drawn.cases.empty());
  for (const Case& c : drawn.cases) EXPECT_TRUE(is_within_limits(c, limits)) << to_text(c);
  EXPECT_LT(drawn.report.layers.bins.size(), production_layers().size());
}

}  // namespace

// Random cases of routers, how often they are drawn among others, and simpler ones.

namespace {

// A library that offers everything, of any shape.
LimitsOnly all_routes() {
  std::vector<OperationInfo> operations;
  for (const char* operation : test::kRouteOperations) operations.push_back({operation, "exact"});
  return LimitsOnly(std::span<const OperationInfo>(operations));
}

// A random case; seeds take each operation in turn.
Case random_case(std::uint64_t seed) {
  static const LimitsOnly everything = all_routes();
  static const Statement kStatement = [] {
    Statement s;
    s.data = {Data::codes, Data::normal, Data::boundaries, Data::slots, Data::specials, Data::bits, Data::zeros};
    return s;
  }();
  static const std::vector<std::unique_ptr<Domain>> kDomains = [] {
    std::vector<std::unique_ptr<Domain>> all;
    for (const char* operation : test::kRouteOperations) {
      static std::map<std::string, std::vector<Variant>> variants;
      all.push_back(route_domain({kStatement, variants[operation] = askable_routes(operation), everything}));
    }
    return all;
  }();
  Draw draw(seed);
  const Domain& domain = *kDomains[seed % kDomains.size()];
  for (;;) {
    if (auto c = domain.make(Bins(domain.axes().size(), kAnyBin), domain.small_work(), draw)) return *c;
  }
}

TEST(SimplerRoutes, survives_the_way_to_text_and_back) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Case c = random_case(seed);
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
  }
}

TEST(SimplerRoutes, thousands_of_variants_do_not_crowd_out_others) {
  Variant quantize{"quantize"};
  blocks_of(quantize).block = {1, 32};
  std::vector<Variant> variants(300, quantize);
  EXPECT_EQ(VariantWeights(variants).total(), 300U);
  variants.insert(variants.end(), test::all_route_variants().begin(), test::all_route_variants().end());
  EXPECT_EQ(VariantWeights(variants).total(), 480U);
  Draw draw(1);
  const VariantWeights weights(variants);
  std::map<std::string, int> drawn;
  for (int i = 0; i < 4800; ++i) ++drawn[weights.draw(draw).operation];
  // Four standard deviations of a share of 4800 draws: n p (1 - p).
  const std::pair<const char*, int> expected[] = {{"quantize", 3000},      {"route", 400},
                                                  {"route_round", 800},    {"route_metadata", 200},
                                                  {"route_backward", 200}, {"route_balance_loss", 100},
                                                  {"route_z_loss", 100}};
  for (const auto& [operation, count] : expected) {
    EXPECT_NEAR(drawn[operation], count, 4 * std::sqrt(count * (1 - count / 4800.0))) << operation;
  }
}

TEST(SimplerRoutes, simpler_cases_are_possible_smaller_and_never_the_same) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Case c = random_case(seed);
    Finding finding;
    if (c.rows > 0 && reads_logits(c.variant)) finding.relevant = {{c.rows - 1, c.cols - 1, 0x3F80}};
    for (const Case& n : simpler_routes(c, finding)) {
      ASSERT_NE(n, c);
      ASSERT_NO_THROW(ASSERT_EQ(parse_case(to_text(n)), n) << to_text(n)) << to_text(n);
      ASSERT_LE(n.rows * n.cols * std::max<std::int64_t>(1, route_case(n).top_k),
                c.rows * c.cols * std::max<std::int64_t>(1, route_case(c).top_k) +
                    (route_case(c).top_k == 0 ? c.elements() : 0))
          << to_text(n);
    }
  }
}

TEST(SimplerRoutes, shrinks_to_the_threshold_from_which_a_case_fails) {
  const Case failing = parse_case(
      "op=route_round variant=sigmoid x=fp32 nan=refuse bias=0 limited=0 rule=up weights=raw rows=400 cols=40 k=6 "
      "tile=64 data=normal seed=99");
  const auto fails = [](const Case& n) {
    return n.rows >= 13 && n.cols >= 7 && route_case(n).top_k >= 2 && route_case(n).tile >= 5;
  };
  const Case c = test::shrunk(failing, fails);
  EXPECT_EQ(c.rows, 13);
  EXPECT_EQ(c.cols, 7);
  EXPECT_EQ(route_case(c).top_k, 2);
  EXPECT_EQ(route_case(c).tile, 5);
  EXPECT_EQ(c.data, Data::zeros);
  EXPECT_EQ(c.seed, 1U);
}

}  // namespace

// Variants that routers can be asked for, descriptors of their cases, and what those are counted for.

namespace {

constexpr const char* kExample =
    "op=route_round variant=softmax-topk x=bf16 nan=last bias=1 limited=1 rule=sr-f weights=raw rows=300 cols=16 k=4 "
    "groups=8 kept=2 tile=32 scale=2.5 step=4294967299 layer=1 stride=20 data=slots seed=7 plant=0,3:7f80 threads=2";

TEST(RouteCase, reads_an_example_with_every_field) {
  const Case c = parse_case(kExample);
  EXPECT_EQ(c.variant.operation, "route_round");
  const RouteVariant& v = route_of(c.variant);
  EXPECT_EQ(v.router, "softmax-topk");
  EXPECT_TRUE(v.nan_last && v.bias && v.limited && !v.renormalize);
  EXPECT_EQ(v.rule, "sr-f");
  EXPECT_EQ(route_case(c).top_k, 4);
  EXPECT_EQ(route_case(c).groups, 8);
  EXPECT_EQ(route_case(c).groups_kept, 2);
  EXPECT_EQ(route_case(c).tile, 32);
  EXPECT_EQ(route_case(c).scale, 2.5F);
  EXPECT_EQ(route_case(c).step, 4294967299U);
  EXPECT_EQ(route_case(c).layer, 1U);
  EXPECT_EQ(to_text(c), kExample);
  const Case ragged = parse_case("op=route_metadata rows=5 cols=3 k=0 tile=8 drops=10 data=codes seed=1");
  EXPECT_EQ(route_case(ragged).top_k, 0);
  EXPECT_EQ(route_case(ragged).drops, 10);
  constexpr const char* kLoss =
      "op=route_balance_loss x=fp32 rows=5 cols=3 scale=0.01 loads=large stride=4 data=codes seed=1";
  const Case loss = parse_case(kLoss);
  EXPECT_EQ(route_case(loss).loads, Loads::large);
  EXPECT_EQ(route_case(loss).scale, 0.01F);
  EXPECT_EQ(to_text(loss), kLoss);
}

TEST(RouteCase, variants_are_all_asked_for) {
  EXPECT_EQ(askable_routes("route").size(), 9U * 2 * 2 * 4);
  EXPECT_EQ(askable_routes("route_round").size(), 9U * 2 * 2 * 4 * (2 * 10 + 1));
  EXPECT_EQ(askable_routes("route_metadata").size(), 1U);
  EXPECT_EQ(askable_routes("route_backward").size(), 9U * 2 * 2);
  EXPECT_EQ(askable_routes("route_balance_loss").size(), 2U);
  EXPECT_EQ(askable_routes("route_z_loss").size(), 2U);
}

TEST(RouteCase, refuses_what_no_call_can_pose) {
  test::expect_refused({
      {"op=route variant=best rows=1 cols=1 k=1", "best"},
      {"op=route rows=1 cols=1 k=1", "variant is missing"},
      {"op=route variant=sigmoid x=fp16 rows=1 cols=1 k=1", "fp32 or bf16"},
      {"op=route variant=sigmoid nan=first rows=1 cols=1 k=1", "case field nan=first is not one of refuse, last"},
      {"op=route variant=sigmoid bias=2 rows=1 cols=1 k=1", "case field bias=2 is not one of 0, 1"},
      {"op=route variant=sigmoid rows=1 cols=4", "k is 1 to the number of experts"},
      {"op=route variant=sigmoid rows=1 cols=4 k=5", "k is 1 to the number of experts"},
      {"op=route variant=sigmoid rows=1 cols=4 k=-1", "k is 1 to the number of experts"},
      {"op=route variant=sigmoid rows=1 cols=4 k=2 groups=2 kept=1", "groups and kept go with limited=1"},
      {"op=route variant=sigmoid limited=1 rows=1 cols=4 k=2", "groups and kept go with limited=1"},
      {"op=route variant=sigmoid limited=1 rows=1 cols=4 k=2 groups=3 kept=1", "groups divide the experts"},
      {"op=route variant=sigmoid limited=1 rows=1 cols=4 k=3 groups=2 kept=1", "those kept hold k of them"},
      {"op=route variant=sigmoid rule=up rows=1 cols=4 k=1", "rule goes with route_round"},
      {"op=route variant=sigmoid scale=inf rows=1 cols=4 k=1", "scale is a number"},
      {"op=route variant=sigmoid experts=0,1 rows=1 cols=4 k=1", "no expert offsets"},
      {"op=route variant=sigmoid gather=2 rows=1 cols=4 k=1", "no gathered rows"},
      {"op=route variant=sigmoid rows=1073741824 cols=2 k=2", "more rows than int32"},
      {"op=route_round variant=sigmoid rows=1 cols=4 k=1", "rule goes with route_round"},
      {"op=route_round variant=sigmoid rule=nearest rows=1 cols=4 k=1", "nearest"},
      {"op=route_round variant=sigmoid rule=up weights=all rows=1 cols=4 k=1", "is not one of raw, renorm"},
      {"op=route_round variant=sigmoid rule=up tile=0 rows=1 cols=4 k=1", "tile is at least 1"},
      {"op=route_round variant=sigmoid rule=up tile=2097152 rows=1 cols=4 k=1", "at most 2^20"},
      {"op=route_round variant=sigmoid rule=up capacity=-1 rows=1 cols=4 k=1", "capacity at least 0"},
      {"op=route_balance_loss rows=1 cols=0", "there is an expert"},
      {"op=route_balance_loss rows=1 cols=1 loads=few", "is not one of equal, one, drawn, large"},
      {"op=route_z_loss rows=1 cols=1 loads=one", "loads are of route_balance_loss"},
      {"op=route variant=sigmoid rows=1 cols=1 k=1 loads=one", "loads are of route_balance_loss"},
      {"op=route_z_loss variant=sigmoid rows=1 cols=1", "a loss has neither a variant nor routes"},
      {"op=route_z_loss rows=1 cols=1 k=1", "a loss has neither a variant nor routes"},
      {"op=route_z_loss rows=1073741825 cols=1", "no more logits than int32"},
      {"op=route_metadata rows=1 cols=0 k=1", "there is an expert"},
      {"op=route_metadata rows=1 cols=1 k=-1", "k is 0 or more"},
      {"op=route_metadata rows=1 cols=1 k=1 drops=101", "drops a percentage"},
      {"op=route_metadata rows=1 cols=1 k=1 plant=0,0:0", "neither plants nor a stride"},
      {"op=route_metadata rows=1073741824 cols=1 k=2", "more slots or rows than int32"},
  });
}

}  // namespace
}  // namespace mxcheck

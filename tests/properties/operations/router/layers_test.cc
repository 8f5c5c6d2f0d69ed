// The experts and active experts of every layer, and its own router where a candidate has that.

#include "properties/operations/router/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/core/limits.h"
#include "properties/gate/coverage/layer_covering.h"
#include "properties/operations/router/operation.h"
#include "reference/router/router.h"
#include "tests/properties/drawn.h"
#include "tests/properties/limits_only.h"

namespace mxcheck {
namespace {

using test::LimitsOnly;

struct Drawn {
  std::vector<Case> cases;
  CoverageReport report;
};

Drawn drawn_of(const OperationInfo& limits, const std::vector<Variant>& variants, std::uint64_t seed) {
  const LimitsOnly process(limits);
  const auto domain = operation_named(limits.name)
                          .domain({test::statement_named(limits.name + "_equals_the_reference"), variants, process});
  LayerCovering layers(*domain, variants, domain->most_work(Suite::quick));
  Draw draw(seed);
  Drawn all{layers.cases(draw), {}};
  for (const Case& c : all.cases) layers.count(c, CaseFate::checked);
  layers.report(all.report);
  return all;
}

TEST(RouteLayers, of_every_operation_every_layer_is_met_by_cases_that_can_be_posed) {
  for (const char* operation : {"route", "route_round", "route_metadata", "route_backward"}) {
    const Drawn drawn = drawn_of({operation, "exact"}, askable_routes(operation), 1);
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
    const Drawn drawn = drawn_of({"route", "exact"}, askable_routes("route"), seed);
    EXPECT_TRUE(std::any_of(drawn.cases.begin(), drawn.cases.end(), [](const Case& c) {  // DeepSeek-V3
      return c.cols == 256 && route_case(c).top_k == 8 && route_case(c).groups == 8 && route_case(c).groups_kept == 4 &&
             route_case(c).scale == 2.5F && route_of(c.variant).router == "sigmoid" && route_of(c.variant).bias;
    }));
    // Of every variant, as a fault may be in one alone: Kimi-K2's 8 of 384.
    for (const RouterVariant& v : all_router_variants()) {
      EXPECT_TRUE(std::any_of(drawn.cases.begin(), drawn.cases.end(), [&](const Case& c) {
        return c.cols == 384 && route_case(c).top_k == 8 && route_of(c.variant).router == v.name;
      })) << v.name;
    }
  }
}

TEST(RouteLayers, stay_within_limits) {
  const OperationInfo limits{"route", "exact", 64, 128, 1, 32};
  const Drawn drawn = drawn_of(limits, askable_routes("route"), 1);
  EXPECT_FALSE(drawn.cases.empty());
  for (const Case& c : drawn.cases) EXPECT_TRUE(is_within_limits(c, limits)) << to_text(c);
  EXPECT_LT(drawn.report.layers.bins.size(), production_layers().size());
}

}  // namespace
}  // namespace mxcheck

// Slices of every layer's products, with one extent whole.

#include "properties/operations/matmul/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/gate/coverage/layer_covering.h"
#include "properties/operations/matmul/operation.h"
#include "tests/properties/drawn.h"
#include "tests/properties/limits_only.h"

namespace mxcheck {
namespace {

using test::LimitsOnly;

constexpr const char* kPromoted = "matmul:sm90_fp8+promote128";

struct Drawn {
  std::vector<Case> cases;
  CoverageReport report;
};

Drawn drawn_of(const OperationInfo& limits, Suite suite, std::uint64_t seed) {
  const LimitsOnly process(limits);
  const auto variants = askable_matmuls(limits.name);
  const auto domain =
      operation_named(limits.name).domain({test::statement_named("matmul_equals_its_contract"), variants, process});
  LayerCovering layers(*domain, variants, domain->most_work(suite));
  Draw draw(seed);
  Drawn all{layers.cases(draw), {}};
  for (const Case& c : all.cases) {
    layers.count(c, CaseFate::checked);
    EXPECT_LE(c.elements() * matmul_case(c).depth, domain->most_work(suite)) << to_text(c);
  }
  layers.report(all.report);
  return all;
}

bool has_few_rows(const Case& c) {
  for (std::size_t e = 1; e < c.experts.size(); ++e) {
    if (c.experts[e] - c.experts[e - 1] > 600) return false;
  }
  return true;
}

TEST(MatmulLayers, every_layer_is_met_by_cases_that_can_be_posed) {
  for (const Suite suite : {Suite::quick, Suite::full}) {
    const Drawn drawn = drawn_of({kPromoted, "sm90_fp8+promote128"}, suite, 1);
    EXPECT_TRUE(drawn.report.missed.empty()) << drawn.report.missed.front();
    EXPECT_EQ(drawn.report.layers.bins.size(), production_layers().size());
    for (const BinCount& layer : drawn.report.layers.bins) EXPECT_GE(layer.checked, 5) << layer.label;
    for (const Case& c : drawn.cases) {
      EXPECT_EQ(parse_case(to_text(c)), c);
      EXPECT_GT(c.rows * c.cols * matmul_case(c).depth, 0) << to_text(c);
      EXPECT_TRUE(has_few_rows(c)) << to_text(c);
    }
  }
}

TEST(MatmulLayers, products_have_a_k_an_n_and_as_many_experts_of_a_layer) {
  const Drawn drawn = drawn_of({kPromoted, "sm90_fp8+promote128"}, Suite::quick, 2);
  const auto any = [&](auto is_it) { return std::any_of(drawn.cases.begin(), drawn.cases.end(), is_it); };
  for (const int groups : {MXCHECK_DENSE, MXCHECK_ROWS}) {  // DeepSeek-V3's k and n, up and down
    const auto of = [groups](const Case& c) { return matmul_of(c.variant).groups == groups; };
    EXPECT_TRUE(any([&](const Case& c) { return of(c) && matmul_case(c).depth == 7168; }));
    EXPECT_TRUE(any([&](const Case& c) { return of(c) && matmul_case(c).depth == 2048; }));
    EXPECT_TRUE(any([&](const Case& c) { return of(c) && c.cols == 7168; }));
    EXPECT_TRUE(any([&](const Case& c) { return of(c) && c.cols == 4096; }));
  }
  for (const int groups : {MXCHECK_ROWS, MXCHECK_DEPTH}) {  // Kimi-K2's experts
    EXPECT_TRUE(any([&](const Case& c) { return matmul_of(c.variant).groups == groups && c.experts.size() == 385; }));
  }
  EXPECT_TRUE(any([&](const Case& c) { return matmul_of(c.variant).groups == MXCHECK_DEPTH && c.rows == 2048; }));
}

TEST(MatmulLayers, stay_within_limits_and_multiples) {
  const OperationInfo limits{kPromoted, "sm90_fp8+promote128", 4096, 4096, 1, 8};
  const Drawn drawn = drawn_of(limits, Suite::quick, 1);
  EXPECT_FALSE(drawn.cases.empty());
  for (const Case& c : drawn.cases) EXPECT_TRUE(is_within_limits(c, limits)) << to_text(c);
}

}  // namespace
}  // namespace mxcheck

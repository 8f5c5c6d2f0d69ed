// Every width of every layer is drawn, with few rows and with many.

#include "properties/operations/scaled_blocks/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/gate/coverage/layer_covering.h"
#include "properties/gate/coverage/triple_covering.h"
#include "tests/properties/drawn.h"
#include "tests/properties/limits_only.h"

namespace mxcheck {
namespace {

using test::LimitsOnly;

const Statement& equality() { return test::statement_named("quantize_equals_the_reference"); }

std::vector<Variant> quantize_variants() {
  std::vector<Variant> all;
  for (const char* format : {"e4m3", "e5m2", "e2m1"}) {
    for (const Format x : {Format::bf16, Format::fp32}) {
      all.push_back({"quantize", x});
      blocks_of(all.back()) = {*find_format(format), "rceil", {1, 32}, 0};
    }
  }
  return all;
}

std::vector<Case> layer_cases(const Domain& domain, std::span<const Variant> variants, Suite suite,
                              std::uint64_t seed) {
  LayerCovering layers(domain, variants, domain.most_work(suite));
  Draw draw(seed);
  return layers.cases(draw);
}

TEST(BlockLayers, of_every_layer_three_widths_are_met_with_every_format) {
  const LimitsOnly process({"quantize", "exact"});
  const auto variants = quantize_variants();
  const auto domain = operation_named("quantize").domain({equality(), variants, process});
  EXPECT_EQ(domain->layer_uses().size(), 6 * production_layers().size());
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    LayerCovering layers(*domain, variants, domain->most_work(Suite::quick));
    Draw draw(seed);
    for (const Case& c : layers.cases(draw)) {
      test::expect_well_formed(c);
      layers.count(c, CaseFate::checked);
    }
    CoverageReport r;
    layers.report(r);
    EXPECT_TRUE(r.missed.empty()) << r.missed.front();
    EXPECT_EQ(r.layer_uses.excluded, 0);
    EXPECT_EQ(r.layer_uses.checked, static_cast<std::int64_t>(3 * 6 * production_layers().size()));
    for (const BinCount& layer : r.layers.bins) EXPECT_GE(layer.checked, 6) << layer.label;
  }
}

// A library that is wrong at a width of gpt-oss alone, with a ragged last block of rows: not by luck.
TEST(BlockLayers, a_fault_at_one_layers_width_is_met_for_every_seed) {
  const LimitsOnly process({"quantize", "exact"});
  const auto variants = quantize_variants();
  const auto domain = operation_named("quantize").domain({equality(), variants, process});
  for (std::uint64_t seed = 1; seed < 11; ++seed) {
    const std::vector<Case> cases = layer_cases(*domain, variants, Suite::quick, seed);
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [](const Case& c) {
      return c.cols == 2880 && c.rows > 32 && c.rows % 32 != 0 && blocks_of(c.variant).format == Format::e5m2;
    }));
  }
}

TEST(BlockLayers, stay_within_limits_and_multiples_and_the_suites_work) {
  for (const OperationInfo& limits :
       {OperationInfo{"quantize", "exact", 64, 4096, 1, 1}, OperationInfo{"quantize", "exact", 0, 0, 128, 128}}) {
    const LimitsOnly process(limits);
    const auto variants = quantize_variants();
    const auto domain = operation_named("quantize").domain({equality(), variants, process});
    EXPECT_FALSE(domain->layer_uses().empty());
    for (const Suite suite : {Suite::quick, Suite::full}) {
      for (const Case& c : layer_cases(*domain, variants, suite, 1)) {
        EXPECT_TRUE(is_within_limits(c, limits)) << to_text(c);
        EXPECT_LE(c.elements(), domain->most_work(suite)) << to_text(c);
      }
    }
  }
}

// E5M2, 4096 columns or more, and x 4 bytes past a multiple of 64: triples meet it for every seed.
TEST(BlockTriples, three_axes_at_once_are_met_for_every_seed_and_pairs_meet_them_by_luck) {
  const LimitsOnly process({"quantize", "exact"});
  const auto variants = quantize_variants();
  const auto domain = operation_named("quantize").domain({equality(), variants, process});
  const auto is_it = [](const Case& c) {
    return blocks_of(c.variant).format == Format::e5m2 && c.cols >= 8192 && c.misaligned.inputs[0] == 4;
  };
  constexpr std::uint64_t kSeeds = 6;
  std::uint64_t by_pairs = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Covering covering("quantize", *domain, true, domain->most_work(Suite::quick));
    TripleCovering triples(*domain, covering);
    Draw draw(seed);
    bool met = false;
    for (const bool pairs : {false, true}) {
      for (const Case& c : covering.cases(pairs, draw)) met = met || is_it(c), covering.count(c, CaseFate::checked);
    }
    by_pairs += met ? 1 : 0;
    const std::vector<Case> cases = triples.cases(draw);
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), is_it));
    EXPECT_TRUE(
        std::all_of(cases.begin(), cases.end(), [](const Case& c) { return c.elements() <= kMostDrawnElements; }));
  }
  EXPECT_LT(by_pairs, kSeeds);
}

}  // namespace
}  // namespace mxcheck

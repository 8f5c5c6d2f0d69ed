// Cases that are made from the domain of the operations on scaled blocks.

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/candidate.h"
#include "numerics/scale/recipe.h"
#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/gate/coverage/parts.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "properties/process/candidate_process.h"
#include "reference/quantize/quantize.h"
#include "tests/properties/drawn.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::draw_case;
using test::expect_well_formed;
using test::statement_named;
using test::three_variants;

TEST(ScaledBlocksDomain, random_cases_are_well_formed_small_and_of_many_shapes) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  int experts = 0, strides = 0, misaligned = 0, empty = 0, long_rows = 0, many_experts = 0;
  Draw words(1);
  for (int i = 0; i < 3000; ++i) {
    const Case c = draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
    expect_well_formed(c);
    EXPECT_LE(c.elements(), 50'000);
    experts += c.experts.empty() ? 0 : 1, strides += c.stride > c.cols ? 1 : 0,
        misaligned += c.misaligned.any() ? 1 : 0;
    empty += c.elements() == 0 ? 1 : 0, long_rows += c.cols >= 1024 ? 1 : 0,
        many_experts += c.experts.size() > 9 ? 1 : 0;
  }
  for (const int count : {experts, strides, misaligned, empty, long_rows, many_experts}) EXPECT_GE(count, 60);  // 2 %
}

// A case is in the bin that was wanted of it, or there is no case.
TEST(ScaledBlocksDomain, a_case_is_in_the_bins_that_were_wanted) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const Statement& s = statement_named("quantize_equals_the_reference");
  const auto domain = operation_named("quantize").domain({s, three_variants(), process});
  Draw draw(5);
  int made = 0;
  for (std::size_t a = 0; a < domain->axes().size(); ++a) {
    for (int bin = 0; bin < static_cast<int>(domain->axes()[a].bins.size()); ++bin) {
      Bins wanted(domain->axes().size(), kAnyBin);
      wanted[a] = bin;
      const auto c = domain->make(wanted, domain->most_work(Suite::quick), draw);
      if (!c) continue;
      ++made;
      EXPECT_EQ(domain->bins_of(*c)[a], bin) << domain->axes()[a].name << " " << to_text(*c);
      EXPECT_EQ(parse_case(to_text(*c)), *c);
    }
  }
  EXPECT_GT(made, 150);
}

TEST(ScaledBlocksDomain, stays_within_the_candidates_multiples_and_limits) {
  for (const char* mode : {"multiples", "limits"}) {
    const test::Toy toy(mode);
    const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
    Draw words(2);
    int nonempty = 0;
    for (int i = 0; i < 1000; ++i) {
      const Case c = draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
      expect_well_formed(c);
      ASSERT_TRUE(is_within_limits(c, *process.operation("quantize"))) << to_text(c);
      nonempty += c.elements() > 0 ? 1 : 0;
    }
    EXPECT_GT(nonempty, 700);
  }
}

TEST(ScaledBlocksDomain, multiples_larger_than_the_usual_case_end_the_draw) {
  const test::Toy toy("huge_multiples");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  Draw words(3);
  for (int i = 0; i < 100; ++i)
    (void)draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
}

}  // namespace

// Shapes of scales, and scales in their layouts, against the reference's.

namespace {

using test::some_case;

const std::vector<std::int64_t> kExperts[] = {{}, {0, 150}, {0, 0, 31, 64, 150}, {0, 1, 2, 150, 150}};

TEST(ScaleGeometry, is_the_references) {
  for (BlockShape block : test::kBlockShapesOfTests) {
    for (const std::vector<std::int64_t>& experts : kExperts) {
      const Case c = some_case("quantize", block, MXCHECK_COMPACT, experts);
      const QuantizedTensor q = quantize(expand(c).view(), Format::e4m3, block, recipe_named("rceil"), experts);
      const ScaleGeometry g = scale_geometry(c, block);
      EXPECT_EQ(g.rows, q.scale_rows()) << to_text(block);
      EXPECT_EQ(g.cols, q.scale_cols());
      EXPECT_EQ(g.count(), static_cast<std::int64_t>(q.scales().size()));
      EXPECT_EQ(g.rows_of_expert, count_scale_rows_by_expert(q, experts));
      if (block.rows != 1 && block.cols != 1) {
        EXPECT_EQ(g.tiled_bytes, 0);
        continue;
      }
      const Case tiled = some_case("quantize", block, MXCHECK_TCGEN05, experts);
      const std::vector<std::uint8_t> tiles =
          in_layout(tiled, g, values_in<std::uint8_t>(q.scales().data), MXCHECK_TCGEN05);
      EXPECT_EQ(g.tiled_bytes, static_cast<std::int64_t>(tiles.size())) << to_text(block);
      EXPECT_EQ(to_compact(g, tiles, MXCHECK_TCGEN05), values_in<std::uint8_t>(q.scales().data));
      EXPECT_EQ(in_layout(c, g, values_in<std::uint8_t>(q.scales().data), MXCHECK_COMPACT),
                values_in<std::uint8_t>(q.scales().data));
      EXPECT_EQ(to_compact(g, values_in<std::uint8_t>(q.scales().data), MXCHECK_COMPACT),
                values_in<std::uint8_t>(q.scales().data));
    }
  }
}

TEST(ScaleGeometry, empty_shapes_have_empty_scales) {
  for (BlockShape block : test::kBlockShapesOfTests) {
    Case c = some_case("quantize", block, MXCHECK_COMPACT);
    c.rows = 0;
    EXPECT_EQ(scale_geometry(c, block).count(), 0);
    c.rows = 3, c.cols = 0;
    EXPECT_EQ(scale_geometry(c, block).count(), 0);
  }
}

TEST(ScaleGeometry, the_scale_row_of_a_row_restarts_at_each_experts_end) {
  const Case c = some_case("quantize", {32, 1}, MXCHECK_COMPACT, {0, 0, 33, 150});
  const ScaleGeometry g = scale_geometry(c, {32, 1});
  ASSERT_EQ(g.rows_of_expert, (std::vector<std::int64_t>{0, 2, 4}));
  for (const auto& [row, scale_row] : {std::pair{0, 0}, {31, 0}, {32, 1}, {33, 2}, {64, 2}, {65, 3}, {149, 5}})
    EXPECT_EQ(scale_row_of(c, g, row), scale_row) << row;
}

TEST(ScaleGeometry, padding_of_tiles_holds_the_pad_byte) {
  Case c = some_case("quantize", {1, 32}, MXCHECK_TCGEN05);  // 150 x 5 scales in 2 x 2 tiles of 512 bytes
  const ScaleGeometry g = scale_geometry(c, {1, 32});
  const std::vector<std::uint8_t> compact(static_cast<std::size_t>(g.count()), 1);
  const std::vector<std::uint8_t> tiles = in_layout(c, g, compact, MXCHECK_TCGEN05);
  ASSERT_EQ(tiles.size(), 2048U);
  EXPECT_EQ(std::count(tiles.begin(), tiles.end(), 1), 750);
  EXPECT_EQ(std::count(tiles.begin(), tiles.end(), 90), 2048 - 750);
}

TEST(ScaleGeometry, tensors_are_described_in_the_variants_layout) {
  const Case tiled = some_case("quantize", {1, 32}, MXCHECK_TCGEN05);
  const TensorInfo tiles = scales_info(tiled, "row scales", {1, 32});
  EXPECT_EQ(tiles.name, "row scales");
  EXPECT_EQ(tiles.rows * tiles.cols, 2048);
  const TensorInfo compact = compact_scales_info(tiled, {1, 32});
  EXPECT_EQ(compact.rows, 150);
  EXPECT_EQ(compact.cols, 5);
  EXPECT_EQ(compact.format, Format::e8m0);
  const TensorInfo codes = codes_info(tiled, "codes", {1, 0});
  EXPECT_EQ(codes.block_rows, 1);
  EXPECT_EQ(codes.block_cols, 131);  // a block of a whole row
  EXPECT_EQ(codes.format, Format::e4m3);
}

}  // namespace

// Every width of every layer is drawn, with few rows and with many.

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
  LayerCovering layers(domain, variants, domain.usual_work(suite), domain.most_work(suite));
  Draw draw(seed);
  return layers.cases(draw);
}

TEST(BlockLayers, of_every_layer_three_widths_are_met_with_every_format) {
  const LimitsOnly process({"quantize", "exact"});
  const auto variants = quantize_variants();
  const auto domain = operation_named("quantize").domain({equality(), variants, process});
  EXPECT_EQ(domain->layer_uses().size(), 6 * production_layers().size());
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    LayerCovering layers(*domain, variants, domain->usual_work(Suite::quick), domain->most_work(Suite::quick));
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

// Gaps between many short rows are more than the elements: gigabytes, where nothing bounds them.
TEST(ScaledBlocksDomain, x_spans_little_more_than_its_elements_under_a_column_stride_too) {
  const LimitsOnly process({"quantize", "exact+col_stride"});
  const auto variants = quantize_variants();
  const auto domain = operation_named("quantize").domain({equality(), variants, process});
  const std::int64_t most = domain->most_work(Suite::quick);
  int gaps = 0;
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    Covering covering("quantize", *domain, true, domain->usual_work(Suite::quick), most);
    Draw draw(seed);
    for (const bool pairs : {false, true}) {
      for (const Case& c : covering.cases(pairs, draw)) {
        const std::int64_t span = c.is_turned() ? c.cols * c.col_stride : c.rows_of_x() * std::max(c.cols, c.stride);
        EXPECT_LE(span, 7 * 4 * most) << to_text(c);  // steps of at most seven, and rows that the index may not reach
        gaps += c.col_stride != 0 && c.gap() > 1000 ? 1 : 0;
        covering.count(c, CaseFate::checked);
      }
    }
  }
  EXPECT_GT(gaps, 0);
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
    Covering covering("quantize", *domain, true, domain->usual_work(Suite::quick), domain->most_work(Suite::quick));
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

// Where a scale or an element stands, as reports say it.

namespace {

using test::some_case;

TEST(Place, a_block_ends_at_its_experts_end_and_at_the_edge) {
  const Case c = some_case("quantize", {32, 32}, MXCHECK_COMPACT, {0, 40, 40, 150});
  const ScaleGeometry g = scale_geometry(c, {32, 32});
  const BlockBounds cut = block_at_scale(c, g, 1, 4);
  EXPECT_EQ(cut.first_row, 32);
  EXPECT_EQ(cut.end_row, 40);
  EXPECT_EQ(cut.first_col, 128);
  EXPECT_EQ(cut.end_col, 131);
  const BlockBounds whole = block_at_scale(c, g, 2, 0);
  EXPECT_EQ(whole.first_row, 40);
  EXPECT_EQ(whole.end_row, 72);
  EXPECT_EQ(whole.end_col, 32);
}

TEST(Place, every_row_and_column_lies_in_the_block_of_its_scale) {
  for (BlockShape block : test::kBlockShapesOfTests) {
    const Case c = some_case("quantize", block, MXCHECK_COMPACT, {0, 7, 70, 150});
    const ScaleGeometry g = scale_geometry(c, block);
    for (std::int64_t row = 0; row < c.rows; ++row) {
      for (std::int64_t col = 0; col < c.cols; col += 13) {
        const BlockBounds b = block_at_scale(c, g, scale_row_of(c, g, row), col / block.width(c.cols));
        ASSERT_TRUE(row >= b.first_row && row < b.end_row && col >= b.first_col && col < b.end_col)
            << to_text(block) << ' ' << row << ' ' << col;
      }
    }
  }
}

// Scales that tell their number; whatever their layout has beside them is padding.
TEST(Place, the_scale_at_an_offset_of_the_tiles_is_the_one_that_the_layout_put_there) {
  for (BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}}) {
    Case c = some_case("quantize", block, MXCHECK_TCGEN05, {0, 9, 9, 40});
    c.rows = 40, c.cols = block.rows == 1 ? 160 : 6, blocks_case(c).pad = 255;
    const ScaleGeometry g = scale_geometry(c, block);
    ASSERT_LT(g.count(), 255);
    std::vector<std::uint8_t> numbers(static_cast<std::size_t>(g.count()));
    std::iota(numbers.begin(), numbers.end(), std::uint8_t{0});
    const std::vector<std::uint8_t> tiles = in_layout(c, g, numbers, MXCHECK_TCGEN05);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const ScalePlace place = scale_at(g, static_cast<std::int64_t>(i));
      ASSERT_EQ(place.row < 0 ? 255 : place.row * g.cols + place.col, tiles[i]) << to_text(block) << " byte " << i;
    }
  }
}

TEST(Place, lines_name_blocks_padding_and_steps) {
  const Case c = some_case("quantize", {1, 32}, MXCHECK_TCGEN05);
  const ScaleGeometry g = scale_geometry(c, {1, 32});
  EXPECT_EQ(place_text(3, 4), "(3, 4)");
  EXPECT_EQ(place_line(c, g, 2, 70), "place     element (0, 6) of block (2, 2)");
  Finding f;
  f.difference.emplace();
  f.difference->first.col = 16 + 2;  // row 1, scale 2
  f.difference->tensor.format = Format::e8m0;
  f.difference->first.expected = 127, f.difference->first.observed = 129, f.difference->first.ulps = 2;
  const ScalePlace place = explain_tiled_byte(g, f);
  EXPECT_EQ(place.row, 1);
  EXPECT_EQ(place.col, 2);
  EXPECT_EQ(f.element.back(), "layout    byte 18 of the tcgen05 tiles is the scale of block (1, 2)");
  f.difference->first.col = 512 + 1;  // the tile of column 4 alone
  EXPECT_LT(explain_tiled_byte(g, f).row, 0);
  EXPECT_EQ(f.element.back(), "layout    byte 513 of the tcgen05 tiles is padding");
  explain_words(f);
  EXPECT_NE(f.element.back().find("; 2 steps away"), std::string::npos) << f.element.back();
  f.difference->first.ulps = -1;
  explain_words(f);
  EXPECT_NE(f.element.back().find("; a NaN against a number"), std::string::npos) << f.element.back();
}

}  // namespace
}  // namespace mxcheck

// Where the groups of random cases begin along depth.

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/operations/matmul/layers.h"
#include "properties/operations/matmul/masked.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/shown.h"
#include "reference/common/matrix.h"
#include "tests/properties/drawn.h"

namespace mxcheck {
namespace {

// Scales of a group that begins within a block of 128 are its own. Libraries that load 16 bytes at a time offer such
// groups at multiples of 16 alone, which ends drawn at random are too seldom: a library that took the scales of the
// block where the group's columns lie held every statement.
TEST(MatmulDomain, groups_along_depth_begin_within_blocks_where_16_bytes_do) {
  const test::LimitsOnly process({"matmul:sm90_fp8+promote128", "sm90_fp8+promote128"});
  const auto variants = askable_matmuls("matmul:sm90_fp8+promote128");
  int within = 0, apart = 0, anywhere = 0, whole = 0;
  Draw draw(1);
  for (int i = 0; i < 4000; ++i) {
    const Case c = test::draw_case(test::statement_named("matmul_equals_its_contract"), variants, process, draw);
    if (matmul_of(c.variant).groups != MXCHECK_DEPTH || matmul_case(c).depth == 0) continue;
    EXPECT_NO_THROW(check_offsets(c.experts, matmul_case(c).depth)) << to_text(c);
    EXPECT_EQ(parse_case(to_text(c)), c);
    // c.experts[e] is where group e begins; an empty one has no scales.
    bool is_whole = true, is_16 = true, is_apart = false;
    std::int64_t blocks = 0;
    for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) {
      const std::int64_t first = c.experts[e], depth = c.experts[e + 1] - first;
      if (depth == 0) continue;
      is_whole = is_whole && first % 128 == 0;
      is_16 = is_16 && first % 16 == 0;
      is_apart = is_apart || first / 128 != blocks;  // the scales are not those of the first column's block
      blocks += (depth + 127) / 128;
    }
    whole += is_whole ? 1 : 0, anywhere += is_16 ? 0 : 1;
    within += is_16 && !is_whole ? 1 : 0, apart += is_16 && is_apart ? 1 : 0;
  }
  for (const int count : {within, apart, anywhere, whole}) EXPECT_GE(count, 80);  // 2 % of all
}

}  // namespace

// Slices of every layer's products, with one extent whole.

namespace {

using test::LimitsOnly;

constexpr const char* kPromotedOperation = "matmul:sm90_fp8+promote128";

test::DrawnLayers drawn_of(const OperationInfo& limits, Suite suite, std::uint64_t seed) {
  const test::DrawnLayers all = test::draw_layers(test::statement_named("matmul_equals_its_contract"), limits,
                                                  askable_matmuls(limits.name), suite, seed);
  for (const Case& c : all.cases) EXPECT_LE(c.elements() * matmul_case(c).depth, all.most_work) << to_text(c);
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
    const test::DrawnLayers drawn = drawn_of({kPromotedOperation, "sm90_fp8+promote128"}, suite, 1);
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
  const test::DrawnLayers drawn = drawn_of({kPromotedOperation, "sm90_fp8+promote128"}, Suite::quick, 2);
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
  const OperationInfo limits{kPromotedOperation, "sm90_fp8+promote128", 4096, 4096, 1, 8};
  const test::DrawnLayers drawn = drawn_of(limits, Suite::quick, 1);
  EXPECT_FALSE(drawn.cases.empty());
  for (const Case& c : drawn.cases) EXPECT_TRUE(is_within_limits(c, limits)) << to_text(c);
}

}  // namespace

// Random GEMMs, and simpler ones.

namespace {

constexpr const char* kContracts[] = {"sm90_fp8+promote128", "sm90_bf16+from_c", "sm90_bf16+decode"};

// A library that offers three contracts, of any shape or of multiples within limits.
LimitsOnly three_contracts(bool limited) {
  std::vector<OperationInfo> operations;
  for (const char* contract : kContracts) {
    OperationInfo o{std::string("matmul:") + contract, contract};
    if (limited) o.max_rows = 200, o.max_cols = 96, o.rows_multiple = 8, o.cols_multiple = 32;
    operations.push_back(o);
  }
  return LimitsOnly(std::span<const OperationInfo>(operations));
}

Case random_case(std::uint64_t seed, const LimitsOnly& library) {
  Statement s;
  s.data = {Data::codes, Data::normal, Data::boundaries, Data::slots, Data::specials, Data::bits, Data::zeros};
  Draw draw(seed);
  const std::vector<Variant> all = askable_matmuls(std::string("matmul:") + draw.pick(kContracts));
  return test::draw_case(s, all, library, draw);
}

TEST(SimplerMatmuls, cases_can_be_posed_and_are_small_enough) {
  const LimitsOnly library = three_contracts(false);
  bool deep = false, empty = false, gathered = false, added = false, grouped = false;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = random_case(seed, library);
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
    const std::int64_t depth = matmul_case(c).depth;
    ASSERT_LE(c.elements() * depth, 1 << 21) << to_text(c);
    const bool from_c = c.variant.operation.ends_with("+from_c");
    ASSERT_TRUE(!from_c || matmul_case(c).alpha == 1) << to_text(c);
    deep = deep || depth >= 1024, empty = empty || c.elements() == 0, gathered = gathered || c.gather != 0;
    added = added || matmul_case(c).adds, grouped = grouped || c.experts.size() > 3;
  }
  EXPECT_TRUE(deep && empty && gathered && added && grouped);
}

TEST(SimplerMatmuls, multiples_and_limits_are_kept) {
  const LimitsOnly library = three_contracts(true);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Case c = random_case(seed, library);
    ASSERT_TRUE(c.rows % 8 == 0 && c.rows <= 200 && c.cols % 32 == 0 && c.cols <= 96) << to_text(c);
  }
}

TEST(SimplerMatmuls, simpler_cases_can_be_posed_and_are_never_the_same_nor_larger) {
  const LimitsOnly library = three_contracts(false);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed, library);
    for (const Case& n : simpler_matmuls(c, {})) {
      ASSERT_NE(n, c);
      ASSERT_NO_THROW(ASSERT_EQ(parse_case(to_text(n)), n)) << to_text(n);
      ASSERT_LE(n.elements(), c.elements()) << to_text(n);
      ASSERT_LE(matmul_case(n).depth, matmul_case(c).depth) << to_text(n);
    }
  }
}

TEST(SimplerMatmuls, shrinks_to_the_threshold_from_which_a_case_fails) {
  const Case c = parse_case(
      "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 groups=rows "
      "d=fp32 rows=300 cols=90 depth=1280 experts=0,3,3,200,300 gather=310 data=normal seed=9 adds=1 alpha=-1");
  const auto fails = [](const Case& n) { return n.rows >= 13 && n.cols >= 7 && matmul_case(n).depth >= 129; };
  EXPECT_EQ(to_text(test::shrunk(c, fails)),
            "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 groups=rows "
            "d=fp32 rows=13 cols=7 depth=129 experts=0,13 data=zeros seed=1");
}

TEST(SimplerMatmuls, shrinks_masked_groups_to_the_one_that_fails) {
  const Case c = parse_case(
      "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 groups=masked "
      "d=fp32 rows=300 cols=90 depth=1280 counts=9,0,60,1,30 data=normal seed=9");
  const auto fails = [](const Case& n) { return std::ranges::max(matmul_case(n).counts) >= 13; };
  EXPECT_EQ(to_text(test::shrunk(c, fails)),
            "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 "
            "groups=masked d=fp32 rows=13 cols=1 depth=1 counts=13 data=zeros seed=1");
}

}  // namespace

// Masked groups: how many rows they have.

namespace {

TEST(MaskedGroups, have_the_first_kind_that_holds) {
  EXPECT_EQ(kind_of_counts({0, 0}, 4), Masked::none_has_rows);
  EXPECT_EQ(kind_of_counts({4, 4}, 4), Masked::all_full);
  EXPECT_EQ(kind_of_counts({1, 1}, 1), Masked::all_full);
  EXPECT_EQ(kind_of_counts({1, 1}, 4), Masked::one_row_each);
  EXPECT_EQ(kind_of_counts({4, 0, 1}, 4), Masked::some_empty);
  EXPECT_EQ(kind_of_counts({4, 3, 1}, 4), Masked::some_full);
  EXPECT_EQ(kind_of_counts({2, 3, 1}, 4), Masked::any);
}

TEST(MaskedGroups, of_every_kind_are_drawn_where_there_are_some) {
  Draw draw(1);
  for (int kind = 0; kind < kMaskedKinds; ++kind) {
    int drawn = 0;
    for (int i = 0; i < 200; ++i) {
      const auto counts = draw_counts(static_cast<Masked>(kind), 5, 130, draw);
      if (!counts) continue;
      ++drawn;
      EXPECT_EQ(kind_of_counts(*counts, 130), static_cast<Masked>(kind));
      EXPECT_LE(std::ranges::max(*counts), 130);
    }
    EXPECT_GE(drawn, 100) << masked_labels()[static_cast<std::size_t>(kind)];
  }
  EXPECT_FALSE(draw_counts(Masked::any, 3, 1, draw));
  EXPECT_EQ(draw_counts(Masked::all_full, 3, 1, draw), (std::vector<std::int64_t>{1, 1, 1}));
}

TEST(MaskedGroups, without_room_have_no_rows) {
  Draw draw(1);
  for (int kind = 0; kind < kMaskedKinds; ++kind) {
    for (int i = 0; i < 200; ++i) {
      const auto counts = draw_counts(static_cast<Masked>(kind), 7, 0, draw);
      if (!counts) continue;
      EXPECT_EQ(*counts, std::vector<std::int64_t>(7)) << masked_labels()[static_cast<std::size_t>(kind)];
    }
  }
}

TEST(MaskedGroups, rows_past_their_counts_are_open) {
  Case c = parse_case(
      "op=matmul:exact format=e4m3 format_b=e4m3 block=none block_b=none scales=none groups=masked d=bf16 rows=24 "
      "cols=5 depth=32 counts=3,0,8 data=codes seed=1");
  EXPECT_EQ(open_rows(c, 10), (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{30, 80}, {80, 160}}));
  c.rows = 13;
  fit_counts(c);
  EXPECT_EQ(c.rows, 12);
  EXPECT_EQ(matmul_case(std::as_const(c)).counts, (std::vector<std::int64_t>{3, 0, 4}));
}

}  // namespace

// Variants that a matmul under a contract can be asked for, and its corners.

namespace {

TEST(MatmulVariants, are_as_many_as_formats_scales_groups_and_types_of_d) {
  EXPECT_EQ(askable_matmuls("matmul:sm90_bf16").size(), 4U * 2);
  EXPECT_EQ(askable_matmuls("matmul:sm90_bf16+from_c").size(), 4U);  // C is what the sum starts from: D is FP32
  EXPECT_EQ(askable_matmuls("matmul:sm90_fp8").size(), 4U * 4 * 2);
  // None, and 2 types of scales on 2 pairs of blocks: 32 is no multiple of 128.
  EXPECT_EQ(askable_matmuls("matmul:sm90_fp8+promote128").size(), 4U * (1 + 2 * 2) * 4 * 2);
  EXPECT_EQ(askable_matmuls("matmul:sm90_fp8+promote32").size(), 4U * (1 + 2 * 3) * 4 * 2);
  EXPECT_EQ(askable_matmuls("matmul:sm90_bf16+decode").size(), (4U * (2 * 3) + 1) * 4 * 2);  // 1: NVFP4
}

TEST(MatmulVariants, scales_are_there_where_the_contract_has_them) {
  for (const Variant& v : askable_matmuls("matmul:sm90_fp8+promote128")) {
    const MatmulVariant& m = matmul_of(v);
    EXPECT_EQ(m.scales == MXCHECK_NO_SCALES, m.block == (BlockShape{0, 0}));
    EXPECT_TRUE(m.scales == MXCHECK_NO_SCALES || m.block.cols == 128) << to_text(v);
  }
  for (const Variant& v : askable_matmuls("matmul:sm90_bf16+decode"))
    EXPECT_NE(matmul_of(v).scales, MXCHECK_NO_SCALES) << to_text(v);
}

TEST(MatmulVariants, corners_can_be_posed_and_have_an_empty_group) {
  for (const Variant& v : askable_matmuls("matmul:sm90_fp8+promote128")) {
    for (const std::int64_t depth : {64, 256, 640}) {
      const Case c = matmul_corner(v, 90, 7, depth, Data::normal, 3);
      ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
      EXPECT_EQ(matmul_case(c).depth, depth);
      EXPECT_EQ(c.experts.empty(), matmul_of(v).groups == MXCHECK_DENSE || is_masked(v));
      const std::vector<std::int64_t> counts{30, 0, 1, 90};
      EXPECT_EQ(matmul_case(c).counts, is_masked(v) ? counts : std::vector<std::int64_t>());
      if (c.experts.empty()) continue;
      EXPECT_NE(std::adjacent_find(c.experts.begin(), c.experts.end()), c.experts.end());
      EXPECT_EQ(c.experts.back(), matmul_of(v).groups == MXCHECK_DEPTH ? depth : 90);
    }
  }
}

TEST(MatmulVariants, a_nan_of_the_tensor_core_is_compared_by_its_bits) {
  EXPECT_FALSE(any_nan_in_d_is_equal("matmul:sm90_fp8"));
  EXPECT_FALSE(any_nan_in_d_is_equal("matmul:sm90_bf16+from_c"));
  EXPECT_TRUE(any_nan_in_d_is_equal("matmul:sm90_fp8+promote128"));  // an FP32 addition's
  EXPECT_TRUE(any_nan_in_d_is_equal("matmul:ieee_fp32"));
  EXPECT_TRUE(any_nan_in_d_is_equal("matmul:exact"));
  Case c;
  c.variant.operation = "matmul:sm90_fp8";
  EXPECT_FALSE(any_nan_in_d_is_equal(c));
  matmul_case(c).adds = true;  // an FP32 addition's again
  EXPECT_TRUE(any_nan_in_d_is_equal(c));
  c.variant.operation = "matmul:sm90_bf16+from_c";
  EXPECT_FALSE(any_nan_in_d_is_equal(c));
}

// Sums of uniform codes of E4M3 are NaN in seven of eight at a k of 128.
TEST(MatmulShown, cases_of_outputs_that_are_all_nan_or_zero_are_small) {
  Case c;
  c.variant.operation = "matmul:sm90_fp8+promote128";
  c.rows = c.cols = 200, c.data = Data::bits;
  matmul_case(c).depth = 128;
  EXPECT_EQ(deepest_shown(c.variant, Data::bits), 128);
  EXPECT_TRUE(shows_sums(c));
  matmul_case(c).depth = 129;
  EXPECT_FALSE(shows_sums(c));
  c.data = Data::normal;
  EXPECT_TRUE(shows_sums(c));
  matmul_case(c).alpha = 0;
  EXPECT_FALSE(shows_sums(c));
  c.rows = 20;
  EXPECT_TRUE(shows_sums(c));
  matmul_case(c).alpha = 1, matmul_case(c).depth = 0, c.rows = 200;
  EXPECT_FALSE(shows_sums(c));
  c.cols = 1;
  EXPECT_TRUE(shows_sums(c));
}

}  // namespace
}  // namespace mxcheck

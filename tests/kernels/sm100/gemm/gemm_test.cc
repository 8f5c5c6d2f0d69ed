// The GEMM kernels for Blackwell under each schedule: the reference's bits, and nothing that the PTX ISA forbids.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/sm100/gemm/params.h"
#include "kernels/sm100/gemm/tile.h"
#include "tests/kernels/sm100/gemm/comparison.h"

namespace mxcheck::sm100::gemm {
namespace {

using emulation::sm100::LaunchOptions, emulation::sm100::Schedule;

const std::vector<Variant> kVariants = {{1, 64, 2},  {1, 128, 2}, {1, 192, 1}, {1, 256, 1},
                                        {2, 128, 1}, {2, 192, 2}, {2, 256, 1}};

std::vector<LaunchOptions> schedules(std::uint64_t seed) {
  return {{.schedule = Schedule::eager, .strict = true},
          {.schedule = Schedule::lazy, .seed = seed, .strict = true},
          {.schedule = Schedule::random, .seed = seed, .strict = true}};
}

void expect_clean(const Case& c, const Variant& v, const LaunchOptions& o) {
  const Outcome outcome = compare(c, v, o);
  EXPECT_TRUE(outcome.clean()) << "tile " << v.cta_group << " x " << v.n << ", " << name_of(o.schedule) << ", seed "
                               << o.seed << text_of(outcome);
}

void expect_all_clean(const std::vector<Case>& cases, const std::vector<Variant>& variants, std::uint64_t seed) {
  for (const Variant& v : variants) {
    for (const LaunchOptions& o : schedules(seed)) {
      for (const Case& c : cases) expect_clean(c, v, o);
    }
  }
}

// Groups of no row, of one, of 130: each begins scales of its own.
Case of_rows(Operands operands, std::int64_t n) {
  Case c{.operands = operands, .m = 300, .n = n, .k = 160, .grouping = Grouping::rows, .bf16 = true, .seed = 5};
  c.offsets = {0, 0, 1, 131, 131, 300};
  return c;
}

// Weight gradients: groups of no k, of 32, of three and a quarter blocks, of a last one that is no multiple of 32.
Case of_depth(Operands operands) {
  Case c{.operands = operands, .m = 140, .n = 200, .k = 496, .grouping = Grouping::depth, .adds = true, .seed = 8};
  c.offsets = {0, 32, 32, 448, 496}, c.alpha = 0.3F;
  return c;
}

// Rows and columns past the last tile, and a k that ends inside of a block of 128 and of 32.
TEST(Sm100Gemm, dense_tiles_have_the_references_bits_under_every_schedule) {
  expect_all_clean({{.m = 200, .n = 330, .k = 464, .seed = 3}}, kVariants, 7);
}

TEST(Sm100Gemm, groups_of_rows_have_the_references_bits) {
  expect_all_clean({of_rows(Operands::scaled, 72)}, kVariants, 11);
}

TEST(Sm100Gemm, groups_of_depth_have_the_references_bits) {
  expect_all_clean({of_depth(Operands::scaled)}, kVariants, 13);
}

TEST(Sm100Gemm, formats_alpha_c_and_special_values_have_the_references_bits) {
  for (const bool e5m2_a : {false, true}) {
    for (const bool e5m2_b : {false, true}) {
      Case c{.m = 130, .n = 130, .k = 256, .e5m2_a = e5m2_a, .e5m2_b = e5m2_b, .bf16 = e5m2_a, .seed = 21};
      c.adds = e5m2_b, c.alpha = -1.7F, c.specials = true;
      for (const Variant& v : {Variant{1, 128, 2}, Variant{2, 128, 1}})
        expect_clean(c, v, {.schedule = Schedule::random, .seed = 2});
    }
  }
}

// More tiles than CTAs: accumulators and stages are used again and again.
TEST(Sm100Gemm, random_schedules_change_nothing) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Case c{.m = 384, .n = 128, .k = 1152, .seed = seed};
    expect_clean(c, {1, 64, 1}, {.schedule = Schedule::random, .seed = seed, .strict = true});
    expect_clean(c, {2, 128, 1}, {.schedule = Schedule::random, .seed = seed, .strict = true});
  }
}

// BF16: blocks of 64 along k, mma of 16.
TEST(Sm100Gemm, bf16_has_the_references_bits) {
  Case depth = of_depth(Operands::half);
  depth.offsets = {0, 16, 16, 448, 496};
  expect_all_clean({{.operands = Operands::half, .m = 200, .n = 330, .k = 232, .adds = true, .seed = 3},
                    of_rows(Operands::half, 72),
                    depth},
                   {{1, 128, 2}, {2, 256, 1}}, 17);
}

// FP8 under FP32 scales: partial sums of 128 leave tensor memory one by one.
TEST(Sm100Gemm, promoted_fp8_has_the_references_bits) {
  Case depth = of_depth(Operands::promoted);
  depth.block_b = 1;
  expect_all_clean({{.operands = Operands::promoted, .m = 200, .n = 330, .k = 464, .adds = true, .seed = 3},
                    of_rows(Operands::promoted, 200),
                    depth},
                   {{1, 128, 2}, {2, 128, 1}}, 19);
}

// NVFP4: an mma of 64 of k, whose scales are a word each; k of 928 ends half way in one, and a group of 32 is half of
// one.
TEST(Sm100Gemm, nvfp4_has_the_references_bits) {
  Case rows = of_rows(Operands::nvfp4, 200);
  rows.specials = true;
  Case depth = of_depth(Operands::nvfp4);
  depth.k = 928, depth.offsets = {0, 64, 64, 896, 928};
  Case gathered = of_rows(Operands::nvfp4, 72);
  gathered.rows_a = 700, gathered.k = 544;
  expect_all_clean(
      {{.operands = Operands::nvfp4, .m = 200, .n = 330, .k = 928, .adds = true, .seed = 3}, rows, depth, gathered},
      {{1, 64, 2}, {1, 128, 2}, {2, 256, 1}}, 31);
}

// Rows of A by an index: fewer than the product has, so that most occur several times, or more, of which some must not
// be read.
TEST(Sm100Gemm, gathered_rows_have_the_references_bits) {
  Case rows = of_rows(Operands::scaled, 72);
  rows.rows_a = 700, rows.e5m2_a = true;
  expect_all_clean({{.m = 200, .n = 330, .k = 272, .rows_a = 61, .adds = true, .seed = 3}, rows}, kVariants, 23);
}

// The row of FP32 scales is that of A, not that of the product.
TEST(Sm100Gemm, gathered_rows_of_bf16_and_promoted_fp8_have_the_references_bits) {
  for (const Operands operands : {Operands::half, Operands::promoted}) {
    Case rows = of_rows(operands, 200);
    rows.rows_a = 100, rows.adds = true;
    expect_all_clean(
        {{.operands = operands, .m = 270, .n = 136, .k = 240, .rows_a = 400, .alpha = 0.3F, .seed = 3}, rows},
        {{1, 128, 2}, operands == Operands::half ? Variant{2, 256, 1} : Variant{2, 128, 1}}, 29);
  }
}

// A single row for all, and more tiles than CTAs.
TEST(Sm100Gemm, gathered_rows_under_random_schedules_change_nothing) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Case c{.m = 384, .n = 128, .k = 640, .rows_a = seed == 1 ? 1 : 500, .seed = seed};
    expect_clean(c, {1, 64, 1}, {.schedule = Schedule::random, .seed = seed, .strict = true});
    expect_clean(c, {2, 128, 1}, {.schedule = Schedule::random, .seed = seed, .strict = true});
  }
}

TEST(Sm100Gemm, what_cannot_be_gathered_is_refused) {
  alignas(16) static std::uint8_t bytes[1024]{};
  const std::int32_t rows[8]{};
  const std::int64_t offsets[2] = {0, 32};
  Problem p;
  p.a = p.b = p.scales_a = p.scales_b = bytes, p.chunks_a = p.chunks_b = p.chunks_k = 1, p.d = bytes;
  p.m = p.n = 8, p.k = 32, p.gathered_rows = rows, p.rows_a = 1;
  Params params;
  EXPECT_EQ(make_params<Single128>(p, params), "");
  EXPECT_EQ(params.gathered_rows, rows);
  p.rows_a = 0;
  EXPECT_EQ(make_params<Single128>(p, params), "tensor map: extent[1] is 0; 1 to 2^32 are possible");
  p.gathered_rows = nullptr;
  EXPECT_EQ(make_params<Single128>(p, params), "");
  EXPECT_EQ(params.gathered_rows, nullptr);
  p.gathered_rows = rows, p.rows_a = 1, p.grouping = Grouping::depth, p.offsets = offsets;
  EXPECT_EQ(make_params<Single128>(p, params), "rows of A are not gathered of groups along depth");
}

TEST(Sm100Gemm, rows_of_nvfp4_are_whole_bytes) {
  alignas(16) static std::uint8_t bytes[1024]{};
  Problem p;
  p.operands = Operands::nvfp4;
  p.a = p.b = p.scales_a = p.scales_b = bytes, p.chunks_a = p.chunks_b = p.chunks_k = 1, p.d = bytes;
  p.m = p.n = 8, p.k = 64;
  Params params;
  EXPECT_EQ(make_params<Nvfp4Single64>(p, params), "");
  p.k = 63;
  EXPECT_EQ(make_params<Nvfp4Single64>(p, params), "rows of FP4 are whole bytes: k is 63, and must be even");
}

TEST(Sm100Gemm, results_do_not_depend_on_the_checks) {
  const Case c{.m = 200, .n = 200, .k = 256, .seed = 4};
  for (const bool checks : {true, false}) {
    expect_clean(c, {1, 128, 1}, {.schedule = Schedule::lazy, .checks = checks});
    expect_clean(c, {2, 256, 1}, {.schedule = Schedule::random, .seed = 9, .checks = checks});
  }
}

TEST(Sm100Gemm, a_tile_that_there_is_not_is_refused) {
  EXPECT_EQ(compare({.m = 8, .n = 8, .k = 32}, {2, 64, 1}, {}).emulated.error, "no tile of 64 columns by 2 CTAs");
}

}  // namespace
}  // namespace mxcheck::sm100::gemm

// Shapes of scales, and scales in their layouts, against the reference's.

#include "properties/operations/scaled_blocks/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/scale/recipe.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "reference/quantize/quantize.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
namespace {

using test::some_case;

const std::vector<std::int64_t> kExperts[] = {{}, {0, 150}, {0, 0, 31, 64, 150}, {0, 1, 2, 150, 150}};

TEST(ScaleGeometry, is_the_references) {
  for (BlockShape block : test::kBlockShapesOfTests) {
    for (const std::vector<std::int64_t>& experts : kExperts) {
      const Case c = some_case("quantize", block, MXCHECK_COMPACT, experts);
      const Quantized q = quantize(expand(c).view(), Format::e4m3, block, recipe_named("rceil"), experts);
      const ScaleGeometry g = scale_geometry(c, block);
      EXPECT_EQ(g.rows, q.scale_rows) << to_text(block);
      EXPECT_EQ(g.cols, q.scale_cols);
      EXPECT_EQ(g.count(), static_cast<std::int64_t>(q.scales.size()));
      EXPECT_EQ(g.rows_of_expert, count_scale_rows_by_expert(q, experts));
      if (block.rows != 1 && block.cols != 1) {
        EXPECT_EQ(g.tiled_bytes, 0);
        continue;
      }
      const Case tiled = some_case("quantize", block, MXCHECK_TCGEN05, experts);
      const std::vector<std::uint8_t> tiles = in_layout(tiled, g, q.scales, MXCHECK_TCGEN05);
      EXPECT_EQ(g.tiled_bytes, static_cast<std::int64_t>(tiles.size())) << to_text(block);
      EXPECT_EQ(to_compact(g, tiles, MXCHECK_TCGEN05), q.scales);
      EXPECT_EQ(in_layout(c, g, q.scales, MXCHECK_COMPACT), q.scales);
      EXPECT_EQ(to_compact(g, q.scales, MXCHECK_COMPACT), q.scales);
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
}  // namespace mxcheck

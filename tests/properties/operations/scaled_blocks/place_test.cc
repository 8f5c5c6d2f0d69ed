// Where a scale or an element stands, as reports say it.

#include "properties/operations/scaled_blocks/place.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/candidate.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
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

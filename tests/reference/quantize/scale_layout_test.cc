#include "reference/quantize/scale_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "numerics/bytes.h"
#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::thrown_by;
using Bytes = std::vector<std::uint8_t>;
using Sizes = std::vector<std::int64_t>;

// Distinct neighbours: 251 is prime and no divisor of any stride here.
Bytes distinct_scales(std::int64_t count) {
  Bytes scales(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(i % 251);
  return scales;
}

// The tiles written in the order of memory: tile rows, tile columns, 32 lanes of 16 bytes, the four quarters of a tile
// side by side in a lane, four scales of a row in a quarter.
Bytes tiles_in_memory_order(const Bytes& compact, std::int64_t rows, std::int64_t cols, std::uint8_t pad) {
  Bytes out;
  for (std::int64_t tile_row = 0; tile_row < rows; tile_row += 128) {
    for (std::int64_t tile_col = 0; tile_col < cols; tile_col += 4) {
      for (std::int64_t lane = 0; lane < 32; ++lane) {
        for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
          for (std::int64_t k = 0; k < 4; ++k) {
            const std::int64_t i = tile_row + quarter * 32 + lane;
            const std::int64_t j = tile_col + k;
            out.push_back(i < rows && j < cols ? compact[static_cast<std::size_t>(i * cols + j)] : pad);
          }
        }
      }
    }
  }
  return out;
}

// The bytes of the words in the order of memory: four columns at a time, down the rows padded to four.
Bytes words_in_memory_order(const Bytes& compact, std::int64_t rows, std::int64_t cols, std::uint8_t pad) {
  Bytes out;
  for (std::int64_t j = 0; j < cols; j += 4) {
    for (std::int64_t i = 0; i < rows || i % 4 != 0; ++i) {
      for (std::int64_t k = 0; k < 4; ++k) {
        const bool inside = i < rows && j + k < cols;
        out.push_back(inside ? compact[static_cast<std::size_t>(i * cols + j + k)] : pad);
      }
    }
  }
  return out;
}

Bytes in_memory_order(ScaleLayout layout, const Bytes& compact, std::int64_t rows, std::int64_t cols,
                      std::uint8_t pad) {
  if (layout == ScaleLayout::compact) return compact;
  return layout == ScaleLayout::tcgen05 ? tiles_in_memory_order(compact, rows, cols, pad)
                                        : words_in_memory_order(compact, rows, cols, pad);
}

std::string text_of(ScaleLayout layout, std::int64_t rows, std::int64_t cols) {
  return std::string(to_text(layout)) + " of " + std::to_string(rows) + " x " + std::to_string(cols);
}

const std::vector<std::pair<std::int64_t, std::int64_t>> kLayoutShapes{
    {128, 4}, {261, 9}, {1, 1},  {300, 13}, {512, 16}, {127, 3}, {129, 5},
    {32, 4},  {33, 1},  {1, 40}, {0, 4},    {4, 0},    {0, 0}};

TEST(Tcgen05, puts_scales_where_the_formula_says) {
  struct Case {
    std::int64_t row, col, cols, offset;
  };
  const std::vector<Case> cases{{0, 0, 4, 0},      {0, 1, 4, 1},      {0, 3, 4, 3},     {1, 0, 4, 16},
                                {31, 0, 4, 496},   {32, 0, 4, 4},     {64, 0, 4, 8},    {96, 0, 4, 12},
                                {127, 3, 4, 511},  {0, 4, 5, 512},    {128, 0, 4, 512}, {128, 0, 5, 1024},
                                {128, 0, 9, 1536}, {260, 8, 9, 4160}, {33, 5, 8, 533},  {299, 12, 13, 5812}};
  for (const Case& c : cases) {
    for (const std::int64_t rows : {c.row + 1, c.row + 1000}) {
      EXPECT_EQ(layout_offset(ScaleLayout::tcgen05, c.row, c.col, rows, c.cols), c.offset)
          << c.row << ", " << c.col << " of " << c.cols;
    }
  }
}

TEST(Tcgen05, is_padded_to_128_rows_and_4_columns) {
  const auto bytes = [](std::int64_t rows, std::int64_t cols) {
    return layout_bytes(ScaleLayout::tcgen05, {{rows}, cols});
  };
  EXPECT_EQ(bytes(128, 4), 512);
  EXPECT_EQ(bytes(261, 9), 384 * 12);
  EXPECT_EQ(bytes(1, 1), 512);
  EXPECT_EQ(bytes(300, 13), 384 * 16);
  EXPECT_EQ(bytes(512, 16), 512 * 16);
  EXPECT_EQ(bytes(0, 9), 0);
  EXPECT_EQ(bytes(9, 0), 0);
}

TEST(Deepgemm, packs_four_scales_of_a_row_into_a_little_endian_word) {
  const Bytes compact{1, 2, 3, 4, 5,  //
                      6, 7, 8, 9, 10};
  const std::vector<std::uint32_t> expected{0x04030201, 0x09080706, 0xEEEEEEEE, 0xEEEEEEEE,
                                            0xEEEEEE05, 0xEEEEEE0A, 0xEEEEEEEE, 0xEEEEEEEE};
  const ScaleShape shape{{2}, 5};
  EXPECT_EQ(layout_bytes(ScaleLayout::deepgemm, shape), 32);
  const Bytes bytes = to_layout(ScaleLayout::deepgemm, shape, compact, 0xEE);
  EXPECT_EQ(values_in<std::uint32_t>(std::as_bytes(std::span(bytes))), expected);
  EXPECT_EQ(from_layout(ScaleLayout::deepgemm, shape, bytes), compact);
}

TEST(ScaleLayout, holds_the_scales_and_pad_bytes_alone_and_comes_back) {
  for (const auto& [name, layout] : kScaleLayouts) {
    for (const auto& [rows, cols] : kLayoutShapes) {
      const Bytes compact = distinct_scales(rows * cols);
      for (const int pad : {0, 127, 254, 255}) {
        const auto byte = static_cast<std::uint8_t>(pad);
        const Bytes out = to_layout(layout, {{rows}, cols}, compact, byte);
        EXPECT_EQ(static_cast<std::int64_t>(out.size()), layout_bytes(layout, {{rows}, cols}));
        EXPECT_EQ(out, in_memory_order(layout, compact, rows, cols, byte)) << text_of(layout, rows, cols);
        EXPECT_EQ(from_layout(layout, {{rows}, cols}, out), compact) << text_of(layout, rows, cols);
      }
    }
  }
}

TEST(ScaleLayout, gives_every_scale_an_offset_of_its_own) {
  for (const auto& [name, layout] : kScaleLayouts) {
    for (const auto& [rows, cols] : kLayoutShapes) {
      const Bytes compact = distinct_scales(rows * cols);
      const Bytes out = to_layout(layout, {{rows}, cols}, compact);
      std::vector<int> used(out.size(), 0);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
          const auto at = static_cast<std::size_t>(layout_offset(layout, i, j, rows, cols));
          ++used.at(at);
          EXPECT_EQ(out.at(at), compact[static_cast<std::size_t>(i * cols + j)]) << text_of(layout, rows, cols);
        }
      }
      EXPECT_EQ(std::count(used.begin(), used.end(), 1), rows * cols);
      EXPECT_EQ(std::accumulate(used.begin(), used.end(), std::int64_t{0}), rows * cols);
    }
  }
}

TEST(ScaleLayout, has_names) {
  for (const auto& [name, layout] : kScaleLayouts) {
    EXPECT_EQ(to_text(layout), name);
    EXPECT_EQ(find_scale_layout(name), layout);
  }
  EXPECT_EQ(find_scale_layout("swizzled"), std::nullopt);
}

// Pieces of an expert, each laid out as if alone; for column blocks the transpose of each.
TEST(ExpertScales, are_laid_out_one_padded_piece_after_the_other) {
  for (const Sizes& counts : std::vector<Sizes>{{5}, {0}, {}, {0, 3, 0, 129, 1, 0}, {128, 128}, {4, 4, 4}}) {
    for (const std::int64_t scale_cols : {1, 9, 131}) {
      for (const bool row_blocks : {true, false}) {
        const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
        const Bytes compact = distinct_scales(rows * scale_cols);
        for (const auto& [name, layout] : kScaleLayouts) {
          const ScaleShape shape{counts, scale_cols, row_blocks ? BlockShape{1, 32} : BlockShape{32, 1}};
          Bytes expected;
          std::int64_t at = 0;
          for (const std::int64_t n : counts) {
            Bytes piece(compact.begin() + at, compact.begin() + at + n * scale_cols);
            at += n * scale_cols;
            const bool turned = !row_blocks && layout != ScaleLayout::compact;
            if (turned) piece = test::transposed(piece, n, scale_cols);
            const Bytes laid_out =
                in_memory_order(layout, piece, turned ? scale_cols : n, turned ? n : scale_cols, 0xAB);
            expected.insert(expected.end(), laid_out.begin(), laid_out.end());
          }
          EXPECT_EQ(to_layout(layout, shape, compact, 0xAB), expected) << name;
          EXPECT_EQ(layout_bytes(layout, shape), static_cast<std::int64_t>(expected.size())) << name;
          EXPECT_EQ(from_layout(layout, shape, expected), compact) << name;
        }
      }
    }
  }
}

// From the input on: the tiles of the column blocks are those of the row blocks of each expert's transpose.
TEST(ExpertScales, of_column_blocks_are_those_of_row_blocks_of_the_transpose) {
  const std::int64_t rows = 300;
  const std::int64_t cols = 70;
  const auto values = test::random_values(rows * cols, 23);
  const test::TestMatrix m = test::fp32_matrix(rows, cols, values);
  const Sizes offsets{0, 100, 100, 133, 300};
  const Recipe rceil = recipe_named("rceil");
  const Quantized col = quantize(m.view(), Format::e4m3, {32, 1}, rceil, offsets);
  const Sizes counts = count_scale_rows_by_expert(col, offsets);
  EXPECT_EQ(counts, (Sizes{4, 0, 2, 6}));
  Bytes expected;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const std::int64_t n = offsets[e + 1] - offsets[e];
    const std::vector<float> part(values.begin() + offsets[e] * cols, values.begin() + offsets[e + 1] * cols);
    const test::TestMatrix t = test::fp32_matrix(cols, n, test::transposed(part, n, cols));
    const Quantized row = quantize(t.view(), Format::e4m3, {1, 32}, rceil);
    const Bytes tiles = to_layout(ScaleLayout::tcgen05, scale_shape(row), row.scales, 7);
    expected.insert(expected.end(), tiles.begin(), tiles.end());
  }
  EXPECT_EQ(to_layout(ScaleLayout::tcgen05, scale_shape(col, offsets), col.scales, 7), expected);
}

TEST(ScaleLayout, but_compact_is_for_blocks_of_one_row_or_one_column) {
  const Bytes scales{1, 2, 3, 4, 5, 6};
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{1, 0}, BlockShape{1, 1}, {32, 1}, {0, 1}}) {
    EXPECT_TRUE(has_layout(ScaleLayout::tcgen05, block) && has_layout(ScaleLayout::deepgemm, block));
    EXPECT_EQ(layout_bytes(ScaleLayout::deepgemm, {{2}, 9, block}), block.rows == 1 ? 4 * 12 : 12 * 4);
  }
  for (const BlockShape block : {BlockShape{32, 32}, BlockShape{128, 128}, BlockShape{0, 0}}) {
    EXPECT_EQ(to_layout(ScaleLayout::compact, {{2}, 3, block}, scales), scales);
    const auto thrown = thrown_by([&] { to_layout(ScaleLayout::tcgen05, {{2}, 3, block}, scales); });
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    EXPECT_EQ(thrown.text, "scales of " + to_text(block) +
                               " blocks: layout tcgen05 holds those of blocks of one row or one column; use layout "
                               "compact");
    EXPECT_EQ(thrown_by([&] { from_layout(ScaleLayout::deepgemm, {{2}, 3, block}, scales); }).kind, ErrorKind::usage);
  }
}

TEST(ScaleLayout, refuses_sizes_that_do_not_fit_and_says_which_would) {
  constexpr ScaleLayout kTiles = ScaleLayout::tcgen05;
  constexpr ScaleLayout kWords = ScaleLayout::deepgemm;
  const Bytes six(6);
  const Bytes tile(512);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto text = [](auto call) {
    const auto thrown = thrown_by(call);
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    return thrown.text;
  };
  const auto size = [&](ScaleLayout layout, const ScaleShape& shape) {
    return text([&] { (void)layout_bytes(layout, shape); });
  };
  EXPECT_EQ(text([&] { to_layout(kTiles, {{2}, 4}, six); }), "6 bytes of compact scales: these shapes ask for 8");
  EXPECT_EQ(text([&] { to_layout(kWords, {{2}, 4}, six); }), "6 bytes of compact scales: these shapes ask for 8");
  EXPECT_EQ(text([&] {
              from_layout(kTiles, {{129}, 4}, tile);
            }),
            "512 bytes of tcgen05 scales: these shapes ask for 1024");
  EXPECT_EQ(text([&] { from_layout(kWords, {{5}, 4}, six); }), "6 bytes of deepgemm scales: these shapes ask for 32");
  EXPECT_EQ(text([&] { to_layout(kTiles, {{-2}, -3}, six); }), "scales of 0 x -3: sizes must be 0 or more");
  EXPECT_EQ(text([&] { to_layout(kTiles, {{2, -1}, 6}, six); }), "scales of -1 x 6: sizes must be 0 or more");
  EXPECT_EQ(size(kTiles, {{-1}, 4}), "scales of -1 x 4: sizes must be 0 or more");
  EXPECT_EQ(size(kWords, {{4}, -1}), "scales of 0 x -1: sizes must be 0 or more");
  EXPECT_EQ(size(kTiles, {{most}, 1}),
            "tcgen05 scales: 72057594037927936 x 128 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(size(kTiles, {{most / 1024}, 1023}),
            "tcgen05 scales: 9007199254740992 x 1024 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(size(kWords, {{most}, 1}),
            "deepgemm scales: 2305843009213693952 x 4 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(size(kTiles, {{most, 1}, 1}),
            "scale rows: 9223372036854775807 + 1 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(size(ScaleLayout::compact, {{most}, 2}),
            "scales: 9223372036854775807 x 2 is beyond 2^63 - 1; use smaller dimensions");
  for (const auto& [name, layout] : kScaleLayouts) {
    EXPECT_EQ(text([l = layout] { (void)layout_offset(l, 0, 4, 1, 4); }), "scale (0, 4) of 1 x 4: must lie within");
    EXPECT_EQ(text([l = layout] { (void)layout_offset(l, -1, 0, 1, 4); }), "scale (-1, 0) of 1 x 4: must lie within");
  }
}

}  // namespace
}  // namespace mxcheck

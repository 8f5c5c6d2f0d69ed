#include "reference/quantize/scale_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::thrown_by;
using Bytes = std::vector<std::uint8_t>;
using Words = std::vector<std::uint32_t>;
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

// The words in the order of memory: four columns at a time, down the rows padded to four.
Words words_in_memory_order(const Bytes& compact, std::int64_t rows, std::int64_t cols, std::uint8_t pad) {
  Words out;
  for (std::int64_t j = 0; j < cols; j += 4) {
    for (std::int64_t i = 0; i < rows || i % 4 != 0; ++i) {
      std::uint32_t word = 0;
      for (std::int64_t k = 3; k >= 0; --k) {
        const bool inside = i < rows && j + k < cols;
        word = word << 8 | (inside ? compact[static_cast<std::size_t>(i * cols + j + k)] : pad);
      }
      out.push_back(word);
    }
  }
  return out;
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
    EXPECT_EQ(tcgen05_offset(c.row, c.col, c.cols), c.offset) << c.row << ", " << c.col << " of " << c.cols;
  }
}

TEST(Tcgen05, is_padded_to_128_rows_and_4_columns) {
  EXPECT_EQ(tcgen05_bytes(128, 4), 512);
  EXPECT_EQ(tcgen05_bytes(261, 9), 384 * 12);
  EXPECT_EQ(tcgen05_bytes(1, 1), 512);
  EXPECT_EQ(tcgen05_bytes(300, 13), 384 * 16);
  EXPECT_EQ(tcgen05_bytes(512, 16), 512 * 16);
  EXPECT_EQ(tcgen05_bytes(0, 9), 0);
  EXPECT_EQ(tcgen05_bytes(9, 0), 0);
}

TEST(Tcgen05, holds_the_scales_and_pad_bytes_alone_and_comes_back) {
  for (const auto& [rows, cols] : kLayoutShapes) {
    const Bytes compact = distinct_scales(rows * cols);
    for (const int pad : {0, 127, 254, 255}) {
      const Bytes tiled = to_tcgen05(compact, rows, cols, static_cast<std::uint8_t>(pad));
      EXPECT_EQ(static_cast<std::int64_t>(tiled.size()), tcgen05_bytes(rows, cols));
      EXPECT_EQ(tiled, tiles_in_memory_order(compact, rows, cols, static_cast<std::uint8_t>(pad)))
          << rows << "x" << cols;
      EXPECT_EQ(from_tcgen05(tiled, rows, cols), compact) << rows << "x" << cols;
    }
  }
}

TEST(Tcgen05, gives_every_scale_an_offset_of_its_own) {
  for (const auto& [rows, cols] : kLayoutShapes) {
    std::vector<int> used(static_cast<std::size_t>(tcgen05_bytes(rows, cols)), 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) ++used.at(static_cast<std::size_t>(tcgen05_offset(i, j, cols)));
    }
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), rows * cols);
    EXPECT_EQ(std::accumulate(used.begin(), used.end(), std::int64_t{0}), rows * cols);
  }
}

TEST(Deepgemm, packs_four_scales_of_a_row_into_a_little_endian_word) {
  const Bytes compact{1, 2, 3, 4, 5,  //
                      6, 7, 8, 9, 10};
  const Words expected{0x04030201, 0x09080706, 0xEEEEEEEE, 0xEEEEEEEE, 0xEEEEEE05, 0xEEEEEE0A, 0xEEEEEEEE, 0xEEEEEEEE};
  EXPECT_EQ(deepgemm_words(2, 5), 8);
  EXPECT_EQ(to_deepgemm(compact, 2, 5, 0xEE), expected);
  EXPECT_EQ(from_deepgemm(expected, 2, 5), compact);
}

TEST(Deepgemm, holds_the_scales_and_pad_bytes_alone_and_comes_back) {
  for (const auto& [rows, cols] : kLayoutShapes) {
    const Bytes compact = distinct_scales(rows * cols);
    for (const int pad : {0, 127, 255}) {
      const Words packed = to_deepgemm(compact, rows, cols, static_cast<std::uint8_t>(pad));
      EXPECT_EQ(static_cast<std::int64_t>(packed.size()), deepgemm_words(rows, cols));
      EXPECT_EQ(packed, words_in_memory_order(compact, rows, cols, static_cast<std::uint8_t>(pad)))
          << rows << "x" << cols;
      EXPECT_EQ(from_deepgemm(packed, rows, cols), compact) << rows << "x" << cols;
    }
  }
}

// Pieces of an expert, each laid out as if alone; for column blocks the transpose of each.
TEST(ExpertScales, are_laid_out_one_padded_piece_after_the_other) {
  for (const Sizes& counts : std::vector<Sizes>{{5}, {0}, {}, {0, 3, 0, 129, 1, 0}, {128, 128}, {4, 4, 4}}) {
    for (const std::int64_t scale_cols : {1, 9, 131}) {
      for (const bool row_blocks : {true, false}) {
        const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
        const Bytes compact = distinct_scales(rows * scale_cols);
        Bytes tiles;
        Words words;
        std::int64_t at = 0;
        for (const std::int64_t n : counts) {
          Bytes piece(compact.begin() + at, compact.begin() + at + n * scale_cols);
          at += n * scale_cols;
          if (!row_blocks) piece = test::transposed(piece, n, scale_cols);
          const std::int64_t r = row_blocks ? n : scale_cols;
          const std::int64_t c = row_blocks ? scale_cols : n;
          const Bytes t = tiles_in_memory_order(piece, r, c, 0xAB);
          const Words w = words_in_memory_order(piece, r, c, 0xAB);
          tiles.insert(tiles.end(), t.begin(), t.end());
          words.insert(words.end(), w.begin(), w.end());
        }
        EXPECT_EQ(scales_to_tcgen05(compact, scale_cols, row_blocks, counts, 0xAB), tiles);
        EXPECT_EQ(scales_tcgen05_bytes(scale_cols, row_blocks, counts), static_cast<std::int64_t>(tiles.size()));
        EXPECT_EQ(scales_from_tcgen05(tiles, scale_cols, row_blocks, counts), compact);
        EXPECT_EQ(scales_to_deepgemm(compact, scale_cols, row_blocks, counts, 0xAB), words);
        EXPECT_EQ(scales_deepgemm_words(scale_cols, row_blocks, counts), static_cast<std::int64_t>(words.size()));
        EXPECT_EQ(scales_from_deepgemm(words, scale_cols, row_blocks, counts), compact);
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
    const Bytes tiles = to_tcgen05(row.scales, row.scale_rows, row.scale_cols, 7);
    expected.insert(expected.end(), tiles.begin(), tiles.end());
  }
  EXPECT_EQ(scales_to_tcgen05(col.scales, col.scale_cols, has_row_blocks(col.block), counts, 7), expected);
}

TEST(ScaleLayout, knows_row_blocks_from_column_blocks_and_refuses_the_rest) {
  EXPECT_TRUE(has_row_blocks({1, 32}));
  EXPECT_TRUE(has_row_blocks({1, 0}));
  EXPECT_TRUE(has_row_blocks({1, 1}));
  EXPECT_FALSE(has_row_blocks({32, 1}));
  EXPECT_FALSE(has_row_blocks({0, 1}));
  for (const BlockShape block : {BlockShape{32, 32}, BlockShape{128, 128}, BlockShape{0, 0}}) {
    const auto thrown = thrown_by([&] { has_row_blocks(block); });
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    EXPECT_EQ(thrown.text, "scales of " + to_text(block) +
                               " blocks: the tcgen05 and DeepGEMM layouts hold blocks of one row or one column; use "
                               "the compact layout");
  }
}

TEST(ScaleLayout, refuses_sizes_that_do_not_fit_and_says_which_would) {
  const Bytes six(6);
  const Bytes tile(512);
  const Words words(4);
  const Sizes negative{2, -1};
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto text = [](auto call) {
    const auto thrown = thrown_by(call);
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    return thrown.text;
  };
  EXPECT_EQ(text([&] { to_tcgen05(six, 2, 4, 0); }), "6 compact scales: these shapes ask for 8");
  EXPECT_EQ(text([&] { to_deepgemm(six, 2, 4, 0); }), "6 compact scales: these shapes ask for 8");
  EXPECT_EQ(text([&] { from_tcgen05(tile, 129, 4); }), "512 values of tcgen05 tiles: these shapes ask for 1024");
  EXPECT_EQ(text([&] { from_deepgemm(words, 5, 4); }), "4 values of DeepGEMM words: these shapes ask for 8");
  EXPECT_EQ(text([&] { to_tcgen05(six, -2, -3, 0); }), "scales of 0 x -3: sizes must be 0 or more");
  EXPECT_EQ(text([&] { scales_to_tcgen05(six, 6, true, negative, 0); }), "scales of -1 x 6: sizes must be 0 or more");
  EXPECT_EQ(text([&] { tcgen05_bytes(-1, 4); }), "scales of -1 x 4: sizes must be 0 or more");
  EXPECT_EQ(text([&] { deepgemm_words(4, -1); }), "scales of 4 x -1: sizes must be 0 or more");
  EXPECT_EQ(text([&] { tcgen05_bytes(most, 4); }),
            "tcgen05 tiles: 72057594037927936 x 128 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(text([&] { tcgen05_bytes(most / 1024, 4096); }),
            "tcgen05 tiles: 9007199254740992 x 4096 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(text([&] { deepgemm_words(most, 1); }),
            "DeepGEMM words: 2305843009213693952 x 4 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(text([&] {
              scales_tcgen05_bytes(1, true, Sizes{most, 1});
            }),
            "scale rows: 9223372036854775807 + 1 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(text([&] { tcgen05_offset(0, 4, 4); }),
            "scale (0, 4) of 4 columns: the row must be 0 or more, the column 0 to columns - 1");
  EXPECT_EQ(text([&] { tcgen05_offset(-1, 0, 4); }),
            "scale (-1, 0) of 4 columns: the row must be 0 or more, the column 0 to columns - 1");
}

}  // namespace
}  // namespace mxcheck

#include "reference/quantize/scale_layout.h"
#include "numerics/bytes.h"
#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
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
  using Case = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  const std::vector<Case> cases{{0, 0, 4, 0},      {0, 1, 4, 1},      {0, 3, 4, 3},     {1, 0, 4, 16},
                                {31, 0, 4, 496},   {32, 0, 4, 4},     {64, 0, 4, 8},    {96, 0, 4, 12},
                                {127, 3, 4, 511},  {0, 4, 5, 512},    {128, 0, 4, 512}, {128, 0, 5, 1024},
                                {128, 0, 9, 1536}, {260, 8, 9, 4160}, {33, 5, 8, 533},  {299, 12, 13, 5812}};
  for (const auto& [row, col, cols, offset] : cases) {
    for (const std::int64_t rows : {row + 1, row + 1000})
      EXPECT_EQ(layout_offset(ScaleLayout::tcgen05, row, col, rows, cols), offset)
          << row << ", " << col << " of " << cols;
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
            if (turned) piece = transposed(piece, n, scale_cols);
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

// The tiles of the column blocks, made of the input, are those of the row blocks of each expert's transpose.
TEST(ExpertScales, of_column_blocks_are_those_of_row_blocks_of_the_transpose) {
  const std::int64_t rows = 300;
  const std::int64_t cols = 70;
  const auto values = random_values(rows * cols, 23);
  const TestMatrix m = fp32_matrix(rows, cols, values);
  const Sizes offsets{0, 100, 100, 133, 300};
  const Recipe rceil = recipe_named("rceil");
  const QuantizedTensor col = quantize(m.view(), Format::e4m3, {32, 1}, rceil, offsets);
  const Sizes counts = count_scale_rows_by_expert(col, offsets);
  EXPECT_EQ(counts, (Sizes{4, 0, 2, 6}));
  Bytes expected;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const std::int64_t n = offsets[e + 1] - offsets[e];
    const std::vector<float> part(values.begin() + offsets[e] * cols, values.begin() + offsets[e + 1] * cols);
    const TestMatrix t = fp32_matrix(cols, n, transposed(part, n, cols));
    const QuantizedTensor row = quantize(t.view(), Format::e4m3, {1, 32}, rceil);
    const Bytes tiles =
        to_layout(ScaleLayout::tcgen05, scale_shape(row), values_in<std::uint8_t>(row.scales().data), 7);
    expected.insert(expected.end(), tiles.begin(), tiles.end());
  }
  EXPECT_EQ(to_layout(ScaleLayout::tcgen05, scale_shape(col, offsets), values_in<std::uint8_t>(col.scales().data), 7),
            expected);
}

TEST(ScaleLayout, but_compact_is_for_blocks_of_one_row_or_one_column) {
  const Bytes scales{1, 2, 3, 4, 5, 6};
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{1, 0}, BlockShape{1, 1}, {32, 1}, {0, 1}}) {
    EXPECT_TRUE(has_layout(ScaleLayout::tcgen05, block) && has_layout(ScaleLayout::deepgemm, block));
    EXPECT_EQ(layout_bytes(ScaleLayout::deepgemm, {{2}, 9, block}), block.rows == 1 ? 4 * 12 : 12 * 4);
  }
  for (const BlockShape block : {BlockShape{32, 32}, BlockShape{128, 128}, BlockShape{0, 0}}) {
    EXPECT_EQ(to_layout(ScaleLayout::compact, {{2}, 3, block}, scales), scales);
    expect_thrown(ErrorKind::usage,
                  "scales of " + to_text(block) +
                      " blocks: layout tcgen05 holds those of blocks of one row or one column; use layout "
                      "compact",
                  [&] {
                    to_layout(ScaleLayout::tcgen05, {{2}, 3, block}, scales);
                  });
    EXPECT_EQ(thrown_by([&] { from_layout(ScaleLayout::deepgemm, {{2}, 3, block}, scales); }).kind, ErrorKind::usage);
  }
}

TEST(ScaleLayout, refuses_sizes_that_do_not_fit_and_says_which_would) {
  constexpr ScaleLayout kTiles = ScaleLayout::tcgen05;
  constexpr ScaleLayout kWords = ScaleLayout::deepgemm;
  const Bytes six(6);
  const Bytes tile(512);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto text = [](auto call) { return text_thrown(ErrorKind::usage, call); };
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

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

// One row in one block; scales of bytes, or, where there are none, one in FP32.
QuantizedTensor row_of(Format element, const std::vector<std::uint16_t>& codes, const std::vector<std::uint8_t>& scales,
                       const std::vector<float>& scales_fp32 = {}) {
  const Format scale = scales_fp32.empty() ? Format::e8m0 : Format::fp32;
  QuantizedTensor q = make_quantized(element, 1, std::ssize(codes), {1, 0}, scale, 1, 1);
  for (std::size_t i = 0; i < codes.size(); ++i) q.codes.set_code(i, codes[i]);
  q.scales().set_code(0, scales_fp32.empty() ? scales.at(0) : std::bit_cast<std::uint32_t>(scales_fp32[0]));
  return q;
}

struct ValueCase {
  Format element;
  std::uint16_t code;
  std::uint8_t scale;
  std::uint32_t fp32;  // bits expected
  std::uint16_t bf16;
};

TEST(Dequantize, gives_the_values_of_codes_times_scales) {
  const std::vector<ValueCase> cases{
      {Format::e4m3, 0x38, 127, 0x3F800000, 0x3F80},    // 1
      {Format::e4m3, 0xFE, 128, 0xC4600000, 0xC460},    // -448 * 2
      {Format::e4m3, 0x80, 127, 0x80000000, 0x8000},    // -0
      {Format::e4m3, 0x7F, 127, 0x7FC00000, 0x7FC0},    // NaN
      {Format::e4m3, 0xFF, 127, 0x7FC00000, 0x7FC0},    // -NaN: the sign is not kept
      {Format::e4m3, 0x38, 255, 0x7FC00000, 0x7FC0},    // NaN scale
      {Format::e4m3, 0x00, 255, 0x7FC00000, 0x7FC0},    // NaN scale, zero code
      {Format::e4m3, 0x38, 0, 0x00400000, 0x0040},      // 2^-127: a subnormal in both
      {Format::e4m3, 0x01, 0, 0x00002000, 0x0000},      // 2^-136: below half of bf16's smallest
      {Format::e4m3, 0x0C, 0, 0x00018000, 0x0002},      // 1.5 * 2^-133: bf16 has 1 and 2, the tie goes to the even code
      {Format::e4m3, 0x12, 0, 0x00028000, 0x0002},      // 2.5 * 2^-133, likewise
      {Format::e4m3, 0x0D, 0, 0x0001A000, 0x0002},      // 1.625 * 2^-133
      {Format::e4m3, 0x7E, 254, 0x7F800000, 0x7F80},    // 448 * 2^127: Inf
      {Format::e4m3, 0xFE, 254, 0xFF800000, 0xFF80},    // -Inf
      {Format::e4m3, 0x7E, 246, 0x7F600000, 0x7F60},    // 448 * 2^119: finite
      {Format::e5m2, 0x7C, 127, 0x7F800000, 0x7F80},    // Inf code
      {Format::e5m2, 0x7B, 127, 0x47600000, 0x4760},    // 57344
      {Format::e2m1, 0x7, 127, 0x40C00000, 0x40C0},     // 6
      {Format::e2m1, 0x9, 126, 0xBE800000, 0xBE80},     // -0.5 / 2
      {Format::e2m3, 0x1F, 127, 0x40F00000, 0x40F0},    // 7.5
      {Format::e3m2, 0x1F, 127, 0x41E00000, 0x41E0},    // 28
      {Format::mxint8, 0x80, 127, 0xC0000000, 0xC000},  // -2: unused by encoders, but a value
      {Format::mxint8, 0x7F, 127, 0x3FFE0000, 0x3FFE},  // 127/64
      {Format::e5m6, 0x7BF, 127, 0x477E0000, 0x477E},   // 65024
      {Format::e5m6, 0x001, 127, 0x35800000, 0x3580},   // 2^-20
  };
  for (const ValueCase& c : cases) {
    const QuantizedTensor q = row_of(c.element, {c.code}, {c.scale});
    EXPECT_EQ(bits_of(dequantize(q)), std::vector{c.fp32}) << spec(c.element).name << " " << c.code;
    EXPECT_EQ(dequantize_bf16(q), std::vector{c.bf16}) << spec(c.element).name << " " << c.code;
  }
}

// 9 * 1871417 = 2^24 + 2^16 + 1: just above the middle of two bf16, and rounded onto it by a float on the way.
TEST(Dequantize, rounds_to_bf16_once_from_the_exact_product) {
  const QuantizedTensor q = row_of(Format::e4m3, {0x51}, {}, {1871417.0F});
  EXPECT_EQ(static_cast<std::int64_t>(dequantize(q).at(0)), 16842752);  // the float loses the last 1
  EXPECT_EQ(dequantize_bf16(q), std::vector<std::uint16_t>{0x4B81});    // 2^24 + 2^17, not 2^24
}

TEST(Dequantize, takes_special_fp32_scales_as_numbers) {
  const std::vector<std::uint16_t> codes{0x38, 0xB8, 0x00};
  EXPECT_EQ(bits_of(dequantize(row_of(Format::e4m3, codes, {}, {std::nanf("")}))),
            (std::vector<std::uint32_t>(3, 0x7FC00000)));
  EXPECT_EQ(bits_of(dequantize(row_of(Format::e4m3, codes, {}, {kInf}))),
            (std::vector<std::uint32_t>{0x7F800000, 0xFF800000, 0x7FC00000}));
  EXPECT_EQ(bits_of(dequantize(row_of(Format::e4m3, codes, {}, {0.0F}))),
            (std::vector<std::uint32_t>{0, 0x80000000, 0}));
}

// Every code of every format under every scale, against ldexp of the code's value.
TEST(Dequantize, is_exact_then_rounded_once_for_every_code_and_byte) {
  for (const Format element : kQuantizedFormats) {
    const std::uint32_t count = 1U << spec(element).bits;
    std::vector<std::uint16_t> codes(count);
    for (std::uint32_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint16_t>(i);
    for (int byte = 0; byte < 255; ++byte) {
      const QuantizedTensor q = row_of(element, codes, {static_cast<std::uint8_t>(byte)});
      const std::vector<float> fp32 = dequantize(q);
      const std::vector<std::uint16_t> bf16 = dequantize_bf16(q);
      for (std::uint32_t i = 0; i < count; ++i) {
        const double exact = std::ldexp(decode(element, i), byte - 127);
        if (std::isnan(exact)) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(fp32[i]), 0x7FC00000U);
          ASSERT_EQ(bf16[i], 0x7FC0);
          continue;
        }
        ASSERT_EQ(std::bit_cast<std::uint32_t>(fp32[i]), std::bit_cast<std::uint32_t>(static_cast<float>(exact)));
        // bf16 by its neighbours: nothing is nearer than what was returned (codes hold at most 7 bits: no ties but
        // among subnormals, which are steps of 2^-133 with even codes even).
        const double value = decode(Format::bf16, bf16[i]);
        if (std::isfinite(value) && std::abs(exact) < 0x1p-126) {
          ASSERT_EQ(value, std::nearbyint(exact * 0x1p133) * 0x1p-133) << i << " " << byte;
        } else if (std::isfinite(value)) {
          ASSERT_EQ(value, exact) << i << " " << byte;
        } else {
          ASSERT_GE(std::abs(exact), 0x1p128) << i << " " << byte;
        }
      }
    }
  }
}

TEST(Dequantize, inverts_quantize_on_representable_values) {
  for (const Format element : kQuantizedFormats) {
    for (const BlockShape block : kShapes) {
      const std::int64_t rows = 130;
      const std::int64_t cols = 37;
      std::vector<float> values;
      const std::uint32_t magnitudes = spec(element).max_code + 1;
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(rows * cols); ++i) {
        const double v = decode(element, i * 7919 % magnitudes) * 0x1p-10;
        values.push_back(static_cast<float>(i % 3 == 0 ? -v : v));
      }
      // Every block holds the format's largest value, so that its scale is 2^-10.
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const std::int64_t r = i / cols % (block.rows == 0 ? rows : block.rows);
        const std::int64_t c = i % cols % (block.cols == 0 ? cols : block.cols);
        if (r == 0 && c == 0)
          values[static_cast<std::size_t>(i)] = static_cast<float>(decode(element, spec(element).max_code) * 0x1p-10);
      }
      if (element == Format::mxint8) {  // two's complement has one zero
        for (float& v : values) v = v == 0 ? 0 : v;
      }
      const TestMatrix m = fp32_matrix(rows, cols, values);
      for (const std::string name : {"rceil", "floor", "fp32"}) {
        const QuantizedTensor q = quantize(m.view(), element, block, recipe_named(name));
        ASSERT_EQ(bits_of(dequantize(q)), bits_of(values))
            << spec(element).name << " " << to_text(block) << " " << name;
      }
    }
  }
}

TEST(Dequantize, finds_each_elements_scale_under_every_block_shape_and_offsets) {
  const std::int64_t rows = 137;
  const std::int64_t cols = 45;
  const TestMatrix m = fp32_matrix(rows, cols, random_values(rows * cols, 3, 500));
  for (const Sizes& offsets : std::vector<Sizes>{{}, {0, 137}, {0, 0, 33, 34, 34, 137}}) {
    for (const BlockShape block : kShapes) {
      const QuantizedTensor q = quantize(m.view(), Format::e4m3, block, recipe_named("rceil"), offsets);
      const std::vector<float> got = dequantize(q, offsets);
      const std::vector<std::uint16_t> got16 = dequantize_bf16(q, offsets);
      std::int64_t scale_row = -1;
      std::int64_t next = 0;  // the row at which the next block starts
      for (std::int64_t i = 0; i < rows; ++i) {
        bool starts = i == next;
        for (const std::int64_t o : offsets) starts = starts || i == o;
        if (starts) ++scale_row, next = block.rows == 0 ? rows : i + block.rows;
        for (std::int64_t j = 0; j < cols; ++j) {
          const auto at = static_cast<std::size_t>(i * cols + j);
          const std::int64_t scale_col = block.cols == 0 ? 0 : j / block.cols;
          const auto byte = q.scales().code(static_cast<std::size_t>(scale_row * q.scale_cols() + scale_col));
          const double exact = decode(Format::e4m3, q.codes.code(at)) * decode(Format::e8m0, byte);
          if (std::isnan(exact)) {
            ASSERT_TRUE(std::isnan(got[at]));
          } else {
            ASSERT_EQ(double{got[at]}, exact) << to_text(block) << " " << i << " " << j;
            ASSERT_EQ(decode(Format::bf16, got16[at]), exact) << to_text(block) << " " << i << " " << j;
          }
        }
      }
    }
  }
}

TEST(Dequantize, gives_the_same_whatever_the_threads) {
  const TestMatrix m = fp32_matrix(517, 301, random_values(517 * 301, 5));
  for (const BlockShape block : kShapes) {
    const QuantizedTensor q = quantize(m.view(), Format::e4m3, block, recipe_named("rceil"));
    for (const int threads : {0, 2, 3, 64}) {
      EXPECT_EQ(bits_of(dequantize(q, {}, threads)), bits_of(dequantize(q, {}, 1)));
      EXPECT_EQ(dequantize_bf16(q, {}, threads), dequantize_bf16(q, {}, 1));
    }
  }
}

TEST(Dequantize, of_nothing_is_nothing) {
  for (const auto& [rows, cols] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {0, 40}, {40, 0}, {std::int64_t{1} << 60, 0}}) {
    for (const BlockShape block : kShapes) {
      const QuantizedTensor q =
          quantize({Format::fp32, nullptr, rows, cols, cols}, Format::e4m3, block, recipe_named("rceil"));
      EXPECT_TRUE(dequantize(q).empty());
      EXPECT_TRUE(dequantize_bf16(q).empty());
    }
  }
}

// E4M3 scales of 1 x 16 over one FP32 scale, as NVFP4 has them: every value against the product of its three parts.
TEST(Dequantize, multiplies_the_scales_of_every_level) {
  const std::int64_t rows = 5, cols = 70, blocks = 5;
  QuantizedTensor q = make_quantized(Format::e2m1, rows, cols, {1, 16}, Format::e4m3, rows, blocks);
  for (std::uint32_t i = 0; i < q.codes.size(); ++i) q.codes.set_code(i, i * 7 % 16);
  for (std::uint32_t i = 0; i < q.scales().size(); ++i) q.scales().set_code(i, (i * 37 + 3) % 0x7F);
  const float whole = 0x1.8p-20F;
  q.levels.push_back({{0, 0}, ScaleRule::fp32, tensor_of(Format::fp32, {1, 1}, std::vector{whole})});
  // The third level: FP32 of 2 x 32, three rows and columns of blocks.
  std::vector<float> third;
  for (int i = 0; i < 9; ++i) third.push_back(static_cast<float>(i + 1) / 4);
  q.levels.push_back({{2, 32}, ScaleRule::fp32, tensor_of(Format::fp32, {3, 3}, third)});
  const std::vector<float> values = dequantize(q);
  ASSERT_EQ(std::ssize(values), rows * cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto at = static_cast<std::size_t>(r * cols + c);
      const double scale = decode(Format::e4m3, q.scales().code(static_cast<std::size_t>(r * blocks + c / 16)));
      const double exact = decode(Format::e2m1, q.codes.code(at)) * scale * double{whole} *
                           double{third[static_cast<std::size_t>(r / 2 * 3 + c / 32)]};
      ASSERT_EQ(values[at], static_cast<float>(exact)) << r << ", " << c;
    }
  }
}

TEST(Dequantize, refuses_parts_that_do_not_fit_each_other) {
  const QuantizedTensor right =
      quantize(fp32_matrix(3, 40, random_values(120, 1)).view(), Format::e4m3, {1, 32}, recipe_named("rceil"));
  const auto expect = [&](auto change, ErrorKind kind, const std::string& text) {
    QuantizedTensor q = right;
    change(q);
    for (const auto& thrown : {thrown_by([&] { dequantize(q); }), thrown_by([&] { dequantize_bf16(q); })}) {
      EXPECT_EQ(thrown.kind, kind);
      EXPECT_EQ(thrown.text, text);
    }
  };
  const auto usage = ErrorKind::usage;
  expect([](QuantizedTensor& q) { q.codes.data.pop_back(); }, usage, "119 codes: the shape asks for 120");
  expect([](QuantizedTensor& q) { q.scales().data.emplace_back(); }, usage, "7 scales: the shape asks for 6");
  expect([](QuantizedTensor& q) { q.scales().data.clear(); }, usage, "0 scales: the shape asks for 6");
  expect([](QuantizedTensor& q) { q.scales().format = Format::fp32; }, usage, "1 scales: the shape asks for 6");
  expect([](QuantizedTensor& q) { q.scales().format = Format::bf16; }, usage,
         "scales of bf16 in 2 dimensions: must be a matrix of e8m0, fp32 or e4m3");
  expect([](QuantizedTensor& q) { q.scales().shape = {6}; }, usage,
         "scales of e8m0 in 1 dimensions: must be a matrix of e8m0, fp32 or e4m3");
  expect(
      [](QuantizedTensor& q) {
        q.scales().shape = {2, 2};
      },
      usage, "scales of 2 x 2: blocks of 1x32 under these offsets make 3 x 2");
  expect(
      [](QuantizedTensor& q) {
        q.scales().shape = {3, 1};
      },
      usage, "scales of 3 x 1: blocks of 1x32 under these offsets make 3 x 2");
  expect([](QuantizedTensor& q) { q.codes.format = Format::e5m6; }, usage, "60 codes: the shape asks for 120");
  expect([](QuantizedTensor& q) { q.codes.shape = {120}; }, usage,
         "quantized matrix of 1 dimensions and 1 levels of scales: must have 2, and 1 or more");
  expect([](QuantizedTensor& q) { q.levels.clear(); }, usage,
         "quantized matrix of 2 dimensions and 0 levels of scales: must have 2, and 1 or more");
  expect(
      [](QuantizedTensor& q) {
        q.levels.push_back({{0, 0}, ScaleRule::fp32, {"", Format::fp32, {1, 1}, {}}});
      },
      usage, "0 scales: the shape asks for 1");
  for (const Format wrong : {Format::e8m0, Format::bf16, Format::fp16, Format::fp32})
    expect([&](QuantizedTensor& q) { q.codes.format = wrong; }, usage,
           "element format " + std::string(spec(wrong).name) +
               ": must be one of e4m3, e5m2, e2m1, e2m3, e3m2, mxint8, e5m6");
  expect([](QuantizedTensor& q) { q.codes.shape[0] = -3; }, usage,
         "quantized matrix of -3 x 40 in blocks of 1x32: every number must be 0 or more");
  expect(
      [](QuantizedTensor& q) {
        q.codes.format = Format::e2m1;
        for (auto& code : q.codes.data) code &= std::byte{0xF};
        q.codes.set_code(45, 0x10);
      },
      ErrorKind::input, "code 16 at row 1, column 5: e2m1 codes are 0 to 15");
  EXPECT_EQ(thrown_by([&] {
              dequantize(right, Sizes{0, 4});
            }).text,
            "last offset (offset 1) is 4: must be the number of rows, 3");
}

}  // namespace
}  // namespace mxcheck

// How a matrix falls into blocks: sizes, tails, experts, transposition, strides, empties, threads.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::codes_of;
using test::fp32_matrix;
using test::random_values;
using test::scales_of;
using test::TestMatrix;
using test::thrown_by;
using test::transposed;
using Sizes = std::vector<std::int64_t>;

void expect_equal(const QuantizedTensor& a, const QuantizedTensor& b, const std::string& where) {
  EXPECT_EQ(a.codes.shape, b.codes.shape) << where;
  EXPECT_EQ(a.scales().shape, b.scales().shape) << where;
  EXPECT_EQ(scales_of(a), scales_of(b)) << where;
  EXPECT_EQ(codes_of(a), codes_of(b)) << where;
}

struct SizeCase {
  std::string block;
  std::int64_t rows, cols, scale_rows, scale_cols;
};

TEST(BlockSizes, round_up_at_both_edges) {
  const std::vector<SizeCase> cases{
      {"1x32", 3, 31, 3, 1},     {"1x32", 3, 32, 3, 1},       {"1x32", 3, 33, 3, 2},   {"1x32", 1, 1, 1, 1},
      {"32x1", 31, 5, 1, 5},     {"32x1", 32, 5, 1, 5},       {"32x1", 33, 5, 2, 5},   {"32x32", 33, 31, 2, 1},
      {"32x32", 129, 65, 5, 3},  {"1x128", 2, 129, 2, 2},     {"1x128", 2, 128, 2, 1}, {"128x1", 129, 3, 2, 3},
      {"128x128", 129, 1, 2, 1}, {"128x128", 128, 256, 1, 2}, {"row", 7, 1000, 7, 1},  {"row", 1, 1, 1, 1}};
  for (const SizeCase& c : cases) {
    const TestMatrix m = fp32_matrix(c.rows, c.cols, random_values(c.rows * c.cols, 1));
    const QuantizedTensor q = quantize(m.view(), Format::e4m3, block_shape_named(c.block), recipe_named("rceil"));
    EXPECT_EQ(q.scale_rows(), c.scale_rows) << c.block;
    EXPECT_EQ(q.scale_cols(), c.scale_cols) << c.block;
    EXPECT_EQ(static_cast<std::int64_t>(q.scales().size()), c.scale_rows * c.scale_cols) << c.block;
    EXPECT_EQ(static_cast<std::int64_t>(q.codes.size()), c.rows * c.cols) << c.block;
    EXPECT_EQ(q.block(), block_shape_named(c.block));
  }
}

TEST(BlockSizes, restart_at_every_expert) {
  EXPECT_EQ(count_scale_rows(100, 32, {}), 4);
  EXPECT_EQ(count_scale_rows_by_expert(100, 32, {}), Sizes{4});
  const Sizes offsets{0, 0, 1, 33, 34, 100, 100};
  EXPECT_EQ(count_scale_rows_by_expert(100, 32, offsets), (Sizes{0, 1, 1, 1, 3, 0}));
  EXPECT_EQ(count_scale_rows(100, 32, offsets), 6);
  EXPECT_EQ(block_row_starts(100, 32, offsets), (Sizes{0, 1, 33, 34, 66, 98, 100}));
  EXPECT_EQ(count_scale_rows_by_expert(100, 1, offsets), (Sizes{0, 1, 32, 1, 66, 0}));
  EXPECT_EQ(count_scale_rows_by_expert(100, 0, offsets), (Sizes{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(block_row_starts(100, 0, offsets), (Sizes{0, 1, 33, 34, 100}));
  EXPECT_EQ(count_scale_rows_by_expert(0, 32, Sizes{0}), Sizes{});
  EXPECT_EQ(block_row_starts(0, 32, {}), Sizes{0});
}

TEST(BlockSizes, do_not_overflow_at_the_largest_sizes) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(count_scale_rows(most, most, {}), 1);
  EXPECT_EQ(count_scale_rows(most, 2, {}), most / 2 + 1);
  EXPECT_EQ(count_scale_rows(10, most, Sizes{0, 4, 10}), 2);
  EXPECT_EQ(block_row_starts(10, most, Sizes{0, 4, 10}), (Sizes{0, 4, 10}));
  const QuantizedTensor q =
      quantize(fp32_matrix(2, 2, {1, 2, 3, 4}).view(), Format::e4m3, {most, most}, recipe_named("rceil"));
  EXPECT_EQ(q.scales().size(), 1U);
  EXPECT_EQ(thrown_by([&] { count_scale_rows(-1, 32, {}); }).text, "-1 rows in blocks of 32: both must be 0 or more");
  EXPECT_EQ(thrown_by([&] { count_scale_rows(1, -32, {}); }).text, "1 rows in blocks of -32: both must be 0 or more");
}

// Each expert alone, one after the other: what a block that never crosses an expert's end means.
TEST(Experts, are_quantized_as_if_each_were_alone) {
  const std::int64_t rows = 300;
  const std::int64_t cols = 70;
  const TestMatrix m = fp32_matrix(rows, cols, random_values(rows * cols, 7));
  const std::vector<Sizes> all_offsets{{0, 300},         {0, 128, 256, 300}, {0, 0, 1, 33, 33, 33, 161, 300, 300},
                                       {0, 31, 63, 300}, {0, 0, 0, 300},     {0, 299, 300}};
  for (const Sizes& offsets : all_offsets) {
    for (const BlockShape block : test::kShapes) {
      for (const std::string name : {"rceil", "fp32"}) {
        const Recipe recipe = recipe_named(name);
        const QuantizedTensor whole = quantize(m.view(), Format::e4m3, block, recipe, offsets);
        QuantizedTensor joined = quantize(m.rows(0, 0), Format::e4m3, block, recipe);
        for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
          const QuantizedTensor alone = quantize(m.rows(offsets[e], offsets[e + 1]), Format::e4m3, block, recipe);
          const auto add = [](Tensor& to, const Tensor& more) {
            to.shape[0] += more.rows();
            to.data.insert(to.data.end(), more.data.begin(), more.data.end());
          };
          add(joined.codes, alone.codes), add(joined.scales(), alone.scales());
        }
        expect_equal(whole, joined, to_text(block) + ", " + name);
      }
    }
  }
}

TEST(Experts, keep_an_outlier_from_their_neighbours) {
  std::vector<float> values(64, 1.0F);
  values[31] = 0x1p40F;  // last row of the first expert, 32 x 1 blocks over 64 rows of one column
  const TestMatrix m = fp32_matrix(64, 1, values);
  const Recipe rceil = recipe_named("rceil");
  EXPECT_EQ(
      values_in<std::uint8_t>(quantize(m.view(), Format::e4m3, {32, 1}, rceil, Sizes{0, 20, 40, 64}).scales().data),
      (std::vector<std::uint8_t>{119, 159, 119}));
  EXPECT_EQ(values_in<std::uint8_t>(quantize(m.view(), Format::e4m3, {32, 1}, rceil, Sizes{0, 32, 64}).scales().data),
            (std::vector<std::uint8_t>{159, 119}));
}

TEST(ColumnBlocks, are_row_blocks_of_the_transpose) {
  for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {129, 33}, {64, 64}, {1, 31}, {31, 1}, {300, 5}, {1, 1}, {33, 129}}) {
    const auto values = random_values(rows * cols, 11, 50);
    const TestMatrix m = fp32_matrix(rows, cols, values);
    const TestMatrix t = fp32_matrix(cols, rows, transposed(values, rows, cols));
    for (const Format element : kQuantizedFormats) {
      for (const std::int64_t n : {32, 128, 5, 1, 0}) {
        for (const std::string name : {"rceil", "floor", "te", "fp32"}) {
          const QuantizedTensor col = quantize(m.view(), element, {n, 1}, recipe_named(name));
          const QuantizedTensor row = quantize(t.view(), element, {1, n}, recipe_named(name));
          ASSERT_EQ(codes_of(col), transposed(codes_of(row), cols, rows)) << n << name;
          ASSERT_EQ(scales_of(col), transposed(scales_of(row), row.scale_rows(), row.scale_cols())) << n << name;
        }
      }
    }
  }
}

TEST(QuantizeDual, equals_the_two_single_ones) {
  const TestMatrix m(Format::bf16, 129, 65, random_values(129 * 65, 13, 100), 3);
  const Sizes offsets{0, 40, 40, 129};
  for (const std::int64_t n : {32, 128, 0}) {
    for (const std::string name : {"rceil", "te", "fp32"}) {
      const Recipe recipe = recipe_named(name);
      const DualQuantized dual = quantize_dual(m.view(), Format::e4m3, n, recipe, offsets);
      EXPECT_EQ(dual.row.block(), (BlockShape{1, n}));
      EXPECT_EQ(dual.col.block(), (BlockShape{n, 1}));
      expect_equal(dual.row, quantize(m.view(), Format::e4m3, {1, n}, recipe), name);
      expect_equal(dual.col, quantize(m.view(), Format::e4m3, {n, 1}, recipe, offsets), name);
    }
  }
}

TEST(Strides, change_nothing) {
  const auto values = random_values(40 * 33, 17);
  for (const Format dtype : {Format::fp32, Format::bf16, Format::fp16}) {
    for (const BlockShape block : test::kShapes) {
      const Recipe rceil = recipe_named("rceil");
      const QuantizedTensor tight = quantize(TestMatrix(dtype, 40, 33, values).view(), Format::e5m2, block, rceil);
      const QuantizedTensor loose = quantize(TestMatrix(dtype, 40, 33, values, 19).view(), Format::e5m2, block, rceil);
      expect_equal(tight, loose, to_text(block));
    }
  }
}

TEST(Empties, have_empty_outputs_of_the_right_shape) {
  const std::int64_t huge = std::int64_t{1} << 60;
  for (const BlockShape block : test::kShapes) {
    for (const Format element : {Format::e4m3, Format::e5m6}) {
      for (const auto& [rows, cols] :
           std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {0, 40}, {40, 0}, {0, huge}, {huge, 0}}) {
        const QuantizedTensor q =
            quantize({Format::fp32, nullptr, rows, cols, cols}, element, block, recipe_named("rceil"));
        EXPECT_EQ(q.rows(), rows);
        EXPECT_EQ(q.cols(), cols);
        const std::int64_t high = block.rows == 0 ? rows : block.rows;
        const std::int64_t wide = block.cols == 0 ? cols : block.cols;
        EXPECT_EQ(q.scale_rows(), rows == 0 ? 0 : (rows - 1) / high + 1) << to_text(block);
        EXPECT_EQ(q.scale_cols(), cols == 0 ? 0 : (cols - 1) / wide + 1) << to_text(block);
        EXPECT_TRUE(q.codes.empty() && q.scales().empty());
      }
    }
  }
  const QuantizedTensor none =
      quantize({Format::fp32, nullptr, 0, 8, 8}, Format::e4m3, {32, 1}, recipe_named("rceil"), Sizes{0, 0, 0});
  EXPECT_EQ(none.scale_rows(), 0);
}

TEST(Threads, change_nothing) {
  const std::int64_t rows = 517;
  const std::int64_t cols = 401;
  const TestMatrix m(Format::bf16, rows, cols, random_values(rows * cols, 19, 3000));
  const Sizes offsets{0, 100, 100, 301, 517};
  for (const BlockShape block : test::kShapes) {
    for (const std::string name : {"rceil", "fp32"}) {
      const Recipe recipe = recipe_named(name);
      const QuantizedTensor one = quantize(m.view(), Format::e4m3, block, recipe, offsets, 1);
      for (const int threads : {0, 2, 3, 7, 64}) {
        const QuantizedTensor many = quantize(m.view(), Format::e4m3, block, recipe, offsets, threads);
        expect_equal(one, many, to_text(block) + " on " + std::to_string(threads));
      }
    }
  }
}

}  // namespace
}  // namespace mxcheck

// How a matrix falls into blocks: sizes, tails, experts, transposition, strides, empties, threads.

#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
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
    for (const BlockShape block : kShapes) {
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
    for (const BlockShape block : kShapes) {
      const Recipe rceil = recipe_named("rceil");
      const QuantizedTensor tight = quantize(TestMatrix(dtype, 40, 33, values).view(), Format::e5m2, block, rceil);
      const QuantizedTensor loose = quantize(TestMatrix(dtype, 40, 33, values, 19).view(), Format::e5m2, block, rceil);
      expect_equal(tight, loose, to_text(block));
    }
  }
}

TEST(Empties, have_empty_outputs_of_the_right_shape) {
  const std::int64_t huge = std::int64_t{1} << 60;
  for (const BlockShape block : kShapes) {
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
  for (const BlockShape block : kShapes) {
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

// A second quantizer, written from the formats' definition and sharing nothing with the first: values listed by the
// formula for a code, the scale found by trying bytes, elements by searching the list, all in long double, which holds
// every float times every power of two in question exactly.

struct Layout {
  Format format;
  int exponent_bits, mantissa_bits, bias, largest_exponent;
  std::uint32_t largest, nan;
};
constexpr std::array<Layout, 7> kLayouts{{{Format::e4m3, 4, 3, 7, 8, 0x7E, 0x7F},
                                          {Format::e5m2, 5, 2, 15, 15, 0x7B, 0x7F},
                                          {Format::e2m1, 2, 1, 1, 2, 0x7, 0x7},
                                          {Format::e2m3, 2, 3, 1, 2, 0x1F, 0x1F},
                                          {Format::e3m2, 3, 2, 3, 4, 0x1F, 0x1F},
                                          {Format::mxint8, 0, 6, 0, 0, 0x7F, 0x7F},
                                          {Format::e5m6, 5, 6, 15, 15, 0x7BF, 0x7E0}}};

// Magnitudes in ascending order; the index is the code without its sign.
std::vector<long double> magnitudes(const Layout& l) {
  std::vector<long double> values;
  for (std::uint32_t code = 0; code <= l.largest; ++code) {
    const int exponent = static_cast<int>(code >> l.mantissa_bits);
    const auto mantissa = static_cast<long double>(code & ((1U << l.mantissa_bits) - 1));
    const long double fraction = mantissa / static_cast<long double>(1 << l.mantissa_bits);
    if (l.exponent_bits == 0) {
      values.push_back(static_cast<long double>(code) / 64);
    } else if (exponent == 0) {
      values.push_back(std::ldexp(fraction, 1 - l.bias));
    } else {
      values.push_back(std::ldexp(1 + fraction, exponent - l.bias));
    }
  }
  return values;
}

std::uint32_t nearest_code(const Layout& l, const std::vector<long double>& values, bool negative, long double target) {
  const auto above = std::lower_bound(values.begin(), values.end(), target);
  std::uint32_t code = l.largest;
  if (above != values.end()) {
    code = static_cast<std::uint32_t>(above - values.begin());
    if (code != 0) {
      const long double up = *above - target;
      const long double down = target - values[code - 1];
      if (down < up || (down == up && code % 2 != 0)) --code;
    }
  }
  if (!negative) return code;
  if (l.exponent_bits == 0) return (256 - code) % 256;
  return code | 1U << (l.exponent_bits + l.mantissa_bits);
}

enum class Rule { smallest_that_fits, largest_exponent, float_quotient };

struct Answer {
  std::vector<std::uint32_t> codes, scales;
};

Answer brute_force(const MatrixView& m, const Layout& l, BlockShape block, Rule rule,
                   const std::vector<std::int64_t>& offsets) {
  const std::vector<long double> values = magnitudes(l);
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // expert, block row in it, block column
  const auto key_of = [&](std::int64_t row, std::int64_t col) {
    std::int64_t expert = 0;
    std::int64_t start = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
      if (row >= offsets[e] && row < offsets[e + 1]) expert = static_cast<std::int64_t>(e), start = offsets[e];
    }
    return Key{expert, block.rows == 0 ? 0 : (row - start) / block.rows, block.cols == 0 ? 0 : col / block.cols};
  };
  std::map<Key, long double> largest;  // sorted as compact scales are; NaN for blocks with a NaN or an Inf
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const long double x = m.at(i, j);
      long double& amax = largest[key_of(i, j)];
      if (!std::isfinite(x) || std::isnan(amax)) {
        amax = std::numeric_limits<long double>::quiet_NaN();
      } else if (std::abs(x) > amax) {
        amax = std::abs(x);
      }
    }
  }
  Answer answer;
  std::map<Key, long double> scale_of;
  for (const auto& [key, amax] : largest) {
    std::uint32_t byte = 0;
    if (std::isnan(amax)) {
      scale_of[key] = amax;
      answer.scales.push_back(rule == Rule::float_quotient ? 0x7FC00000 : 255);
      continue;
    }
    if (rule == Rule::float_quotient) {
      float scale = static_cast<float>(amax) / static_cast<float>(values.back());
      if (scale == 0) scale = 1;
      scale_of[key] = scale;
      answer.scales.push_back(std::bit_cast<std::uint32_t>(scale));
      continue;
    }
    const auto two_to = [](std::uint32_t b) { return std::ldexp(1.0L, static_cast<int>(b) - 127); };
    if (rule == Rule::smallest_that_fits) {
      while (amax > values.back() * two_to(byte)) ++byte;
    } else {  // the largest power of two not above amax, divided by that of the format's largest value
      while (amax >= std::ldexp(two_to(byte + 1), l.largest_exponent)) ++byte;
    }
    scale_of[key] = two_to(byte);
    answer.scales.push_back(byte);
  }
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const float x = m.at(i, j);
      const long double scale = scale_of[key_of(i, j)];
      long double target = std::abs(static_cast<long double>(x)) / scale;
      if (rule == Rule::float_quotient) target = std::abs(x / static_cast<float>(scale));
      answer.codes.push_back(std::isnan(scale) ? l.nan : nearest_code(l, values, std::signbit(x), target));
    }
  }
  return answer;
}

TEST(Quantize, equals_a_second_quantizer_that_searches_for_the_nearest_value) {
  std::mt19937_64 engine(20);
  const auto pick = [&engine](std::int64_t below) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(below));
  };
  constexpr std::array kDtypes{Format::fp32, Format::bf16, Format::fp16};
  const std::vector<std::pair<std::string, Rule>> rules{
      {"rceil", Rule::smallest_that_fits}, {"floor", Rule::largest_exponent}, {"fp32", Rule::float_quotient}};
  for (int round = 0; round < 24; ++round) {
    for (const Layout& l : kLayouts) {
      const std::int64_t rows = 1 + pick(70);
      const std::int64_t cols = 1 + pick(70);
      const std::uint64_t rare = round % 4 == 0 ? 200 : 0;
      const Format dtype = kDtypes[static_cast<std::size_t>(pick(3))];
      const TestMatrix m(dtype, rows, cols, random_values(rows * cols, engine(), rare), pick(3));
      std::vector<std::int64_t> offsets;
      if (pick(2) == 0) {
        offsets = {0, pick(rows + 1), pick(rows + 1), pick(rows + 1), rows};
        std::sort(offsets.begin(), offsets.end());
      }
      for (const BlockShape block : kShapes) {
        for (const auto& [name, rule] : rules) {
          const QuantizedTensor q = quantize(m.view(), l.format, block, recipe_named(name), offsets);
          const Answer expected = brute_force(m.view(), l, block, rule, offsets);
          ASSERT_EQ(scales_of(q), expected.scales) << spec(l.format).name << " " << name << " " << to_text(block);
          ASSERT_EQ(codes_of(q), expected.codes) << spec(l.format).name << " " << name << " " << to_text(block);
        }
      }
    }
  }
}

// Every positive bf16 that E5M6 can hold, and every half step of its subnormals, in rows whose scale is one.
TEST(Quantize, equals_it_for_every_bf16_under_e5m6) {
  const Layout& l = kLayouts[6];
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 0x4000; ++i) values.push_back(static_cast<float>(i) * 0x1p-28F);
  for (std::uint32_t i = 0; i < 0x7F80; ++i) {
    const float x = std::bit_cast<float>(i << 16);
    if (x <= 65024) values.push_back(x);
  }
  values.push_back(65024);
  const auto cols = static_cast<std::int64_t>(values.size());
  const TestMatrix m = fp32_matrix(1, cols, values);
  const QuantizedTensor q = quantize(m.view(), Format::e5m6, {1, 0}, recipe_named("rceil"));
  EXPECT_EQ(values_in<std::uint8_t>(q.scales().data), std::vector<std::uint8_t>{127});
  EXPECT_EQ(codes_of(q), brute_force(m.view(), l, {1, 0}, Rule::smallest_that_fits, {}).codes);
}

}  // namespace
}  // namespace mxcheck

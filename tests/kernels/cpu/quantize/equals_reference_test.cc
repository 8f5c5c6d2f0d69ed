// The CPU library's bytes are the reference's, for every SIMD target that this machine has. Tensors end where their
// memory does: reading or writing beyond a tensor crashes.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/cpu/quantize/scalar_cast.h"
#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "tests/kernels/cpu/model_comparison.h"
#include "tests/kernels/cpu/simd_targets.h"

namespace mxcheck {
namespace {

constexpr std::array kFormats{Format::e4m3, Format::e5m2};
constexpr std::array kRecipes{"rceil", "floor", "ocp", "torchao", "te"};
constexpr std::array<BlockShape, 7> kShapes{{{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}}};

// Every kind of expert: empty first, in the middle, last; one row; a block and one more.
std::vector<std::int64_t> offsets_for(std::int64_t rows) {
  std::set<std::int64_t> cuts{0, std::min<std::int64_t>(1, rows), std::min<std::int64_t>(34, rows), rows * 2 / 3, rows};
  std::vector<std::int64_t> offsets{0};
  offsets.insert(offsets.end(), cuts.begin(), cuts.end());
  offsets.insert(offsets.begin() + 3, offsets[2]);
  offsets.push_back(rows);
  return offsets;
}

template <class T>
void expect_all_shapes_equal(std::uint64_t seed, std::int64_t rows, std::int64_t cols, bool experts) {
  const std::int64_t stride = seed % 3 == 0 ? cols + 5 : cols;
  const Sample<T> x = random_sample<T>(seed, rows, cols, stride);
  for (const BlockShape& block : kShapes) {
    const bool line = block.rows == 1 || block.cols == 1;
    Case c{kFormats[seed % 2], kRecipes[seed % kRecipes.size()], block, MXCHECK_COMPACT, {}, 1};
    if (experts) c.offsets = offsets_for(rows);
    if (line && seed % 4 < 2) c.layout = MXCHECK_TCGEN05;
    ASSERT_EQ(quantize_difference(c, x), "") << rows << " x " << cols << ", seed " << seed;
    if (block.rows == 1 && block.cols != 0) {
      ASSERT_EQ(quantize_dual_difference(c, x), "") << rows << " x " << cols << ", seed " << seed;
    }
    const QuantizedTensor q = quantize(x.view(), c.format, block, recipe_named(c.recipe), c.offsets);
    ASSERT_EQ(dequantize_difference(c, q, sizeof(T) == 2 ? Format::bf16 : Format::fp32), "")
        << rows << " x " << cols << ", seed " << seed;
    if (line) {
      ASSERT_EQ(scale_layout_difference(c, rows, cols), "");
    }
  }
}

// A block for each BF16 pattern: the pattern between an amax of the given bits and a few others.
Sample<std::uint16_t> patterns_below(std::uint16_t amax) {
  Sample<std::uint16_t> x = sample_of<std::uint16_t>(65536 / 16, 32, std::vector<std::uint16_t>(65536 * 2));
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const std::uint16_t magnitude = static_cast<std::uint16_t>(pattern & 0x7FFF);
    x.bits[pattern * 2] = magnitude <= amax ? static_cast<std::uint16_t>(pattern) : std::uint16_t{0x8000};
    x.bits[pattern * 2 + 1] = pattern % 16 == 3 ? static_cast<std::uint16_t>(amax | 0x8000) : std::uint16_t{0};
  }
  return x;
}

TEST(CpuLibrary, has_more_than_one_simd_target_here) {
  EXPECT_GE(simd_targets().size(), 2U);
  for (const std::int64_t target : simd_targets()) std::printf("  target %s\n", simd_target_name(target).c_str());
}

TEST(CpuQuantize, equals_the_reference_on_every_bf16_pattern_among_its_neighbours) {
  std::vector<std::uint16_t> all(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) all[i] = static_cast<std::uint16_t>(i);
  const Sample<std::uint16_t> x = sample_of<std::uint16_t>(2048, 32, all);
  // In a second arrangement the 32 patterns of a block are 2048 apart: all exponents meet.
  std::vector<std::uint16_t> spread(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) spread[i] = static_cast<std::uint16_t>(i % 32 * 2048 + i / 32);
  for (const Format format : kFormats) {
    for (const char* recipe : kRecipes) {
      for (const BlockShape& block : kShapes) {
        const Case c{format, recipe, block, MXCHECK_COMPACT, {}, 1};
        ASSERT_EQ(quantize_difference(c, x), "");
        ASSERT_EQ(quantize_difference(c, sample_of<std::uint16_t>(2048, 32, spread)), "");
      }
    }
  }
}

TEST(CpuQuantize, equals_the_reference_on_every_bf16_pattern_under_every_scale_range) {
  for (const int field :
       {0, 1, 2, 7, 8, 9, 10, 11, 12, 18, 19, 20, 21, 22, 23, 24, 26, 27, 33, 34, 35, 36, 64, 127, 200, 253, 254}) {
    for (const int fraction : {0x00, 0x60, 0x61, 0x7F}) {
      const Sample<std::uint16_t> x = patterns_below(static_cast<std::uint16_t>(field << 7 | fraction));
      for (const Format format : kFormats) {
        const char* recipe = kRecipes[static_cast<std::size_t>(field + fraction) % 2];
        ASSERT_EQ(quantize_difference(Case{format, recipe, {1, 32}, MXCHECK_COMPACT, {}, 1}, x), "")
            << "amax " << field << ", " << fraction;
      }
    }
  }
}

TEST(CpuQuantize, equals_the_reference_where_the_scale_of_an_fp32_block_steps) {
  // amax at and around every 2^k and 1.75 * 2^k, subnormals too; the rest of the block at ties below it.
  std::vector<std::uint32_t> bits;
  for (std::uint32_t field = 0; field < 256; ++field) {
    for (const std::uint32_t fraction : {0x000000U, 0x400000U, 0x600000U, 0x700000U}) {
      for (int step = -2; step <= 2; ++step) {
        const std::uint32_t amax = ((field << 23 | fraction) + static_cast<std::uint32_t>(step)) & 0x7FFFFFFF;
        for (std::uint32_t i = 0; i < 32; ++i) {
          const std::uint32_t down = (i / 2) << 23 | 0x080000 * (i % 2) | (i % 5 == 1 ? 1U : 0U);
          const std::uint32_t value = i == 17 ? amax : (amax & 0x7FF00000) > down ? (amax & 0x7FF00000) - down : 0;
          bits.push_back(value <= amax ? value | i % 3 / 2 << 31 : 0);
        }
      }
    }
  }
  const std::int64_t rows = static_cast<std::int64_t>(bits.size()) / 32;
  const Sample<std::uint32_t> x = sample_of<std::uint32_t>(rows, 32, bits);
  for (const Format format : kFormats) {
    for (const char* recipe : kRecipes)
      ASSERT_EQ(quantize_difference(Case{format, recipe, {1, 32}, MXCHECK_COMPACT, {}, 1}, x), "");
  }
}

TEST(CpuQuantize, equals_the_reference_on_random_fp32_bits) {
  Words words(11);
  std::vector<std::uint32_t> bits(1 << 18);
  for (std::uint32_t& b : bits) b = static_cast<std::uint32_t>(words.next());
  for (std::size_t i = 0; i < bits.size(); ++i) {  // in most blocks one exponent range, so that few are poisoned
    if (i / 32 % 8 != 0) bits[i] = (bits[i] & 0x87FFFFFF) | static_cast<std::uint32_t>(i / 32 % 16) << 27;
  }
  const Sample<std::uint32_t> x = sample_of<std::uint32_t>(1 << 8, 1 << 10, bits);
  for (const Format format : kFormats) {
    for (const char* recipe : kRecipes) {
      for (const BlockShape& block : kShapes)
        ASSERT_EQ(quantize_difference(Case{format, recipe, block, MXCHECK_COMPACT, {}, 1}, x), "");
    }
  }
}

TEST(CpuLibrary, equals_the_reference_for_every_number_of_columns_up_to_130) {
  for (std::int64_t cols = 0; cols <= 130; ++cols) {
    const std::uint64_t seed = static_cast<std::uint64_t>(cols) * 2;
    expect_all_shapes_equal<std::uint16_t>(seed, 3 + cols % 40, cols, cols % 3 == 1);
    expect_all_shapes_equal<std::uint32_t>(seed + 1, 3 + cols % 33, cols, cols % 3 == 2);
  }
}

TEST(CpuLibrary, equals_the_reference_for_every_number_of_rows_up_to_130) {
  for (std::int64_t rows = 0; rows <= 130; ++rows) {
    const std::uint64_t seed = 1000 + static_cast<std::uint64_t>(rows) * 2;
    expect_all_shapes_equal<std::uint16_t>(seed, rows, 5 + rows % 60, rows % 3 == 1);
    expect_all_shapes_equal<std::uint32_t>(seed + 1, rows, 5 + rows % 64, rows % 3 == 2);
  }
}

TEST(CpuLibrary, equals_the_reference_at_the_borders_of_its_own_pieces) {
  std::uint64_t seed = 5000;
  for (const std::int64_t cols :
       {255, 256, 257, 320, 384, 511, 512, 513, 1023, 1024, 1025, 1056, 1279, 1280, 1311, 2048, 2175}) {
    expect_all_shapes_equal<std::uint16_t>(++seed, 131, cols, true);
    expect_all_shapes_equal<std::uint32_t>(++seed, 33, cols, false);
  }
}

TEST(CpuLibrary, gives_the_same_bytes_whatever_the_number_of_threads) {
  // Aligned rows are written past the cache from 4 MiB on; for seven parts the others need 1.75 MiB of codes.
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{2100, 2048}, {900, 2053}}) {
    const Sample<std::uint16_t> x = random_sample<std::uint16_t>(77, rows, cols);
    for (const BlockShape& block : kShapes) {
      const bool line = block.rows == 1 || block.cols == 1;
      Case c{Format::e4m3, "rceil", block, line ? MXCHECK_TCGEN05 : MXCHECK_COMPACT, offsets_for(rows), 3};
      c.also_threads = {1, 2, 7, 0};
      ASSERT_EQ(quantize_difference(c, x), "") << cols;
      const QuantizedTensor q = quantize(x.view(), c.format, block, recipe_named(c.recipe), c.offsets);
      ASSERT_EQ(dequantize_difference(c, q, Format::fp32), "") << cols;
      ASSERT_EQ(dequantize_difference(c, q, Format::bf16), "") << cols;
      if (block.rows == 1 && block.cols != 0) {
        ASSERT_EQ(quantize_dual_difference(c, x), "") << cols;
      }
    }
  }
}

TEST(CpuDequantize, equals_the_reference_for_every_code_and_every_scale) {
  for (const Format format : kFormats) {
    for (const BlockShape& block : {BlockShape{1, 32}, BlockShape{32, 1}, BlockShape{1, 128}}) {
      // A scale byte is the row of blocks; 256 columns: every code.
      QuantizedTensor q = make_quantized(format, block.rows * 256, 256, block, Format::e8m0, 256, 256 / block.cols);
      for (std::int64_t i = 0; i < q.rows() * q.cols(); ++i)
        q.codes.set_code(static_cast<std::size_t>(i), static_cast<std::uint32_t>(i % 256 + i / 256));
      for (std::int64_t i = 0; i < q.scale_rows() * q.scale_cols(); ++i) {
        q.scales().set_code(static_cast<std::size_t>(i),
                            static_cast<std::uint32_t>(i / q.scale_cols() + i % q.scale_cols()));
      }
      const Case c{format, "rceil", block, MXCHECK_COMPACT, {}, 1};
      EXPECT_EQ(dequantize_difference(c, q, Format::fp32), "");
      EXPECT_EQ(dequantize_difference(c, q, Format::bf16), "");
    }
  }
}

TEST(CpuLibrary, changes_layouts_of_many_scales) {
  for (const mxcheck_layout layout : {MXCHECK_COMPACT, MXCHECK_TCGEN05}) {
    for (const BlockShape& block : {BlockShape{1, 32}, BlockShape{128, 1}}) {
      const Case c{Format::e4m3, "rceil", block, layout, offsets_for(3000), 3};
      EXPECT_EQ(scale_layout_difference(c, 3000, 32 * 1100), "");
    }
  }
}

// Rows of tiles that rows do not fill, bands that tiles do not, and columns that vectors do not.
TEST(CpuLibrary, changes_layouts_of_scales_that_fill_tiles_in_part) {
  const auto expect_equal = [](const BlockShape& block, std::int64_t rows, std::int64_t cols) {
    for (const mxcheck_layout layout : {MXCHECK_COMPACT, MXCHECK_TCGEN05}) {
      for (const auto& offsets : {std::vector<std::int64_t>{}, offsets_for(rows)}) {
        const Case c{Format::e4m3, "rceil", block, layout, offsets, 1};
        ASSERT_EQ(scale_layout_difference(c, rows, cols), "");
      }
    }
  };
  for (const std::int64_t rows : {1, 31, 33, 97, 127, 128, 129, 300}) {
    for (const std::int64_t scales : {3, 4, 15, 16, 17, 20, 63, 64, 67, 68, 127})
      expect_equal({1, 32}, rows, 32 * scales);
  }
  for (const std::int64_t bands : {1, 3, 4, 5, 31, 32, 33, 70}) {
    for (const std::int64_t cols : {127, 128, 129, 256, 300}) expect_equal({32, 1}, 32 * bands - 5, cols);
  }
}

TEST(CpuLibrary, ignores_the_floating_point_environment) {
  for (const std::uint32_t mxcsr : {0x8040U, 0x2000U, 0x4000U, 0x6000U}) {  // flush to zero, down, up, toward zero
    for (const int field : {0, 1, 9, 20, 127, 254}) {
      const Sample<std::uint16_t> x = patterns_below(static_cast<std::uint16_t>(field << 7 | 0x41));
      const Case c{Format::e4m3, "rceil", {1, 32}, MXCHECK_COMPACT, {}, 1, mxcsr};
      ASSERT_EQ(quantize_difference(c, x), "") << std::hex << mxcsr;
      const QuantizedTensor q = quantize(x.view(), c.format, c.block, recipe_named(c.recipe));
      ASSERT_EQ(dequantize_difference(c, q, Format::fp32), "") << std::hex << mxcsr;
      ASSERT_EQ(dequantize_difference(c, q, Format::bf16), "") << std::hex << mxcsr;
    }
  }
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class F>
void expect_casts_of_fp64(Format format) {
  const auto expect = [&](double value) {
    const std::uint32_t code = encode(format, value, Rounding::nearest_even, Overflow::saturate);
    const std::uint8_t is = mxcheck_kernels::cpu::cast_element<F>(std::bit_cast<std::uint64_t>(value));
    ASSERT_EQ(is, code) << std::hexfloat << value;
  };
  for (std::uint32_t code = 0; code < spec(format).max_code; ++code) {
    const double low = decode(format, code);
    for (const double edge : {low, (low + decode(format, code + 1)) / 2}) {
      for (const double towards : {-kInfinity, edge, kInfinity}) {
        expect(std::nextafter(edge, towards));
        expect(-std::nextafter(edge, towards));
      }
    }
  }
  for (const double special : {kInfinity, 1e300, 5e-324, 0.0}) expect(special), expect(-special);
  expect(std::bit_cast<double>(0x7FF0000000000001U));
  expect(std::bit_cast<double>(0xFFF8000000000000U));
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const std::uint64_t word = random_word(1, i);  // exponents of the format, and one to either side
    const std::uint64_t field = 1023 - 20 + (word >> 52 & 0x7FF) % 40;
    expect(std::bit_cast<double>((word & 0x800FFFFFFFFFFFFF) | field << 52));
    expect(std::bit_cast<double>(word));
  }
}

TEST(CpuCast, rounds_fp64_once) {
  expect_casts_of_fp64<mxcheck_kernels::cpu::E4m3>(Format::e4m3);
  expect_casts_of_fp64<mxcheck_kernels::cpu::E5m2>(Format::e5m2);
}

}  // namespace
}  // namespace mxcheck

#include "properties/operations/scaled_blocks/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstring>
#include <set>

#include "numerics/format/codec.h"
#include "properties/core/statement.h"
#include "properties/operations/dequantize/problem.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "reference/quantize/quantize.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
namespace {

TEST(Expand, is_a_function_of_the_case) {
  for (std::size_t d = 0; d < std::size(kDataNames); ++d) {
    for (Format dtype : test::kDtypesOfTests) {
      const bool patterns = static_cast<Data>(d) == Data::every_amax || static_cast<Data>(d) == Data::every_word;
      if (patterns && dtype == Format::fp16) continue;
      Case c = test::make_case(static_cast<Data>(d), 37, 70);
      c.variant.dtype = dtype, c.stride = 75;
      const Input a = expand(c);
      const Input b = expand(c);
      EXPECT_EQ(a.bytes, b.bytes) << kDataNames[d];
      ASSERT_EQ(a.bytes.size(), 37U * 75U * (dtype == Format::fp32 ? 4U : 2U));
      c.seed = 2;
      const bool has_seed = c.data != Data::zeros && c.data != Data::every_bf16 && c.data != Data::every_row;
      EXPECT_EQ(expand(c).bytes != a.bytes, has_seed) << kDataNames[d];
    }
  }
}

TEST(Expand, an_element_keeps_its_value_when_rows_are_added_below) {
  for (Data data : {Data::bits, Data::normal, Data::codes, Data::boundaries}) {
    const Input few = expand(test::make_case(data, 5, 40));
    const Input many = expand(test::make_case(data, 9, 40));
    EXPECT_TRUE(std::equal(few.bytes.begin(), few.bytes.end(), many.bytes.begin()));
  }
}

TEST(Expand, plants_lie_over_the_drawn_elements_and_nan_behind_the_rows) {
  for (Format dtype : test::kDtypesOfTests) {
    Case c = test::make_case(Data::normal, 4, 6);
    c.variant.dtype = dtype, c.stride = 9, c.plants = {{1, 2, 0x1234}, {3, 5, 0x0042}};
    const Input input = expand(c);
    EXPECT_EQ(input.bits(1, 2), 0x1234U);
    EXPECT_EQ(input.bits(3, 5), 0x0042U);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 6; j < 9; ++j) {
        EXPECT_TRUE(std::isnan(test::value_at(input, i, j))) << i << ' ' << j;
      }
    }
    c.plants.clear();
    EXPECT_NE(expand(c).bits(1, 2), 0x1234U);
  }
}

TEST(Expand, zeros_are_positive_zeros) {
  test::for_each(test::make_case(Data::zeros, 3, 40),
                 [](const Input& in, auto i, auto j) { EXPECT_EQ(in.bits(i, j), 0U); });
}

TEST(Expand, codes_come_back_exactly_under_round_up_and_floor) {
  for (Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2, Format::mxint8}) {
    for (Format dtype : test::kDtypesOfTests) {
      for (BlockShape block : test::kBlockShapesOfTests) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
          Case c = test::make_case(Data::codes, 67, 131, seed);
          c.variant.dtype = dtype;
          blocks_of(c.variant).format = format, blocks_of(c.variant).block = block;
          if (seed % 2 == 1) c.experts = {0, 5, 5, 40, 67};
          const Input x = expand(c);
          QuantizedTensor up = quantize(x.view(), format, block, recipe_named("rceil"), c.experts);
          const QuantizedTensor down = quantize(x.view(), format, block, recipe_named("floor"), c.experts);
          ASSERT_EQ(up.scales().data, down.scales().data) << to_text(c);
          ASSERT_EQ(up.codes.data, down.codes.data) << to_text(c);
          const std::vector<float> back = dequantize(up, c.experts);
          for (std::int64_t i = 0; i < c.rows; ++i) {
            for (std::int64_t j = 0; j < c.cols; ++j) {
              const float want = x.view().at(i, j);
              const float got = back[static_cast<std::size_t>(i * c.cols + j)];
              ASSERT_TRUE(want == got && std::signbit(want) == std::signbit(got))
                  << to_text(c) << " at " << i << ' ' << j;
            }
          }
        }
      }
    }
  }
}

// Over enough seeds every midpoint between two E4M3 values, and its two neighbours in BF16, meets the grid that it is
// the midpoint of: quotients x / scale are counted, the scale being the reference's.
TEST(Expand, boundaries_hit_every_midpoint_of_e4m3_and_both_neighbours) {
  std::set<int> missing;
  for (int i = 0; i < 126 * 3; ++i) missing.insert(i);
  const Recipe rceil = recipe_named("rceil");
  for (std::uint64_t seed = 0; seed < 40 && !missing.empty(); ++seed) {
    const Case c = test::make_case(Data::boundaries, 64, 256, seed);
    const Input x = expand(c);
    const QuantizedTensor q = quantize(x.view(), Format::e4m3, {1, 32}, rceil);
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        const auto byte = static_cast<int>(q.scales().code(static_cast<std::size_t>(i * q.scale_cols() + j / 32)));
        const std::uint32_t bits = x.bits(i, j) & 0x7FFF;
        if (byte == 255) continue;
        for (int step : {-1, 0, 1}) {  // is the value `step` away from this one a midpoint of the scaled grid?
          if (bits < 1 || bits >= 0x7F7F) continue;
          const double scaled =
              std::ldexp(decode(Format::bf16, static_cast<std::uint32_t>(static_cast<int>(bits) + step)), 127 - byte);
          if (scaled >= 448) continue;
          const std::uint32_t below = encode(Format::e4m3, scaled, Rounding::toward_zero, Overflow::saturate);
          if ((decode(Format::e4m3, below) + decode(Format::e4m3, below + 1)) / 2 == scaled) {
            missing.erase(static_cast<int>(below) * 3 + step + 1);
          }
        }
      }
    }
  }
  EXPECT_TRUE(missing.empty()) << missing.size() << " not hit, the first is code " << *missing.begin() / 3 << " step "
                               << *missing.begin() % 3 - 1;
}

TEST(Expand, boundaries_put_the_amax_on_the_edges_of_the_scale) {
  for (Format dtype : {Format::bf16, Format::fp32}) {
    for (BlockShape block : test::kBlockShapesOfTests) {
      std::array<int, 6> seen{};
      for (std::uint64_t seed = 0; seed < (block == BlockShape{128, 128} ? 400 : 60); ++seed) {
        Case c = test::make_case(Data::boundaries, 90, 200, seed);
        c.variant.dtype = dtype, blocks_of(c.variant).block = block;
        const Input x = expand(c);
        const std::int64_t rows = block.rows, cols = block.cols == 0 ? c.cols : block.cols;
        for (std::int64_t bi = 0; bi < c.rows; bi += rows) {
          for (std::int64_t bj = 0; bj < c.cols; bj += cols) {
            std::uint32_t amax = 0;
            for (std::int64_t i = bi; i < std::min(c.rows, bi + rows); ++i) {
              for (std::int64_t j = bj; j < std::min(c.cols, bj + cols); ++j) {
                amax = std::max(amax, x.bits(i, j) & (dtype == Format::fp32 ? 0x7FFFFFFFU : 0x7FFFU));
              }
            }
            const int mantissa_bits = spec(dtype).mantissa_bits;
            const std::uint32_t one = 1U << mantissa_bits;
            const std::uint32_t fraction = amax % one;
            const std::uint32_t three_quarters = one / 4 * 3;  // 448 = 1.75 * 2^8
            for (std::uint32_t step = 0; step < 3; ++step) {
              if (fraction == three_quarters + step - 1) ++seen[step];
              if (fraction == (step + one - 1) % one) ++seen[3 + step];
            }
          }
        }
      }
      for (std::size_t i = 0; i < seen.size(); ++i) {
        EXPECT_GE(seen[i], 5) << to_text(block) << " edge " << i;
      }
    }
  }
}

TEST(Expand, every_bf16_meets_every_scale_byte_that_it_promises) {
  std::vector<std::bitset<65536>> seen(kEveryBf16Bytes);
  constexpr std::int64_t kChunk = kEveryBf16RowsPerByte * 8;
  const Case whole = test::make_case(Data::every_bf16, kEveryBf16Rows, 32);
  const Input x = expand(whole);
  for (const char* name : {"rceil", "floor"}) {
    for (std::int64_t from = 0; from < kEveryBf16Rows; from += kChunk) {
      const MatrixView part{Format::bf16, x.bytes.data() + from * 64, kChunk, 32, 32};
      const QuantizedTensor q = quantize(part, Format::e4m3, {1, 32}, recipe_named(name));
      for (std::int64_t i = 0; i < kChunk; ++i) {
        const std::int64_t byte = (from + i) / kEveryBf16RowsPerByte;
        // Floor ends one byte earlier: the largest BF16 is below 2^128.
        if (name[0] == 'f' && byte == 247) continue;
        ASSERT_EQ(q.scales().code(static_cast<std::size_t>(i)), byte) << name;
        for (std::int64_t j = 0; j < 32; ++j) seen[static_cast<std::size_t>(byte)].set(x.bits(from + i, j));
      }
    }
  }
  for (std::int64_t byte = 0; byte < kEveryBf16Bytes; ++byte) {
    const double pin = decode(Format::bf16, nearest_bits(Format::bf16, std::ldexp(448, static_cast<int>(byte) - 127)));
    std::size_t missing = 0;
    for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const double value = decode(Format::bf16, pattern);
      if (value >= -pin && value <= pin) missing += seen[static_cast<std::size_t>(byte)][pattern] ? 0 : 1;
    }
    EXPECT_EQ(missing, 0U) << "byte " << byte;
  }
}

TEST(Expand, no_finite_amax_has_a_larger_byte_than_every_bf16_reaches) {
  EXPECT_EQ(scale_byte_for_amax(recipe_named("rceil"), Format::e4m3, 0x1.fep127F), kEveryBf16Bytes - 1);
  EXPECT_GE(kEveryBf16RowsPerByte * 31, 65536);
}

TEST(Expand, every_word_counts_through_the_matrix_row_by_row) {
  Case c = test::make_case(Data::every_word, 3, 5, 0xFFFFFFFD);
  c.variant.dtype = Format::fp32;
  const Input x = expand(c);
  for (std::uint32_t i = 0; i < 15; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, x.bytes.data() + 4 * std::size_t{i}, 4);
    EXPECT_EQ(bits, 0xFFFFFFFDU + i);
  }
}

TEST(Expand, every_amax_runs_through_the_patterns) {
  for (Format dtype : {Format::bf16, Format::fp32}) {
    Case c = test::make_case(Data::every_amax, 300, 33, 0x3F00);
    c.variant.dtype = dtype;
    test::for_each(c, [](const Input& in, auto i, auto j) {
      EXPECT_EQ(in.bits(i, j), j == 0 ? static_cast<std::uint32_t>(0x3F00 + i) : 0U);
    });
  }
  Case c = test::make_case(Data::every_amax, 1, 1);
  c.variant.dtype = Format::fp16;
  test::expect_error(ErrorKind::usage, "every_amax", [&] { (void)expand(c); });
}

TEST(Expand, codes_and_scale_bytes_for_dequantize_reach_all_values_and_dwell_on_the_extremes) {
  Case c = test::make_case(Data::normal, 200, 200);
  c.variant.operation = "dequantize", c.plants = {{3, 4, 0x7F}};
  const std::vector<std::uint8_t> codes = expand_codes(c);
  EXPECT_EQ(std::set<std::uint8_t>(codes.begin(), codes.end()).size(), 256U);
  EXPECT_EQ(codes[3 * 200 + 4], 0x7F);
  blocks_of(c.variant).format = Format::e2m1;
  c.plants.clear();
  for (std::uint8_t code : expand_codes(c)) {
    ASSERT_LT(code, 16);
  }
  const std::vector<std::uint8_t> bytes = expand_scale_bytes(c, 20000);
  std::array<int, 256> count{};
  for (std::uint8_t byte : bytes) ++count[byte];
  for (int n : count) {
    EXPECT_GT(n, 10);
  }
  for (std::size_t extreme : {0U, 1U, 127U, 254U, 255U}) EXPECT_GT(count[extreme], 400) << extreme;
}

TEST(Expand, slots_for_dequantize_pair_every_code_with_every_scale_byte) {
  const auto& all = all_statements();
  const auto s = std::find_if(all.begin(), all.end(),
                              [](const Statement& x) { return x.name == "dequantize_equals_the_reference"; });
  for (BlockShape block : test::kBlockShapesOfTests) {
    Variant v{"dequantize", Format::fp32};
    blocks_of(v).block = block;
    const std::vector<Case> corners = s->corners(v, Suite::quick);
    const Case& c = corners.back();
    ASSERT_EQ(c.data, Data::slots);
    const DequantizeProblem p(c);
    const ScaleGeometry g = scale_geometry(c, block);
    std::bitset<65536> seen;
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        const std::int64_t scale = i / block.rows * g.cols + j / (block.cols == 0 ? c.cols : block.cols);
        seen.set(p.scales[static_cast<std::size_t>(scale)] * 256U + p.codes[static_cast<std::size_t>(i * c.cols + j)]);
      }
    }
    EXPECT_TRUE(seen.all()) << to_text(block) << ' ' << seen.count();
  }
}

}  // namespace
}  // namespace mxcheck

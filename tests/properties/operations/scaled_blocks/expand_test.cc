#include "properties/operations/scaled_blocks/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "numerics/format/codec.h"
#include "properties/core/statement.h"
#include "properties/operations/dequantize/problem.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "reference/quantize/quantize.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

constexpr BlockShape kShapes[] = {{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}};
constexpr Format kDtypes[] = {Format::bf16, Format::fp32, Format::fp16};

Case make_case(Data data, std::int64_t rows, std::int64_t cols, std::uint64_t seed = 1) {
  Case c;
  c.variant.operation = "quantize", blocks_of(c.variant).block = {1, 32};
  c.rows = rows, c.cols = cols, c.data = data, c.seed = seed;
  return c;
}

std::uint32_t bits_at(const Input& input, std::int64_t i, std::int64_t j) { return input.bits(i, j); }

double value_at(const Input& input, std::int64_t i, std::int64_t j) { return decode(input.dtype, input.bits(i, j)); }

void for_each(const Case& c, const std::function<void(const Input&, std::int64_t, std::int64_t)>& visit) {
  const Input input = expand(c);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) visit(input, i, j);
  }
}

TEST(Expand, is_a_function_of_the_case) {
  for (std::size_t d = 0; d < std::size(kDataNames); ++d) {
    for (Format dtype : kDtypes) {
      const bool patterns = static_cast<Data>(d) == Data::every_amax || static_cast<Data>(d) == Data::every_word;
      if (patterns && dtype == Format::fp16) continue;
      Case c = make_case(static_cast<Data>(d), 37, 70);
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
    const Input few = expand(make_case(data, 5, 40));
    const Input many = expand(make_case(data, 9, 40));
    EXPECT_TRUE(std::equal(few.bytes.begin(), few.bytes.end(), many.bytes.begin()));
  }
}

TEST(Expand, plants_lie_over_the_drawn_elements_and_nan_behind_the_rows) {
  for (Format dtype : kDtypes) {
    Case c = make_case(Data::normal, 4, 6);
    c.variant.dtype = dtype, c.stride = 9, c.plants = {{1, 2, 0x1234}, {3, 5, 0x0042}};
    const Input input = expand(c);
    EXPECT_EQ(bits_at(input, 1, 2), 0x1234U);
    EXPECT_EQ(bits_at(input, 3, 5), 0x0042U);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 6; j < 9; ++j) {
        EXPECT_TRUE(std::isnan(value_at(input, i, j))) << i << ' ' << j;
      }
    }
    c.plants.clear();
    EXPECT_NE(bits_at(expand(c), 1, 2), 0x1234U);
  }
}

TEST(Expand, zeros_are_positive_zeros) {
  for_each(make_case(Data::zeros, 3, 40), [](const Input& in, auto i, auto j) { EXPECT_EQ(bits_at(in, i, j), 0U); });
}

TEST(Expand, codes_come_back_exactly_under_round_up_and_floor) {
  for (Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2, Format::mxint8}) {
    for (Format dtype : kDtypes) {
      for (BlockShape block : kShapes) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
          Case c = make_case(Data::codes, 67, 131, seed);
          c.variant.dtype = dtype;
          blocks_of(c.variant).format = format, blocks_of(c.variant).block = block;
          if (seed % 2 == 1) c.experts = {0, 5, 5, 40, 67};
          const Input x = expand(c);
          Quantized up = quantize(x.view(), format, block, recipe_named("rceil"), c.experts);
          const Quantized down = quantize(x.view(), format, block, recipe_named("floor"), c.experts);
          ASSERT_EQ(up.scales, down.scales) << to_text(c);
          ASSERT_EQ(up.codes, down.codes) << to_text(c);
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
    const Case c = make_case(Data::boundaries, 64, 256, seed);
    const Input x = expand(c);
    const Quantized q = quantize(x.view(), Format::e4m3, {1, 32}, rceil);
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        const int byte = q.scales[static_cast<std::size_t>(i * q.scale_cols + j / 32)];
        const std::uint32_t bits = bits_at(x, i, j) & 0x7FFF;
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
    for (BlockShape block : kShapes) {
      std::array<int, 6> seen{};
      for (std::uint64_t seed = 0; seed < (block == BlockShape{128, 128} ? 400 : 60); ++seed) {
        Case c = make_case(Data::boundaries, 90, 200, seed);
        c.variant.dtype = dtype, blocks_of(c.variant).block = block;
        const Input x = expand(c);
        const std::int64_t rows = block.rows, cols = block.cols == 0 ? c.cols : block.cols;
        for (std::int64_t bi = 0; bi < c.rows; bi += rows) {
          for (std::int64_t bj = 0; bj < c.cols; bj += cols) {
            std::uint32_t amax = 0;
            for (std::int64_t i = bi; i < std::min(c.rows, bi + rows); ++i) {
              for (std::int64_t j = bj; j < std::min(c.cols, bj + cols); ++j) {
                amax = std::max(amax, bits_at(x, i, j) & (dtype == Format::fp32 ? 0x7FFFFFFFU : 0x7FFFU));
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
  const Case whole = make_case(Data::every_bf16, kEveryBf16Rows, 32);
  const Input x = expand(whole);
  for (const char* name : {"rceil", "floor"}) {
    for (std::int64_t from = 0; from < kEveryBf16Rows; from += kChunk) {
      const MatrixView part{Format::bf16, x.bytes.data() + from * 64, kChunk, 32, 32};
      const Quantized q = quantize(part, Format::e4m3, {1, 32}, recipe_named(name));
      for (std::int64_t i = 0; i < kChunk; ++i) {
        const std::int64_t byte = (from + i) / kEveryBf16RowsPerByte;
        // Floor ends one byte earlier: the largest BF16 is below 2^128.
        if (name[0] == 'f' && byte == 247) continue;
        ASSERT_EQ(q.scales[static_cast<std::size_t>(i)], byte) << name;
        for (std::int64_t j = 0; j < 32; ++j) seen[static_cast<std::size_t>(byte)].set(bits_at(x, from + i, j));
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
  Case c = make_case(Data::every_word, 3, 5, 0xFFFFFFFD);
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
    Case c = make_case(Data::every_amax, 300, 33, 0x3F00);
    c.variant.dtype = dtype;
    for_each(c, [](const Input& in, auto i, auto j) {
      EXPECT_EQ(bits_at(in, i, j), j == 0 ? static_cast<std::uint32_t>(0x3F00 + i) : 0U);
    });
  }
  Case c = make_case(Data::every_amax, 1, 1);
  c.variant.dtype = Format::fp16;
  test::expect_error(ErrorKind::usage, "every_amax", [&] { (void)expand(c); });
}

// Rates, in percent of the elements, of what a distribution must hold.
struct Rates {
  std::int64_t all = 0, nan = 0, inf = 0, subnormal = 0, zero = 0, negative = 0, negative_zero = 0, signalling = 0;
  [[nodiscard]] double percent(std::int64_t n) const {
    return 100.0 * static_cast<double>(n) / static_cast<double>(all);
  }
};

Rates rates_of(Data data, Format dtype) {
  Rates r;
  const FormatSpec& f = spec(dtype);
  const std::uint32_t sign = 1U << (f.bits - 1);
  Case c = make_case(data, 400, 512, 3);
  c.variant.dtype = dtype;
  for_each(c, [&](const Input& in, auto i, auto j) {
    const std::uint32_t bits = bits_at(in, i, j);
    const std::uint32_t magnitude = bits & (sign - 1);
    ++r.all;
    r.nan += magnitude > f.max_code + 1 ? 1 : 0;
    r.signalling += magnitude > f.max_code + 1 && (magnitude >> (f.mantissa_bits - 1) & 1) == 0 ? 1 : 0;
    r.inf += magnitude == f.max_code + 1 ? 1 : 0;
    r.subnormal += magnitude != 0 && magnitude >> f.mantissa_bits == 0 ? 1 : 0;
    r.zero += magnitude == 0 ? 1 : 0;
    r.negative += (bits & sign) != 0 ? 1 : 0;
    r.negative_zero += bits == sign ? 1 : 0;
  });
  return r;
}

TEST(Expand, bits_are_uniform_over_the_type) {
  for (Format dtype : kDtypes) {
    const Rates r = rates_of(Data::bits, dtype);
    const double exponents = std::ldexp(1, spec(dtype).exponent_bits);
    // Five standard deviations of a share p of 204,800 elements: 0.56 % for p = 1/2, 0.19 % for FP16's p = 1/32 (the
    // other types' are rarer), and as much for twice the signalling half of the NaN.
    EXPECT_NEAR(r.percent(r.negative), 50, 0.56);
    EXPECT_NEAR(r.percent(r.nan + r.inf), 100 / exponents, 0.2);
    EXPECT_NEAR(r.percent(r.subnormal + r.zero), 100 / exponents, 0.2);
    EXPECT_NEAR(r.percent(r.signalling) * 2, r.percent(r.nan), 0.2);
    if (dtype == Format::fp16) {
      EXPECT_GT(r.inf, 0);
    }
  }
  std::set<std::uint32_t> all;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    for_each(make_case(Data::bits, 256, 256, seed),
             [&](const Input& in, auto i, auto j) { all.insert(bits_at(in, i, j)); });
  }
  EXPECT_GT(all.size(), 65500U);  // 65536 * (1 - e^-12)
}

TEST(Expand, specials_are_dense_in_everything_special) {
  for (Format dtype : kDtypes) {
    const Rates r = rates_of(Data::specials, dtype);
    EXPECT_GT(r.percent(r.nan), 5);
    EXPECT_GT(r.percent(r.signalling), 1);
    EXPECT_GT(r.percent(r.inf), 0.3);
    EXPECT_GT(r.percent(r.subnormal), 10);
    EXPECT_GT(r.percent(r.zero), 10);
    EXPECT_GT(r.percent(r.negative_zero), 5);
    EXPECT_GT(r.percent(r.negative), 42);  // like the shares above: neither sign is rare
    EXPECT_LT(r.percent(r.negative), 58);
  }
}

TEST(Expand, every_kind_of_special_block_appears) {
  constexpr const char* kKinds[] = {"all +0",     "all -0",  "zeros of both signs", "one NaN", "one Inf", "Inf and NaN",
                                    "subnormals", "all NaN", "near the top",        "ordinary"};
  for (BlockShape block : kShapes) {
    std::map<std::string, int> seen;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Case c = make_case(Data::specials, 256, 256, seed);
      blocks_of(c.variant).block = block;
      const Input x = expand(c);
      const std::int64_t cols = block.cols == 0 ? c.cols : block.cols;
      for (std::int64_t bi = 0; bi < c.rows; bi += block.rows) {
        for (std::int64_t bj = 0; bj < c.cols; bj += cols) {
          std::int64_t n = 0, plus = 0, minus = 0, nan = 0, inf = 0, subnormal = 0, top = 0;
          for (std::int64_t i = bi; i < bi + block.rows; ++i) {
            for (std::int64_t j = bj; j < bj + cols; ++j) {
              const std::uint32_t bits = bits_at(x, i, j);
              const std::uint32_t m = bits & 0x7FFF;
              ++n, plus += bits == 0, minus += bits == 0x8000, nan += m > 0x7F80, inf += m == 0x7F80;
              subnormal += m != 0 && m < 0x80, top += m >= 0x7F7C && m < 0x7F80;
            }
          }
          if (plus == n) ++seen["all +0"];
          if (minus == n) ++seen["all -0"];
          if (plus + minus == n && plus > 0 && minus > 0) ++seen["zeros of both signs"];
          if (nan == 1 && inf == 0) ++seen["one NaN"];
          if (inf == 1 && nan == 0) ++seen["one Inf"];
          if (inf > 0 && nan > 0) ++seen["Inf and NaN"];
          if (subnormal > n / 2 && nan + inf + top == 0) ++seen["subnormals"];
          if (nan == n) ++seen["all NaN"];
          if (top == n) ++seen["near the top"];
          if (nan + inf + subnormal + plus + minus == 0) ++seen["ordinary"];
        }
      }
    }
    for (const char* kind : kKinds) {
      EXPECT_GE(seen[kind], 2) << kind << " in blocks " << to_text(block);
    }
  }
}

TEST(Expand, sparse_blocks_hold_one_element_whatever_cuts_them) {
  for (BlockShape block : kShapes) {
    Case c = make_case(Data::sparse, 77, 101, 9);
    blocks_of(c.variant).block = block, c.experts = {0, 3, 40, 77};
    std::int64_t nonzero = 0;
    for_each(c, [&](const Input& in, auto i, auto j) { nonzero += bits_at(in, i, j) != 0 ? 1 : 0; });
    const Quantized q = quantize(expand(c).view(), Format::e4m3, block, recipe_named("rceil"), c.experts);
    const auto blocks = static_cast<std::int64_t>(q.scales.size());
    EXPECT_LE(nonzero, blocks);
    EXPECT_GE(nonzero, blocks - blocks / 32 - 1) << to_text(block);  // +0 is drawn now and then
  }
}

TEST(Expand, slots_tell_every_block_from_its_neighbours_and_every_element_from_the_next) {
  for (BlockShape block : kShapes) {
    for (std::int64_t cols : {std::int64_t{512}, std::int64_t{500}}) {
      Case c = make_case(Data::slots, 300, cols, 4);
      blocks_of(c.variant).block = block;
      const Quantized q = quantize(expand(c).view(), Format::e4m3, block, recipe_named("rceil"));
      const auto scale = [&](std::int64_t i, std::int64_t j) {
        return q.scales[static_cast<std::size_t>(i * q.scale_cols + j)];
      };
      for (std::int64_t i = 0; i < q.scale_rows; ++i) {
        for (std::int64_t j = 0; j < q.scale_cols; ++j) {
          if (i > 0) {
            ASSERT_NE(scale(i, j), scale(i - 1, j)) << to_text(block) << i << ' ' << j;
          }
          if (j > 0) {
            ASSERT_NE(scale(i, j), scale(i, j - 1)) << to_text(block) << i << ' ' << j;
          }
        }
      }
      for (std::int64_t i = 0; i < c.rows; ++i) {
        for (std::int64_t j = 1; j < cols; ++j) {
          const std::size_t at = static_cast<std::size_t>(i * cols + j);
          ASSERT_NE(q.codes[at], q.codes[at - 1]) << to_text(block) << i << ' ' << j;
        }
      }
    }
  }
}

TEST(Expand, wide_data_spans_the_exponents_and_is_finite) {
  for (Format dtype : kDtypes) {
    Case c = make_case(Data::wide, 200, 200);
    c.variant.dtype = dtype;
    std::set<int> exponents;
    for_each(c, [&](const Input& in, auto i, auto j) {
      ASSERT_TRUE(std::isfinite(value_at(in, i, j)));
      exponents.insert(static_cast<int>(bits_at(in, i, j) >> spec(dtype).mantissa_bits));
    });
    EXPECT_EQ(exponents.size(), 2 * ((std::size_t{1} << spec(dtype).exponent_bits) - 1));
  }
}

TEST(Expand, normal_data_is_finite_with_rows_of_their_own_size_and_outliers) {
  for (Format dtype : kDtypes) {
    Case c = make_case(Data::normal, 200, 400);
    c.variant.dtype = dtype;
    const Input x = expand(c);
    std::set<int> sizes;
    int outliers = 0;
    for (std::int64_t i = 0; i < c.rows; ++i) {
      double sum = 0, largest = 0;
      for (std::int64_t j = 0; j < c.cols; ++j) {
        ASSERT_TRUE(std::isfinite(value_at(x, i, j)));
        sum += std::fabs(value_at(x, i, j)), largest = std::max(largest, std::fabs(value_at(x, i, j)));
      }
      const double mean = sum / static_cast<double>(c.cols);
      sizes.insert(std::ilogb(mean));
      outliers += largest > 6 * mean ? 1 : 0;
    }
    EXPECT_GT(sizes.size(), 20U);
    EXPECT_GT(outliers, 50);
  }
}

TEST(Expand, real_data_is_a_window_of_the_committed_tensors) {
  std::set<std::uint32_t> first;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Case c = make_case(Data::real, 64, 64, seed);
    const Input x = expand(c);
    first.insert(bits_at(x, 0, 0));
    int nonzero = 0;
    for_each(c, [&](const Input& in, auto i, auto j) {
      ASSERT_TRUE(std::isfinite(value_at(in, i, j)));
      nonzero += value_at(in, i, j) != 0 ? 1 : 0;
    });
    EXPECT_GT(nonzero, 64);
  }
  EXPECT_GT(first.size(), 20U);
}

TEST(Expand, codes_and_scale_bytes_for_dequantize_reach_all_values_and_dwell_on_the_extremes) {
  Case c = make_case(Data::normal, 200, 200);
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
  for (BlockShape block : kShapes) {
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

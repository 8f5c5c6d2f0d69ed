// Contents of expand()'s distributions, counted: rates, kinds of blocks, ranges.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "reference/quantize/quantize.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
namespace {

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
  Case c = test::make_case(data, 400, 512, 3);
  c.variant.dtype = dtype;
  test::for_each(c, [&](const Input& in, auto i, auto j) {
    const std::uint32_t bits = in.bits(i, j);
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

TEST(ExpandStatistics, bits_are_uniform_over_the_type) {
  for (Format dtype : test::kDtypesOfTests) {
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
    test::for_each(test::make_case(Data::bits, 256, 256, seed),
                   [&](const Input& in, auto i, auto j) { all.insert(in.bits(i, j)); });
  }
  EXPECT_GT(all.size(), 65500U);  // 65536 * (1 - e^-12)
}

TEST(ExpandStatistics, specials_are_dense_in_everything_special) {
  for (Format dtype : test::kDtypesOfTests) {
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

TEST(ExpandStatistics, every_kind_of_special_block_appears) {
  constexpr const char* kKinds[] = {"all +0",     "all -0",  "zeros of both signs", "one NaN", "one Inf", "Inf and NaN",
                                    "subnormals", "all NaN", "near the top",        "ordinary"};
  for (BlockShape block : test::kBlockShapesOfTests) {
    std::map<std::string, int> seen;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Case c = test::make_case(Data::specials, 256, 256, seed);
      blocks_of(c.variant).block = block;
      const Input x = expand(c);
      const std::int64_t cols = block.cols == 0 ? c.cols : block.cols;
      for (std::int64_t bi = 0; bi < c.rows; bi += block.rows) {
        for (std::int64_t bj = 0; bj < c.cols; bj += cols) {
          std::int64_t n = 0, plus = 0, minus = 0, nan = 0, inf = 0, subnormal = 0, top = 0;
          for (std::int64_t i = bi; i < bi + block.rows; ++i) {
            for (std::int64_t j = bj; j < bj + cols; ++j) {
              const std::uint32_t bits = x.bits(i, j);
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

TEST(ExpandStatistics, sparse_blocks_hold_one_element_whatever_cuts_them) {
  for (BlockShape block : test::kBlockShapesOfTests) {
    Case c = test::make_case(Data::sparse, 77, 101, 9);
    blocks_of(c.variant).block = block, c.experts = {0, 3, 40, 77};
    std::int64_t nonzero = 0;
    test::for_each(c, [&](const Input& in, auto i, auto j) { nonzero += in.bits(i, j) != 0 ? 1 : 0; });
    const QuantizedTensor q = quantize(expand(c).view(), Format::e4m3, block, recipe_named("rceil"), c.experts);
    const auto blocks = static_cast<std::int64_t>(q.scales().size());
    EXPECT_LE(nonzero, blocks);
    EXPECT_GE(nonzero, blocks - blocks / 32 - 1) << to_text(block);  // +0 is drawn now and then
  }
}

TEST(ExpandStatistics, slots_tell_every_block_from_its_neighbours_and_every_element_from_the_next) {
  for (BlockShape block : test::kBlockShapesOfTests) {
    for (std::int64_t cols : {std::int64_t{512}, std::int64_t{500}}) {
      Case c = test::make_case(Data::slots, 300, cols, 4);
      blocks_of(c.variant).block = block;
      const QuantizedTensor q = quantize(expand(c).view(), Format::e4m3, block, recipe_named("rceil"));
      const auto scale = [&](std::int64_t i, std::int64_t j) {
        return q.scales().code(static_cast<std::size_t>(i * q.scale_cols() + j));
      };
      for (std::int64_t i = 0; i < q.scale_rows(); ++i) {
        for (std::int64_t j = 0; j < q.scale_cols(); ++j) {
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
          ASSERT_NE(q.codes.code(at), q.codes.code(at - 1)) << to_text(block) << i << ' ' << j;
        }
      }
    }
  }
}

TEST(ExpandStatistics, wide_data_spans_the_exponents_and_is_finite) {
  for (Format dtype : test::kDtypesOfTests) {
    Case c = test::make_case(Data::wide, 200, 200);
    c.variant.dtype = dtype;
    std::set<int> exponents;
    test::for_each(c, [&](const Input& in, auto i, auto j) {
      ASSERT_TRUE(std::isfinite(test::value_at(in, i, j)));
      exponents.insert(static_cast<int>(in.bits(i, j) >> spec(dtype).mantissa_bits));
    });
    EXPECT_EQ(exponents.size(), 2 * ((std::size_t{1} << spec(dtype).exponent_bits) - 1));
  }
}

TEST(ExpandStatistics, normal_data_is_finite_with_rows_of_their_own_size_and_outliers) {
  for (Format dtype : test::kDtypesOfTests) {
    Case c = test::make_case(Data::normal, 200, 400);
    c.variant.dtype = dtype;
    const Input x = expand(c);
    std::set<int> sizes;
    int outliers = 0;
    for (std::int64_t i = 0; i < c.rows; ++i) {
      double sum = 0, largest = 0;
      for (std::int64_t j = 0; j < c.cols; ++j) {
        ASSERT_TRUE(std::isfinite(test::value_at(x, i, j)));
        sum += std::fabs(test::value_at(x, i, j)), largest = std::max(largest, std::fabs(test::value_at(x, i, j)));
      }
      const double mean = sum / static_cast<double>(c.cols);
      sizes.insert(std::ilogb(mean));
      outliers += largest > 6 * mean ? 1 : 0;
    }
    EXPECT_GT(sizes.size(), 20U);
    EXPECT_GT(outliers, 50);
  }
}

TEST(ExpandStatistics, real_data_is_a_window_of_the_committed_tensors) {
  std::set<std::uint32_t> first;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Case c = test::make_case(Data::real, 64, 64, seed);
    const Input x = expand(c);
    first.insert(x.bits(0, 0));
    int nonzero = 0;
    test::for_each(c, [&](const Input& in, auto i, auto j) {
      ASSERT_TRUE(std::isfinite(test::value_at(in, i, j)));
      nonzero += test::value_at(in, i, j) != 0 ? 1 : 0;
    });
    EXPECT_GT(nonzero, 64);
  }
  EXPECT_GT(first.size(), 20U);
}

}  // namespace
}  // namespace mxcheck

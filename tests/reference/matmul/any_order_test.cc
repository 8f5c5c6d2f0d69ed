// Intervals of products without a promised order: no contract of the table and no order of FP32 sums is outside, and a
// product that lacks a term, or has another's scale, is.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/matmul/any_order.h"
#include "tests/reference/matmul/test_matmul.h"

namespace mxcheck {
namespace {

using test::fill;
using test::Owned;
using test::run;

std::vector<OutputRange> ranges_of(Matmul m, std::string_view claim) {
  m.contract = parse_matmul_contract(claim);
  return any_order_ranges(m);
}

std::int64_t outside(const std::vector<OutputRange>& ranges, const std::vector<float>& d) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < d.size(); ++i) count += ranges[i].holds(Format::fp32, std::bit_cast<std::uint32_t>(d[i]));
  return static_cast<std::int64_t>(d.size()) - count;
}

// A dense matmul of one format without scales, its codes drawn by draw().
struct Plain {
  Plain(Format format, std::int64_t rows, std::int64_t cols, std::int64_t depth, const std::function<double()>& draw)
      : depth_(depth) {
    const auto draw_all = [&](std::vector<std::uint32_t>& words, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        words.push_back(encode(format, draw(), Rounding::nearest_even, Overflow::saturate));
    };
    draw_all(a_, rows * depth), draw_all(b_, cols * depth);
    pack(a_, format, a_bytes_), pack(b_, format, b_bytes_);
    m.a = {format, a_bytes_.data(), rows, depth, depth};
    m.b = {format, b_bytes_.data(), cols, depth, depth};
    for (const std::uint32_t w : a_) a.push_back(decode(format, w));
    for (const std::uint32_t w : b_) b.push_back(decode(format, w));
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  // The products of output (i, j).
  [[nodiscard]] std::vector<float> terms(std::int64_t i, std::int64_t j) const {
    std::vector<float> all;
    for (std::int64_t k = 0; k < depth_; ++k)
      all.push_back(static_cast<float>(a[static_cast<std::size_t>(i * depth_ + k)] *
                                       b[static_cast<std::size_t>(j * depth_ + k)]));
    return all;
  }

  Matmul m;
  std::vector<double> a, b;

 private:
  static void pack(const std::vector<std::uint32_t>& words, Format format, std::vector<std::uint8_t>& bytes) {
    for (const std::uint32_t w : words) {
      for (std::size_t n = 0; n < size_of(format); ++n) bytes.push_back(static_cast<std::uint8_t>(w >> (8 * n)));
    }
  }
  std::int64_t depth_;
  std::vector<std::uint32_t> a_, b_;
  std::vector<std::uint8_t> a_bytes_, b_bytes_;
};

TEST(AnyOrder, holds_what_tensor_cores_and_fp32_give) {
  struct Row {
    const char* contract;
    const char* claim;
    Format format;
  };
  const Row rows[] = {{"sm90_fp8", "any_order+f13", Format::e4m3},
                      {"sm90_fp8", "any_order+f13", Format::e5m2},
                      {"sm90_bf16", "any_order", Format::bf16},
                      {"sm90_fp16", "any_order", Format::fp16},
                      {"sm100_f8f6f4", "any_order", Format::e4m3},
                      {"sm100_f16", "any_order", Format::bf16},
                      {"ieee_fp32", "any_order", Format::bf16},
                      {"ieee_fp32", "any_order", Format::fp32},
                      {"exact", "any_order", Format::fp32},
                      {"exact", "any_order+f13", Format::e4m3},
                      {"sm90_fp8+descending", "any_order+f13", Format::e4m3}};
  std::mt19937 random(1);
  for (const Row& row : rows) {
    for (const std::int64_t depth : {1, 2, 3, 8, 16, 31, 32, 33, 100, 256, 700}) {
      for (const int spread :
           {0, 4, 12, 13}) {  // 13: among the operands' subnormals, whose products are not normalized
        std::normal_distribution<double> normal;
        Plain p(row.format, 9, 24, depth, [&] {
          const int least = spread == 13 ? 1 - spec(row.format).bias - spec(row.format).mantissa_bits : -spread / 2;
          return std::ldexp(normal(random), static_cast<int>(random() % static_cast<unsigned>(spread + 1)) + least);
        });
        p.m.contract = parse_matmul_contract(row.contract);
        SCOPED_TRACE(std::string(row.contract) + " k " + std::to_string(depth) + " spread " + std::to_string(spread));
        EXPECT_EQ(outside(ranges_of(p.m, row.claim), run(p.m)), 0);
      }
    }
  }
}

// Adds terms in a random order and grouping; `cut` rounds toward zero.
float any_sum(std::vector<float> terms, std::mt19937& random, bool cut) {
  while (terms.size() > 1) {
    const std::size_t i = random() % terms.size();
    std::swap(terms[i], terms.back());
    const float x = terms.back();
    terms.pop_back();
    float& y = terms[random() % terms.size()];
    const double exact =
        double{x} + double{y};  // of FP32 numbers of like size; else cut below is the larger's neighbour
    float sum = x + y;
    if (cut && std::fabs(double{sum}) > std::fabs(exact)) sum = std::nextafter(sum, 0.0F);
    y = sum;
  }
  return terms.empty() ? 0 : terms[0];
}

TEST(AnyOrder, holds_random_orders_of_fp32_sums_that_round_or_cut) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  for (const std::int64_t depth : {2, 3, 5, 17, 64, 300}) {
    Plain p(Format::bf16, 4, 6, depth, [&] { return std::ldexp(normal(random), static_cast<int>(random() % 9) - 4); });
    const std::vector<OutputRange> ranges = ranges_of(p.m, "any_order");
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 6; ++j) {
        for (int n = 0; n < 40; ++n) {
          const float sum = any_sum(p.terms(i, j), random, n % 2 == 1);
          EXPECT_TRUE(
              ranges[static_cast<std::size_t>(6 * i + j)].holds(Format::fp32, std::bit_cast<std::uint32_t>(sum)))
              << depth << ": " << sum;
        }
      }
    }
  }
}

TEST(AnyOrder, holds_scaled_products_whenever_the_scales_come_in) {
  for (const Format scale : {Format::e8m0, Format::fp32}) {
    for (const char* contract :
         {"sm90_fp8+promote128", "sm90_fp8+promote128+a_first", "sm90_fp8+promote128+b_first", "exact", "ieee_fp32"}) {
      Owned o;
      fill(o, contract, {33, 140, 520}, {1, 128}, {128, 128}, scale, 3);
      SCOPED_TRACE(std::string(contract) + " " + std::string(spec(scale).name));
      EXPECT_EQ(outside(ranges_of(o.m, "any_order+f13"), run(o.m)), 0);
    }
  }
  for (const std::int64_t depth : {1, 2, 5}) {  // roundings of scales alone, or nearly
    Owned o;
    fill(o, "ieee_fp32", {33, 140, depth}, {1, 128}, {1, 128}, Format::fp32, 11);
    std::mt19937 random(12);
    for (float& scale : o.floats_a) scale *= 1 + static_cast<float>(random() % (1 << 20)) * 0x1p-20F;
    for (float& scale : o.floats_b) scale *= 1 + static_cast<float>(random() % (1 << 20)) * 0x1p-20F;
    EXPECT_EQ(outside(ranges_of(o.m, "any_order"), run(o.m)), 0) << depth;
  }
  Owned o;
  fill(o, "sm90_bf16+decode", {17, 40, 96}, {1, 32}, {1, 32}, Format::e8m0, 4);
  EXPECT_EQ(outside(ranges_of(o.m, "any_order+decode"), run(o.m)), 0);
}

TEST(AnyOrder, holds_every_epilogue_and_group) {
  for (const float alpha : {1.0F, 0.3F, -2.0F}) {
    Owned o;
    fill(o, "sm90_fp8+promote128", {9, 20, 256}, {1, 128}, {1, 128}, Format::e8m0, 5);
    o.m.alpha = alpha;
    o.c.assign(180, 3.25F);
    o.m.c = o.c.data();
    EXPECT_EQ(outside(ranges_of(o.m, "any_order+f13"), run(o.m)), 0) << alpha;
    std::vector<std::uint16_t> c(180, 0x3F80), d(180);
    o.m.c = c.data(), o.m.output = Format::bf16;
    matmul(o.m, d.data());
    const std::vector<OutputRange> ranges = ranges_of(o.m, "any_order+f13");
    for (std::size_t i = 0; i < d.size(); ++i) EXPECT_TRUE(ranges[i].holds(Format::bf16, d[i])) << alpha << " " << i;
  }
  Owned rows;
  fill(rows, "sm90_fp8", {30, 16, 64, 3}, {0, 0}, {0, 0}, Format::e8m0, 6);
  rows.offsets = {0, 7, 7, 30}, rows.m.offsets = rows.offsets, rows.m.grouping = Grouping::rows;
  EXPECT_EQ(outside(ranges_of(rows.m, "any_order+f13"), run(rows.m)), 0);
  Owned depth;
  fill(depth, "sm90_fp8", {8, 16, 96}, {0, 0}, {0, 0}, Format::e8m0, 7);
  depth.offsets = {0, 32, 32, 96}, depth.m.offsets = depth.offsets, depth.m.grouping = Grouping::depth;
  EXPECT_EQ(outside(ranges_of(depth.m, "any_order+f13"), run(depth.m)), 0);
}

TEST(AnyOrder, is_a_point_where_nothing_can_be_lost) {
  std::mt19937 random(8);
  Plain integers(Format::e4m3, 5, 7, 300, [&] { return static_cast<double>(random() % 5) - 2; });
  for (const char* claim : {"any_order", "any_order+f13"}) {
    for (const OutputRange& range : ranges_of(integers.m, claim)) EXPECT_TRUE(range.is_point());
  }
  integers.m.contract = parse_matmul_contract("exact");
  EXPECT_EQ(outside(ranges_of(integers.m, "any_order"), run(integers.m)), 0);
  Plain one(Format::bf16, 5, 7, 1, [&] { return static_cast<double>(random() % 1000) / 64; });
  for (const OutputRange& range : ranges_of(one.m, "any_order")) EXPECT_TRUE(range.is_point());
  Plain none(Format::bf16, 3, 3, 0, [] { return 1.0; });
  for (const OutputRange& range : ranges_of(none.m, "any_order")) {
    EXPECT_TRUE(range.holds(Format::fp32, 0) && range.holds(Format::fp32, 0x80000000));
    EXPECT_FALSE(range.holds(Format::fp32, 1));
  }
}

TEST(AnyOrder, is_left_by_a_product_without_one_term) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  Plain p(Format::bf16, 16, 16, 256, [&] { return normal(random); });
  const std::vector<OutputRange> ranges = ranges_of(p.m, "any_order");
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < 16; ++i) {
    for (std::int64_t j = 0; j < 16; ++j) {
      std::vector<float> terms = p.terms(i, j);
      terms.pop_back();
      double sum = 0;
      for (const float t : terms) sum += double{t};
      const auto word = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
      found += ranges[static_cast<std::size_t>(16 * i + j)].holds(Format::fp32, word) ? 0 : 1;
    }
  }
  EXPECT_GE(found, 250);  // of 256: a term below the interval's half width, 2^-15 of the others together, is not missed
}

TEST(AnyOrder, knows_what_nan_and_infinities_make) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto one = [](double x, double y, double z) {
    std::vector<double> values{x, y, z, 1, 1, 1};
    std::size_t next = 0;
    Plain p(Format::bf16, 1, 1, 3, [&] { return values[next++]; });
    // Saturation of the draw aside: infinities are written as such.
    std::vector<std::uint16_t> words;
    for (const double v : {x, y, z})
      words.push_back(
          static_cast<std::uint16_t>(encode(Format::bf16, v, Rounding::nearest_even, Overflow::non_saturate)));
    p.m.a.codes = words.data();
    return ranges_of(p.m, "any_order").front();
  };
  constexpr std::uint32_t kFp32Inf = 0x7F800000, kFp32Nan = 0x7FC00000;
  EXPECT_TRUE(one(1, std::nan(""), 2).holds(Format::fp32, kFp32Nan));
  EXPECT_FALSE(one(1, std::nan(""), 2).holds(Format::fp32, 0));
  EXPECT_TRUE(one(kInf, -kInf, 2).is_nan);
  EXPECT_TRUE(one(kInf, 1, 2).holds(Format::fp32, kFp32Inf));
  EXPECT_FALSE(one(kInf, 1, 2).holds(Format::fp32, kFp32Nan));
  EXPECT_FALSE(one(1, 1, 2).holds(Format::fp32, kFp32Nan));
  EXPECT_TRUE(one(3e38, 3e38, 3e38).unbounded);
}

// One product of two codes under FP32 scales.
OutputRange scaled_range(Format format, std::uint32_t a, std::uint32_t b, float scale_a, float scale_b,
                         const char* claim = "any_order") {
  Matmul m;
  m.contract = parse_matmul_contract(claim);
  m.a = {format, &a, 1, 1, 1, 1, {1, 32}, Format::fp32, &scale_a, 1};
  m.b = {format, &b, 1, 1, 1, 1, {1, 32}, Format::fp32, &scale_b, 1};
  return any_order_ranges(m).front();
}

TEST(AnyOrder, says_nothing_where_scales_or_codes_under_them_may_leave_fp32) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(scaled_range(Format::e4m3, 0x38, 0x38, kInf, 1).unbounded);
  EXPECT_TRUE(scaled_range(Format::e4m3, 0, 0x38, 0x1p100F, 0x1p100F).unbounded);         // 0 times infinity
  EXPECT_TRUE(scaled_range(Format::bf16, 0x7180, 0x7180, 0x1p-50F, 0x1p-50F).unbounded);  // 2^100 each
  EXPECT_TRUE(scaled_range(Format::bf16, 0x1780, 0x1780, 0x1p40F, 0x1p40F).unbounded);    // 2^-80 each
  EXPECT_FALSE(scaled_range(Format::e5m2, 0x01, 0x7B, 0x1p-50F, 0x1p50F).unbounded);
}

TEST(AnyOrder, is_a_point_under_scales_that_keep_all_bits) {
  EXPECT_TRUE(scaled_range(Format::e4m3, 0x44, 0x38, 1.5F, 1.25F).is_point());
  EXPECT_FALSE(scaled_range(Format::e4m3, 0x44, 0x38, 1.1F, 1.3F).is_point());
  std::mt19937 random(13);
  Plain p(Format::fp32, 4, 4, 100, [&] { return static_cast<double>(random() % 7) - 3; });
  for (const float alpha : {1.0F, 0.5F}) {
    p.m.alpha = alpha;
    for (const OutputRange& range : ranges_of(p.m, "any_order")) EXPECT_TRUE(range.is_point()) << alpha;
  }
  p.m.alpha = 0.3F;
  EXPECT_FALSE(ranges_of(p.m, "any_order").front().is_point());
}

TEST(AnyOrder, decodes_before_it_sums_as_the_exact_sum_does) {
  const std::uint8_t a = 0x39, b = 0x38;  // 1.125, 1
  const float scale_a = 1.005859375F, scale_b = 1;
  Matmul m;
  m.contract = parse_matmul_contract("exact+decode");
  m.a = {Format::e4m3, &a, 1, 1, 1, 1, {1, 32}, Format::fp32, &scale_a, 1};
  m.b = {Format::e4m3, &b, 1, 1, 1, 1, {1, 32}, Format::fp32, &scale_b, 1};
  EXPECT_EQ(run(m), std::vector<float>{1.1328125F});
  const OutputRange range = ranges_of(m, "any_order+decode").front();
  EXPECT_TRUE(range.is_point() && range.low == 1.1328125);
}

TEST(AnyOrder, of_a_long_sum_is_wide_and_not_open) {
  Plain p(Format::e4m3, 1, 1, 2048, [] { return 1.1; });
  const OutputRange range = ranges_of(p.m, "any_order+f13").front();
  EXPECT_FALSE(range.unbounded);
  EXPECT_FALSE(range.holds(Format::fp32, 0));
}

// The sum in long double, whose rounding is 2^-11 of a double's.
TEST(AnyOrder, says_nothing_of_rows_past_the_counts_of_masked_groups) {
  Owned o;
  fill(o, "any_order", {2 * 3, 4, 64, 2}, {0, 0}, {0, 0}, Format::fp32, 5);
  o.counts = {1, 3};
  o.m.grouping = Grouping::masked, o.m.counts = o.counts;
  const std::vector<OutputRange> ranges = any_order_ranges(o.m);
  const std::vector<float> d = run(o.m);
  for (std::int64_t i = 0; i < 24; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(ranges[at].unbounded, !o.m.writes_row(i / 4)) << i;
    EXPECT_TRUE(ranges[at].holds(Format::fp32, std::bit_cast<std::uint32_t>(d[at]))) << i;
  }
}

TEST(ExactOutput, is_the_sum_with_its_magnitude) {
  std::mt19937 random(21);
  std::normal_distribution<double> normal;
  for (const float alpha : {1.0F, -0.3F}) {
    Plain p(Format::bf16, 3, 5, 777, [&] { return std::ldexp(normal(random), static_cast<int>(random() % 30) - 15); });
    const std::vector<float> c(15, 2.5F);
    p.m.alpha = alpha, p.m.c = c.data();
    p.m.contract = parse_matmul_contract("as_accurate_as:sm90_bf16");
    for (std::int64_t at = 0; at < 15; ++at) {
      long double sum = 0, magnitude = 0;
      for (const float t : p.terms(at / 5, at % 5))
        sum += static_cast<long double>(t), magnitude += std::fabs(static_cast<long double>(t));
      const ExactOutput exact = exact_output(p.m, at);
      sum = sum * static_cast<long double>(alpha) + 2.5L;
      EXPECT_LE(std::fabs(static_cast<long double>(exact.value) - sum), exact.off) << at;
      EXPECT_NEAR(exact.magnitude / static_cast<double>(magnitude * std::fabs(static_cast<long double>(alpha)) + 2.5L),
                  1, 1e-12);
      EXPECT_LT(exact.off, 1e-12 * exact.magnitude);
    }
    EXPECT_THROW((void)exact_output(p.m, 15), Error);
    EXPECT_THROW((void)exact_output(p.m, -1), Error);
  }
}

TEST(ExactOutput, knows_groups_scales_and_what_is_no_number) {
  Owned o;
  fill(o, "exact", {7, 9, 256, 2}, {1, 128}, {1, 128}, Format::e8m0, 22);
  o.offsets = {0, 3, 7}, o.m.offsets = o.offsets, o.m.grouping = Grouping::rows;
  const std::vector<float> d = run(o.m);
  for (std::size_t at = 0; at < d.size(); ++at) {
    const ExactOutput exact = exact_output(o.m, static_cast<std::int64_t>(at));
    EXPECT_NEAR(double{d[at]}, exact.value, 0x1p-24 * std::fabs(exact.value) + exact.off) << at;
  }
  Plain p(Format::bf16, 1, 1, 2, [] { return std::nan(""); });
  p.m.contract = parse_matmul_contract("exact");
  EXPECT_TRUE(std::isnan(exact_output(p.m, 0).value));
}

// Intervals of a contract's own accumulators hold the contract.
TEST(AsAccurateAs, has_the_contracts_bits_within_its_intervals) {
  std::mt19937 random(23);
  std::normal_distribution<double> normal;
  for (const auto& [contract, format] :
       {std::pair{"sm90_fp8", Format::e4m3}, std::pair{"sm90_fp8+promote128", Format::e5m2},
        std::pair{"sm90_bf16+descending", Format::bf16}, std::pair{"exact", Format::fp16},
        std::pair{"ieee_fp32", Format::fp32}, std::pair{"sm100_f8f6f4", Format::e2m3}}) {
    for (const std::int64_t depth : {1, 31, 128, 700}) {
      Plain p(format, 9, 24, depth, [&] { return normal(random); });
      p.m.contract = parse_matmul_contract(contract);
      const std::vector<float> bits = run(p.m);
      const std::string claim = std::string("as_accurate_as:") + contract;
      EXPECT_EQ(outside(ranges_of(p.m, claim), bits), 0) << claim;
      p.m.contract = parse_matmul_contract(claim);
      EXPECT_EQ(run(p.m), bits) << claim;
      EXPECT_FALSE(p.m.contract.promises_bits());
    }
  }
  for (const std::int64_t depth : {32, 96, 1000}) {
    Owned o;
    fill(o, "sm100_mxf8f6f4", {17, 40, depth}, {1, 32}, {1, 32}, Format::e8m0, 24);
    EXPECT_EQ(outside(ranges_of(o.m, "as_accurate_as:sm100_mxf8f6f4"), run(o.m)), 0) << depth;
  }
  EXPECT_EQ(parse_matmul_contract("as_accurate_as:sm90_fp8+promote128").kept_bits, 13);
  EXPECT_EQ(parse_matmul_contract("as_accurate_as:sm100_mxf8f6f4").kept_bits, 23);
}

TEST(AsAccurateAs, refuses_what_has_no_errors_to_be_compared_with) {
  for (const char* text : {"as_accurate_as", "as_accurate_as:", "as_accurate_as:any_order", "as_accurate_as:sm91_bf16",
                           "as_accurate_as:as_accurate_as:exact", "as_accurate_as:sm90_fp16_fp16",
                           "as_accurate_as:sm90_tf32", "as_accurate_as:sm90_fp8+", "as_accurate_as:sm90_fp8+f13",
                           "as_accurate_as :exact", "exact+as_accurate_as:exact"})
    EXPECT_THROW((void)parse_matmul_contract(text), Error) << text;
  for (const char* text : {"as_accurate_as:exact", "as_accurate_as:sm90_bf16+from_c", "as_accurate_as:sm90_bf16+decode",
                           "as_accurate_as:sm90_fp8+promote128+a_first", "as_accurate_as:sm100_mxf8f6f4"})
    EXPECT_EQ(to_text(parse_matmul_contract(text)), text);
}

TEST(AnyOrder, refuses_contracts_that_promise_an_order_and_texts_that_say_nothing) {
  Plain p(Format::bf16, 1, 1, 1, [] { return 1.0; });
  EXPECT_THROW((void)ranges_of(p.m, "sm90_bf16"), Error);
  for (const char* text : {"any_order+f3", "any_order+f23", "any_order+fx", "any_order+from_c", "any_order+promote128",
                           "any_order+descending", "sm90_bf16+f13"})
    EXPECT_THROW((void)parse_matmul_contract(text), Error) << text;
  for (const char* text : {"any_order", "any_order+f13", "any_order+decode", "any_order+f13+decode"})
    EXPECT_EQ(to_text(parse_matmul_contract(text)), text);
}

}  // namespace
}  // namespace mxcheck

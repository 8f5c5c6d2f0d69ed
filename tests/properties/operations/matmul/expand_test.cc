// Operands, scales and C of GEMMs: what each distribution is for.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "properties/operations/matmul/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kDepth = 160;
constexpr std::uint64_t kA = 0xA;  // salts of the two operands
constexpr std::uint64_t kB = 0xB;

Case make_case(Data data, std::uint64_t seed = 1, int scales = MXCHECK_NO_SCALES) {
  Case c;
  c.variant.operation = "matmul:exact", c.variant.dtype = Format::fp32;
  matmul_of(c.variant).scales = scales;
  c.data = data, c.seed = seed;
  return c;
}

std::vector<double> values_of(const Case& c, Format format, std::uint64_t salt, std::int64_t rows = kRows) {
  const std::vector<std::byte> bytes = expand_operand(c, format, salt, rows, kDepth);
  const std::size_t width = static_cast<std::size_t>(spec(format).bits) / 8;
  std::vector<double> values;
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint32_t code = 0;
    std::memcpy(&code, bytes.data() + at, width);
    values.push_back(decode(format, code));
  }
  return values;
}

TEST(ExpandMatmul, is_a_function_of_case_operand_and_place) {
  for (const Data data : {Data::normal, Data::boundaries, Data::bits, Data::wide, Data::specials, Data::slots}) {
    const Case c = make_case(data);
    const auto few = expand_operand(c, Format::e4m3, kA, 3, kDepth);
    const auto many = expand_operand(c, Format::e4m3, kA, 9, kDepth);
    EXPECT_EQ(few, expand_operand(c, Format::e4m3, kA, 3, kDepth)) << to_text(data);
    EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin())) << to_text(data);
    EXPECT_NE(many, expand_operand(c, Format::e4m3, kB, 9, kDepth)) << to_text(data);
    EXPECT_NE(many, expand_operand(make_case(data, 3), Format::e4m3, kA, 9, kDepth)) << to_text(data);
  }
}

TEST(ExpandMatmul, codes_are_the_integers_from_minus_two_to_two) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::fp32}) {
    const std::vector<double> values = values_of(make_case(Data::codes), format, kA);
    EXPECT_EQ(std::set<double>(values.begin(), values.end()), (std::set<double>{-2, -1, 0, 1, 2}));
  }
}

TEST(ExpandMatmul, only_bits_and_specials_hold_what_is_not_finite) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::fp16, Format::fp32}) {
    for (const Data data : {Data::normal, Data::boundaries, Data::wide, Data::sparse, Data::slots, Data::every_word}) {
      for (const double value : values_of(make_case(data), format, kA)) ASSERT_TRUE(std::isfinite(value));
    }
    const std::vector<double> specials = values_of(make_case(Data::specials), format, kA, 400);
    EXPECT_TRUE(std::any_of(specials.begin(), specials.end(), [](double v) { return std::isnan(v); }));
    const bool has_infinity = std::any_of(specials.begin(), specials.end(), [](double v) { return std::isinf(v); });
    EXPECT_EQ(has_infinity, format != Format::e4m3);  // which has none
  }
  const std::vector<std::byte> bits = expand_operand(make_case(Data::bits), Format::e4m3, kA, kRows, kDepth);
  EXPECT_EQ(std::set<std::byte>(bits.begin(), bits.end()).size(), 256U);
}

TEST(ExpandMatmul, boundaries_nearly_cancel_in_pairs) {
  const std::vector<double> values = values_of(make_case(Data::boundaries), Format::bf16, kA);
  std::size_t opposite = 0;
  for (std::size_t i = 0; i < values.size(); i += 2) opposite += values[i] != 0 && values[i] == -values[i + 1] ? 1 : 0;
  // Three pairs of 5120 in four, whose standard deviation is sqrt(5120 * 3 / 16) = 31: five are 155. The rest of the
  // bound is for the others, 1280 pairs of 15 values and 4 exponents, some of which are opposite by accident.
  EXPECT_NEAR(static_cast<double>(opposite), 3840, 200);
}

TEST(ExpandMatmul, sparse_operands_are_one_code_in_32) {
  const std::vector<double> values = values_of(make_case(Data::sparse), Format::e4m3, kA, 400);
  const auto nonzero = std::count_if(values.begin(), values.end(), [](double v) { return v != 0; });
  // One in 32 of 64,000: five times sqrt(64,000 * 31 / 32^2) = 44, and some of those round to zero.
  EXPECT_NEAR(static_cast<double>(nonzero), 2000, 250);
}

TEST(ExpandMatmul, every_word_has_one_one_hot_operand) {
  for (const std::uint64_t seed : {0U, 6U, 7U, 401U}) {
    const Case c = make_case(Data::every_word, seed);
    const std::uint64_t one_hot = seed % 2 == 0 ? kA : kB;
    const std::vector<double> values = values_of(c, Format::e4m3, one_hot);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::int64_t at = (r + static_cast<std::int64_t>(seed / 2)) % kDepth;
      for (std::int64_t k = 0; k < kDepth; ++k)
        ASSERT_EQ(values[static_cast<std::size_t>(r * kDepth + k)], k == at ? 1 : 0) << seed << ": " << r << ' ' << k;
    }
    for (const double v : values_of(c, Format::e4m3, one_hot == kA ? kB : kA)) ASSERT_NE(v, 0);
  }
}

TEST(ExpandMatmul, slots_tell_neighbouring_k_rows_and_blocks_apart) {
  const std::vector<double> values = values_of(make_case(Data::slots), Format::e4m3, kA);
  const auto at = [&](std::int64_t r, std::int64_t k) { return values[static_cast<std::size_t>(r * kDepth + k)]; };
  for (std::int64_t r = 1; r < kRows; ++r) {
    for (std::int64_t k = 32; k < kDepth; ++k) {
      ASSERT_NE(at(r, k), at(r, k - 1));
      ASSERT_NE(at(r, k), at(r - 1, k));
      ASSERT_NE(at(r, k), at(r, k - 32));
    }
  }
}

TEST(ExpandMatmul, scale_bytes_are_those_that_the_data_needs) {
  const auto bytes = [](Data data) {
    return values_in<std::uint8_t>(expand_operand_scales(make_case(data, 1, MXCHECK_E8M0), kA, 256, 40));
  };
  for (const std::uint8_t byte : bytes(Data::codes)) ASSERT_EQ(byte, 127);
  for (const std::uint8_t byte : bytes(Data::normal)) ASSERT_TRUE(byte >= 107 && byte <= 147) << int{byte};
  const std::vector<std::uint8_t> wide = bytes(Data::wide);
  EXPECT_EQ(std::set<std::uint8_t>(wide.begin(), wide.end()).size(), 255U);
  EXPECT_EQ(std::count(wide.begin(), wide.end(), 255), 0);
  const std::vector<std::uint8_t> specials = bytes(Data::specials);
  for (const int extreme : {0, 254, 255}) EXPECT_GT(std::count(specials.begin(), specials.end(), extreme), 40);
  const std::vector<std::uint8_t> slots = bytes(Data::slots);
  for (std::size_t i = 0; i < slots.size(); ++i) ASSERT_EQ(slots[i], i / 40);
}

TEST(ExpandMatmul, fp32_scales_have_the_exponents_of_the_bytes) {
  for (const Data data : {Data::normal, Data::wide, Data::slots}) {
    const auto bytes = values_in<std::uint8_t>(expand_operand_scales(make_case(data, 1, MXCHECK_E8M0), kA, 256, 9));
    const auto words = values_in<std::uint32_t>(expand_operand_scales(make_case(data, 1, MXCHECK_FP32), kA, 256, 9));
    ASSERT_EQ(bytes.size(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i] >> 23, bytes[i]) << to_text(data);
  }
  const auto ones = values_in<float>(expand_operand_scales(make_case(Data::codes, 1, MXCHECK_FP32), kA, 9, 9));
  for (const float one : ones) ASSERT_EQ(one, 1);
}

TEST(ExpandMatmul, c_has_the_outputs_type_and_small_integers_beside_codes) {
  Case c = make_case(Data::codes);
  std::set<float> seen;
  for (const float v : values_in<float>(expand_c(c, 1000))) seen.insert(v);
  EXPECT_EQ(seen, (std::set<float>{-4, -3, -2, -1, 0, 1, 2, 3, 4}));
  c.variant.dtype = Format::bf16;
  EXPECT_EQ(expand_c(c, 1000).size(), 2000U);
  c.data = Data::zeros;
  for (const std::byte b : expand_c(c, 100)) ASSERT_EQ(b, std::byte{0});
}

}  // namespace
}  // namespace mxcheck

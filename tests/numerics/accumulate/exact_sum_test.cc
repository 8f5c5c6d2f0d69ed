// The fixed-point accumulator against integers of unlimited width.

#include "numerics/accumulate/exact_sum.h"

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

// Of a fixed width, wide enough: GCC 12 takes the growing kind's storage for uninitialized.
using cpp_int = boost::multiprecision::number<boost::multiprecision::cpp_int_backend<
    2048, 2048, boost::multiprecision::signed_magnitude, boost::multiprecision::unchecked, void>>;

struct Term {
  bool negative;
  std::uint64_t magnitude;
  int exponent;
};

constexpr int kUnit = -700;

// The sum rounded by comparing integers: the code below, its neighbour, and the point half way between them.
std::uint32_t rounded(const std::vector<Term>& terms, Format format) {
  cpp_int sum = 0;
  for (const Term& t : terms) {
    const cpp_int magnitude = cpp_int(t.magnitude) << (t.exponent - kUnit);
    sum += t.negative ? cpp_int(-magnitude) : magnitude;
  }
  if (sum == 0) return 0;
  const bool negative = sum < 0;
  if (negative) sum = -sum;
  const FormatSpec& f = spec(format);
  const auto value = [&](std::uint32_t code) {
    const std::uint32_t field = code >> f.mantissa_bits;
    const std::uint32_t mantissa = code & ((1U << f.mantissa_bits) - 1);
    const cpp_int m = field == 0 ? mantissa : mantissa + (1U << f.mantissa_bits);
    return cpp_int(m << (static_cast<int>(field == 0 ? 1 : field) - f.bias - f.mantissa_bits - kUnit));
  };
  std::uint32_t low = 0;
  std::uint32_t high = f.max_code + 1;  // Inf stands for the value that would follow
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (value(middle) <= sum ? low : high) = middle;
  }
  const cpp_int twice = 2 * sum;
  const cpp_int half = value(low) + value(low + 1);
  const bool up = sum != value(low) && (twice > half || (twice == half && low % 2 == 1));
  const std::uint32_t sign = negative ? 1U << (f.bits - 1) : 0;
  return sign | (low + (up ? 1 : 0));
}

std::uint32_t summed(const std::vector<Term>& terms, Format format) {
  ExactSum sum;
  for (const Term& t : terms) sum.add(t.negative, t.magnitude, t.exponent);
  return sum.rounded(format);
}

TEST(ExactSum, equals_integers_of_any_width) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 4000; ++round) {
    std::vector<Term> terms(1 + random() % 40);
    const int spread = 1 << random() % 9;
    for (Term& t : terms) {
      const auto width = static_cast<int>(random() % 48);
      t = {random() % 2 == 0, random() >> (63 - width),
           static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2 - 60};
    }
    if (round % 3 == 0) {  // near cancellation
      const std::size_t n = terms.size();
      for (std::size_t i = 0; i < n; ++i) terms.push_back({!terms[i].negative, terms[i].magnitude, terms[i].exponent});
      terms.push_back({random() % 2 == 0, random() % 16, -200});
    }
    for (Format format : {Format::fp32, Format::bf16, Format::fp16, Format::e5m2}) {
      ASSERT_EQ(summed(terms, format), rounded(terms, format)) << spec(format).name << ", round " << round;
    }
  }
}

TEST(ExactSum, ties_subnormals_and_overflow) {
  const std::vector<std::vector<Term>> cases{
      {{false, 0x1000001, 0}, {false, 1, -600}},  // a tie and the smallest bit above it
      {{false, 0x1000001, 0}, {true, 1, -600}},
      {{false, 0x1000001, 0}},
      {{false, 0x1000003, 0}},
      {{false, 1, -150}},  // half of the smallest subnormal
      {{false, 1, -150}, {false, 1, -600}},
      {{true, 3, -150}},
      {{false, 0xFFFFFF, 104}},
      {{false, 0x1FFFFFF, 103}},  // the tie at which FP32 overflows
      {{false, 0x1FFFFFF, 103}, {true, 1, -640}},
      {{false, 1, 511}, {true, 1, 511}, {true, 5, -30}},
  };
  for (const auto& terms : cases) {
    EXPECT_EQ(summed(terms, Format::fp32), rounded(terms, Format::fp32));
    EXPECT_EQ(summed(terms, Format::bf16), rounded(terms, Format::bf16));
  }
  EXPECT_EQ(summed({{false, 0x1FFFFFF, 103}}, Format::fp32), 0x7F800000U);
  EXPECT_EQ(summed({{false, 0x1FFFFFF, 103}, {true, 1, -640}}, Format::fp32), 0x7F7FFFFFU);
}

TEST(ExactSum, wrong_requests_are_refused) {
  ExactSum sum;
  EXPECT_THROW(sum.add(false, 1, -641), Error);
  EXPECT_THROW(sum.add(false, 1, 512), Error);
  EXPECT_THROW(sum.add(false, 3, 511), Error);
  EXPECT_NO_THROW(sum.add(false, 2, -641));
  EXPECT_NO_THROW(sum.add(false, 0, -100000));
  EXPECT_THROW((void)sum.rounded(Format::e4m3), Error);
}

}  // namespace
}  // namespace mxcheck

// MS-EDEN: its definition in rationals, its means over all random words, and what it refuses.

#include "reference/quantize/ms_eden.h"

#include <boost/multiprecision/cpp_int.hpp>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
using Rational = boost::multiprecision::cpp_rational;

std::vector<float> finite_values(std::int64_t count, std::uint64_t seed) {
  std::vector<float> x = random_values(count, seed);
  for (float& v : x) v = std::isfinite(v) ? std::clamp(v, -0x1p20F, 0x1p20F) : 1;
  return x;
}

// The float nearest to a positive rational, by the distance to it and to its neighbours.
float nearest_float(const Rational& v) {
  auto guess = v.convert_to<float>();
  for (const float other : {std::nextafter(guess, 0.0F), std::nextafter(guess, kInf)}) {
    const Rational distance = abs(Rational(guess) - v);
    if (Rational(abs(Rational(other) - v)) < distance) guess = other;
  }
  return guess;
}

TEST(MsEden, codes_are_to_nearest_and_scales_the_two_beside_the_corrected_one) {
  const std::int64_t rows = 5, cols = 256;
  const std::vector<float> x = finite_values(rows * cols, 41);
  const MsEden p;
  std::vector<std::uint32_t> zero(static_cast<std::size_t>(rows * cols / 16));
  std::vector<std::uint32_t> ones(zero.size(), 0xFFFFFFFF);
  const QuantizedTensor low = ms_eden(TestMatrix(Format::fp32, rows, cols, x, 2).view(), p, zero, 3);
  const QuantizedTensor high = ms_eden(TestMatrix(Format::fp32, rows, cols, x).view(), p, ones, 1);
  EXPECT_EQ(low.codes.data, high.codes.data) << "codes have no part in the randomness";
  const float s = std::bit_cast<float>(low.levels.at(1).scales.code(0));
  float amax = 0;
  for (const float v : x) amax = std::max(amax, std::fabs(v));
  EXPECT_EQ(s, amax / 256.0F / p.code_max);
  for (std::size_t group = 0; group < x.size() / 128; ++group) {
    Rational of_x = 0, of_both = 0;
    std::vector<float> scales;
    for (std::size_t block = group * 8; block < group * 8 + 8; ++block) {
      float a = 0;
      for (std::size_t i = 0; i < 16; ++i) a = std::max(a, std::fabs(x[block * 16 + i]));
      const double q =
          decode(Format::e4m3, encode(Format::e4m3, a / p.code_max / s, Rounding::nearest_even, Overflow::saturate));
      scales.push_back(q == 0 ? 1 : static_cast<float>(q));
      for (std::size_t i = block * 16; i < block * 16 + 16; ++i) {
        const float divisor = scales.back() * s;
        const float scaled = x[i] / divisor;
        const std::uint32_t code = encode(Format::e2m1, scaled, Rounding::nearest_even, Overflow::saturate);
        ASSERT_EQ(low.codes.code(i), code) << i;
        of_x += Rational(x[i]) * Rational(x[i]);
        of_both += Rational(x[i]) * Rational(decode(Format::e2m1, code)) * Rational(scales.back()) * Rational(s);
      }
    }
    const float c = nearest_float(of_x) / nearest_float(of_both);
    for (std::size_t b = 0; b < 8; ++b) {
      const float corrected = scales[b] * c;
      const double below = decode(Format::e4m3, low.scales().code(group * 8 + b));
      const double above = decode(Format::e4m3, high.scales().code(group * 8 + b));
      EXPECT_LE(below, corrected) << group << " " << b;
      EXPECT_GE(above, corrected) << group << " " << b;
      EXPECT_LE(high.scales().code(group * 8 + b) - low.scales().code(group * 8 + b), 1U);
    }
  }
}

// Over all words of 16 bits the mean of each block's scale is q * c to 2^-16 of the step between the two scales, so
// that the dot product of a group with its mean quantized self is that with itself.
TEST(MsEden, is_unbiased_over_all_words) {
  const std::vector<float> x = finite_values(128, 43);
  std::vector<double> mean(8);
  std::vector<std::uint32_t> words(8);
  QuantizedTensor q;
  for (std::uint32_t word = 0; word < 65536; ++word) {
    std::fill(words.begin(), words.end(), word << 16);
    q = ms_eden(fp32_matrix(1, 128, x).view(), {}, words, 1);
    for (std::size_t b = 0; b < 8; ++b) mean[b] += decode(Format::e4m3, q.scales().code(b)) / 65536;
  }
  const double s = q.levels.at(1).scale(0);
  double itself = 0, with_mean = 0, error = 0;
  for (std::size_t i = 0; i < 128; ++i) {
    itself += double{x[i]} * x[i];
    const double value = decode(Format::e2m1, q.codes.code(i)) * s;
    with_mean += x[i] * value * mean[i / 16];
    // An E4M3 step is at most 2^-3 of the scale, or 2^-9, of which the words leave 2^-16 out.
    error += std::fabs(x[i] * value) * std::max(mean[i / 16] * 0x1p-3, 0x1p-9) * 0x1p-16;
  }
  // Roundings to FP32: of both sums, of their quotient, of q * c.
  EXPECT_LE(std::fabs(with_mean - itself), error + 4 * 0x1p-24 * itself) << itself;
}

TEST(MsEden, of_zeros_is_zeros_and_of_nothing_nothing) {
  const std::vector<float> zeros(256);
  const QuantizedTensor q = ms_eden(fp32_matrix(2, 128, zeros).view(), {}, std::vector<std::uint32_t>(16, 7));
  for (const float v : dequantize(q)) EXPECT_EQ(v, 0);
  EXPECT_TRUE(ms_eden({Format::fp32, nullptr, 0, 128, 128}, {}, {}).codes.empty());
}

TEST(MsEden, refuses_what_it_has_no_groups_or_words_for) {
  std::vector<float> x(256, 1);
  const auto refusal = [&](ErrorKind kind, std::int64_t cols, const MsEden& p, std::size_t words) {
    return text_thrown(kind,
                       [&] { ms_eden(fp32_matrix(256 / cols, cols, x).view(), p, std::vector<std::uint32_t>(words)); });
  };
  expect_contains(refusal(ErrorKind::usage, 64, {}, 16), "a multiple of 16 that divides the row");
  expect_contains(refusal(ErrorKind::usage, 128, {6, 256, 24}, 16), "a multiple of 16 that divides the row");
  expect_contains(refusal(ErrorKind::usage, 128, {6, 256, 0}, 16), "a multiple of 16 that divides the row");
  expect_contains(refusal(ErrorKind::usage, 128, {}, 15), "15 random words: it needs 16");
  x[130] = kNaN;
  expect_contains(refusal(ErrorKind::input, 128, {}, 16), "NaN at row 1, column 2");
  x[130] = -kInf;
  expect_contains(refusal(ErrorKind::input, 128, {}, 16), "infinity at row 1, column 2");
}

}  // namespace
}  // namespace mxcheck

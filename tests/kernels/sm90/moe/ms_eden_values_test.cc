// MS-EDEN as the Hopper library's layers compute it (kernels/sm90/moe/ms_eden_values.cuh), compiled for the host,
// against the reference: whole operands of every length of line, sums that decide a rounding, and E4M3 by words.

#include "kernels/sm90/moe/ms_eden_values.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/sm90/common/philox.cuh"
#include "numerics/accumulate/exact_sum.h"
#include "numerics/accumulate/fused_sum.h"
#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"
#include "reference/layer/operands.h"
#include "reference/layer/run.h"
#include "reference/quantize/ms_eden.h"

namespace {

using mxcheck::Format, mxcheck::LayerOperand, mxcheck::LayerRandom;
namespace sm90 = mxcheck_kernels::sm90;
using Words = std::vector<std::uint16_t>;

constexpr LayerRandom kRandom{0x123456789ABCDEF0U, 77, 5};
constexpr std::uint32_t kOperand = 9;
constexpr std::uint32_t kStream = 0x80000000U | kRandom.layer << 8;

mxcheck::OperandRule eden_rule() {
  mxcheck::OperandRule rule{Format::e2m1, {1, 16}, "ms_eden"};
  rule.rotates = 128, rule.random_signs = rule.stochastic = true;
  return rule;
}

// Rows of `length` numbers as the kernels make them: rotated, and code * block scale.
struct Made {
  Words rotated, values;
};
std::size_t at(std::size_t first, int i) { return first + static_cast<std::size_t>(i); }

// A piece as eight threads have it: a block each, which they exchange.
using Blocks = std::array<std::array<float, 16>, 8>;

void rotate(Blocks& y, int count, const std::uint32_t (&signs)[4]) {
  for (int b = 0; b < 8; ++b) {
    const int log = sm90::log_of_block(count, b);
    float own[16];
    std::copy(y[at(0, b)].begin(), y[at(0, b)].end(), own);
    if (log > 0) sm90::rotate_block(own, sm90::signs_of_block(signs, sm90::number_in_group(b, log)));
    std::copy(own, own + 16, y[at(0, b)].begin());
  }
  for (int stage = 0; stage < 3; ++stage) {
    const Blocks before = y;
    for (int b = 0; b < 8; ++b) {
      if (!sm90::exchanges(sm90::log_of_block(count, b), stage)) continue;
      for (std::size_t i = 0; i < 16; ++i)
        y[at(0, b)][i] =
            sm90::crossed(before[at(0, b)][i], before[at(0, b ^ 1 << stage)][i], (b >> stage & 1) != 0 ? -1.0F : 1.0F);
    }
  }
  for (int b = 0; b < 8; ++b) {
    const int log = sm90::log_of_block(count, b);
    for (float& v : y[at(0, b)]) v = log > 0 ? v * sm90::rotation_factor(log) : v;
  }
}

bool in_integers = false;  // the corrections of all groups

// Values of the group that begins at block `begin`. x: the piece. word(i): of number i of it.
template <class Word>
void quantize_group(std::uint16_t* x, int begin, int log, float s, const Word& word) {
  const int size = 8 << log;
  std::uint16_t* const from = x + 16 * begin;
  const auto number = [from](int i) { return sm90::float_of(std::uint32_t{from[i]} << 16); };
  std::uint32_t amax = 0;
  for (int i = 0; i < size; ++i) amax = std::max(amax, from[i] & 0x7FFFU);
  if (amax >= 0x7F80) return std::fill(from, from + size, std::uint16_t{0x7FFF});
  sm90::EdenSums sums{0, 0};
  float q[8], codes[128];
  for (int b = 0; b < size / 16; ++b) {
    std::uint32_t of_block = 0;
    for (int i = 16 * b; i < 16 * b + 16; ++i) of_block = std::max(of_block, from[i] & 0x7FFFU);
    q[b] = sm90::eden_block_scale(of_block, s);
    const sm90::EdenDivisor by = sm90::eden_divisor(q[b], s);
    double of_both = 0;
    for (int i = 16 * b; i < 16 * b + 16; ++i) {
      const float magnitude = std::fabs(number(i));
      codes[i] = sm90::eden_code(magnitude, by);
      sums.of_x = std::fma(sm90::wide(magnitude), sm90::wide(magnitude), sums.of_x);
      of_both = std::fma(sm90::wide(magnitude), sm90::wide(codes[i]), of_both);
    }
    sums.of_both += of_both * double{q[b]};
  }
  float c = 1;
  if (!sm90::find_correction(sums, amax, s, c) || in_integers) c = sm90::exact_correction(number, size, s);
  for (int i = 0; i < size; ++i) {
    const float scale = sm90::e4m3_by_word(q[i / 16] * c, word(16 * begin + i / 16 * 16));
    from[i] = static_cast<std::uint16_t>(sm90::to_bf16x2(codes[i] * scale, 0) | (from[i] & 0x8000));
  }
}

template <class Word>
void quantize(std::uint16_t* x, int count, float s, const Word& word) {
  for (int b = 0; b < count / 16;) {
    const int log = sm90::log_of_block(count, b);
    quantize_group(x, b, log, s, word);
    b += 1 << (log - 1);
  }
  const int first = count / 16 * 16;
  std::uint32_t amax = 0;
  for (int i = first; i < count; ++i) amax = std::max(amax, x[i] & 0x7FFFU);
  const float q = sm90::eden_rest_scale(amax, s);
  for (int i = first; i < count; ++i) {
    const float value = sm90::eden_rest_value(sm90::float_of(std::uint32_t{x[i]} << 16), q, s, word(i));
    x[i] = amax >= 0x7F80 ? 0x7FFF : static_cast<std::uint16_t>(sm90::to_bf16x2(value, 0));
  }
}

Made made_of(const Words& x, std::int64_t length) {
  Made made{Words(x.size()), Words(x.size())};
  std::uint32_t signs[4];
  for (std::uint32_t j = 0; j < 4; ++j)
    signs[j] = sm90::philox_word(kRandom.seed, j, 0, kStream | (16 + kOperand / 2), kRandom.step);
  const auto each_piece = [&](const std::function<void(std::size_t, int)>& body) {
    for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(length)) {
      for (std::int64_t k = 0; k < length; k += 128)
        body(row + static_cast<std::size_t>(k), static_cast<int>(std::min<std::int64_t>(128, length - k)));
    }
  };
  std::uint32_t amax = 0;
  each_piece([&](std::size_t first, int count) {
    Blocks numbers{};
    for (int i = 0; i < count; ++i)
      numbers[at(0, i / 16)][at(0, i % 16)] = sm90::float_of(std::uint32_t{x[at(first, i)]} << 16);
    rotate(numbers, count, signs);
    for (int i = 0; i < count; ++i) {
      const std::uint32_t word = sm90::to_bf16x2(numbers[at(0, i / 16)][at(0, i % 16)], 0) & 0xFFFF;
      made.rotated[at(first, i)] = static_cast<std::uint16_t>(word);
      if ((word & 0x7FFF) < 0x7F80) amax = std::max(amax, word & 0x7FFF);
    }
  });
  each_piece([&](std::size_t first, int count) {
    const auto word = [&](int i) {
      return sm90::philox_word(kRandom.seed, static_cast<std::uint32_t>(at(first, i)), 0, kStream | kOperand,
                               kRandom.step);
    };
    std::uint16_t* const values = made.values.data() + first;
    std::copy_n(made.rotated.data() + first, count, values);
    quantize(values, count, sm90::eden_scale_of(amax), word);
  });
  return made;
}

std::uint32_t below(std::mt19937& random, std::uint32_t n) { return static_cast<std::uint32_t>(random()) % n; }

bool same(std::uint16_t a, std::uint16_t b) { return a == b || ((a & 0x7FFF) > 0x7F80 && (b & 0x7FFF) > 0x7F80); }

void expect_operand(const Words& x, std::int64_t length, const std::string& what) {
  const auto rows = static_cast<std::int64_t>(x.size()) / length;
  const mxcheck::OperandWords words{kRandom, kOperand};
  LayerOperand right = mxcheck::row_operand(eden_rule(), {mxcheck::view(x, rows, length), false}, {}, 1, words);
  right.quantized.levels.resize(1);
  const Words values = mxcheck::dequantize_bf16(right.quantized, {}, 1);
  const Made made = made_of(x, length);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(same(made.rotated[i], right.rotated[i]))
        << what << ", length " << length << ", " << i << ": rotated " << made.rotated[i] << ", " << right.rotated[i];
    ASSERT_TRUE(same(made.values[i], values[i]))
        << what << ", length " << length << ", " << i << ": " << made.values[i] << ", must be " << values[i];
  }
}

Words normal_words(std::size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Words words(count);
  for (std::uint16_t& w : words) w = static_cast<std::uint16_t>(sm90::to_bf16x2(scale * normal(random), 0));
  return words;
}

TEST(MsEdenValues, are_the_reference_s_of_lines_of_every_length) {
  for (std::int64_t length = 1; length <= 300; ++length) {
    const auto count = static_cast<std::size_t>(3 * length);
    expect_operand(normal_words(count, 1e-5F, static_cast<unsigned>(length)), length, "normal");
  }
}

TEST(MsEdenValues, are_the_reference_s_with_sums_in_integers) {
  in_integers = true;
  for (const std::int64_t length : {128, 250})
    expect_operand(normal_words(static_cast<std::size_t>(20 * length), 1e-5F, 6), length, "in integers");
  in_integers = false;
}

TEST(MsEdenValues, have_the_quotient_of_every_magnitude_by_a_divisor) {
  std::mt19937 random(11);
  for (int n = 0; n < 3000; ++n) {
    const float s = std::bit_cast<float>((1 + below(random, 245)) << 23 | below(random, 0x800000));
    const float q =
        sm90::e4m3_value_of(std::bit_cast<float>((117 + below(random, 19)) << 23 | below(random, 0x800000)));
    const sm90::EdenDivisor by = sm90::eden_divisor(q, s);
    const float divisor = q * s;
    for (int k = 0; k < 500; ++k) {
      // Beside a midpoint of codes, or anywhere below 8.
      const float ratio = k % 2 == 0 ? 0.25F * static_cast<float>(1 + below(random, 31))
                                     : 8e-6F * static_cast<float>(below(random, 1000000));
      const std::uint32_t word = sm90::to_bf16x2(ratio * divisor, 0) & 0x7FFF;
      if (word >= 0x7F80) continue;
      const float x = sm90::float_of(word << 16);
      ASSERT_EQ(sm90::eden_code(x, by), sm90::code_value_of<false>(x / divisor, 1, 0))
          << std::hexfloat << x << " " << divisor;
      const float v = sm90::quotient_by(x * by.power, by.divisor, by.inverse);
      if (v > 0x1p-20F) {
        ASSERT_EQ(v, x / divisor) << std::hexfloat << x << " " << divisor;
      }
    }
  }
}

TEST(MsEdenValues, have_the_scale_of_every_block) {
  for (std::uint32_t tensor = (127 - 60) << 7; tensor < (127U + 60) << 7; tensor += 467) {
    const float s = sm90::eden_scale_of(tensor);
    if (!sm90::is_near_one(s)) continue;
    for (std::uint32_t amax = 0; amax <= tensor; ++amax)
      ASSERT_EQ(sm90::eden_block_scale(amax, s, 1 / s), sm90::eden_block_scale(amax, s)) << tensor << " " << amax;
  }
}

TEST(MsEdenValues, make_values_of_two_levels_as_fp64_does) {
  std::mt19937 random(12);
  for (const float unit : {1536.0F, 2688.0F}) {
    for (int n = 0; n < 200000; ++n) {
      const std::uint32_t x = n < 0x10000 ? static_cast<std::uint32_t>(n) : below(random, 0x10000);
      const std::uint32_t amax = (127 - 60 + below(random, 120)) << 7 | below(random, 128);
      if (sm90::far_of(x) != 0 || sm90::is_far_amax(amax)) continue;
      const sm90::EdenMade made{sm90::float_of(amax << 16), unit, 1 / unit};
      const float found = sm90::made_of(made, sm90::float_of(x << 16));
      const float right = sm90::made_of_any(made, sm90::float_of(x << 16));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(right))
          << std::hex << x << " " << amax;
    }
  }
  EXPECT_EQ(sm90::far_of(0x80000000), 0U);
  EXPECT_EQ(sm90::far_of(0x7F803F80), 0x80000000U);
  EXPECT_EQ(sm90::far_of(0x3F80FFC0), 0x8000U);
  EXPECT_EQ(sm90::far_of(0x0001BF80), 0x80000000U);
  EXPECT_EQ(sm90::far_of(sm90::kMadeLeast << 16 | sm90::kMadeMost), 0U);
  EXPECT_EQ(sm90::far_of((sm90::kMadeLeast - 1) << 16 | (sm90::kMadeMost + 1)), 0x80008000U);
}

TEST(MsEdenValues, are_the_reference_s_of_any_numbers) {
  std::mt19937 random(3);
  for (const std::int64_t length : {128, 176, 250}) {
    const auto count = static_cast<std::size_t>(40 * length);
    for (const float scale : {0x1p-130F, 0x1p-75F, 0x1p-62F, 1.0F, 0x1p62F, 0x1p118F, 0x1p126F})
      expect_operand(normal_words(count, scale, 4), length, "scale " + std::to_string(std::ilogb(scale)));
    Words few(count);  // sums of few bits, which are often the middle of two FP32 numbers
    for (std::uint16_t& w : few) w = static_cast<std::uint16_t>((random() % 2 << 15) | (100 + random() % 28) << 7);
    expect_operand(few, length, "powers of two");
    Words sparse(count);
    for (std::uint16_t& w : sparse) w = random() % 9 == 0 ? static_cast<std::uint16_t>(random()) : 0;
    expect_operand(sparse, length, "sparse, of all words");
    Words any(count);
    for (std::uint16_t& w : any) w = static_cast<std::uint16_t>(random() & 0xBFFF);
    expect_operand(any, length, "below 2");
    Words special = normal_words(count, 1, 5);
    special[7] = 0x7FC0, special[count / 2] = 0x7F80, special[count - 1] = 0xFF80;
    expect_operand(special, length, "NaN and infinity");
    expect_operand(Words(count), length, "zeros");
  }
}

// RN(sum of x * y * s) by the reference's exact sum.
float exactly(const std::vector<float>& x, const std::vector<float>& y, float s) {
  mxcheck::ExactSum sum;
  const auto factor = [](float v) { return mxcheck::factor(Format::fp32, std::bit_cast<std::uint32_t>(v)); };
  const mxcheck::Factor fs = factor(s);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const mxcheck::Factor fx = factor(x[i]), fy = factor(y[i]);
    const std::uint64_t m = std::uint64_t{fx.significand >> 16} * (fy.significand >> 16) * fs.significand;
    if (m != 0)
      sum.add(false, m,
              fx.exponent - fx.fraction_bits + fy.exponent - fy.fraction_bits + fs.exponent - fs.fraction_bits + 32);
  }
  return std::bit_cast<float>(static_cast<std::uint32_t>(sum.rounded(Format::fp32)));
}

TEST(MsEdenValues, sums_in_integers_are_exact) {
  std::mt19937 random(8);
  for (int n = 0; n < 4000; ++n) {
    std::vector<float> x, y;
    const std::uint32_t low = below(random, 200), range = 1 + below(random, 55), count = 1 + below(random, 128);
    for (std::uint32_t i = 0; i < count; ++i) {
      x.push_back(std::bit_cast<float>((low + below(random, range)) << 23 | below(random, 128) << 16));
      y.push_back(std::bit_cast<float>((118 + below(random, 20)) << 23 | below(random, 64) << 17));
    }
    const float any = std::bit_cast<float>((1 + below(random, 200)) << 23 | below(random, 0x800000));
    const float s = n % 3 == 0 ? 1.0F : any;
    sm90::WideSum sum;
    sm90::clear(sum);
    for (std::size_t i = 0; i < x.size(); ++i) sm90::add(sum, x[i], y[i]);
    const float right = exactly(x, y, s);
    ASSERT_EQ(sm90::times(sum, s), right) << n;
    double fast = 0;
    for (std::size_t i = 0; i < x.size(); ++i) fast += double{x[i]} * double{y[i]};
    fast *= double{s};
    if (!sm90::is_unsure(fast)) {
      ASSERT_EQ(static_cast<float>(fast), right) << n;
    }
  }
}

TEST(MsEdenValues, a_sum_beside_the_middle_of_two_floats_is_unsure) {
  EXPECT_TRUE(sm90::is_unsure(1 + 0x1p-24));
  EXPECT_TRUE(sm90::is_unsure(1 + 0x1p-24 + 0x1p-52));
  EXPECT_TRUE(sm90::is_unsure(0x1p-130));
  EXPECT_TRUE(sm90::is_unsure(0x1p127));
  EXPECT_FALSE(sm90::is_unsure(1));
  EXPECT_FALSE(sm90::is_unsure(0));
  EXPECT_FALSE(sm90::is_unsure(1 + 0x1p-25));
}

// The sum of squares is 1 + 2^-24 + 2^-56: the middle of two floats to FP64, above it in truth. The word is the first
// one that rounds the scale up: an ulp of c less, and it does not.
TEST(MsEdenValues, a_sum_that_fp64_takes_to_the_middle_rounds_as_it_is) {
  Words x(128);
  x[0] = 0x3F80, x[1] = (127 - 12) << 7, x[2] = (127 - 28) << 7;
  const float s = sm90::eden_scale_of(0x3F80);
  const float q = sm90::e4m3_value_of(sm90::quotient(sm90::quotient(1, sm90::kEdenCodeMax), s));
  std::vector<float> values, codes;
  for (std::size_t i = 0; i < 16; ++i) {
    values.push_back(sm90::float_of(std::uint32_t{x[i]} << 16));
    codes.push_back(q * sm90::code_value_of<false>(values[i] / (q * s), 1, 0));
  }
  const float of_x = exactly(values, values, 1), of_both = exactly(values, codes, s);
  ASSERT_EQ(of_x, 1 + 0x1p-23F);
  const float corrected = q * (of_x / of_both);
  ASSERT_NE(corrected, q * (1 / of_both));
  const std::uint32_t fraction = sm90::integer_below(sm90::e4m3_place(corrected).fraction * 0x1p32F);
  const std::vector<std::uint32_t> given(x.size(), 0U - fraction);
  mxcheck::QuantizedTensor right =
      mxcheck::ms_eden_of_lines(mxcheck::view(x, 1, 128), {}, mxcheck::Along::rows, {}, given);
  ASSERT_GT(right.scale(0), corrected);
  right.levels.resize(1);
  const Words wanted = mxcheck::dequantize_bf16(right, {}, 1);
  Words values_of_x = x;
  quantize(values_of_x.data(), 128, s, [&](int i) { return given[static_cast<std::size_t>(i)]; });
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(values_of_x[i], wanted[i]) << i;
}

TEST(MsEdenValues, e4m3_by_a_word_and_upwards_are_the_codec_s) {
  std::mt19937 random(9);
  for (int n = 0; n < 200000; ++n) {
    const float f = std::bit_cast<float>((90 + below(random, 50)) << 23 | below(random, 0x800000));
    const std::uint32_t word = n % 4 == 0 ? below(random, 2) * 0xFFFFFFFF : static_cast<std::uint32_t>(random());
    const auto of = [&](mxcheck::Rounding rounding) {
      return static_cast<float>(
          mxcheck::decode(Format::e4m3, mxcheck::encode(Format::e4m3, f, rounding, mxcheck::Overflow::saturate, word)));
    };
    ASSERT_EQ(sm90::e4m3_by_word(f, word), of(mxcheck::Rounding::stochastic)) << std::hexfloat << f;
    ASSERT_EQ(sm90::e4m3_above(f), of(mxcheck::Rounding::upward)) << std::hexfloat << f;
  }
}

}  // namespace

// Learning rates and bias corrections: known answers are from exact fractions (Python), rates of the cosine from
// 120-digit arithmetic.

#include <bit>

#include <gtest/gtest.h>
#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>

#include "numerics/error.h"
#include "reference/training/attention.h"
#include "reference/training/optimizer.h"
#include "tests/reference/training/test_training.h"

namespace mxcheck {
namespace {

using Wide = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<120>>;

TEST(BiasCorrection, has_known_answers) {
  constexpr int kUpdates[] = {1, 2, 3, 13, 14, 24, 25, 26, 100, 1000};
  const auto expect = [&](float beta, std::initializer_list<std::uint32_t> right) {
    std::size_t i = 0;
    for (const std::uint32_t bits : right) {
      const int t = kUpdates[i++];
      EXPECT_EQ(std::bit_cast<std::uint32_t>(bias_correction(beta, t)), bits) << beta << ' ' << t;
    }
  };
  expect(0.9F, {0x3dccccd0, 0x3e428f5f, 0x3e8ac085, 0x3f3eeda2, 0x3f456f79, 0x3f6b946e, 0x3f6d9f30, 0x3f6f75ab,
                0x3f7ffe42, 0x3f800000});
  expect(0.95F, {0x3d4cccd0, 0x3dc7ae18, 0x3e120c4c, 0x3ef92b3d, 0x3f0327bd, 0x3f354037, 0x3f38fd01, 0x3f3c89f4,
                 0x3f7e7bfe, 0x3f800000});
  expect(0.999F, {0x3a831200, 0x3b030139, 0x3b4468b0, 0x3c53b74d, 0x3c63e35a, 0x3cc25c6c, 0x3cca5bcb, 0x3cd2591d,
                  0x3dc2fbb9, 0x3f21de67});
  expect(0.5F, {0x3f000000, 0x3f400000, 0x3f600000, 0x3f7ff800, 0x3f7ffc00, 0x3f7fffff, 0x3f800000, 0x3f800000,
                0x3f800000, 0x3f800000});
  EXPECT_EQ(bias_correction(0, 5), 1);
  EXPECT_EQ(bias_correction(0.9F, 1000000000), 1);
  EXPECT_THROW(bias_correction(1, 1), Error);
  EXPECT_THROW(bias_correction(0.9F, 0), Error);
}

TEST(LearningRate, rises_to_the_peak_and_falls_to_the_last) {
  TrainingConfig config = test_config("bf16");
  config.steps = 1000, config.optimizer.warm_up = 100;
  config.optimizer.peak_rate = 1e-3F, config.optimizer.last_rate = 1e-4F;
  EXPECT_EQ(learning_rate(config, 0), static_cast<float>(double{1e-3F} / 100));
  EXPECT_EQ(learning_rate(config, 99), 1e-3F);
  EXPECT_EQ(learning_rate(config, 100), 1e-3F);
  EXPECT_EQ(learning_rate(config, 999), 1e-4F);
  for (std::int64_t t = 101; t < 1000; t += 7) EXPECT_LT(learning_rate(config, t), learning_rate(config, t - 1)) << t;
  EXPECT_THROW(learning_rate(config, -1), Error);
  EXPECT_THROW(learning_rate(config, 1000), Error);
}

TEST(LearningRate, is_the_exact_number_rounded_once) {
  TrainingConfig config = test_config("bf16");
  config.steps = 61, config.optimizer.warm_up = 0;  // angles of 3 degrees, so 60 and 90 too
  for (const float last : {0.0F, 1e-4F, 0x1.8p-30F, 1e-3F}) {
    config.optimizer.peak_rate = 1e-3F, config.optimizer.last_rate = last;
    for (std::int64_t t = 0; t < 61; ++t) {
      Wide cosine = cos(boost::math::constants::pi<Wide>() * t / 60);
      if (t == 30) cosine = 0;
      const Wide rate = Wide(last) + (Wide(1e-3F) - Wide(last)) * (1 + cosine) / 2;
      EXPECT_EQ(learning_rate(config, t), rate.convert_to<float>()) << last << ' ' << t;
    }
  }
}

// Half way between peak and last: the mean of two FP32 numbers, which may lie between two others; it goes to the even.
TEST(LearningRate, a_middle_goes_to_the_even_number) {
  TrainingConfig config = test_config("bf16");
  config.steps = 3, config.optimizer.warm_up = 0;
  config.optimizer.peak_rate = 1 + 0x1p-23F, config.optimizer.last_rate = 1;
  EXPECT_EQ(learning_rate(config, 1), 1);
  config.optimizer.peak_rate = 1 + 0x1p-22F, config.optimizer.last_rate = 1 + 0x1p-23F;
  EXPECT_EQ(learning_rate(config, 1), 1 + 0x1p-22F);
}

TEST(LearningRate, runs_of_one_step_and_of_warm_up_alone) {
  TrainingConfig config = test_config("bf16");
  config.steps = 1, config.optimizer.warm_up = 0;
  EXPECT_EQ(learning_rate(config, 0), config.optimizer.peak_rate);
  config.optimizer.warm_up = 3;
  EXPECT_EQ(learning_rate(config, 0), static_cast<float>(double{config.optimizer.peak_rate} / 3));
  config.steps = 3;
  EXPECT_EQ(learning_rate(config, 2), config.optimizer.peak_rate);
}

}  // namespace

// The table, against cosines and sines that are computed one by one with 100 digits.

namespace {

TEST(RotaryTable, entries_are_exact_numbers_rounded_once) {
  constexpr std::int64_t kLength = 256;
  constexpr std::int64_t kWidth = 32;
  const RotaryTable table = rotary_table(kLength, kWidth);
  ASSERT_EQ(std::ssize(table.cosine), kLength * kWidth / 2);
  for (const std::int64_t p : {0, 1, 2, 100, 255}) {
    for (std::int64_t j = 0; j < kWidth / 2; ++j) {
      const Wide angle = Wide(p) * pow(Wide(10000), Wide(-2 * j) / kWidth);
      const auto at = static_cast<std::size_t>(p * kWidth / 2 + j);
      EXPECT_EQ(table.cosine[at], Wide(cos(angle)).convert_to<float>()) << p << ' ' << j;
      EXPECT_EQ(table.sine[at], Wide(sin(angle)).convert_to<float>()) << p << ' ' << j;
    }
  }
}

TEST(RotaryTable, every_entry_is_within_half_an_ulp_by_double_arithmetic) {
  const RotaryTable table = rotary_table(300, 6);
  for (std::int64_t p = 0; p < 300; ++p) {
    for (std::int64_t j = 0; j < 3; ++j) {
      // An angle below 300 is within 2^-43 as a double, its cosine too; half an ulp of FP32 is 2^-25 at most.
      const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(j) / 6);
      const auto at = static_cast<std::size_t>(p * 3 + j);
      EXPECT_LE(std::abs(double{table.cosine[at]} - std::cos(angle)), 0x1p-25 + 0x1p-42);
      EXPECT_LE(std::abs(double{table.sine[at]} - std::sin(angle)), 0x1p-25 + 0x1p-42);
    }
  }
}

TEST(RotaryTable, odd_widths_and_negative_lengths_are_refused) {
  EXPECT_THROW(rotary_table(4, 3), Error);
  EXPECT_THROW(rotary_table(4, 0), Error);
  EXPECT_THROW(rotary_table(-1, 2), Error);
  EXPECT_TRUE(rotary_table(0, 2).cosine.empty());
}

}  // namespace
}  // namespace mxcheck

// The oracle's own parts against each other: it is the judge of the other tests.
#include "tests/numerics/oracle.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

constexpr Format kSmall[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2};

TEST(Oracle, holds_the_table_of_values_of_e2m1) {
  const double expected[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::uint32_t m = 0; m < 8; ++m) EXPECT_EQ(oracle::magnitude(Format::e2m1, m), oracle::units(expected[m])) << m;
}

TEST(Oracle, holds_the_largest_values_of_the_specifications) {
  const auto largest = [](Format format) {
    return oracle::magnitude(format, oracle::shape_of(format).finite_count - 1);
  };
  EXPECT_EQ(largest(Format::e4m3), oracle::units(448));
  EXPECT_EQ(largest(Format::e5m2), oracle::units(57344));
  EXPECT_EQ(largest(Format::e2m3), oracle::units(7.5));
  EXPECT_EQ(largest(Format::e3m2), oracle::units(28));
  EXPECT_EQ(largest(Format::e5m6), oracle::units(65024));
  EXPECT_EQ(largest(Format::fp16), oracle::units(65504));
  EXPECT_EQ(largest(Format::fp32), oracle::units(std::numeric_limits<float>::max()));
  EXPECT_EQ(largest(Format::e8m0), oracle::units(0x1p127));
  EXPECT_EQ(largest(Format::mxint8), oracle::units(1.984375));
}

// Nearest by looking at every value, with no idea of order: what "nearest" means.
std::uint32_t nearest_of_all(Format format, double x) {
  const oracle::Units exact = oracle::units(x);
  std::uint32_t best = 0;
  oracle::Units best_distance = exact;
  for (std::uint32_t m = 1; m < oracle::shape_of(format).finite_count; ++m) {
    const oracle::Units distance = abs(oracle::magnitude(format, m) - exact);
    if (distance < best_distance || (distance == best_distance && m % 2 == 0)) best = m, best_distance = distance;
  }
  return best;
}

TEST(Oracle, finds_the_nearest_of_all_values) {
  for (const Format format : kSmall) {
    for (std::uint32_t bits = 0; bits < 0x7F80; bits += 23) {
      const float x = std::bit_cast<float>(bits << 16);
      ASSERT_EQ(oracle::encode(format, x, Rounding::nearest_even, Overflow::saturate), nearest_of_all(format, x))
          << spec(format).name << " " << x;
    }
  }
}

TEST(Oracle, finds_thresholds_where_its_encoder_changes) {
  constexpr Rounding kRoundings[] = {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero,
                                     Rounding::stochastic, Rounding::upward};
  for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::e3m2, Format::e8m0, Format::mxint8}) {
    for (const Rounding rounding : kRoundings) {
      for (const Overflow overflow : {Overflow::saturate, Overflow::non_saturate}) {
        for (const bool negative : {false, true}) {
          const oracle::FloatEncoder encoder(format, rounding, overflow, 0x30000000);
          for (const std::uint32_t first : encoder.first_patterns(negative)) {
            for (const std::uint32_t magnitude : {first, first == 0 ? 0 : first - 1, first + 1}) {
              const std::uint32_t pattern = magnitude | (negative ? 0x80000000U : 0U);
              ASSERT_EQ(encoder(pattern),
                        oracle::encode(format, std::bit_cast<float>(pattern), rounding, overflow, 0x30000000))
                  << spec(format).name << " rounding " << static_cast<int>(rounding) << " 0x" << std::hex << pattern;
            }
          }
        }
      }
    }
  }
}

TEST(Oracle, steps_cover_all_patterns) {
  const oracle::FloatEncoder encoder(Format::e4m3, Rounding::nearest_even, Overflow::non_saturate);
  int steps = 0;
  std::uint64_t pattern = 0;
  while (pattern < std::uint64_t{1} << 32) {
    const auto step = encoder.step_at(static_cast<std::uint32_t>(pattern));
    ASSERT_GT(step.end, pattern);
    ASSERT_EQ(encoder(static_cast<std::uint32_t>(step.end - 1)), step.code);
    pattern = step.end;
    ++steps;
  }
  EXPECT_EQ(steps, 2 * (127 + 2)) << "127 values, overflow and NaN, of each sign";
}

TEST(Oracle, scale_bytes_follow_their_definitions) {
  EXPECT_EQ(oracle::rceil_byte(Format::e4m3, 448), 127);
  EXPECT_EQ(oracle::rceil_byte(Format::e4m3, std::nextafter(448.0F, 1e9F)), 128);
  EXPECT_EQ(oracle::rceil_byte(Format::e4m3, std::bit_cast<float>(0x04600001)), 1);
  EXPECT_EQ(oracle::rceil_byte(Format::e4m3, std::bit_cast<float>(0x04600000)), 0);
  EXPECT_EQ(oracle::rceil_byte(Format::e2m1, 6), 127);
  EXPECT_EQ(oracle::floor_byte(Format::e4m3, 511.9F), 127);
  EXPECT_EQ(oracle::floor_byte(Format::e5m2, 1), 112);
  EXPECT_EQ(oracle::ceil_byte(Format::e4m3, 256), 127);
  EXPECT_EQ(oracle::ceil_byte(Format::e4m3, 257), 128);
  EXPECT_EQ(oracle::rceil_byte(Format::e4m3, std::numeric_limits<float>::max()), 247);
}

}  // namespace
}  // namespace mxcheck

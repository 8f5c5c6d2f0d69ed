// Statements over every FP32 there is. Each prints what it took.
//
// The second side of a comparison is the oracle's: exact bounds, computed once, between which one code or byte holds.

#include <atomic>
#include <cfloat>
#include <chrono>

#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/scale_rule.h"
#include "numerics/sweep.h"
#include "tests/numerics/elementary/multiprecision.h"
#include "tests/numerics/oracle.h"
#include "tests/numerics/scale/peer_table.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr unsigned kThreads = 2;

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

class Stopwatch {
 public:
  explicit Stopwatch(std::string what) : what_(std::move(what)) {}
  ~Stopwatch() { std::cout << "[  SECONDS ] " << seconds() << " " << what_ << std::endl; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::string what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Both encoders on all 2^32 FP32: ours on each pattern, the oracle's once per step between its bounds.
template <class T>
SweepResult sweep_encoder(Rounding rounding, Overflow overflow) {
  const oracle::FloatEncoder expected(T::format, rounding, overflow);
  return sweep_ranges(0, kAllPatterns, kThreads, [&](std::uint64_t begin, std::uint64_t end) {
    SweepResult result;
    for (std::uint64_t at = begin; at < end;) {
      const auto step = expected.step_at(static_cast<std::uint32_t>(at));
      const std::uint64_t stop = std::min(end, step.end);
      for (; at < stop; ++at) {
        const T code = encode<T>(as_float(static_cast<std::uint32_t>(at)), rounding, overflow);
        const bool pass = code.bits == step.code;
        if (!pass) result.add_mismatch(at);
      }
    }
    result.checked = end - begin;
    return result;
  });
}

void expect_none(const SweepResult& result, std::uint64_t checked) {
  EXPECT_EQ(result.checked, checked);
  EXPECT_EQ(result.mismatches, 0U) << "first at 0x" << std::hex << result.first;
}

TEST(Exhaustive, every_fp32_encodes_to_e4m3_as_the_oracle_says) {
  const Stopwatch watch("2^32 FP32 to E4M3, nearest even, saturating");
  expect_none(sweep_encoder<E4m3>(Rounding::nearest_even, Overflow::saturate), kAllPatterns);
}

TEST(Exhaustive, every_fp32_encodes_to_e5m2_as_the_oracle_says) {
  const Stopwatch watch("2^32 FP32 to E5M2, nearest even, saturating");
  expect_none(sweep_encoder<E5m2>(Rounding::nearest_even, Overflow::saturate), kAllPatterns);
}

TEST(Exhaustive, every_fp32_encodes_to_e4m3_without_saturation_as_the_oracle_says) {
  const Stopwatch watch("2^32 FP32 to E4M3, nearest even, not saturating");
  expect_none(sweep_encoder<E4m3>(Rounding::nearest_even, Overflow::non_saturate), kAllPatterns);
}

TEST(Exhaustive, every_fp32_encodes_to_e5m2_without_saturation_as_the_oracle_says) {
  const Stopwatch watch("2^32 FP32 to E5M2, nearest even, not saturating");
  expect_none(sweep_encoder<E5m2>(Rounding::nearest_even, Overflow::non_saturate), kAllPatterns);
}

TEST(Exhaustive, every_fp32_encodes_to_e2m1_as_the_oracle_says) {
  const Stopwatch watch("2^32 FP32 to E2M1, nearest even");
  expect_none(sweep_encoder<E2m1>(Rounding::nearest_even, Overflow::saturate), kAllPatterns);
}

TEST(Exhaustive, every_fp32_encodes_to_e8m0_upward_as_the_oracle_says) {
  const Stopwatch watch("2^32 FP32 to E8M0, upward");
  expect_none(sweep_encoder<E8m0>(Rounding::upward, Overflow::non_saturate), kAllPatterns);
}

TEST(Exhaustive, every_fp32_encodes_to_bf16_as_the_oracle_says) {
  const Stopwatch watch("2^32 FP32 to BF16, nearest even");
  expect_none(sweep_encoder<Bf16>(Rounding::nearest_even, Overflow::non_saturate), kAllPatterns);
}

// A rule on every finite amax >= 0, against the largest amax of each byte.
SweepResult sweep_rule(ScaleRule rule, Format element, const std::vector<std::uint32_t>& largest) {
  return sweep_ranges(0, kFiniteMagnitudes, kThreads, [&](std::uint64_t begin, std::uint64_t end) {
    SweepResult result;
    for (std::uint64_t at = begin; at < end;) {
      const auto byte =
          std::lower_bound(largest.begin(), largest.end(), static_cast<std::uint32_t>(at)) - largest.begin();
      const std::uint64_t stop = std::min(end, std::uint64_t{largest[static_cast<std::size_t>(byte)]} + 1);
      for (; at < stop; ++at) {
        const bool pass = scale_byte(rule, element, as_float(static_cast<std::uint32_t>(at))) == byte;
        if (!pass) result.add_mismatch(at);
      }
    }
    result.checked = end - begin;
    return result;
  });
}

constexpr Format kFormatsOfTheField[] = {Format::e4m3, Format::e5m2, Format::e2m1};

TEST(Exhaustive, rceil_is_the_rational_rule_for_every_amax) {
  for (const Format element : kFormatsOfTheField) {
    const Stopwatch watch("rceil on 2^31 amax, " + std::string(spec(element).name));
    expect_none(sweep_rule(ScaleRule::rceil, element, oracle::largest_amax_per_byte(element)), kFiniteMagnitudes);
  }
}

TEST(Exhaustive, floor_and_ceil_are_the_rational_rules_for_every_amax) {
  const Stopwatch watch("floor and ceil on 2^31 amax each, e4m3");
  expect_none(sweep_rule(ScaleRule::floor, Format::e4m3, oracle::largest_amax_per_floor_byte(Format::e4m3)),
              kFiniteMagnitudes);
  expect_none(sweep_rule(ScaleRule::ceil, Format::e4m3, oracle::largest_amax_per_ceil_byte(Format::e4m3)),
              kFiniteMagnitudes);
}

TEST(Exhaustive, rceil_fp32_misses_one_amax_a_format) {
  const std::uint32_t missed[] = {0x04600001, 0x07E00001, 0x01400001};
  for (std::size_t i = 0; i < 3; ++i) {
    const Stopwatch watch("rceil_fp32 on 2^31 amax, " + std::string(spec(kFormatsOfTheField[i]).name));
    const auto largest = oracle::largest_amax_per_byte(kFormatsOfTheField[i]);
    const SweepResult result = sweep_rule(ScaleRule::rceil_fp32, kFormatsOfTheField[i], largest);
    EXPECT_EQ(result.mismatches, 1U);
    EXPECT_EQ(result.first, missed[i]);
  }
}

// How often, and between which amax, the field's approximations of the round-up rule are wrong for E4M3.
TEST(Exhaustive, approximations_are_wrong_as_often_as_counted) {
  const struct {
    ScaleRule rule;
    std::uint64_t wrong;
    std::uint32_t first,
        last;  // 0xE0 is half of the smallest subnormal times 448: a tie, which RN(1/448) breaks upward
  } cases[] = {{ScaleRule::rceil_bits_mul, 73400097, 0xE0, 0x04600000},
               {ScaleRule::rceil_bits, 73400096, 0xE1, 0x04600000}};
  const auto largest = oracle::largest_amax_per_byte(Format::e4m3);
  for (const auto& c : cases) {
    const Stopwatch watch(std::string(to_text(c.rule)) + " on 2^31 amax, e4m3");
    const SweepResult result = sweep_rule(c.rule, Format::e4m3, largest);
    EXPECT_EQ(result.mismatches, c.wrong) << to_text(c.rule);
    EXPECT_EQ(result.first, c.first) << to_text(c.rule);
    EXPECT_EQ(result.last, c.last) << to_text(c.rule);
  }
}

TEST(Exhaustive, flushing_subnormal_products_changes_8388605_bytes_from_1_to_0) {
  const Stopwatch watch("rceil_ftz against rceil_fp32 on 2^31 amax, e4m3");
  const SweepResult result = sweep(0, kFiniteMagnitudes, kThreads, [](std::uint32_t bits) {
    const float a = as_float(bits);
    return scale_byte(ScaleRule::rceil_ftz, Format::e4m3, a) == scale_byte(ScaleRule::rceil_fp32, Format::e4m3, a);
  });
  EXPECT_EQ(result.mismatches, 8388605U);
}

TEST(Exhaustive, floor_in_fp32_misses_one_amax) {
  const Stopwatch watch("floor_fp32 on 2^31 amax, e4m3");
  const auto largest = oracle::largest_amax_per_floor_byte(Format::e4m3);
  const SweepResult result = sweep_rule(ScaleRule::floor_fp32, Format::e4m3, largest);
  EXPECT_EQ(result.mismatches, 1U);
  EXPECT_EQ(result.first, 0x047FFFFFU);
}

TEST(Exhaustive, dividing_by_448_and_multiplying_by_its_reciprocal_differ_for_half_of_the_normals) {
  const Stopwatch watch("a / 448 against a * RN(1/448) on all normals");
  const SweepResult result = sweep(0x00800000, kFiniteMagnitudes, kThreads, [](std::uint32_t bits) {
    return as_float(bits) / 448.0F == as_float(bits) * reciprocal_of_largest_value(Format::e4m3);
  });
  EXPECT_EQ(result.mismatches, 1130854514U);
}

// The recipes of one class differ in name or in elements; rules of the same ScaleRule need no sweep.
TEST(Exhaustive, recipes_listed_as_equal_store_the_same_bytes_for_every_amax) {
  for (const auto& members : peers::kEqualBytes) {
    const Recipe first = recipe_named(members[0]);
    for (const auto name : members) {
      const Recipe other = recipe_named(name);
      EXPECT_EQ(other.rule, first.rule) << name;
      EXPECT_EQ(other.amax_min, first.amax_min) << name;
      EXPECT_EQ(other.quotient_min, first.quotient_min) << name;
      EXPECT_EQ(other.byte_min, first.byte_min) << name;
      EXPECT_EQ(other.byte_max, first.byte_max) << name;
      EXPECT_EQ(other.inf_byte, first.inf_byte) << name;
      EXPECT_EQ(other.nan_byte, first.nan_byte) << name;
    }
  }
}

// exp over every FP32, log1p and log where routers ask for them. The second side is the C library's long double, whose
// error is below 2^-62 of the result; where that is too near to halfway between two FP32, 100 digits decide.

constexpr bool kWideEnough = LDBL_MANT_DIG >= 64;

// `digits` is used where `value` is too near to halfway.
template <class Digits>
float nearest_to(long double value, std::atomic<std::uint64_t>& asked, const Digits& digits) {
  const long double margin = value * 0x1p-58L;
  const auto low = static_cast<float>(value - margin);
  if (bits_of(low) == bits_of(static_cast<float>(value + margin))) return low;
  ++asked;
  return nearest_float(digits());
}

// Sweeps f over [begin, end) and compares with expected(x, asked).
template <class Function, class Expected>
void expect_equal(const char* what, std::uint64_t begin, std::uint64_t end, Function f, Expected expected) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> asked{0};
  const SweepResult result = sweep(begin, end, kThreads, [&](std::uint32_t pattern) {
    const float x = float_of(pattern);
    return bits_of(f(x)) == bits_of(expected(x, asked));
  });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::cout << "[  SECONDS ] " << taken.count() << " " << what << ", " << asked << " by 100 digits" << std::endl;
  EXPECT_EQ(result.checked, end - begin);
  EXPECT_EQ(result.mismatches, 0U) << "first at 0x" << std::hex << result.first;
}

TEST(Exhaustive, exp_of_every_fp32_is_correctly_rounded) {
  if (!kWideEnough) GTEST_SKIP() << "long double has too few bits";
  expect_equal("exp over 2^32 FP32", 0, kAllPatterns, exp_rn, [](float x, std::atomic<std::uint64_t>& asked) {
    if (std::isnan(x)) return kNaN;
    if (x > 88.8F) return kInf;                // exp(88.73) > 2^128
    if (x < -104) return 0.0F;                 // exp(-103.98) < 2^-150
    if (std::fabs(x) < 0x1p-26F) return 1.0F;  // nearer to 1 than half its spacing
    return nearest_to(std::exp(static_cast<long double>(x)), asked, [x] { return exp(Real(x)); });
  });
}

TEST(Exhaustive, log1p_of_every_fp32_from_0_to_1_is_correctly_rounded) {
  if (!kWideEnough) GTEST_SKIP() << "long double has too few bits";
  expect_equal("log1p over [0, 1]", 0, bits_of(1.0F) + 1, log1p_rn, [](float x, std::atomic<std::uint64_t>& asked) {
    if (x < 0x1p-26F) return x;  // x^2 / 2 is below a quarter of its spacing
    return nearest_to(std::log1p(static_cast<long double>(x)), asked, [x] { return log(1 + Real(x)); });
  });
}

TEST(Exhaustive, log_of_every_fp32_from_1_to_4096_is_correctly_rounded) {
  if (!kWideEnough) GTEST_SKIP() << "long double has too few bits";
  expect_equal("log over [1, 4096]", bits_of(1.0F), bits_of(4096.0F) + 1, log_rn,
               [](float x, std::atomic<std::uint64_t>& asked) {
                 if (x == 1) return 0.0F;
                 return nearest_to(std::log(static_cast<long double>(x)), asked, [x] { return log(Real(x)); });
               });
}

}  // namespace
}  // namespace mxcheck

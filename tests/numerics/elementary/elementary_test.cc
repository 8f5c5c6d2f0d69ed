// Correctly rounded functions against 100 digits, the pairwise sum against its definition, Philox against its vectors.

#include "numerics/elementary/elementary.h"
#include "numerics/elementary/exact.h"
#include "tests/numerics/elementary/multiprecision.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr float kLargest = std::numeric_limits<float>::max();

void expect_exp(float x) { EXPECT_EQ(bits_of(exp_rn(x)), bits_of(exp_by_digits(x))) << std::hexfloat << x; }
void expect_log(float x) { EXPECT_EQ(bits_of(log_rn(x)), bits_of(log_by_digits(x))) << std::hexfloat << x; }
void expect_log1p(float x) { EXPECT_EQ(bits_of(log1p_rn(x)), bits_of(log1p_by_digits(x))) << std::hexfloat << x; }

// x and the `count` numbers on either side of it.
std::vector<float> around(float x, int count) {
  std::vector<float> values{x};
  float down = x;
  float up = x;
  for (int i = 0; i < count; ++i) {
    values.push_back(down = std::nextafter(down, -kInf));
    values.push_back(up = std::nextafter(up, kInf));
  }
  return values;
}

// Every exponent, with random significands and the ends of the binade.
std::vector<float> of_every_binade(int from, int to) {
  std::mt19937 engine(7);
  std::vector<float> values;
  for (int e = from; e <= to; ++e) {
    const float power = std::ldexp(1.0F, e);
    values.insert(values.end(), {power, std::nextafter(power, kInf), std::nextafter(power, 0.0F)});
    for (int i = 0; i < 20; ++i) values.push_back(power + power * static_cast<float>(engine() >> 9) * 0x1p-23F);
  }
  return values;
}

TEST(NearestFloat, of_the_tests_rounds_once) {
  EXPECT_EQ(nearest_float(Real(1) + ldexp(Real(1), -24)), 1.0F);
  EXPECT_EQ(nearest_float(Real(1) + ldexp(Real(1), -24) + ldexp(Real(1), -200)), 1 + 0x1p-23F);
  EXPECT_EQ(nearest_float(Real(1) + 3 * ldexp(Real(1), -24)), 1 + 0x1p-22F);
  EXPECT_EQ(nearest_float(ldexp(Real(1), -150)), 0.0F);
  EXPECT_EQ(nearest_float(-ldexp(Real(3), -151)), -kSmallest);
  EXPECT_EQ(nearest_float(ldexp(Real(1), 128) - ldexp(Real(1), 103)), kInf);
  EXPECT_EQ(nearest_float(ldexp(Real(1), 128) - ldexp(Real(1), 102)), kInf);
  EXPECT_EQ(nearest_float(ldexp(Real(1), 128) - ldexp(Real(3), 102)), kLargest);
}

TEST(ExpRn, special_values) {
  EXPECT_TRUE(std::isnan(exp_rn(kNaN)));
  EXPECT_TRUE(std::isnan(exp_rn(-kNaN)));
  EXPECT_EQ(bits_of(exp_rn(kInf)), bits_of(kInf));
  EXPECT_EQ(bits_of(exp_rn(-kInf)), 0U);
  EXPECT_EQ(bits_of(exp_rn(kLargest)), bits_of(kInf));
  EXPECT_EQ(bits_of(exp_rn(-kLargest)), 0U);
  for (const float x : {0.0F, -0.0F, kSmallest, -kSmallest, 0x1p-25F, -0x1p-25F}) EXPECT_EQ(exp_rn(x), 1.0F) << x;
  EXPECT_EQ(bits_of(exp_rn(1)), 0x402DF854U);  // 2.7182817
}

TEST(ExpRn, at_the_borders_of_its_range) {
  EXPECT_EQ(exp_rn(0x1.62e42ep+6F), 0x1.ffff08p+127F);  // 88.72283, the last before Inf
  EXPECT_EQ(exp_rn(0x1.62e430p+6F), kInf);
  EXPECT_EQ(exp_rn(-0x1.9fe368p+6F), kSmallest);  // -103.97208, the last that is not 0
  EXPECT_EQ(exp_rn(-0x1.9fe36ap+6F), 0.0F);
  for (const float x : {0x1.62e42ep+6F, 89.0F, -0x1.9fe368p+6F, -104.0F, -0x1.5d58a0p+6F, 1.0F, -1.0F}) {
    for (const float y : around(x, 50)) expect_exp(y);
  }
}

TEST(ExpRn, is_nearest_to_100_digits_in_every_binade) {
  for (const float x : of_every_binade(-149, 6)) {
    expect_exp(x);
    expect_exp(-x);
  }
}

TEST(ExpRn, is_nearest_to_100_digits_where_the_table_changes) {
  for (int n = -4801; n <= 4100; n += 3) {
    const auto x = static_cast<float>((n + 0.5) * std::log(2.0) / 32);
    for (const float y : around(x, 1)) expect_exp(y);
  }
}

TEST(ExpRn, is_nearest_to_100_digits_for_subnormal_results) {
  std::mt19937 engine(11);
  for (int i = 0; i < 3000; ++i) expect_exp(-87.3F - static_cast<float>(engine() >> 8) * 0x1p-24F * 16.8F);
}

// Next to 1 the distance to halfway is x^2 / 2.
TEST(ExpRn, next_to_halfway) {
  EXPECT_EQ(exp_rn(0x1p-24F), 1 + 0x1p-23F);
  EXPECT_EQ(exp_rn(-0x1p-25F), 1.0F);
  for (const float x : {0x1p-24F, -0x1p-25F, 0x1.8p-23F, 0x1.4p-22F}) {
    for (const float y : around(x, 40)) expect_exp(y);
  }
}

// FP32 whose double is too near to halfway: all there are of exp, and of log from 1 to 4096; of log1p up to 1 the
// first.
TEST(SecondStep, decides_where_the_double_cannot) {
  for (const float x : {-0x1p-25F, 0x1.fdff02p-17F, 0x1.8d7cb6p-12F, -0x1.c1c4b8p-10F, -0x1.e1dbe2p-8F, 0x1.036492p+1F,
                        0x1.62b666p+1F, -0x1.d2259ap+3F}) {
    expect_exp(x);
  }
  for (const float x :
       {0x1p-24F, 0x1.800006p-21F, 0x1.bdb59cp-18F, 0x1.200036p-17F, 0x1.e00096p-17F, 0x1.8dc1cp-16F, 0x1.eb13bcp-16F,
        0x1.500126p-15F, 0x1.c191dcp-9F, 0x1.262b9p-8F, 0x1.eb046p-6F, 0x1.b7fd86p-4F}) {
    expect_log1p(x);
  }
  for (const float x :
       {0x1.8aa6f2p+0F, 0x1.a6c9aep+0F, 0x1.addc8ap+1F, 0x1.2f1fd6p+3F, 0x1.c7655ep+4F, 0x1.7886cp+10F}) {
    expect_log(x);
  }
}

TEST(LogRn, special_values) {
  EXPECT_TRUE(std::isnan(log_rn(kNaN)));
  EXPECT_TRUE(std::isnan(log_rn(-kSmallest)));
  EXPECT_TRUE(std::isnan(log_rn(-kInf)));
  EXPECT_EQ(log_rn(0.0F), -kInf);
  EXPECT_EQ(log_rn(-0.0F), -kInf);
  EXPECT_EQ(log_rn(kInf), kInf);
  EXPECT_EQ(bits_of(log_rn(1)), 0U);
  EXPECT_EQ(bits_of(log_rn(2)), 0x3F317218U);  // 0.6931472
}

TEST(LogRn, is_nearest_to_100_digits_in_every_binade) {
  for (const float x : of_every_binade(-149, 127)) expect_log(x);
  expect_log(kLargest);
}

TEST(LogRn, is_nearest_to_100_digits_next_to_1_and_where_the_reduction_changes) {
  for (const float x : {1.0F, 0.70703125F, 1.4140625F, 0.70710678F, 1.41421356F}) {
    for (const float y : around(x, 300)) {
      if (y != 1) expect_log(y);
      expect_log(64 * x);
    }
  }
}

TEST(Log1pRn, special_values) {
  EXPECT_TRUE(std::isnan(log1p_rn(kNaN)));
  EXPECT_TRUE(std::isnan(log1p_rn(-kSmallest)));
  EXPECT_TRUE(std::isnan(log1p_rn(-kInf)));
  EXPECT_EQ(bits_of(log1p_rn(0.0F)), 0U);
  EXPECT_EQ(bits_of(log1p_rn(-0.0F)), 0x80000000U);
  EXPECT_EQ(log1p_rn(kInf), kInf);
  EXPECT_EQ(log1p_rn(kSmallest), kSmallest);
  EXPECT_EQ(bits_of(log1p_rn(1)), 0x3F317218U);
}

TEST(Log1pRn, is_nearest_to_100_digits_in_every_binade) {
  for (const float x : of_every_binade(-149, 127)) expect_log1p(x);
  for (const float x : {0.41F, 0.41421356F, 0x1p-24F, 0x1p-23F, 0x1p-29F, 0x1p29F, 0x1p30F, 0x1p53F}) {
    for (const float y : around(x, 100)) expect_log1p(y);
  }
}

// The definition as it stands: +0 up to a power of two, then level by level.
float padded_sum(std::vector<float> v) {
  if (v.empty()) return 0;
  while ((v.size() & (v.size() - 1)) != 0) v.push_back(0.0F);
  while (v.size() > 1) {
    for (std::size_t i = 0; 2 * i < v.size(); ++i) v[i] = v[2 * i] + v[2 * i + 1];
    v.resize(v.size() / 2);
  }
  return v[0];
}

TEST(PairwiseSum, is_its_definition_for_every_length) {
  std::mt19937 engine(5);
  for (std::size_t length = 0; length <= 300; ++length) {
    std::vector<float> v;
    for (std::size_t i = 0; i < length; ++i)
      v.push_back(std::ldexp(static_cast<float>(engine()), -static_cast<int>(engine() % 40)));
    EXPECT_EQ(bits_of(pairwise_sum(v)), bits_of(padded_sum(v))) << length;
    std::fill(v.begin(), v.end(), -0.0F);
    EXPECT_EQ(bits_of(pairwise_sum(v)), bits_of(padded_sum(v))) << length << " times -0";
  }
}

TEST(PairwiseSum, of_zeros_ones_and_an_order_that_matters) {
  EXPECT_EQ(bits_of(pairwise_sum({})), 0U);
  EXPECT_EQ(bits_of(pairwise_sum(std::array{-0.0F})), 0x80000000U);
  EXPECT_EQ(bits_of(pairwise_sum(std::array{-0.0F, -0.0F})), 0x80000000U);
  EXPECT_EQ(bits_of(pairwise_sum(std::array{-0.0F, -0.0F, -0.0F})), 0U);  // the fourth is +0
  // Added from left to right both small ones are lost; as a pair they are not.
  EXPECT_EQ(pairwise_sum(std::array{1.0F, 0.0F, 0x1p-24F, 0x1p-24F}), 1 + 0x1p-23F);
  EXPECT_EQ(((1.0F + 0.0F) + 0x1p-24F) + 0x1p-24F, 1.0F);
}

struct PhiloxVector {
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> words;
};
// kat_vectors of Random123, philox4x32 with 10 rounds.
constexpr std::array<PhiloxVector, 3> kPhilox{{{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                                               {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                                                {0xffffffff, 0xffffffff},
                                                {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                                               {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                                                {0xa4093822, 0x299f31d0},
                                                {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}};

// The rounds in arithmetic instead of bits: products taken apart by division.
std::array<std::uint32_t, 4> philox_by_division(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  constexpr std::uint64_t kWord = std::uint64_t{1} << 32;
  for (std::uint64_t round = 0; round < 10; ++round) {
    const auto bumped = [&](std::size_t i, std::uint64_t by) {
      return static_cast<std::uint32_t>((k.at(i) + round * by) % kWord);
    };
    const std::uint64_t a = 3528531795U * static_cast<std::uint64_t>(c[0]);
    const std::uint64_t b = 3449720151U * static_cast<std::uint64_t>(c[2]);
    c = {static_cast<std::uint32_t>(b / kWord) ^ c[1] ^ bumped(0, 2654435769U), static_cast<std::uint32_t>(b % kWord),
         static_cast<std::uint32_t>(a / kWord) ^ c[3] ^ bumped(1, 3144134277U), static_cast<std::uint32_t>(a % kWord)};
  }
  return c;
}

std::uint32_t word_of(const PhiloxVector& v) {
  const auto& c = v.counter;
  return philox_word(std::uint64_t{v.key[1]} << 32 | v.key[0], c[0], c[1], c[2], c[3]);
}

TEST(Philox, known_answers) {
  for (const PhiloxVector& v : kPhilox) {
    EXPECT_EQ(philox_by_division(v.counter, v.key), v.words);
    EXPECT_EQ(word_of(v), v.words[0]);
    const auto& c = v.counter;
    EXPECT_EQ(philox_words(std::uint64_t{v.key[1]} << 32 | v.key[0], c[0], c[1], c[2], c[3]), v.words);
  }
}

TEST(Philox, every_input_bit_counts_as_it_does_in_the_rounds) {
  std::mt19937 engine(3);
  for (int i = 0; i < 1000; ++i) {
    PhiloxVector v{};
    for (std::uint32_t& c : v.counter) c = static_cast<std::uint32_t>(engine());
    for (std::uint32_t& k : v.key) k = static_cast<std::uint32_t>(engine());
    EXPECT_EQ(word_of(v), philox_by_division(v.counter, v.key)[0]);
  }
}

// The second step of elementary.cc alone, on what the first would settle too.
TEST(ExactStep, is_nearest_to_100_digits) {
  std::mt19937 engine(13);
  for (int i = 0; i < 3000; ++i) {
    const float x = std::ldexp(1 + static_cast<float>(engine() >> 9) * 0x1p-23F, static_cast<int>(engine() % 30) - 24);
    EXPECT_EQ(bits_of(exact_exp(x)), bits_of(exp_by_digits(x))) << std::hexfloat << x;
    EXPECT_EQ(bits_of(exact_exp(-x)), bits_of(exp_by_digits(-x))) << std::hexfloat << -x;
    int n = 0;
    const double f = 2 * std::frexp(static_cast<double>(x), &n) - 1;
    if (f >= 0.5) continue;
    EXPECT_EQ(bits_of(exact_log(f, n - 1)), bits_of(log_by_digits(x))) << std::hexfloat << x;
    EXPECT_EQ(bits_of(exact_log(f, 0)), bits_of(log1p_by_digits(static_cast<float>(f)))) << std::hexfloat << f;
  }
}

}  // namespace
}  // namespace mxcheck

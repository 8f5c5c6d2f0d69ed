// SwiGLU against its mathematics in 100 digits, with bounds that count roundings, and its special values by bits.
//
// Bounds. Let e = 2^-24, the relative error of one rounding, and E = exp(-g). RN(1 + E(1 + e)) differs from 1 + E by
// E e + (1 + E) e at most, relatively 2e; the quotient adds one: |dq| <= 3e q. Then
//   a = (g q) u                     two products more: 5e |a|
//   1 - q                           3e q + e (1 - q)
//   f = 1 + g (1 - q)               |g| (3e q + e (1 - q)) + e |f|, by fma
//   q f                             that times q, and (3 + 1) e q |f|
//   dg = dA (u (q f)), dA = s P     (3 + 0) e more of |dA u q f|
//   du = dA (g q)                   (3 + 1 + 1 + 1) e |du|
// all times 1 + 2^-20 for products of errors. Where q is subnormal it has an absolute error of 2^-149, and where
// exp(-g) overflows q is 0 instead of less than 2^-128; every other rounding below 2^-126 adds 2^-150 times what
// follows it.

#include "reference/layer/swiglu.h"
#include "numerics/elementary/elementary.h"
#include "reference/layer/aggregate.h"
#include "tests/numerics/elementary/multiprecision.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr float kMax = std::numeric_limits<float>::max();
constexpr double kStep = 0x1p-24 * (1 + 0x1p-20);

float bf16_value(std::uint32_t word) { return float_of(word << 16); }

struct Truth {
  Real q, f;  // the sigmoid, and 1 + g (1 - q)
};
Truth truth_of(float g) {
  const Real x = g;
  const Real q = 1 / (1 + exp(-x));
  return {q, 1 + x * (1 - q)};
}

// The absolute error of q that is not relative to it.
double lost_below(float g) { return swiglu_sigmoid(g) == 0 ? 0x1p-128 : 0x1p-149; }

// |found - expected| <= bound, or both are beyond FP32.
::testing::AssertionResult within(float found, const Real& expected, const Real& bound) {
  if (abs(expected) + bound > Real(kMax) && std::isinf(found) && (found > 0) == (expected > 0))
    return ::testing::AssertionSuccess();
  if (std::isfinite(found) && abs(Real(found) - expected) <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << found << " is not within " << bound.convert_to<double>() << " of "
                                       << expected.convert_to<double>();
}

::testing::AssertionResult forward_is_right(float g, float u, const Truth& t) {
  const Real a = Real(g) * t.q * u;
  const Real bound =
      5 * kStep * abs(a) + abs(Real(g) * u) * lost_below(g) + Real(0x1p-149) * (1 + std::fabs(static_cast<double>(u)));
  return within(swiglu(g, u), a, bound);
}

::testing::AssertionResult gradient_is_right(float g, float u, float s, float p, const Truth& t) {
  const float da = s * p;
  const SwigluGradient found = swiglu_gradient(g, u, da);
  const Real size = abs(Real(g));
  const Real exact = Real(s) * p;
  const Real below = lost_below(g);
  const Real tiny = 0x1p-149;
  const Real du = exact * g * t.q;
  const Real bound = 6 * kStep * abs(du) + abs(exact) * (size * below + tiny) + tiny * (1 + size * t.q);
  const auto up = within(found.du, du, bound);
  if (!up) return ::testing::AssertionFailure() << "du: " << up.message();
  const Real derivative = t.q * t.f;
  const Real error =
      kStep * (t.q * size * (3 * t.q + (1 - t.q)) + 8 * t.q * abs(t.f)) + below * (abs(t.f) + size) + tiny * (1 + size);
  const Real unit = abs(Real(u));
  return within(found.dg, exact * u * derivative,
                abs(exact) * (unit * error + tiny) + tiny * (1 + unit * (abs(derivative) + error)));
}

TEST(Swiglu, of_every_bf16_gate_is_within_five_roundings) {
  const std::array<float, 5> ups{1, -3.140625F, 1e-30F, -1e30F, 0x1.fep-100F};
  for (std::uint32_t word = 0; word < 0x10000; ++word) {
    const float g = bf16_value(word);
    if (!std::isfinite(g)) continue;
    const Truth t = truth_of(g);
    for (const float u : ups) ASSERT_TRUE(forward_is_right(g, u, t)) << "g " << g << ", u " << u;
  }
}

TEST(SwigluGradient, of_every_bf16_gate_is_within_the_derived_bound) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (std::uint32_t word = 0; word < 0x10000; ++word) {
    const float g = bf16_value(word);
    if (!std::isfinite(g)) continue;
    const Truth t = truth_of(g);
    for (int i = 0; i < 4; ++i) {
      const float u = std::ldexp(normal(random), static_cast<int>(random() % 40) - 20);
      const float p = std::ldexp(normal(random), -static_cast<int>(random() % 60));
      const float s = static_cast<float>(random() % 1025) / 1024;
      ASSERT_TRUE(gradient_is_right(g, u, s, p, t)) << "g " << g << ", u " << u << ", s " << s << ", p " << p;
    }
  }
}

// The order of operations, and that each is rounded once: the same in 100 digits, rounded to FP32 after every one.
TEST(SwigluGradient, and_swiglu_round_after_every_operation_in_the_order_of_the_header) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 3000; ++i) {
    const float g = 3 * normal(random);
    const float u = normal(random);
    const float da = normal(random);
    const float q = nearest_float(1 / Real(nearest_float(1 + Real(exp_by_digits(-g)))));
    const float silu = nearest_float(Real(g) * q);
    const float f = nearest_float(Real(g) * nearest_float(1 - Real(q)) + 1);
    const float slope = nearest_float(Real(q) * f);
    ASSERT_EQ(swiglu(g, u), nearest_float(Real(silu) * u)) << g;
    ASSERT_EQ(swiglu_gradient(g, u, da).du, nearest_float(Real(da) * silu)) << g;
    ASSERT_EQ(swiglu_gradient(g, u, da).dg, nearest_float(Real(da) * nearest_float(Real(u) * slope))) << g;
  }
}

// q f is what differences of silu give: the formula itself, not its rounding.
TEST(SwigluGradient, is_the_derivative) {
  const Real h = ldexp(Real(1), -110);
  for (const float g : {-60.0F, -5.0F, -1.278F, -0.0F, 0.3F, 2.0F, 40.0F}) {
    const auto silu = [](const Real& x) { return Real(x / (1 + exp(-x))); };
    const Truth t = truth_of(g);
    const Real difference = (silu(Real(g) + h) - silu(Real(g) - h)) / (2 * h);
    EXPECT_LE(abs(difference - t.q * t.f), ldexp(Real(1), -180)) << g;
  }
}

TEST(Swiglu, special_gates_are_those_of_the_header) {
  const float first_zero = std::nextafter(-88.72284F, -kInf);
  for (const float g : {first_zero, -88.73F, -89.0F, -104.0F, -1e30F, -kMax}) {
    EXPECT_EQ(bits_of(swiglu_sigmoid(g)), 0U) << g;
    EXPECT_EQ(swiglu(g, 3), 0) << g;
    EXPECT_EQ(swiglu_gradient(g, 3, 5).dg, 0) << g;
    EXPECT_EQ(swiglu_gradient(g, 0x1p126F, kMax).dg, 0) << g;  // dA * u alone would overflow, and Inf * 0 be NaN
    EXPECT_EQ(swiglu_gradient(g, 3, 5).du, 0) << g;
  }
  for (const float g : {16.64F, 88.0F, 1e30F, kMax}) {
    EXPECT_EQ(swiglu(g, 0.5F), g * 0.5F) << g;
    EXPECT_EQ(swiglu_gradient(g, 3, 5).dg, 15) << g;
    EXPECT_EQ(swiglu_gradient(g, 3, 0.125F).du, g * 0.125F) << g;
  }
  EXPECT_EQ(swiglu(0, 7), 0);
  EXPECT_EQ(swiglu_gradient(0, 7, 3).dg, 10.5F);
  EXPECT_EQ(swiglu_gradient(0, 7, 3).du, 0);
  for (const float g : {-kInf, kNaN}) {
    EXPECT_TRUE(std::isnan(swiglu(g, 1)));
    EXPECT_TRUE(std::isnan(swiglu_gradient(g, 1, 1).dg));
    EXPECT_TRUE(std::isnan(swiglu_gradient(g, 1, 1).du));
  }
  EXPECT_EQ(swiglu(kInf, 2), kInf);
  EXPECT_EQ(swiglu_gradient(kInf, 2, 2).du, kInf);
  EXPECT_TRUE(std::isnan(swiglu_gradient(kInf, 2, 2).dg));
}

TEST(Swiglu, rounds_to_bf16_to_nearest_even_with_one_nan) {
  EXPECT_EQ(layer_bf16(float_of(0x3F808000)), 0x3F80);  // ties: 1 + 2^-8
  EXPECT_EQ(layer_bf16(float_of(0x3F818000)), 0x3F82);
  EXPECT_EQ(layer_bf16(float_of(0x3F808001)), 0x3F81);
  EXPECT_EQ(layer_bf16(kMax), 0x7F80);
  EXPECT_EQ(layer_bf16(-0.0F), 0x8000);
  EXPECT_EQ(layer_bf16(float_of(0x00008001)), 1);  // subnormals are kept
  EXPECT_EQ(layer_bf16(float_of(0xFFC00000)), 0x7FFF);
  EXPECT_EQ(bits_of(layer_fp32(float_of(0xFFC00000))), 0x7FFFFFFFU);
}

// A row's outputs as their definitions, operation by operation.
TEST(SwigluRow, has_the_gate_in_either_order_and_ds_of_the_rounded_a) {
  constexpr std::size_t kN = 37;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> g(kN), u(kN), p(kN), products(kN);
  std::vector<float> halves(2 * kN), interleaved(2 * kN);
  for (std::size_t j = 0; j < kN; ++j) {
    g[j] = bf16_value(layer_bf16(3 * normal(random))), u[j] = bf16_value(layer_bf16(normal(random)));
    p[j] = normal(random) * 1e-4F;
    halves[j] = interleaved[2 * j] = g[j];
    halves[kN + j] = interleaved[2 * j + 1] = u[j];
  }
  const float s = 0.3F;
  std::vector<std::uint16_t> a(kN), scaled(kN), dh(2 * kN), a2(kN), scaled2(kN), dh2(2 * kN), forward(kN);
  const float ds = swiglu_row_gradient(halves, GateUp::halves, p, s, {a, scaled, dh});
  const float ds2 = swiglu_row_gradient(interleaved, GateUp::interleaved, p, s, {a2, scaled2, dh2});
  swiglu_row(interleaved, GateUp::interleaved, forward);
  EXPECT_EQ(a, a2);
  EXPECT_EQ(a, forward);
  EXPECT_EQ(scaled, scaled2);
  for (std::size_t j = 0; j < kN; ++j) {
    EXPECT_EQ(a[j], layer_bf16(swiglu(g[j], u[j])));
    EXPECT_EQ(scaled[j], layer_bf16(s * bf16_value(a[j])));
    EXPECT_EQ(dh[j], layer_bf16(swiglu_gradient(g[j], u[j], s * p[j]).dg));
    EXPECT_EQ(dh[kN + j], layer_bf16(swiglu_gradient(g[j], u[j], s * p[j]).du));
    EXPECT_EQ(dh2[2 * j], dh[j]);
    EXPECT_EQ(dh2[2 * j + 1], dh[kN + j]);
    products[j] = p[j] * bf16_value(a[j]);
  }
  EXPECT_EQ(bits_of(ds), bits_of(pairwise_sum(products)));
  EXPECT_EQ(bits_of(ds), bits_of(ds2));
}

// The rows of a token added up: order, roundings, what is left out, what is refused.

using Words = std::vector<std::uint16_t>;

// 1, -1 and 2^-9 in BF16, one column each.
const Words kRows{0x3F80, 0xBF80, 0x3B00};

TEST(Aggregate, adds_in_the_order_of_the_slots_and_leaves_dropped_ones_out) {
  const std::vector<std::int64_t> offsets{0, 0, 1, 4, 6};
  const std::vector<std::int32_t> rows{1, 2, -1, 0, 0, 0};
  EXPECT_EQ(aggregate({kRows, 3, 1, {}}, {offsets, rows}), (Words{0, 0xBF80, 0x3F80, 0x4000}));
  const std::vector<float> weights{0x1p24F, 0x1p24F, 0x1p9F};  // 2^24 + 1 is no FP32 number: the order shows
  const std::vector<std::int64_t> three{0, 3, 6};
  const std::vector<std::int32_t> orders{2, 0, 1, 0, 1, 2};
  EXPECT_EQ(aggregate({kRows, 3, 1, weights}, {three, orders}), (Words{0, 0x3F80}));
}

TEST(Aggregate, fuses_the_weight_and_rounds_once_at_the_end) {
  const Words y{0x3F81};                              // 1 + 2^-7
  const std::vector<float> weights{1.0F + 0x1p-23F};  // the product needs 31 bits
  const std::vector<std::int64_t> offsets{0, 2};
  const std::vector<std::int32_t> rows{0, 0};
  const float once = std::fma(weights[0], 1.0F + 0x1p-7F, 0.0F);
  const float twice = std::fma(weights[0], 1.0F + 0x1p-7F, once);
  EXPECT_EQ(twice, 2.015625F + 0x1p-22F);
  EXPECT_EQ(aggregate({y, 1, 1, weights}, {offsets, rows}), (Words{0x4001}));
}

TEST(Aggregate, makes_any_nan_the_one_nan) {
  const Words y{0x7F80, 0xFF80};
  const std::vector<std::int64_t> offsets{0, 2};
  const std::vector<std::int32_t> rows{0, 1};
  EXPECT_EQ(aggregate({y, 2, 1, {}}, {offsets, rows}), (Words{0x7FFF}));
}

TEST(Aggregate, refuses_slots_that_are_none) {
  const auto refused = [](const char* message, std::vector<std::int64_t> offsets, std::vector<std::int32_t> rows) {
    expect_error(ErrorKind::input, message, [&] { (void)aggregate({kRows, 3, 1, {}}, {offsets, rows}); });
  };
  refused("token_offsets[0] is 1", {1, 1}, {0});
  refused("token_offsets[1] is -1", {0, -1, 1}, {0});
  refused("token_offsets end at 2, and there are 1 slots", {0, 2}, {0});
  refused("slot 1 is of row 3", {0, 2}, {0, 3});
  refused("slot 0 is of row -2", {0, 1}, {-2});
  const std::vector<std::int64_t> offsets{0, 0};
  const std::vector<float> weights{1};
  expect_error(ErrorKind::usage, "1 weights", [&] { (void)aggregate({kRows, 3, 1, weights}, {offsets, {}}); });
  expect_error(ErrorKind::usage, "3 elements", [&] { (void)aggregate({kRows, 3, 2, {}}, {offsets, {}}); });
  expect_error(ErrorKind::usage, "without token_offsets", [&] { (void)aggregate({kRows, 3, 1, {}}, {}); });
}

}  // namespace
}  // namespace mxcheck

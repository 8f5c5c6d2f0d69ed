// Intervals of steps without a promised order: no order of sums in FP32 is outside, whatever rounds, cuts or flushes on
// the way, and a sum that lacks a term is.

#include "reference/layer/any_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

float of_bf16(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }

// How a kernel computes: to nearest or toward zero, with or without subnormal operands and results.
struct Fp32Unit {
  bool cuts = false, flushes = false;
  [[nodiscard]] float in(float x) const { return flushes && std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }
  [[nodiscard]] float round(double exact) const {  // of one operation on FP32 numbers, exact in FP64 or nearly
    auto x = static_cast<float>(exact);
    if (cuts && std::fabs(double{x}) > std::fabs(exact)) x = std::nextafter(x, 0.0F);
    return in(x);
  }
};

struct Rows {
  AggregatedRows from;
  std::vector<std::uint16_t> y;
  std::vector<float> weights;
  std::vector<std::int64_t> token_offsets{0};
  std::vector<std::int32_t> token_rows;
  [[nodiscard]] TokenSlots slots() const { return {token_offsets, token_rows}; }

  // Tokens of 0, 1, 2 ... slots, some of which were dropped.
  Rows(std::int64_t tokens, std::int64_t cols, bool weighted, std::mt19937& random,
       const std::function<float()>& draw) {
    const std::int64_t rows = 3 * tokens;
    for (std::int64_t i = 0; i < rows * cols; ++i) y.push_back(layer_bf16(draw()));
    for (std::int64_t i = 0; weighted && i < rows; ++i) weights.push_back(draw());
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t slot = 0; slot < t; ++slot)
        token_rows.push_back(random() % 8 == 0 ? -1
                                               : static_cast<std::int32_t>(random() % static_cast<unsigned>(rows)));
      token_offsets.push_back(std::ssize(token_rows));
    }
    from = {y, rows, cols, weights};
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  // The products of an output.
  [[nodiscard]] std::vector<std::pair<float, float>> factors(std::int64_t token, std::int64_t col) const {
    std::vector<std::pair<float, float>> all;
    for (auto slot = token_offsets[static_cast<std::size_t>(token)];
         slot < token_offsets[static_cast<std::size_t>(token) + 1]; ++slot) {
      const std::int32_t row = token_rows[static_cast<std::size_t>(slot)];
      if (row < 0) continue;
      all.emplace_back(weights.empty() ? 1 : weights[static_cast<std::size_t>(row)],
                       of_bf16(y[static_cast<std::size_t>(row * from.cols + col)]));
    }
    return all;
  }
};

// In a random order and grouping; products rounded before they are added, or not (where FP64 holds them).
std::uint16_t any_sum(std::vector<std::pair<float, float>> factors, const Fp32Unit& unit, bool fused,
                      std::mt19937& random) {
  std::shuffle(factors.begin(), factors.end(), random);
  std::vector<float> parts(1 + random() % 3, 0.0F);
  for (const auto& [w, y] : factors) {
    float& acc = parts[random() % parts.size()];
    const double product = double{unit.in(w)} * double{unit.in(y)};
    acc = unit.round(double{acc} + (fused ? product : double{unit.round(product)}));
  }
  for (std::size_t i = 1; i < parts.size(); ++i) parts[0] = unit.round(double{parts[0]} + double{parts[i]});
  return layer_bf16(parts[0]);
}

class AggregateRanges : public testing::TestWithParam<int> {};

TEST_P(AggregateRanges, hold_every_order_that_rounds_cuts_or_flushes) {
  const int spread = GetParam();
  std::mt19937 random(static_cast<unsigned>(spread) + 1);
  std::normal_distribution<float> normal;
  for (const bool weighted : {false, true}) {
    const Rows rows(18, 9, weighted, random, [&] {
      const int exponent =
          spread < 0 ? spread : static_cast<int>(random() % static_cast<unsigned>(spread + 1)) - spread / 2;
      return std::ldexp(normal(random), exponent);
    });
    const std::vector<OutputRange> ranges = aggregate_ranges(rows.from, rows.slots());
    const std::vector<std::uint16_t> own = aggregate(rows.from, rows.slots());
    for (std::size_t at = 0; at < own.size(); ++at) {
      ASSERT_TRUE(ranges[at].holds(Format::bf16, own[at])) << at;
      const auto factors = rows.factors(static_cast<std::int64_t>(at) / 9, static_cast<std::int64_t>(at) % 9);
      for (int n = 0; n < 64; ++n) {
        const Fp32Unit unit{(n & 1) != 0, (n & 2) != 0};
        const std::uint16_t sum = any_sum(factors, unit, (n & 4) != 0, random);
        ASSERT_TRUE(ranges[at].holds(Format::bf16, sum)) << at << ": " << of_bf16(sum) << ", " << to_text(ranges[at]);
      }
    }
  }
}

// Exponents that differ by so much; below 0: all about this one, so that products are subnormal.
INSTANTIATE_TEST_SUITE_P(Spreads, AggregateRanges, testing::Values(0, 4, 12, 24, -63, -66, -126, -130));

TEST(AggregateRanges, lack_sums_without_a_term_or_with_another_weight_and_sums_in_bf16) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const Rows rows(12, 64, true, random, [&] { return normal(random); });
  const std::vector<OutputRange> ranges = aggregate_ranges(rows.from, rows.slots());
  int less = 0, other = 0, coarse = 0, all = 0;
  for (std::size_t at = 0; at < ranges.size(); ++at) {
    auto factors = rows.factors(static_cast<std::int64_t>(at) / 64, static_cast<std::int64_t>(at) % 64);
    if (factors.size() < 3) continue;
    ++all;
    float bf16 = 0;
    for (const auto& [w, y] : factors) bf16 = of_bf16(layer_bf16(std::fma(w, y, bf16)));
    coarse += ranges[at].holds(Format::bf16, layer_bf16(bf16)) ? 0 : 1;
    std::swap(factors[0].first, factors[1].first);
    other += ranges[at].holds(Format::bf16, any_sum(factors, {}, true, random)) ? 0 : 1;
    std::swap(factors[0].first, factors[1].first);
    factors.pop_back();
    less += ranges[at].holds(Format::bf16, any_sum(factors, {}, true, random)) ? 0 : 1;
  }
  EXPECT_GT(less, all * 97 / 100);
  EXPECT_GT(other, all * 80 / 100);  // one token has a row twice
  EXPECT_GT(coarse, all / 4);
}

TEST(AggregateRanges, are_points_where_nothing_can_be_rounded_and_open_where_sums_may_overflow) {
  std::mt19937 random(4);
  const Rows integers(9, 5, true, random, [&] { return static_cast<float>(random() % 8); });
  for (const OutputRange& range : aggregate_ranges(integers.from, integers.slots())) EXPECT_TRUE(range.is_point());
  const auto one = [](float w, float y, float y2) {
    const std::vector<std::uint16_t> rows{layer_bf16(y), layer_bf16(y2)};
    const std::vector<float> weights{w, 1};
    const std::vector<std::int64_t> offsets{0, 2};
    const std::vector<std::int32_t> of{0, 1};
    return aggregate_ranges({rows, 2, 1, weights}, {offsets, of})[0];
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(one(0x1p100F, 0x1p27F, -0x1p127F).unbounded);
  EXPECT_TRUE(one(0, inf, 1).is_nan);
  EXPECT_TRUE(one(1, inf, -inf).is_nan);
  EXPECT_TRUE(one(std::nanf(""), 1, 1).is_nan);
  EXPECT_EQ(one(-1, inf, 1).high, -inf);
  const OutputRange flushed = one(0x1p40F, 0x1p-130F, 0);  // y is read as 0, or not
  EXPECT_TRUE(flushed.high >= 0x1p-90 && flushed.low <= 0);
}

TEST(AggregateRanges, exact_sums_have_the_magnitudes_of_their_terms) {
  std::mt19937 random(5);
  const Rows rows(9, 5, true, random, [&] { return static_cast<float>(random() % 16) - 8; });
  const std::vector<std::uint16_t> own = aggregate(rows.from, rows.slots());
  for (std::int64_t t = 0; t < 9; ++t) {
    for (std::int64_t j = 0; j < 5; ++j) {
      double magnitude = 0, sum = 0;
      for (const auto& [w, y] : rows.factors(t, j)) magnitude += std::fabs(w * y), sum += w * y;
      const ExactOutput exact = exact_aggregate(rows.from, rows.slots(), t, j);
      EXPECT_EQ(exact.value, sum);
      EXPECT_EQ(exact.magnitude, magnitude);
      EXPECT_EQ(of_bf16(own[static_cast<std::size_t>(5 * t + j)]), of_bf16(layer_bf16(static_cast<float>(sum))));
    }
  }
  EXPECT_THROW((void)exact_aggregate({rows.y, 1, 5, {}}, rows.slots(), 0, 0), Error);
}

// ---- SwiGLU: a kernel with the errors that CUDA documents, at their worst ------------------------------------------

struct Kernel {
  Fp32Unit unit;
  int exp_ulps = 0;       // of 2 + floor(1.173 |x|), in percent and with its sign
  int division_ulps = 0;  // -2 to 2
  enum class Sigmoid { reciprocal, exp_of_the_gate, divided, tanh } sigmoid = Sigmoid::reciprocal;
  bool up_first = false;

  [[nodiscard]] static float moved(float x, int ulps) {
    for (; ulps != 0 && std::isfinite(x) && x != 0; ulps += ulps < 0 ? 1 : -1)
      x = std::nextafter(x, ulps < 0 ? 0.0F : std::numeric_limits<float>::infinity());
    return x;
  }
  [[nodiscard]] float times(float x, float y) const { return unit.round(double{unit.in(x)} * double{unit.in(y)}); }
  [[nodiscard]] float plus(float x, float y) const { return unit.round(double{unit.in(x)} + double{unit.in(y)}); }
  [[nodiscard]] float exp(float x) const {
    const int most = 2 + static_cast<int>(std::fabs(1.173 * double{x}));
    const auto right = static_cast<float>(std::exp(double{x}));
    return unit.in(moved(right, most * exp_ulps / 100));
  }
  // Like __fdividef: a divisor beyond 2^126 gives 0.
  [[nodiscard]] float over(float x, float y) const {
    if (std::fabs(y) > 0x1p126F && std::isfinite(x)) return 0;
    return unit.in(moved(unit.round(double{x} / double{y}), division_ulps));
  }
  [[nodiscard]] float sigmoid_of(float g) const {
    if (sigmoid == Sigmoid::tanh) {
      const float t = static_cast<float>(std::tanh(double{g} / 2) * (1 + exp_ulps * 0x1p-11 / 100));
      return std::max(0.0F, times(0.5F, plus(1.0F, std::clamp(t, -1.0F, 1.0F))));
    }
    if (sigmoid == Sigmoid::exp_of_the_gate && g < 0) return over(exp(g), plus(1.0F, exp(g)));
    return over(1.0F, plus(1.0F, exp(-g)));
  }
  [[nodiscard]] float silu(float g) const {
    return sigmoid == Sigmoid::divided ? over(g, plus(1.0F, exp(-g))) : times(g, sigmoid_of(g));
  }
  [[nodiscard]] std::uint16_t a(float g, float u) const {
    if (up_first && sigmoid != Sigmoid::divided) return layer_bf16(times(times(g, u), sigmoid_of(g)));
    return layer_bf16(times(silu(g), u));
  }
  [[nodiscard]] std::uint16_t du(float g, float p, float w) const {
    return layer_bf16(up_first ? times(times(w, silu(g)), p) : times(times(w, p), silu(g)));
  }
  [[nodiscard]] std::uint16_t dg(float g, float u, float p, float w) const {
    const float q = sigmoid_of(g), rest = plus(1.0F, -q);
    const float slope = up_first ? plus(q, times(silu(g), rest)) : times(q, plus(1.0F, times(g, rest)));
    return layer_bf16(up_first ? times(times(times(w, p), u), slope) : times(times(w, p), times(u, slope)));
  }
};

std::vector<Kernel> kernels(bool with_tanh) {
  std::vector<Kernel> all;
  for (const int exp_ulps : {-100, 0, 100}) {
    for (const int division : {-2, 2}) {
      for (int n = 0; n < 8; ++n) {
        const Fp32Unit unit{(n & 1) != 0, (n & 2) != 0};
        for (const auto sigmoid :
             {Kernel::Sigmoid::reciprocal, Kernel::Sigmoid::exp_of_the_gate, Kernel::Sigmoid::divided})
          all.push_back({unit, exp_ulps, division, sigmoid, (n & 4) != 0});
        if (with_tanh) all.push_back({unit, exp_ulps, 0, Kernel::Sigmoid::tanh, (n & 4) != 0});
      }
    }
  }
  return all;
}

// Every finite gate of BF16 with some up values, gradients and weights: the reference, and every kernel.
void expect_held(SigmoidKind kind) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto all = kernels(kind == SigmoidKind::of_exp_or_tanh);
  std::int64_t open = 0;
  for (std::uint32_t word = 0; word < 0x10000; ++word) {
    const float g = of_bf16(static_cast<std::uint16_t>(word));
    const int spread = static_cast<int>(random() % 4) * 20;
    const auto draw = [&] {
      return std::ldexp(normal(random),
                        spread == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(2 * spread)) - spread);
    };
    const float u = of_bf16(layer_bf16(draw())), p = draw(), w = draw();
    const OutputRange a = swiglu_range(g, u, kind);
    const SwigluGradientRanges d = swiglu_gradient_ranges(g, u, p, w, kind);
    const auto holds = [&](const OutputRange& range, std::uint16_t is, const char* what, const Kernel& k) {
      ASSERT_TRUE(range.holds(Format::bf16, is))
          << what << " of g " << g << " u " << u << " p " << p << " w " << w << ": " << of_bf16(is) << ", "
          << to_text(range) << "; sigmoid " << static_cast<int>(k.sigmoid) << " exp " << k.exp_ulps;
    };
    const SwigluGradient own = swiglu_gradient(g, u, w * p);
    holds(a, layer_bf16(swiglu(g, u)), "the reference's a", {});
    holds(d.du, layer_bf16(own.du), "the reference's du", {});
    holds(d.dg, layer_bf16(own.dg), "the reference's dg", {});
    holds(d.scaled_a, layer_bf16(w * of_bf16(layer_bf16(swiglu(g, u)))), "the reference's A'", {});
    open += a.unbounded ? 1 : 0;
    if (testing::Test::HasFatalFailure() || !std::isfinite(g)) continue;
    const Kernel& k = all[random() % all.size()];
    const Kernel& k2 = all[word % all.size()];
    for (const Kernel* one : {&k, &k2}) {
      const std::uint16_t value = one->a(g, u);
      holds(a, value, "a", *one);
      holds(d.du, one->du(g, p, w), "du", *one);
      holds(d.dg, one->dg(g, u, p, w), "dg", *one);
      holds(d.scaled_a, layer_bf16(one->times(w, of_bf16(value))), "A'", *one);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_LT(open, 30'000);
}

TEST(SwigluRanges, hold_kernels_with_every_error_that_cuda_documents) { expect_held(SigmoidKind::of_exp); }
TEST(SwigluRanges, hold_those_of_tanh_too_where_it_is_allowed) { expect_held(SigmoidKind::of_exp_or_tanh); }

// In a hundred of ordinary gates: how many outputs of a wrong kernel are outside.
int outside(SigmoidKind kind, const std::function<std::uint16_t(float, float)>& a) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  int count = 0;
  for (int i = 0; i < 10'000; ++i) {
    const float g = of_bf16(layer_bf16(2 * normal(random))), u = of_bf16(layer_bf16(normal(random)));
    count += swiglu_range(g, u, kind).holds(Format::bf16, a(g, u)) ? 0 : 1;
  }
  return count / 100;
}

TEST(SwigluRanges, lack_what_rounds_on_the_way_cuts_or_takes_another_gate) {
  const auto exp = SigmoidKind::of_exp;
  EXPECT_GT(outside(exp, [](float g, float u) { return layer_bf16(of_bf16(layer_bf16(g * swiglu_sigmoid(g))) * u); }),
            20);
  EXPECT_GT(outside(exp, [](float g, float u) { return layer_bf16(g * of_bf16(layer_bf16(swiglu_sigmoid(g))) * u); }),
            20);
  EXPECT_GT(outside(exp,
                    [](float g, float u) {
                      return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(swiglu(g, u)) >> 16);
                    }),
            45);
  EXPECT_GT(outside(exp, [](float g, float u) { return layer_bf16(swiglu(u, g)); }), 95);
  Kernel tanh;
  tanh.sigmoid = Kernel::Sigmoid::tanh, tanh.exp_ulps = 100;
  EXPECT_GT(outside(exp, [&](float g, float u) { return tanh.a(g, u); }), 5);
  EXPECT_EQ(outside(SigmoidKind::of_exp_or_tanh, [&](float g, float u) { return tanh.a(g, u); }), 0);
  EXPECT_GT(outside(SigmoidKind::of_exp_or_tanh, [](float g, float u) { return layer_bf16(swiglu(u, g)); }), 95);
}

TEST(SwigluRanges, are_narrow_say_nan_and_leave_open_what_overflows) {
  constexpr auto kExp = SigmoidKind::of_exp;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  int points = 0;
  for (int i = 0; i < 1000; ++i) points += swiglu_range(normal(random), normal(random), kExp).is_point() ? 1 : 0;
  EXPECT_GT(points, 980);  // of BF16, of which one has 2^-8 of its value
  EXPECT_TRUE(swiglu_range(0, 3, kExp).is_point());
  EXPECT_TRUE(swiglu_range(0, inf, kExp).is_nan);
  EXPECT_TRUE(swiglu_range(nan, 0, kExp).is_nan);
  EXPECT_TRUE(swiglu_range(inf, 1, kExp).unbounded);
  EXPECT_EQ(swiglu_range(-2, inf, kExp).high, -inf);
  EXPECT_TRUE(swiglu_range(0x1p100F, 0x1p30F, kExp).unbounded);
  EXPECT_TRUE(swiglu_gradient_ranges(1, 1, nan, 1, kExp).du.is_nan);
  EXPECT_TRUE(swiglu_gradient_ranges(1, nan, 1, 1, kExp).dg.is_nan);
  EXPECT_FALSE(swiglu_gradient_ranges(1, nan, 1, 1, kExp).du.is_nan);
  EXPECT_TRUE(swiglu_gradient_ranges(1, 1, 1, nan, kExp).scaled_a.is_nan);
  EXPECT_TRUE(swiglu_gradient_ranges(1, 0, inf, 1, kExp).dg.is_nan);
}

TEST(SwigluRanges, of_the_weights_gradient_hold_every_order_of_the_row) {
  std::mt19937 random(10);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {0U, 1U, 2U, 7U, 64U, 300U}) {
    std::vector<float> h, p;
    std::vector<std::uint16_t> a(n), scaled(n), dh(2 * n);
    for (std::size_t j = 0; j < 2 * n; ++j) h.push_back(of_bf16(layer_bf16(normal(random))));
    for (std::size_t j = 0; j < n; ++j) p.push_back(normal(random));
    const OutputRange range =
        swiglu_weight_gradient_range(std::span(h).first(n), std::span(h).last(n), p, SigmoidKind::of_exp);
    const auto holds = [&](float sum) { return range.holds(Format::fp32, std::bit_cast<std::uint32_t>(sum)); };
    EXPECT_TRUE(holds(swiglu_row_gradient(h, GateUp::halves, p, 1, {a, scaled, dh})));
    float backwards = 0, size = 0, most = 0;
    for (std::size_t j = n; j-- > 0;) {
      const float term = p[j] * of_bf16(a[j]);
      backwards += term, size += std::fabs(term);
      if (std::fabs(term) > std::fabs(most)) most = term;
    }
    EXPECT_TRUE(holds(backwards)) << n;
    EXPECT_LE(range.high - range.low, size * 0x1p-12F) << n;
    EXPECT_TRUE(n < 2 || !holds(backwards - most)) << n;
  }
}

}  // namespace
}  // namespace mxcheck

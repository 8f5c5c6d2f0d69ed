// Gradients of routers: bits against the formulas written once more, values against derivatives in 100 digits.

#include "reference/router/loss.h"
#include "reference/router/router.h"
#include "tests/numerics/elementary/multiprecision.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/oracle.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

using Experts = std::vector<std::int32_t>;

// Tools for tests of gradients: a router's mathematics in 100 digits, derivatives by differences so small that nothing
// of them is seen in FP32, and bounds of what FP32 may make of it.

using Reals = std::vector<Real>;

Reals reals(const Row& values) { return {values.begin(), values.end()}; }

Reals real_softmax(const Reals& x) {
  const Real m = *std::max_element(x.begin(), x.end());
  Reals p;
  Real sum = 0;
  for (const Real& v : x) sum += p.emplace_back(exp(v - m));
  for (Real& v : p) v /= sum;
  return p;
}

Real real_sigmoid(const Real& x) { return 1 / (1 + exp(-x)); }
Real real_sqrtsoftplus(const Real& x) { return sqrt(log(1 + exp(x))); }

Reals real_scores(RouterScore score, const Reals& x) {
  if (score == RouterScore::softmax) return real_softmax(x);
  Reals s;
  for (const Real& v : x) s.push_back(score == RouterScore::sigmoid ? real_sigmoid(v) : real_sqrtsoftplus(v));
  return s;
}

// Weights of the experts as mathematics has them, `scale` included.
Reals real_weights(const Router& router, const Reals& x, const std::vector<std::int32_t>& experts) {
  const RouterVariant& variant = *router.variant;
  const Reals weighed = variant.score == RouterScore::logits ? x : real_scores(variant.score, x);
  Reals w;
  for (const std::int32_t e : experts) w.push_back(weighed[static_cast<std::size_t>(e)]);
  if (variant.weights == RouterWeights::softmax_of_kept) w = real_softmax(w);
  const bool divides = variant.weights == RouterWeights::sum || variant.weights == RouterWeights::tiny_then_sum ||
                       (variant.weights == RouterWeights::sum_plus_tiny && router.top_k > 1);
  Real sum = 0;
  for (const Real& v : w) sum += v;
  for (Real& v : w) v *= router.scale;
  if (!divides) return w;
  for (Real& v : w) v /= sum;  // 1e-20 is beyond all digits of the tests' sums
  return w;
}

// df/dx_e for every e; what is left out is of the order of 2^-200.
template <class Function>
Reals derivatives(const Reals& x, Function f) {
  const Real step = ldexp(Real(1), -110);
  Reals gradient;
  for (std::size_t e = 0; e < x.size(); ++e) {
    Reals up = x;
    Reals down = x;
    up[e] += step;
    down[e] -= step;
    gradient.push_back((f(up) - f(down)) / (2 * step));
  }
  return gradient;
}

// The relative error of any score or weight: an exponent of |d| and its exp, sums of at most `experts` and `kept`
// terms, and eight roundings of quotients, square roots and products.
double relative_error(const Row& x, std::size_t kept) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return (static_cast<double>(x.size() + kept) + (static_cast<double>(*high) - *low) + 8) * 0x1p-24;
}

Row backward_row(const Router& router, const Row& x, const Experts& experts, const Row& gradient) {
  return route_backward(router, fp32_matrix(1, std::ssize(x), x).view(), experts, gradient, std::ssize(experts));
}

// docs/router.md's formulas, for one row; experts of -1 are none.
Row by_formula(const Router& router, const Row& x, const Experts& experts, const Row& gradient) {
  const RouterVariant& variant = *router.variant;
  const std::uint32_t power = variant.packed ? power_of_two_from(x.size()) : 1;
  Row weighed = variant.score == RouterScore::logits ? x : scores_row(variant.score, x);
  for (float& v : weighed) v = cleared_of(v, power);
  Row kept;
  Row g;
  Experts index;
  for (std::size_t k = 0; k < experts.size(); ++k) {
    if (experts[k] == -1) continue;
    index.push_back(experts[k]);
    kept.push_back(weighed[static_cast<std::size_t>(experts[k])]);
    g.push_back(gradient[k] * router.scale);
  }
  Row out(x.size(), 0.0F);
  if (kept.empty()) return out;
  float divisor = -1;  // none
  const Row w = weights_row(router, kept, &divisor);
  const auto sum_of = [](const Row& a, const Row& b) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum = std::fma(a[i], b[i], sum);
    return sum;
  };
  const float gw = sum_of(g, w);
  Row h = g;
  if (divisor >= 0) {
    for (float& v : h) v = divisor == 0 ? 0.0F : (v - gw) / divisor;
  }
  const float hp = sum_of(h, kept);
  if (variant.score == RouterScore::softmax) {
    for (std::size_t e = 0; e < x.size(); ++e) out[e] = weighed[e] * (0 - hp);
  }
  for (std::size_t k = 0; k < index.size(); ++k) {
    float& dx = out[static_cast<std::size_t>(index[k])];
    const float logit = x[static_cast<std::size_t>(index[k])];
    switch (variant.score) {
      case RouterScore::logits: dx = w[k] * (g[k] - gw); break;
      case RouterScore::softmax: dx = kept[k] * (h[k] - hp); break;
      case RouterScore::sigmoid: dx = h[k] * (sigmoid_of(logit) * sigmoid_of(-logit)); break;
      case RouterScore::sqrtsoftplus: dx = kept[k] == 0 ? 0.0F : h[k] * (sigmoid_of(logit) / (2 * kept[k])); break;
    }
  }
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (std::isnan(x[e])) out[e] = 0;
  }
  return out;
}

TEST(RouteBackward, by_hand) {
  // Two equal weights of a half: 1/2 * (g - (1 + 3) / 2).
  EXPECT_EQ(backward_row(router_of("topk-softmax", 2), {7, 0, 7}, {0, 2}, {1, 3}), (Row{-0.5F, 0, 0.5F}));
  // p = 1/4 everywhere: 1/4 * (h - 1/4).
  EXPECT_EQ(backward_row(router_of("softmax-topk", 1), {0, 0, 0, 0}, {1}, {1}),
            (Row{-0.0625F, 0.1875F, -0.0625F, -0.0625F}));
  // s(0) s(-0) = 1/4, also where the route is the second of a list.
  EXPECT_EQ(backward_row(router_of("sigmoid-raw", 2), {0, 5}, {-1, 0}, {kNaN, 2}), (Row{0.5F, 0}));
  // P = 1, w = 1/2: h = 1 - 1/2 and -1/2.
  EXPECT_EQ(backward_row(router_of("sigmoid", 2), {0, 0}, {0, 1}, {1, 0}), (Row{0.125F, -0.125F}));
  // One kept of a sum: its weight is 1 whatever the logit.
  EXPECT_EQ(backward_row(router_of("softmax-topk-renorm", 1), {3, 1}, {0}, {5}), (Row{0, 0}));
  // top_k 1 divides by nothing.
  EXPECT_EQ(backward_row(router_of("sigmoid", 1), {0, 0}, {1}, {1}), (Row{0, 0.25F}));
}

TEST(RouteBackward, of_what_has_no_derivative_is_0) {
  for (const RouterVariant& variant : all_router_variants()) {
    if (variant.packed) continue;
    const Row dx = backward_row(router_of(variant.name, 2, NanLogits::last), {kNaN, 1, 2}, {0, 1}, {1, 2});
    EXPECT_EQ(bits(dx)[0], 0U) << variant.name;
    EXPECT_EQ(bits(backward_row(router_of(variant.name, 2), {1, 2}, {-1, -1}, {1, 2}))[0] << 1, 0U) << variant.name;
  }
  EXPECT_EQ(backward_row(router_of("sqrtsoftplus-raw", 1), {-300}, {0}, {1}), Row{0});
  EXPECT_EQ(backward_row(router_of("softmax-topk-renorm", 1), {-kInf, 0}, {0}, {1}), (Row{0, 0}));  // P = 0
}

TEST(RouteBackward, is_the_formulas_for_every_row_and_list_of_three_experts) {
  const std::array letters{-kInf, -3.0F, -0.0F, 0.5F, 90.0F, kInf, kNaN};
  const std::vector<Experts> lists{{0, 1}, {1, 0}, {2, -1}, {-1, 1}, {-1, -1}};
  const std::vector<Row> gradients{{1, -0.3F}, {0, 0}, {1e30F, 3}};
  std::size_t rows = 0;
  for (const RouterVariant& variant : all_router_variants()) {
    for (int n = 0; n < 7 * 7 * 7; ++n) {
      const Row x{letters.at(static_cast<std::size_t>(n % 7)), letters.at(static_cast<std::size_t>(n / 7 % 7)),
                  letters.at(static_cast<std::size_t>(n / 49))};
      if (variant.packed && !std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); })) continue;
      for (const std::int64_t top_k : {1, 2}) {
        Router router = router_of(variant.name, top_k, NanLogits::last);
        router.scale = 0.7F;
        for (const Experts& experts : lists) {
          for (const Row& g : gradients) {
            ++rows;
            const Row expected = by_formula(router, x, experts, g);
            ASSERT_EQ(bits(backward_row(router, x, experts, g)), bits(expected))
                << variant.name << " " << testing::PrintToString(x) << " " << testing::PrintToString(experts);
          }
        }
      }
    }
  }
  EXPECT_GT(rows, 80000U);
}

struct DrawnRow {
  Row x;
  Experts experts;
  Row gradient;
};

DrawnRow drawn(std::mt19937& engine, std::size_t experts, std::size_t kept) {
  DrawnRow d;
  const auto uniform = [&] { return static_cast<float>(engine() >> 8) * 0x1p-24F; };
  for (std::size_t e = 0; e < experts; ++e) d.x.push_back(12 * uniform() - 6);
  for (std::size_t e = 0; e < experts; ++e) d.experts.push_back(static_cast<std::int32_t>(e));
  for (std::size_t k = 0; k < kept; ++k) {
    std::swap(d.experts[k], d.experts[k + engine() % (experts - k)]);
    d.gradient.push_back(4 * uniform() - 2);
  }
  d.experts.resize(kept);
  return d;
}

// Error bounds of dx_e by rounding, from the formulas. With r the relative error of scores and weights and K steps of a
// sum: h = (g - sum g w) / D is within (2 r + (K + 3) u) H, H = (|g| + sum |g| w) / D, and a product p (h - sum h p)
// within 4 r + (2 K + 5) u <= 6 r of p (H + sum H p); likewise where there is no second sum.
Row allowed_errors(const Router& router, const DrawnRow& d) {
  const RouterVariant& variant = *router.variant;
  const Row weighed = scores_row(variant.score == RouterScore::logits ? RouterScore::softmax : variant.score, d.x);
  Row kept;
  for (const std::int32_t e : d.experts) {
    const auto i = static_cast<std::size_t>(e);
    kept.push_back(variant.score == RouterScore::logits ? d.x[i] : weighed[i]);
  }
  float divisor = 1;
  const Row w = weights_row(router, kept, &divisor);
  float gw = 0;
  for (std::size_t k = 0; k < w.size(); ++k) gw += std::fabs(d.gradient[k]) * std::fabs(w[k]);
  const bool divides = variant.weights != RouterWeights::raw;
  Row h(d.x.size(), 0.0F);
  float hp = 0;
  for (std::size_t k = 0; k < w.size(); ++k) {
    const auto e = static_cast<std::size_t>(d.experts[k]);
    h[e] = (std::fabs(d.gradient[k]) + (divides ? gw : 0)) / divisor;
    if (variant.score == RouterScore::softmax) hp += h[e] * kept[k];
    if (variant.score == RouterScore::logits) h[e] *= w[k];
    if (variant.score == RouterScore::sigmoid) h[e] *= sigmoid_of(d.x[e]) * sigmoid_of(-d.x[e]);
    if (variant.score == RouterScore::sqrtsoftplus) h[e] *= sigmoid_of(d.x[e]) / (2 * kept[k]);
  }
  const auto r = static_cast<float>(6 * relative_error(d.x, kept.size()) * std::fabs(router.scale));
  for (std::size_t e = 0; e < h.size(); ++e) {
    if (variant.score == RouterScore::softmax) h[e] = weighed[e] * (h[e] + hp);
    h[e] = r * h[e] + 0x1p-140F;
  }
  return h;
}

TEST(RouteBackward, is_the_derivative_within_rounding) {
  std::mt19937 engine(31);
  for (const RouterVariant& variant : all_router_variants()) {
    for (int i = 0; i < 30; ++i) {
      const std::size_t experts = 2 + engine() % 9;
      const std::size_t kept = 1 + engine() % experts;
      const DrawnRow d = drawn(engine, experts, kept);
      Router router = router_of(variant.name, static_cast<std::int64_t>(kept));
      router.scale = i % 2 == 0 ? 1.0F : 2.5F;
      const Row dx = backward_row(router, d.x, d.experts, d.gradient);
      Row start = d.x;
      if (variant.packed) {
        for (float& v : start) v = cleared_of(v, power_of_two_from(experts));
      }
      const Reals exact = derivatives(reals(start), [&](const Reals& x) {
        const Reals w = real_weights(router, x, d.experts);
        Real loss = 0;
        for (std::size_t k = 0; k < kept; ++k) loss += d.gradient[k] * w[k];
        return loss;
      });
      const Row allowed = allowed_errors(router, d);
      for (std::size_t e = 0; e < experts; ++e) {
        const Real error = abs(exact[e] - Real(dx[e]));
        EXPECT_LE(error, Real(allowed[e])) << variant.name << " expert " << e << " of " << experts << " kept " << kept;
      }
    }
  }
}

// Adding one number to all logits changes no softmax.
TEST(RouteBackward, of_softmax_adds_up_to_0_within_rounding) {
  std::mt19937 engine(37);
  for (const char* name : {"topk-softmax", "topk-softmax-packed", "softmax-topk", "softmax-topk-renorm"}) {
    for (int i = 0; i < 200; ++i) {
      const DrawnRow d = drawn(engine, 16, 4);
      const Router router = router_of(name, 4);
      const Row dx = backward_row(router, d.x, d.experts, d.gradient);
      const Row allowed = allowed_errors(router, d);
      double sum = 0;
      double bound = 0;
      for (std::size_t e = 0; e < dx.size(); ++e) sum += dx[e], bound += allowed[e];
      EXPECT_LE(std::fabs(sum), bound) << name;
    }
  }
}

TEST(RouteBackward, threads_and_types_change_nothing) {
  std::vector<float> values = random_values(3000 * 32, 41);
  const TestMatrix matrix(Format::bf16, 3000, 32, values, 5);
  const Row gradient = random_values(3000 * 4, 43);
  for (const RouterVariant& variant : all_router_variants()) {
    const Router router = router_of(variant.name, 4);
    const Experts experts = route(router, matrix.view()).experts;
    const Row one = route_backward(router, matrix.view(), experts, gradient, 4, 1);
    for (const int threads : {0, 2, 5})
      EXPECT_EQ(bits(route_backward(router, matrix.view(), experts, gradient, 4, threads)), bits(one)) << variant.name;
    for (std::size_t t = 0; t < 3000; t += 331) {
      Row x(32);
      matrix.view().read_row(static_cast<std::int64_t>(t), x);
      const Experts e(experts.begin() + 4 * static_cast<std::ptrdiff_t>(t),
                      experts.begin() + 4 * static_cast<std::ptrdiff_t>(t) + 4);
      const Row g(gradient.begin() + 4 * static_cast<std::ptrdiff_t>(t),
                  gradient.begin() + 4 * static_cast<std::ptrdiff_t>(t) + 4);
      EXPECT_EQ(bits(by_formula(router, x, e, g)), bits(std::span(one).subspan(32 * t, 32))) << variant.name;
    }
  }
}

TEST(RouteBackward, refuses_sizes_that_do_not_fit_and_experts_that_are_none) {
  const TestMatrix m = fp32_matrix(2, 3, Row(6, 1.0F));
  const auto refused = [&](const Experts& experts, const Row& gradient, std::int64_t width, ErrorKind kind,
                           const std::string& text) {
    expect_thrown(kind, text, [&] { route_backward(router_of("sigmoid", 2), m.view(), experts, gradient, width); });
  };
  refused({}, {}, -1, ErrorKind::usage, "width -1: must be 0 or more");
  refused({0, 1, 2}, {0, 0, 0, 0}, 2, ErrorKind::usage, "experts of 3 elements: must be one of each of the 4 routes");
  refused({0, 1, 2, 1}, {0, 0}, 2, ErrorKind::usage,
          "gradient of the weights of 2 elements: must be one of each of the 4 routes");
  refused({0, 1, 3, -2}, Row(4), 2, ErrorKind::input, "expert 3 of route 2: must be from -1 (none) to 2");
  refused({0, 1, -2, 3}, Row(4), 2, ErrorKind::input, "expert -2 of route 2: must be from -1 (none) to 2");
  refused({0, 1, 1, 1}, Row(4), 2, ErrorKind::input, "expert 1 of route 3: token 1 has it twice");
  EXPECT_NO_THROW(route_backward(router_of("sigmoid", 2), m.view(), Experts{-1, -1, 1, 0}, Row(4), 2));
}

// Auxiliary losses: bits against the definition with sums in 100 digits, values and gradients against mathematics.

using TokenCounts = std::vector<std::int32_t>;

constexpr float kU = 0x1p-24F;

struct Case {
  std::size_t tokens = 0;
  std::size_t experts = 0;
  Row logits;
  TokenCounts counts;
  float coefficient = 0;

  [[nodiscard]] Row row(std::size_t t) const {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(t * experts);
    return {begin, begin + static_cast<std::ptrdiff_t>(experts)};
  }
  [[nodiscard]] TestMatrix matrix() const {
    return fp32_matrix(static_cast<std::int64_t>(tokens), static_cast<std::int64_t>(experts), logits);
  }
};

Case loss_test_drawn(std::mt19937& engine) {
  Case c;
  c.tokens = 1 + engine() % 5;
  c.experts = 1 + engine() % 7;
  for (std::size_t i = 0; i < c.tokens * c.experts; ++i)
    c.logits.push_back(static_cast<float>(engine() >> 8) * 0x1p-21F - 4);
  for (std::size_t e = 0; e < c.experts; ++e) c.counts.push_back(static_cast<std::int32_t>(engine() % 9));
  c.counts[engine() % c.experts] += 1;
  c.coefficient = static_cast<float>(1 + engine() % 100) * 0.003F;
  return c;
}

// The definitions, step by step; sums that are exact there are so here.
RouterLoss load_balancing_by_definition(const Case& c) {
  const auto tokens = static_cast<float>(c.tokens);
  const float factor = c.coefficient * static_cast<float>(c.experts);
  int routes = 0;
  for (const std::int32_t count : c.counts) routes += count;
  Row f;
  Row mean;
  Real weighted = 0;
  for (std::size_t e = 0; e < c.experts; ++e) {
    f.push_back(static_cast<float>(c.counts[e]) / static_cast<float>(routes));
    Real sum = 0;
    for (std::size_t t = 0; t < c.tokens; ++t) sum += softmax_row(c.row(t))[e];
    mean.push_back(nearest_float(sum) / tokens);
    weighted += Real(f[e]) * mean[e];
  }
  RouterLoss loss{nearest_float(weighted) * factor, {}};
  for (std::size_t t = 0; t < c.tokens; ++t) {
    const Row p = softmax_row(c.row(t));
    float sum = 0;
    for (std::size_t e = 0; e < c.experts; ++e) sum = std::fma(factor * f[e] / tokens, p[e], sum);
    for (std::size_t e = 0; e < c.experts; ++e) loss.gradient.push_back(p[e] * (factor * f[e] / tokens - sum));
  }
  return loss;
}

RouterLoss z_by_definition(const Case& c) {
  const auto tokens = static_cast<float>(c.tokens);
  Real squares = 0;
  RouterLoss loss;
  for (std::size_t t = 0; t < c.tokens; ++t) {
    const Row x = c.row(t);
    const float m = *std::max_element(x.begin(), x.end());
    const float lse = m + log_rn(level_by_level(shifted_exponentials(x)));
    squares += Real(lse) * lse;
    for (const float p : softmax_row(x)) loss.gradient.push_back(((2 * c.coefficient) / tokens * lse) * p);
  }
  loss.value = (c.coefficient / tokens) * nearest_float(squares);
  return loss;
}

TEST(RouterLoss, by_hand) {
  // Two experts, uniform scores: f . P = 1/2 however the counts, times coefficient and 2 experts.
  const TestMatrix zeros = fp32_matrix(1, 2, {0, 0});
  const RouterLoss even = load_balancing_loss(zeros.view(), TokenCounts{1, 1}, 0.5F);
  EXPECT_EQ(even.value, 0.5F);
  EXPECT_EQ(even.gradient, (Row{0, 0}));
  const RouterLoss skew = load_balancing_loss(zeros.view(), TokenCounts{4, 0}, 1);
  EXPECT_EQ(skew.value, 1.0F);
  EXPECT_EQ(skew.gradient, (Row{0.5F, -0.5F}));  // c = 2, 0; p (c - 1)
  // One expert: log-sum-exp is the logit itself.
  const TestMatrix one = fp32_matrix(2, 1, {3, -1});
  const RouterLoss z = router_z_loss(one.view(), 0.5F);
  EXPECT_EQ(z.value, 2.5F);
  EXPECT_EQ(z.gradient, (Row{1.5F, -0.5F}));
  // Two equal logits at -log 2: nothing to pay but what log 2 is away from FP32.
  const float half = -0.6931472F;
  EXPECT_EQ(router_z_loss(fp32_matrix(1, 2, {half, half}).view(), 1).value, 0.0F);
}

TEST(RouterLoss, is_the_definition_to_the_bit) {
  std::mt19937 engine(51);
  for (int i = 0; i < 500; ++i) {
    const Case c = loss_test_drawn(engine);
    const RouterLoss balance = load_balancing_loss(c.matrix().view(), c.counts, c.coefficient);
    const RouterLoss balance_expected = load_balancing_by_definition(c);
    ASSERT_EQ(bits(Row{balance.value}), bits(Row{balance_expected.value})) << i;
    ASSERT_EQ(bits(balance.gradient), bits(balance_expected.gradient)) << i;
    const RouterLoss z = router_z_loss(c.matrix().view(), c.coefficient);
    const RouterLoss z_expected = z_by_definition(c);
    ASSERT_EQ(bits(Row{z.value}), bits(Row{z_expected.value})) << i;
    ASSERT_EQ(bits(z.gradient), bits(z_expected.gradient)) << i;
  }
}

// 4096 probabilities next to 1, then 65536 of 2^-22: one FP32 after the other would lose every small one.
TEST(RouterLoss, sums_over_tokens_are_exact) {
  constexpr int kLarge = 4096;
  constexpr int kSmall = 65536;
  const float x = -22 * 0.6931472F;
  Row logits;
  for (int t = 0; t < kLarge + kSmall; ++t) {
    logits.push_back(t < kLarge ? 0 : x);
    logits.push_back(t < kLarge ? x : 0);
  }
  const Row p = softmax_row({0, x});
  const float sum = nearest_float(kLarge * Real(p[0]) + kSmall * Real(p[1]));
  const RouterLoss loss = load_balancing_loss(fp32_matrix(kLarge + kSmall, 2, logits).view(), TokenCounts{1, 0}, 1);
  EXPECT_EQ(loss.value, sum / (kLarge + kSmall) * 2);
  float one_by_one = 0;
  for (int t = 0; t < kLarge + kSmall; ++t) one_by_one += t < kLarge ? p[0] : p[1];
  EXPECT_NE(one_by_one, sum);
}

Reals logits_of(const Case& c, const Reals& all, std::size_t t) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(t * c.experts);
  return {begin, begin + static_cast<std::ptrdiff_t>(c.experts)};
}

Real real_balance(const Case& c, const Reals& all) {
  Real routes = 0;
  for (const std::int32_t count : c.counts) routes += count;
  Real loss = 0;
  for (std::size_t t = 0; t < c.tokens; ++t) {
    const Reals p = real_softmax(logits_of(c, all, t));
    for (std::size_t e = 0; e < c.experts; ++e) loss += p[e] * c.counts[e] / routes;
  }
  return loss * c.coefficient * c.experts / c.tokens;
}

Real real_z(const Case& c, const Reals& all) {
  Real loss = 0;
  for (std::size_t t = 0; t < c.tokens; ++t) {
    Real sum = 0;
    for (const Real& v : logits_of(c, all, t)) sum += exp(v);
    loss += log(sum) * log(sum);
  }
  return loss * c.coefficient / c.tokens;
}

// r as for the gradients above. Balance: every term of the loss within r + 6 u; dx = p (c - sum c p) within 6 r of
// p (c + sum c p). z: lse within a = (E + |d| + 2) u of S, one rounding of log S and one of the sum; its square within
// 2 |lse| a + a^2, dx within r + 4 u of itself and slope * p * a.
TEST(RouterLoss, and_its_gradient_are_mathematics_within_rounding) {
  std::mt19937 engine(53);
  for (int i = 0; i < 30; ++i) {
    const Case c = loss_test_drawn(engine);
    const RouterLoss balance = load_balancing_loss(c.matrix().view(), c.counts, c.coefficient);
    const RouterLoss z = router_z_loss(c.matrix().view(), c.coefficient);
    const Reals all = reals(c.logits);
    const Reals balance_gradient = derivatives(all, [&](const Reals& x) { return real_balance(c, x); });
    const Reals z_gradient = derivatives(all, [&](const Reals& x) { return real_z(c, x); });

    const double r = relative_error(c.logits, c.experts);
    EXPECT_LE(abs(real_balance(c, all) - balance.value), (r + 6 * kU) * balance.value);
    double z_allowed = 4 * kU * z.value;
    int routes = 0;
    for (const std::int32_t count : c.counts) routes += count;
    for (std::size_t t = 0; t < c.tokens; ++t) {
      const Reals p = real_softmax(logits_of(c, all, t));
      const double factor = static_cast<double>(c.coefficient) / static_cast<double>(c.tokens);
      const auto share = [&](std::size_t e) {
        return factor * static_cast<double>(c.experts) * c.counts[e] / static_cast<double>(routes);
      };
      Real shares = 0;
      for (std::size_t e = 0; e < c.experts; ++e) shares += p[e] * share(e);
      Real sum = 0;
      for (const Real& v : logits_of(c, all, t)) sum += exp(v);
      const auto lse = abs(log(sum)).convert_to<double>();
      const double a = r + (lse + 4 + std::log(static_cast<double>(c.experts))) * kU;
      z_allowed += factor * (2 * lse * a + a * a);
      for (std::size_t e = 0; e < c.experts; ++e) {
        const std::size_t at = t * c.experts + e;
        EXPECT_LE(abs(balance_gradient[at] - balance.gradient[at]), 6 * r * p[e] * (shares + share(e)));
        EXPECT_LE(abs(z_gradient[at] - z.gradient[at]), 2 * factor * p[e] * (lse * (r + 4 * kU) + a));
      }
    }
    EXPECT_LE(abs(real_z(c, all) - z.value), z_allowed);
  }
}

TEST(RouterLoss, threads_types_and_strides_change_nothing) {
  Row values = random_values(3000 * 32, 55);
  for (float& v : values) v *= 0x1p-24F;
  const TestMatrix wide(Format::bf16, 3000, 32, values, 7);
  Row exact(values.size());
  for (std::int64_t t = 0; t < 3000; ++t)
    wide.view().read_row(t, std::span(exact).subspan(static_cast<std::size_t>(t) * 32, 32));
  const TestMatrix fp32 = fp32_matrix(3000, 32, exact);
  const TokenCounts counts(32, 3);
  const RouterLoss balance = load_balancing_loss(wide.view(), counts, 0.01F, 1);
  const RouterLoss z = router_z_loss(wide.view(), 0.001F, 1);
  for (const int threads : {0, 2, 5}) {
    EXPECT_EQ(load_balancing_loss(fp32.view(), counts, 0.01F, threads).value, balance.value);
    EXPECT_EQ(bits(load_balancing_loss(fp32.view(), counts, 0.01F, threads).gradient), bits(balance.gradient));
    EXPECT_EQ(router_z_loss(fp32.view(), 0.001F, threads).value, z.value);
    EXPECT_EQ(bits(router_z_loss(fp32.view(), 0.001F, threads).gradient), bits(z.gradient));
  }
}

TEST(RouterLoss, of_no_tokens_is_0) {
  const MatrixView none{Format::bf16, nullptr, 0, 3, 3};
  for (const TokenCounts& counts : {TokenCounts{0, 0, 0}, TokenCounts{4, 0, 1}}) {
    const RouterLoss balance = load_balancing_loss(none, counts, -kInf);
    EXPECT_EQ(bits(Row{balance.value})[0], 0U);
    EXPECT_TRUE(balance.gradient.empty());
  }
  const RouterLoss z = router_z_loss(none, kNaN);
  EXPECT_EQ(bits(Row{z.value})[0], 0U);
  EXPECT_TRUE(z.gradient.empty());
  expect_thrown(ErrorKind::usage, "count -1 of expert 2: must be 0 or more", [&] {
    load_balancing_loss(none, TokenCounts{0, 0, -1}, 1);
  });
}

// With one expert p is 1 and the loss the coefficient; equal loads of equal logits, powers of two, have no error at
// all.
TEST(RouterLoss, of_balanced_tokens_is_the_coefficient_and_has_no_gradient) {
  for (const float coefficient : {0.01F, -3.0F, 0x1p-140F, 0x1p127F}) {
    const RouterLoss one =
        load_balancing_loss(fp32_matrix(3, 1, {7, -300, 0x1p120F}).view(), TokenCounts{9}, coefficient);
    EXPECT_EQ(one.value, coefficient);
    for (const float dx : one.gradient) EXPECT_EQ(dx, 0);
  }
  for (const std::size_t experts : {2U, 8U, 64U}) {
    const auto cols = static_cast<std::int64_t>(experts);
    const RouterLoss even =
        load_balancing_loss(fp32_matrix(4, cols, Row(4 * experts, 1.5F)).view(), TokenCounts(experts, 7), 0.75F);
    EXPECT_EQ(even.value, 0.75F) << experts;
    for (const float dx : even.gradient) EXPECT_EQ(dx, 0) << experts;
  }
}

// Counts are added in 64 bits, and become FP32 one by one.
TEST(RouterLoss, of_counts_that_32_bits_do_not_hold_together) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const RouterLoss loss = load_balancing_loss(fp32_matrix(1, 2, {0, 0}).view(), TokenCounts{kMost, kMost}, 1);
  EXPECT_EQ(loss.value, 1.0F);
}

TEST(RouterLoss, of_the_largest_logits_there_are) {
  const float largest = std::numeric_limits<float>::max();
  const TestMatrix m = fp32_matrix(1, 3, {largest, -largest, largest});
  EXPECT_EQ(router_z_loss(m.view(), 1).value, kInf);
  EXPECT_EQ(load_balancing_loss(m.view(), TokenCounts{1, 1, 0}, 1).value, 3 * 0.25F);
}

TEST(RouterLoss, refuses_what_it_cannot_mean) {
  const TestMatrix m = fp32_matrix(2, 3, Row(6, 1.0F));
  const auto refused = [](auto call, ErrorKind kind, const std::string& text) { expect_thrown(kind, text, call); };
  const auto balance = [&](const TokenCounts& counts) {
    return [&m, counts] { load_balancing_loss(m.view(), counts, 1); };
  };
  refused(balance({1, 2}), ErrorKind::usage, "counts of 2 experts: must be one of each of the 3");
  refused(balance({1, -2, -3}), ErrorKind::usage, "count -2 of expert 1: must be 0 or more");
  refused(balance({0, 0, 0}), ErrorKind::usage, "counts of 0 routes (top_k of 0): must have one at least");
  const MatrixView none{Format::fp32, nullptr, 3, 0, 0};
  const std::string text = "logits of 3 x 0: a loss needs an expert at least";
  refused([&] { load_balancing_loss(none, TokenCounts{}, 1); }, ErrorKind::usage, text);
  refused([&] { router_z_loss(none, 1); }, ErrorKind::usage, text);
  refused(
      [] {
        router_z_loss({Format::e4m3, nullptr, 1, 1, 1}, 1);
      },
      ErrorKind::usage, "matrix of type e4m3: must be fp32, bf16 or fp16");
  Row values(3000 * 32, 1.0F);
  values[2000 * 32 + 3] = kNaN;
  values[1000 * 32 + 5] = -kInf;
  for (const int threads : {1, 5}) {
    const TestMatrix bad = fp32_matrix(3000, 32, values);
    const std::string infinite = "Inf at row 1000, column 5: a loss takes finite logits alone";
    refused([&] { router_z_loss(bad.view(), 1, threads); }, ErrorKind::input, infinite);
    refused([&] { load_balancing_loss(bad.view(), TokenCounts(32, 1), 1, threads); }, ErrorKind::input, infinite);
  }
}

}  // namespace
}  // namespace mxcheck

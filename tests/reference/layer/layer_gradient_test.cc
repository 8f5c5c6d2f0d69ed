// The layer in BF16 against its mathematics in 100 digits, forward and backward, and that mathematics against
// differences of the loss.
//
// Bounds. Every number is carried with a bound of what BF16, FP32 and the tensor core's sums may have made of it
// (Bounded): sums and products pass errors on, a function by its steepest slope (1.1 for silu, 1/4 for the sigmoid, 1/2
// for silu's derivative), and every step adds its own roundings. One step of sm90_bf16 cuts at most 17 terms to 2^-24
// of the largest each, and its result to 2^-23: relative to the sum of magnitudes below 2^-19 together.

#include "reference/layer/layer.h"
#include "reference/router/router.h"
#include "tests/numerics/elementary/multiprecision.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr double kFp32 = 0x1p-24;
constexpr double kBf16 = 0x1p-8;
constexpr double kSumStep = 0x1p-19;

struct Bounded {
  Real value = 0;
  Real error = 0;
};
using BoundedTensor = std::vector<Bounded>;

Real size(const Bounded& x) { return abs(x.value) + x.error; }
Bounded operator+(const Bounded& a, const Bounded& b) { return {a.value + b.value, a.error + b.error}; }
Bounded operator*(const Bounded& a, const Bounded& b) {
  return {a.value * b.value, abs(a.value) * b.error + abs(b.value) * a.error + a.error * b.error};
}
// One more relative error, of all that the number may be.
Bounded rounded(Bounded x, double relative) {
  x.error += size(x) * relative * (1 + 0x1p-8) + Real(0x1p-130);
  return x;
}

Real sigmoid(const Real& x) { return 1 / (1 + exp(-x)); }
Bounded silu(const Bounded& g) { return {g.value * sigmoid(g.value), g.error * 1.1}; }
Bounded silu_slope(const Bounded& g) {
  const Real q = sigmoid(g.value);
  return {q * (1 + g.value * (1 - q)), g.error / 2};
}

// sum over k of a(k) b(k) by a tensor core.
template <class A, class B>
Bounded product(std::int64_t depth, A a, B b) {
  Bounded sum;
  Real magnitudes = 0;
  for (std::int64_t k = 0; k < depth; ++k) {
    const Bounded term = a(k) * b(k);
    sum = sum + term;
    magnitudes += size(term);
  }
  const std::int64_t steps = (depth + 15) / 16;
  sum.error += magnitudes * kSumStep * static_cast<double>(steps);
  return sum;
}

// The layer's tensors as mathematics has them, with bounds.
struct Exact {
  const TestLayer& t;
  LayerRoutes routes;
  std::int64_t d, n, rows;
  BoundedTensor x, w1, w2, d_o, s;
  BoundedTensor h, a, y, o, p, ds, dh, scaled_a, dw1, dw2, dx_rows, dx;

  explicit Exact(const TestLayer& of)
      : t(of), routes(of.routes()), d(of.shape.width), n(of.shape.inner), rows(std::ssize(routes.row_token)) {
    x = exact(t.x), w1 = exact(t.w1), w2 = exact(t.w2), d_o = exact(t.d_o);
    for (const float w : routes.row_weight) s.push_back({Real(w), 0});
  }

  static BoundedTensor exact(const Words& words) {
    BoundedTensor out;
    for (const std::uint16_t w : words) out.push_back({Real(bf16_value(w)), 0});
    return out;
  }
  static const Bounded& at(const BoundedTensor& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t token(std::int64_t r) const { return routes.row_token[static_cast<std::size_t>(r)]; }
  [[nodiscard]] std::int64_t expert(std::int64_t r) const {
    std::int64_t e = 0;
    while (routes.offsets[static_cast<std::size_t>(e) + 1] <= r) ++e;
    return e;
  }
  template <class Element>
  static BoundedTensor filled(std::int64_t count, std::int64_t cols, Element element) {
    BoundedTensor out;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) out.push_back(element(i, j));
    }
    return out;
  }
  template <class Term>
  BoundedTensor by_token(Term term, int roundings) {
    return filled(t.shape.tokens, d, [&](std::int64_t token, std::int64_t j) {
      Bounded sum;
      Real magnitudes = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        if (this->token(r) != token) continue;
        sum = sum + term(r, j);
        magnitudes += size(term(r, j));
      }
      sum.error += magnitudes * kFp32 * roundings;
      return rounded(sum, kBf16);
    });
  }

  void forward() {
    h = filled(rows, 2 * n, [&](std::int64_t r, std::int64_t j) {
      return rounded(product(
                         d, [&](auto k) { return at(x, token(r) * d + k); },
                         [&](auto k) { return at(w1, (expert(r) * d + k) * 2 * n + j); }),
                     kBf16);
    });
    a = filled(rows, n, [&](std::int64_t r, std::int64_t j) {
      return rounded(rounded(silu(at(h, r * 2 * n + j)) * at(h, r * 2 * n + n + j), 5 * kFp32), kBf16);
    });
    y = filled(rows, d, [&](std::int64_t r, std::int64_t j) {
      return rounded(
          product(
              n, [&](auto k) { return at(a, r * n + k); }, [&](auto k) { return at(w2, (expert(r) * n + k) * d + j); }),
          kBf16);
    });
    o = by_token([&](auto r, auto j) { return at(s, r) * at(y, r * d + j); }, static_cast<int>(t.top_k));
  }

  void backward() {
    p = filled(rows, n, [&](std::int64_t r, std::int64_t j) {
      return product(
          d, [&](auto k) { return at(d_o, token(r) * d + k); },
          [&](auto k) { return at(w2, (expert(r) * n + j) * d + k); });
    });
    dh = filled(rows, 2 * n, [&](std::int64_t r, std::int64_t j) {
      const Bounded& g = at(h, r * 2 * n + j % n);
      const Bounded& u = at(h, r * 2 * n + n + j % n);
      const Bounded da = at(s, r) * at(p, r * n + j % n);
      Bounded slope = silu_slope(g);  // its own roundings: swiglu_test.cc
      slope.error += kFp32 * (3 * size(g) + 8);
      const Bounded out = j < n ? da * (u * slope) : da * silu(g);
      return rounded(rounded(out, 6 * kFp32), kBf16);
    });
    ds = filled(rows, 1, [&](std::int64_t r, std::int64_t) {
      Bounded sum = product(
          n, [&](auto k) { return at(p, r * n + k); }, [&](auto k) { return at(a, r * n + k); });
      return sum;  // pairwise sums in FP32 err less than the tensor core's
    });
    scaled_a = filled(rows, n, [&](std::int64_t r, std::int64_t j) {
      return rounded(rounded(at(s, r) * at(a, r * n + j), kFp32), kBf16);
    });
    weight_gradients();
    dx_rows = filled(rows, d, [&](std::int64_t r, std::int64_t j) {
      return rounded(product(
                         2 * n, [&](auto k) { return at(dh, r * 2 * n + k); },
                         [&](auto k) { return at(w1, (expert(r) * d + j) * 2 * n + k); }),
                     kBf16);
    });
    dx = by_token([&](auto r, auto j) { return at(dx_rows, r * d + j); }, static_cast<int>(t.top_k));
  }
  void weight_gradients() {
    const auto along = [&](std::int64_t e, auto left, auto right) {
      const std::int64_t first = routes.offsets[static_cast<std::size_t>(e)];
      return product(
          routes.offsets[static_cast<std::size_t>(e) + 1] - first, [&](auto k) { return left(first + k); },
          [&](auto k) { return right(first + k); });
    };
    dw2 = filled(t.shape.experts * n, d, [&](std::int64_t i, std::int64_t j) {
      return along(
          i / n, [&](auto r) { return at(scaled_a, r * n + i % n); },
          [&](auto r) { return at(d_o, token(r) * d + j); });
    });
    dw1 = filled(t.shape.experts * d, 2 * n, [&](std::int64_t i, std::int64_t j) {
      return along(
          i / d, [&](auto r) { return at(x, token(r) * d + i % d); }, [&](auto r) { return at(dh, r * 2 * n + j); });
    });
  }

  Real loss() {
    forward();
    Real sum = 0;
    for (std::size_t i = 0; i < o.size(); ++i) sum += o[i].value * d_o[i].value;
    return sum;
  }
};

template <class T>
void expect_within(const char* what, const std::vector<T>& found, const BoundedTensor& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    Real value;
    if constexpr (std::is_same_v<T, float>) {
      value = found[i];
    } else {
      value = bf16_value(found[i]);
    }
    const Real difference = abs(value - expected[i].value);
    ASSERT_TRUE(difference <= expected[i].error)
        << what << "[" << i << "] is " << value.convert_to<double>() << ", " << expected[i].value.convert_to<double>()
        << " +- " << expected[i].error.convert_to<double>();
  }
}

const LayerShape kSmall{9, 24, 8, 4};

TEST(LayerGradient, in_bf16_every_tensor_is_within_the_bound_carried_along) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const TestLayer t(kSmall, 2, seed);
    const LayerRun r = run(t, "bf16");
    Exact exact(t);
    exact.forward();
    exact.backward();
    expect_within("H", r.forward.h, exact.h);
    expect_within("A", r.forward.a, exact.a);
    expect_within("Y", r.forward.y, exact.y);
    expect_within("O", r.forward.o, exact.o);
    expect_within("P", r.backward.p, exact.p);
    expect_within("dS", r.backward.ds, exact.ds);
    expect_within("dH", r.backward.dh, exact.dh);
    expect_within("dW2", r.backward.dw2, exact.dw2);
    expect_within("dW1", r.backward.dw1, exact.dw1);
    expect_within("dX", r.backward.dx, exact.dx);
  }
}

// The result of backward() is the derivative of the loss <dO, O>: differences of it by a step of 2^-110 agree to some
// 2^-200 of magnitudes near 1.
TEST(LayerGradient, is_the_derivative_of_the_loss) {
  const TestLayer t({3, 6, 4, 3}, 2, 20);
  Exact exact(t);
  exact.forward();
  exact.backward();
  const BoundedTensor dx = exact.dx, dw1 = exact.dw1, dw2 = exact.dw2, ds = exact.ds;
  const Real step = ldexp(Real(1), -110);
  const auto check_all = [&](const char* what, BoundedTensor& input, const BoundedTensor& gradient) {
    ASSERT_EQ(input.size(), gradient.size());
    for (std::size_t i = 0; i < input.size(); ++i) {
      const Real before = input[i].value;
      input[i].value = before + step;
      const Real up = exact.loss();
      input[i].value = before - step;
      const Real down = exact.loss();
      input[i].value = before;
      ASSERT_TRUE(abs((up - down) / (2 * step) - gradient[i].value) <= ldexp(Real(1), -180)) << what << i;
    }
  };
  check_all("dX", exact.x, dx);
  check_all("dW1", exact.w1, dw1);
  check_all("dW2", exact.w2, dw2);
  check_all("dS", exact.s, ds);
}

// dS goes into the router's own backward pass: by slot for token choice, with -1 where a token keeps fewer.
TEST(LayerGradient, of_weights_feeds_the_router) {
  const LayerShape shape{64, 64, 32, 8};
  TestLayer t(shape, 2, 30);
  const std::vector<float> logits = random_values(shape.tokens * shape.experts, 31);
  const TestMatrix matrix = fp32_matrix(shape.tokens, shape.experts, logits);
  Router router;
  router.variant = &router_variant_named("topk-softmax");
  router.top_k = 2;
  const Routes chosen = route(router, matrix.view());
  const LayerRoutes routes = layer_routes(chosen, shape.experts);
  const Layer layer = t.layer("mxfp8");
  const LayerForward f = layer_forward(layer, t.x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, t.d_o, routes);
  const std::vector<float> slots = slot_gradient(routes, b.ds);
  ASSERT_EQ(slots.size(), chosen.experts.size());
  const std::vector<float> d_logits = route_backward(router, matrix.view(), chosen.experts, slots, 2);
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    Real sum = 0;
    Real expected = 0;
    const auto slot = static_cast<std::size_t>(2 * token);
    const Real mean = Real(slots[slot]) * chosen.weights[slot] + Real(slots[slot + 1]) * chosen.weights[slot + 1];
    expected = Real(chosen.weights[slot]) * (slots[slot] - mean);
    const auto e = static_cast<std::size_t>(token * shape.experts + chosen.experts[slot]);
    const Real scale = abs(Real(slots[slot])) + abs(Real(slots[slot + 1]));
    ASSERT_TRUE(abs(Real(d_logits[e]) - expected) <= scale * 8 * kFp32 + Real(0x1p-140)) << token;
    for (std::int64_t j = 0; j < shape.experts; ++j)
      sum += d_logits[static_cast<std::size_t>(token * shape.experts + j)];
    ASSERT_TRUE(abs(sum) <= scale * 8 * kFp32 + Real(0x1p-140)) << token;
  }
}

TEST(LayerRoutes, of_token_rounding_are_its_rows_in_the_order_of_experts) {
  const LayerShape shape{64, 32, 32, 8};
  const std::vector<float> logits = random_values(shape.tokens * shape.experts, 32);
  const TestMatrix matrix = fp32_matrix(shape.tokens, shape.experts, logits);
  Router router;
  router.variant = &router_variant_named("topk-softmax");
  router.top_k = 2;
  for (const TokenRoundingRule rule : {TokenRoundingRule::nr_f, TokenRoundingRule::expert_choice}) {
    TokenRounding rounding;
    rounding.rule = rule, rounding.tile = 16, rounding.capacity = 9;
    const RoundedTokens rounded = round_tokens(router, rounding, matrix.view());
    const LayerRoutes routes = layer_routes(rounded);
    const TestLayer t(shape, 2, 33);
    const LayerForward f = layer_forward(t.layer("mxfp8"), t.x, routes);
    EXPECT_EQ(std::ssize(f.a), rounded.offsets.back() * shape.inner);
    // The same pairs as slots.
    std::vector<std::int32_t> experts(static_cast<std::size_t>(rounded.offsets.back()));
    std::vector<float> weights(experts.size());
    for (std::size_t slot = 0; slot < experts.size(); ++slot) {
      const auto row = static_cast<std::size_t>(rounded.token_rows[slot]);
      while (rounded.offsets[static_cast<std::size_t>(experts[slot]) + 1] <= static_cast<std::int64_t>(row))
        ++experts[slot];
      weights[slot] = rounded.row_weight[row];
    }
    const LayerRoutes slots = layer_routes(experts, weights, 0, rounded.token_offsets, shape.experts);
    EXPECT_EQ(slots.row_token, routes.row_token);
    EXPECT_EQ(slots.token_rows, routes.token_rows);
    EXPECT_EQ(layer_forward(t.layer("mxfp8"), t.x, slots).o, f.o);
  }
}

}  // namespace
}  // namespace mxcheck

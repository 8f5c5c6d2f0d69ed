// The layer's operands and products against each expert alone: its rows gathered by hand, every operand written with k
// last and quantized by itself, a dense matmul. And what holds for any layer.

#include "reference/layer/layer.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
using Floats = std::vector<float>;

const LayerShape kShape{211, 160, 96, 4};  // blocks of 32 and of 128 are cut short, along d, n and tokens

Floats floats(const Words& words) {
  Floats out;
  for (const std::uint16_t w : words) out.push_back(bf16_value(w));
  return out;
}
template <class T>
std::vector<std::uint32_t> bits(const std::vector<T>& v) {
  std::vector<std::uint32_t> out;
  for (const T x : v) {
    if constexpr (std::is_same_v<T, float>) {
      out.push_back(std::bit_cast<std::uint32_t>(x));
    } else {
      out.push_back(x);
    }
  }
  return out;
}

// A matrix, and the same quantized by a rule and dequantized where that is asked for.
struct Matrix {
  std::int64_t rows, cols;
  Floats values;
  [[nodiscard]] Matrix t() const { return {cols, rows, transposed(values, rows, cols)}; }
};
Matrix requantized(const Matrix& x, const OperandRule& rule) {
  const TestMatrix m = fp32_matrix(x.rows, x.cols, x.values);
  return {x.rows, x.cols, dequantize(quantize(m.view(), rule.format, rule.block, recipe_named(rule.scales)))};
}

// A B^T of one expert under a GEMM's rule.
Floats product(const LayerRecipe& recipe, LayerGemm gemm, const Matrix& a, const Matrix& b) {
  const GemmRule& rule = recipe.gemm(gemm);
  Matmul m;
  m.contract = parse_matmul_contract(rule.contract);
  QuantizedTensor qa, qb;
  Words wa, wb;
  const auto set = [](MatmulOperand& o, const OperandRule& r, const Matrix& x, QuantizedTensor& q, Words& w) {
    o.format = r.format, o.rows = x.rows, o.depth = o.row_stride = x.cols;
    if (!r.quantized()) {
      for (const float v : x.values) w.push_back(layer_bf16(v));
      o.codes = w.data();
      return;
    }
    const TestMatrix values = fp32_matrix(x.rows, x.cols, x.values);
    q = quantize(values.view(), r.format, r.block, recipe_named(r.scales));
    o.codes = q.codes.data.data(), o.block = r.block, o.scale_row_stride = q.scale_cols();
    o.scale_format = q.scales().format;
    o.scales = q.scales().data.data();
  };
  set(m.a, rule.a, a, qa, wa);
  set(m.b, rule.b, b, qb, wb);
  Floats d(static_cast<std::size_t>(a.rows * b.rows));
  matmul(m, d.data());
  return d;
}

// The products of one expert of a layer that has been run, against dense ones.
class OneExpert {
 public:
  OneExpert(const TestLayer& t, const LayerRecipe& recipe, const LayerRun& r, std::int64_t expert)
      : t_(t), recipe_(recipe), r_(r), expert_(expert), routes_(t.routes()) {
    first_ = routes_.offsets[static_cast<std::size_t>(expert)];
    rows_ = routes_.offsets[static_cast<std::size_t>(expert) + 1] - first_;
    w1_ = part(t.w1, expert * d() * 2 * n(), d(), 2 * n());
    w2_ = part(t.w2, expert * n() * d(), n(), d());
  }

  void expect_forward() const {
    expect_bf16(LayerGemm::up, tokens(t_.x), w1_.t(), r_.forward.h, 2 * n());
    expect_bf16(LayerGemm::down, rows(r_.forward.a, n()), w2_.t(), r_.forward.y, d());
  }
  void expect_backward() const {
    const Matrix d_o = tokens(t_.d_o);
    const Matrix dh = rows(r_.backward.dh, 2 * n());
    const Floats p = product(recipe_, LayerGemm::d_down, d_o, w2_);
    EXPECT_EQ(bits(p), bits(part_of(r_.backward.p, first_ * n(), rows_ * n()))) << recipe_.name << " P " << expert_;
    expect_bf16(LayerGemm::d_up, dh, w1_, r_.backward.dx_rows, d());
    const Matrix scaled_a = rows(r_.backward.scaled_a, n());
    const Floats dw2 =
        product(recipe_, LayerGemm::d_w2, scaled_a.t(), source(LayerGemm::d_w2, d_o, LayerGemm::d_down).t());
    EXPECT_EQ(bits(dw2), bits(part_of(r_.backward.dw2, expert_ * n() * d(), n() * d()))) << recipe_.name << expert_;
    Matrix x = tokens(t_.x);
    if (recipe_.gemm(LayerGemm::d_w1).a.source == OperandSource::requantized)
      x = requantized(x, recipe_.gemm(LayerGemm::up).a);
    const Floats dw1 = product(recipe_, LayerGemm::d_w1, x.t(), source(LayerGemm::d_w1, dh, LayerGemm::d_up).t());
    EXPECT_EQ(bits(dw1), bits(part_of(r_.backward.dw1, expert_ * n() * d() * 2, n() * d() * 2)))
        << recipe_.name << expert_;
  }

 private:
  [[nodiscard]] std::int64_t d() const { return t_.shape.width; }
  [[nodiscard]] std::int64_t n() const { return t_.shape.inner; }
  template <class T>
  static std::vector<T> part_of(const std::vector<T>& v, std::int64_t at, std::int64_t count) {
    return {v.begin() + at, v.begin() + at + count};
  }
  static Matrix part(const Words& w, std::int64_t at, std::int64_t rows, std::int64_t cols) {
    return {rows, cols, floats(part_of(w, at, rows * cols))};
  }
  [[nodiscard]] Matrix rows(const Words& w, std::int64_t cols) const { return part(w, first_ * cols, rows_, cols); }
  [[nodiscard]] Matrix tokens(const Words& w) const {
    Matrix m{rows_, d(), {}};
    for (std::int64_t r = first_; r < first_ + rows_; ++r) {
      const Floats of = floats(row(w, routes_.row_token[static_cast<std::size_t>(r)], d()));
      m.values.insert(m.values.end(), of.begin(), of.end());
    }
    return m;
  }
  // Operand b of a weight's gradient: the values, or what the GEMM along rows made of them.
  [[nodiscard]] Matrix source(LayerGemm gemm, const Matrix& x, LayerGemm along_rows) const {
    const bool again = recipe_.gemm(gemm).b.source == OperandSource::requantized;
    return again ? requantized(x, recipe_.gemm(along_rows).a) : x;
  }
  void expect_bf16(LayerGemm gemm, const Matrix& a, const Matrix& b, const Words& found, std::int64_t cols) const {
    const Floats expected = product(recipe_, gemm, a, b);
    Words words;
    for (const float x : expected) words.push_back(layer_bf16(x));
    EXPECT_EQ(words, part_of(found, first_ * cols, rows_ * cols))
        << recipe_.name << " " << spec(gemm).name << " " << expert_;
  }

  const TestLayer& t_;
  const LayerRecipe& recipe_;
  const LayerRun& r_;
  std::int64_t expert_;
  LayerRoutes routes_;
  std::int64_t first_ = 0, rows_ = 0;
  Matrix w1_, w2_;
};

// True if an operand of the recipe has a scale that all its elements share.
bool shares_scales(const LayerRecipe& r) {
  return std::any_of(r.gemms.begin(), r.gemms.end(),
                     [](const GemmRule& g) { return has_scale_of_tensor(g.a) || has_scale_of_tensor(g.b); });
}

// The recipes whose scales are of elements of one expert.
std::vector<LayerRecipe> recipes_by_block() {
  std::vector<LayerRecipe> recipes;
  for (const LayerRecipe& r : all_layer_recipes()) {
    if (!shares_scales(r)) recipes.push_back(r);
  }
  // Recipes that are not built in: gradients quantized again, weight gradients in BF16, and X quantized again.
  LayerRecipe again = layer_recipe_named("dsv3_128x128_grad");
  again.name = "all_again";
  again.gemms[4].b.source = again.gemms[5].b.source = OperandSource::requantized;
  LayerRecipe mixed = layer_recipe_named("mxfp8");
  mixed.name = "bf16_weight_gradients";
  mixed.gemms[4] = mixed.gemms[5] = layer_recipe_named("bf16").gemms[4];
  LayerRecipe kept = layer_recipe_named("mxfp8");
  kept.name = "x_again";
  kept.gemms[5].a.source = OperandSource::requantized;
  recipes.insert(recipes.end(), {again, mixed, kept});
  return recipes;
}

TEST(Layer, products_are_those_of_each_expert_alone) {
  const TestLayer t(kShape, 2, 1);
  for (const LayerRecipe& recipe : recipes_by_block()) {
    const LayerRun r = run(t, recipe);
    for (std::int64_t e = 0; e < kShape.experts; ++e) {
      const OneExpert one(t, recipe, r, e);
      one.expect_forward();
      one.expect_backward();
    }
  }
}

TEST(Layer, elementwise_steps_are_those_of_swiglu_and_sums_go_by_slot) {
  const TestLayer t(kShape, 3, 2);
  const LayerRoutes routes = t.routes();
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const LayerRun r = run(t, recipe);
    const std::int64_t n = kShape.inner;
    Floats h = floats(r.forward.h);
    Words a(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < std::ssize(routes.row_token); ++i) {
      swiglu_row(row(h, i, 2 * n), GateUp::halves, a);
      ASSERT_EQ(a, row(r.forward.a, i, n)) << recipe.name;
    }
    if (recipe.kept_h.quantized()) {
      const TestMatrix m = fp32_matrix(std::ssize(routes.row_token), 2 * n, h);
      h = dequantize(quantize(m.view(), recipe.kept_h.format, recipe.kept_h.block, recipe_named(recipe.kept_h.scales)));
    }
    Words scaled(static_cast<std::size_t>(n)), dh(static_cast<std::size_t>(2 * n));
    for (std::int64_t i = 0; i < std::ssize(routes.row_token); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float ds = swiglu_row_gradient(row(h, i, 2 * n), GateUp::halves, row(r.backward.p, i, n),
                                           routes.row_weight[at], {a, scaled, dh});
      ASSERT_EQ(ds, r.backward.ds[at]) << recipe.name;
      ASSERT_EQ(a, row(r.backward.a, i, n)) << recipe.name;
      ASSERT_EQ(scaled, row(r.backward.scaled_a, i, n)) << recipe.name;
      ASSERT_EQ(dh, row(r.backward.dh, i, 2 * n)) << recipe.name;
    }
    for (std::int64_t i = 0; i < kShape.tokens * kShape.width; ++i) {
      const std::int64_t token = i / kShape.width;
      float o = 0;
      float dx = 0;
      for (std::int64_t slot = token * 3; slot < token * 3 + 3; ++slot) {
        const std::int32_t at = routes.token_rows[static_cast<std::size_t>(slot)];
        if (t.experts[static_cast<std::size_t>(slot)] < 0) continue;
        const auto from = static_cast<std::size_t>(at * kShape.width + i % kShape.width);
        o = std::fma(t.weights[static_cast<std::size_t>(slot)], bf16_value(r.forward.y[from]), o);
        dx = dx + bf16_value(r.backward.dx_rows[from]);
      }
      ASSERT_EQ(layer_bf16(o), r.forward.o[static_cast<std::size_t>(i)]) << recipe.name;
      ASSERT_EQ(layer_bf16(dx), r.backward.dx[static_cast<std::size_t>(i)]) << recipe.name;
    }
  }
}

TEST(Layer, without_tokens_an_expert_has_zero_gradients_and_a_token_without_experts_plus_zero) {
  const TestLayer t(kShape, 2, 3);
  const std::int64_t matrix = kShape.width * kShape.inner;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const LayerRun r = run(t, recipe);
    EXPECT_EQ(bits(Floats(r.backward.dw2.end() - matrix, r.backward.dw2.end())),
              bits(Floats(static_cast<std::size_t>(matrix))));
    EXPECT_EQ(bits(Floats(r.backward.dw1.end() - 2 * matrix, r.backward.dw1.end())),
              bits(Floats(static_cast<std::size_t>(2 * matrix))));
    EXPECT_EQ(row(r.forward.o, 3, kShape.width), Words(static_cast<std::size_t>(kShape.width), 0)) << recipe.name;
    EXPECT_EQ(row(r.backward.dx, 3, kShape.width), Words(static_cast<std::size_t>(kShape.width), 0)) << recipe.name;
  }
}

// The same tokens in another order: outputs move with them. (Gradients of weights do not: their sums along tokens, and
// blocks of tokens, have another order.)
TestLayer permuted(const TestLayer& t, const std::vector<std::int64_t>& from) {
  TestLayer p = t;
  const auto move_rows = [&](auto& to, const auto& of, std::int64_t cols) {
    to.clear();
    for (const std::int64_t r : from) to.insert(to.end(), of.begin() + r * cols, of.begin() + (r + 1) * cols);
  };
  move_rows(p.x, t.x, t.shape.width);
  move_rows(p.d_o, t.d_o, t.shape.width);
  move_rows(p.experts, t.experts, t.top_k);
  move_rows(p.weights, t.weights, t.top_k);
  p.shape.tokens = std::ssize(from);
  return p;
}

// Recipes by what shares a scale: rows of one token alone, in both passes, or in the forward one.
bool tokens_are_apart(const LayerRecipe& r) { return !shares_scales(r) && r.name != "dsv3_128x128_grad"; }

TEST(Layer, permuting_tokens_permutes_outputs_to_the_bit) {
  const TestLayer t(kShape, 2, 4);
  std::vector<std::int64_t> from(static_cast<std::size_t>(kShape.tokens));
  std::iota(from.begin(), from.end(), 0);
  std::shuffle(from.begin(), from.end(), std::mt19937(5));
  const TestLayer p = permuted(t, from);
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const LayerRun a = run(t, recipe);
    const LayerRun b = run(p, recipe);
    for (std::int64_t i = 0; i < kShape.tokens; ++i) {
      const std::int64_t at = from[static_cast<std::size_t>(i)];
      ASSERT_EQ(row(b.forward.o, i, kShape.width), row(a.forward.o, at, kShape.width)) << recipe.name;
      // Blocks that hold other tokens then, or words that go by the number of a row.
      if (recipe.name == "dsv3_128x128_grad" || is_stochastic(recipe)) continue;
      ASSERT_EQ(row(b.backward.dx, i, kShape.width), row(a.backward.dx, at, kShape.width)) << recipe.name;
    }
  }
}

TEST(Layer, other_tokens_and_their_number_change_no_bit_of_a_token) {
  const TestLayer t(kShape, 2, 6);
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    if (shares_scales(recipe)) continue;  // one scale for all tokens
    const LayerRun all = run(t, recipe);
    for (const std::int64_t token : {0, 3, 100, 210}) {
      const LayerRun one = run(permuted(t, {token}), recipe);
      EXPECT_EQ(one.forward.o, row(all.forward.o, token, kShape.width)) << recipe.name;
      if (tokens_are_apart(recipe)) {
        EXPECT_EQ(one.backward.dx, row(all.backward.dx, token, kShape.width)) << recipe.name;
      }
    }
  }
}

// Weights of an expert that no token goes to, or an expert more, change nothing but for one scale a tensor.
TEST(Layer, an_expert_without_tokens_changes_nothing) {
  const TestLayer t(kShape, 2, 7);
  TestLayer other = t;
  const std::int64_t matrix = kShape.width * kShape.inner;
  std::fill(other.w1.end() - 2 * matrix, other.w1.end(), std::uint16_t{0x7F80});
  std::fill(other.w2.end() - matrix, other.w2.end(), std::uint16_t{0x7FC0});
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    if (shares_scales(recipe)) continue;
    const LayerRun a = run(t, recipe);
    const LayerRun b = run(other, recipe);
    EXPECT_EQ(a.forward.o, b.forward.o) << recipe.name;
    EXPECT_EQ(a.backward.dx, b.backward.dx) << recipe.name;
    EXPECT_EQ(bits(a.backward.dw1), bits(b.backward.dw1)) << recipe.name;
    EXPECT_EQ(bits(a.backward.dw2), bits(b.backward.dw2)) << recipe.name;
  }
}

TEST(Layer, one_scale_a_tensor_is_that_of_the_whole_tensor) {
  const TestLayer t(kShape, 2, 8);
  const LayerRun r = run(t, "fp8_tensor");
  const auto amax_scale = [](const Words& w) {
    float amax = 0;
    for (const std::uint16_t x : w) amax = std::max(amax, std::fabs(bf16_value(x)));
    return std::vector<float>{amax / 448.0F};
  };
  EXPECT_EQ(values_in<float>(r.forward.up_a.quantized.scales().data), amax_scale(t.x));
  EXPECT_EQ(values_in<float>(r.forward.up_b.quantized.scales().data), amax_scale(t.w1));
  EXPECT_EQ(values_in<float>(r.forward.down_b.quantized.scales().data), amax_scale(t.w2));
  EXPECT_EQ(values_in<float>(r.backward.d_w2_b.quantized.scales().data), amax_scale(t.d_o));
  EXPECT_EQ(values_in<float>(r.backward.d_w1_b.quantized.scales().data), amax_scale(r.backward.dh));
  EXPECT_EQ(r.backward.d_w1_a.quantized.rows(), std::ssize(r.backward.ds));
}

TEST(Layer, has_the_same_bits_with_gate_and_up_interleaved_and_with_any_threads) {
  const TestLayer t(kShape, 2, 9);
  const std::int64_t n = kShape.inner;
  TestLayer interleaved = t;
  interleaved.gate_up = GateUp::interleaved;
  const auto interleave = [n](const auto& from) {
    auto to = from;
    for (std::int64_t i = 0; i < std::ssize(from) / n / 2; ++i) {
      for (std::int64_t j = 0; j < 2 * n; ++j)
        to[static_cast<std::size_t>(i * 2 * n + j)] = from[static_cast<std::size_t>(i * 2 * n + j / 2 + j % 2 * n)];
    }
    return to;
  };
  interleaved.w1 = interleave(t.w1);
  for (const std::string_view name : {"bf16", "mxfp8"}) {
    const LayerRun a = run(t, name, 1);
    const LayerRun b = run(interleaved, name, 3);
    EXPECT_EQ(interleave(a.forward.h), b.forward.h);
    EXPECT_EQ(a.forward.o, b.forward.o);
    EXPECT_EQ(interleave(a.backward.dh), b.backward.dh);
    EXPECT_EQ(bits(interleave(a.backward.dw1)), bits(b.backward.dw1));  // dX sums over 2n, in another order
    EXPECT_EQ(bits(a.backward.dw2), bits(b.backward.dw2));
  }
}

TEST(Layer, without_tokens_is_empty) {
  const TestLayer t({0, 32, 32, 3}, 2, 10);
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const LayerRun r = run(t, recipe);
    EXPECT_TRUE(r.forward.o.empty() && r.backward.dx.empty() && r.backward.ds.empty()) << recipe.name;
    EXPECT_EQ(r.backward.dw2, Floats(3 * 32 * 32)) << recipe.name;
  }
}

TEST(Layer, keeps_the_bytes_that_the_recipe_says) {
  const TestLayer t({128, 256, 128, 3}, 2, 11);
  const auto rows = static_cast<std::int64_t>(t.routes().row_token.size());
  EXPECT_EQ(kept_bytes(run(t, "bf16").forward.kept), 2 * 128 * 256 + 2 * rows * 256);
  EXPECT_EQ(kept_bytes(run(t, "mxfp8").forward.kept), 2 * 128 * 256 + 2 * rows * 256);
  EXPECT_EQ(kept_bytes(run(t, "dsv3").forward.kept), 128 * 256 + 128 * 2 * 4 + 2 * rows * 256);
  EXPECT_EQ(kept_bytes(run(t, "dsv3_pow2").forward.kept), 128 * 256 + 128 * 2 + rows * 256 * 3 / 2 + rows * 2);
}

TEST(Layer, refuses_what_does_not_agree) {
  const TestLayer t({5, 32, 16, 3}, 2, 12);
  const LayerRoutes routes = t.routes();
  const auto refused = [&](auto change, ErrorKind kind, std::string_view text) {
    TestLayer u = t;
    LayerRoutes r = routes;
    change(u, r);
    expect_error(kind, std::string(text), [&] { layer_forward(u.layer("mxfp8"), u.x, r); });
  };
  refused([](auto& u, auto&) { u.x.pop_back(); }, ErrorKind::usage, "X has 159 elements; T x d is 160");
  refused([](auto& u, auto&) { u.w1.pop_back(); }, ErrorKind::usage, "W1 has 3071 elements; E x d x 2n is 3072");
  refused([](auto& u, auto&) { u.shape.inner = 0; }, ErrorKind::usage, "3 experts of 0");
  refused([](auto&, auto& r) { r.row_token[0] = 5; }, ErrorKind::input, "row 0 is of token 5; there are 5");
  refused([](auto&, auto& r) { r.offsets.pop_back(); }, ErrorKind::usage, "3 offsets of experts, 4 are needed");
  refused([](auto&, auto& r) { r.offsets[1] = 99; }, ErrorKind::input, "expert offsets descend at 2");
  refused([](auto&, auto& r) { std::swap(r.token_rows.front(), r.token_rows.back()); }, ErrorKind::input,
          "slot 0 of token 0");
  refused([](auto&, auto& r) { r.token_rows[0] = r.token_rows[0] < 0 ? 0 : -1; }, ErrorKind::input, "row");
  const LayerForward f = layer_forward(t.layer("mxfp8"), t.x, routes);
  expect_contains(thrown_by([&] { layer_backward(t.layer("dsv3"), f.kept, t.d_o, routes); }).text,
                  "X as it was kept is 5 x 32 BF16");
  Layer none = t.layer("mxfp8");
  none.recipe = nullptr;
  EXPECT_EQ(thrown_by([&] { layer_forward(none, t.x, routes); }).kind, ErrorKind::usage);
}

}  // namespace
}  // namespace mxcheck

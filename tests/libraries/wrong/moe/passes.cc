// The forward and the backward pass, as reference/layer has them, with the faults of what is between the products.

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "numerics/bytes.h"
#include "tests/libraries/wrong/moe/faulty.h"

namespace mxcheck::faults {
namespace {

GateUp other(GateUp order) { return order == GateUp::halves ? GateUp::interleaved : GateUp::halves; }

float pair_sum(std::span<const float> v) {
  if (v.empty()) return 0;
  if (v.size() == 1) return v[0];
  std::vector<float> next;
  for (std::size_t i = 0; i + 1 < v.size(); i += 2) next.push_back(v[i] + v[i + 1]);
  if (v.size() % 2 != 0) next.push_back(v.back() + 0.0F);
  return pair_sum(next);
}

// A of a row of H, in FP32 before it is rounded.
void activate(const Run& run, std::span<const float> h, std::span<float> a) {
  const bool halves = run.layer.gate_up == GateUp::halves;
  for (std::int64_t j = 0; j < run.n; ++j) {
    float g = h[static_cast<std::size_t>(halves ? j : 2 * j)];
    float u = h[static_cast<std::size_t>(halves ? run.n + j : 2 * j + 1)];
    if (has("gate_and_up_exchanged")) std::swap(g, u);
    if (has("nan_gates_are_zero") && std::isnan(g)) g = 0;
    const float silu = g * swiglu_sigmoid(g);
    const float of_q_and_u = g * (swiglu_sigmoid(g) * u);
    float value = has("silu_rounded_to_bf16_first") ? fp32_of(layer_bf16(silu)) * u : silu * u;
    if (has("gate_times_the_product_of_q_and_u")) value = of_q_and_u;
    a[static_cast<std::size_t>(j)] = value;
  }
}

Words rounded(const std::vector<float>& v) {
  Words w;
  w.reserve(v.size());
  for (const float x : v) w.push_back(layer_bf16(x));
  return w;
}

// Weights of the experts that have rows, one after another: an expert without rows is not counted.
Words weights_of_filled(const Run& run, std::span<const std::uint16_t> w) {
  Words out(w.begin(), w.end());
  if (!has("empty_experts_not_counted_in_weights")) return out;
  const std::int64_t each = std::ssize(w) / run.experts;
  std::int64_t filled = 0;
  for (std::int64_t e = 0; e < run.experts; ++e) {
    const auto at = static_cast<std::size_t>(e);
    if (run.routes.offsets[at] == run.routes.offsets[at + 1]) continue;
    std::copy_n(w.begin() + filled++ * each, each, out.begin() + e * each);
  }
  return out;
}

// Kept codes and scales, with the faults of how they lie in memory.
void keep(const MoeProblem& p, const Run& run, const LayerForward& f, FaultyAnswer& answer) {
  const LayerRecipe& recipe = *run.layer.recipe;
  const auto add = [&](std::vector<std::byte> bytes) {
    answer.tensors.push_back({p.outputs[answer.tensors.size()], std::move(bytes)});
  };
  for (KeptTensor& t : kept_tensors("h", recipe.kept_h, f.kept.h)) {
    if (t.info.name == "h packed codes" && has("e5m6_words_are_big_endian")) {
      for (std::size_t i = 0; i + 4 <= t.bytes.size(); i += 4)
        std::reverse(t.bytes.begin() + static_cast<std::ptrdiff_t>(i),
                     t.bytes.begin() + static_cast<std::ptrdiff_t>(i + 4));
    }
    add(std::move(t.bytes));
  }
  if (!recipe.keeps_quantized_x) return;
  for (KeptTensor& t : kept_tensors("x", kept_x_rule(recipe), f.kept.x)) add(std::move(t.bytes));
}

Layer faulty_layer(const MoeProblem& p, const LayerRecipe& recipe) {
  Layer l = p.layer();
  l.recipe = &recipe;
  if (has("step_left_out_of_the_random_words")) l.random.step = 0;
  if (has("layer_left_out_of_the_random_words")) l.random.layer = 0;
  return l;
}

}  // namespace

FaultyAnswer faulty_forward(const MoeProblem& p) {
  const LayerRecipe recipe = faulty_recipe(layer_recipe_of(p.c.variant), false);
  const Layer layer = faulty_layer(p, recipe);
  const Run run(layer, p.routes, "X", p.in.x.size());
  const std::int64_t n = run.n;
  const std::int64_t d = run.d;
  LayerForward f;
  const Words x = faulty_gather(p.in.x, d);
  const TokenRows tokens{view(x, run.tokens, d), true};
  f.up_a = run.row(LayerGemm::up, tokens);
  const Words w1 = run.transposed(weights_of_filled(run, layer.w1), d, 2 * n);
  f.up_b = run.weight(LayerGemm::up, view(w1, run.experts * 2 * n, d));
  f.h.resize(static_cast<std::size_t>(run.rows * 2 * n));
  faulty_product(run, LayerGemm::up, f.up_a, f.up_b, f.h.data());
  if (has("last_row_of_an_expert_is_another_token_s")) {
    for (std::int64_t r = 1; r < run.rows; ++r) {
      const bool is_last =
          std::find(run.routes.offsets.begin(), run.routes.offsets.end(), r + 1) != run.routes.offsets.end();
      if (is_last) std::copy_n(f.h.begin() + (r - 1) * 2 * n, 2 * n, f.h.begin() + r * 2 * n);
    }
  }
  std::vector<float> a(static_cast<std::size_t>(run.rows * n));
  for (std::int64_t r = 0; r < run.rows; ++r) {
    std::vector<float> h(static_cast<std::size_t>(2 * n));
    view(f.h, run.rows, 2 * n).read_row(r, h);
    activate(run, h, row_of(a, r, n));
  }
  f.a = rounded(a);
  const TokenRows rows = has("a_not_rounded_to_bf16") && run.rule(LayerGemm::down).a.quantized()
                             ? TokenRows{view(a, run.rows, n), false}
                             : TokenRows{view(f.a, run.rows, n), false};
  f.down_a = run.row(LayerGemm::down, rows);
  Words w2 = run.transposed(weights_of_filled(run, layer.w2), n, d);
  if (has("w2_not_transposed_where_square") && n == d) w2.assign(layer.w2.begin(), layer.w2.end());
  f.down_b = run.weight(LayerGemm::down, view(w2, run.experts * d, n));
  f.y.resize(static_cast<std::size_t>(run.rows * d));
  faulty_product(run, LayerGemm::down, f.down_a, f.down_b, f.y.data());
  f.o = faulty_aggregate(run, f.y, true);
  if (has("o_wrong_from_1024_tokens_of_512") && run.tokens >= 1024 && d >= 512) f.o.back() ^= 1;
  f.kept.x = recipe.keeps_quantized_x ? f.up_a : LayerOperand();
  f.kept.h = row_operand(recipe.kept_h, {view(f.h, run.rows, 2 * n), false}, run.routed(), 0);
  FaultyAnswer answer;
  answer.tensors.push_back({p.outputs[0], to_bytes(f.o)});
  keep(p, run, f, answer);
  leave_out_tokens_without_slots(run, answer);
  return answer;
}

namespace {

// H of the call before this one, where it had as many elements: what a cache that is not renewed gives.
std::vector<float> stale(std::vector<float> h) {
  static std::map<std::size_t, std::vector<float>> before;
  if (!has("kept_h_of_an_earlier_call")) return h;
  std::vector<float>& last = before[h.size()];
  if (last.empty()) last = h;
  return std::exchange(last, std::move(h));
}

// Rows of H and P to A, A', dH and dS.
void differentiate(const Run& run, const std::vector<float>& h, LayerBackward& b) {
  const std::int64_t n = run.n;
  b.a.resize(static_cast<std::size_t>(run.rows * n)), b.scaled_a = b.a;
  b.dh.resize(2 * b.a.size()), b.ds.resize(static_cast<std::size_t>(run.rows));
  const GateUp order = has("h_kept_in_the_other_order") ? other(run.layer.gate_up) : run.layer.gate_up;
  for (std::int64_t r = 0; r < run.rows; ++r) {
    const auto at = static_cast<std::size_t>(r);
    std::vector<float> row(h.begin() + r * 2 * n, h.begin() + (r + 1) * 2 * n);
    std::vector<float> p(b.p.begin() + r * n, b.p.begin() + (r + 1) * n);
    float weight = run.routes.row_weight[at];
    if (has("p_rounded_to_bf16"))
      std::transform(p.begin(), p.end(), p.begin(), [](float x) { return fp32_of(layer_bf16(x)); });
    if (has("weight_applied_twice_in_dh"))
      std::transform(p.begin(), p.end(), p.begin(), [&](float x) { return weight * x; });
    b.ds[at] = swiglu_row_gradient(row, order, p, weight,
                                   {row_of(b.a, r, n), row_of(b.scaled_a, r, n), row_of(b.dh, r, 2 * n)});
    if (has("dh_is_not_weighted")) {
      Words a(static_cast<std::size_t>(n));
      swiglu_row_gradient(row, order, p, 1, {a, a, row_of(b.dh, r, 2 * n)});
    }
    std::vector<float> products(static_cast<std::size_t>(n));
    activate(run, row, products);
    for (std::size_t j = 0; j < products.size(); ++j) {
      if (has("ds_from_the_weighted_a")) products[j] = fp32_of(b.scaled_a[at * static_cast<std::size_t>(n) + j]);
      products[j] *= p[j];
    }
    if (has("ds_from_a_that_is_not_rounded") || has("ds_from_the_weighted_a"))
      b.ds[at] = layer_fp32(pair_sum(products));
    if (has("ds_summed_from_left_to_right")) {
      float sum = 0;
      for (std::int64_t j = 0; j < n; ++j)
        sum += p[static_cast<std::size_t>(j)] *
               fp32_of(b.a[at * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)]);
      b.ds[at] = layer_fp32(sum);
    }
  }
}

// dS as the product of dO and Y, computed again from the H that was kept.
void ds_from_y(const Run& run, std::span<const std::uint16_t> d_o, LayerBackward& b) {
  if (!has("ds_from_y") || run.rows == 0) return;
  const LayerOperand a = run.row(LayerGemm::down, {view(b.a, run.rows, run.n), false});
  const Words w2 = run.transposed(run.layer.w2, run.n, run.d);
  Words y(static_cast<std::size_t>(run.rows * run.d));
  run.multiply(LayerGemm::down, a, run.weight(LayerGemm::down, view(w2, run.experts * run.d, run.n)), y.data());
  for (std::int64_t r = 0; r < run.rows; ++r) {
    std::vector<float> products;
    for (std::int64_t j = 0; j < run.d; ++j)
      products.push_back(
          fp32_of(y[static_cast<std::size_t>(r * run.d + j)]) *
          fp32_of(d_o[static_cast<std::size_t>(run.routes.row_token[static_cast<std::size_t>(r)] * run.d + j)]));
    b.ds[static_cast<std::size_t>(r)] = layer_fp32(pair_sum(products));
  }
}

// An operand's source: values, or what the other quantization left of them.
struct FaultySource {
  std::vector<float> values;
  TokenRows rows;
};
FaultySource source(const Run& run, const OperandRule& rule, const TokenRows& values, const LayerOperand& quantized) {
  FaultySource s{{}, values};
  if (rule.source == OperandSource::values || !quantized.is_quantized) return s;
  s.values = values_of(quantized, run.routes.offsets, 0);
  s.rows = {view(s.values, quantized.rows, quantized.cols), quantized.by_token};
  return s;
}

void differentiate_weights(const Run& run, const LayerKept& kept, const TokenRows& gradient, LayerBackward& b) {
  const TokenRows scaled_a{view(has("a_in_place_of_scaled_a_in_dw2") ? b.a : b.scaled_a, run.rows, run.n), false};
  b.d_w2_a = faulty_columns(run, LayerGemm::d_w2, true, scaled_a);
  const FaultySource d_o = source(run, run.rule(LayerGemm::d_w2).b, gradient, b.d_down_a);
  b.d_w2_b = faulty_columns(run, LayerGemm::d_w2, false, d_o.rows);
  b.dw2.resize(static_cast<std::size_t>(run.experts * run.n * run.d));
  faulty_product_along_tokens(run, LayerGemm::d_w2, b.d_w2_a, b.d_w2_b, b.dw2.data());
  const OperandRule& rule_of_x = run.rule(LayerGemm::d_w1).a;
  const bool of_values = rule_of_x.source == OperandSource::values;
  LayerOperand coded = kept.x;
  if (!of_values && rule_of_x.quantized() && !kept.x.is_quantized)
    coded = run.row(LayerGemm::up, {view(kept.x.values, run.tokens, run.d), true});
  const std::vector<float> decoded =
      coded.is_quantized ? values_of(coded, run.routes.offsets, 0) : std::vector<float>();
  const Words words = rounded(decoded);
  const TokenRows x = !coded.is_quantized ? TokenRows{view(kept.x.values, run.tokens, run.d), true}
                      : of_values         ? TokenRows{view(words, run.tokens, run.d), true}
                                          : TokenRows{view(decoded, run.tokens, run.d), true};
  b.d_w1_a = faulty_columns(run, LayerGemm::d_w1, true, x);
  const TokenRows dh{view(b.dh, run.rows, 2 * run.n), false};
  const FaultySource dh_source = source(run, run.rule(LayerGemm::d_w1).b, dh, b.d_up_a);
  b.d_w1_b = faulty_columns(run, LayerGemm::d_w1, false, dh_source.rows);
  b.dw1.resize(static_cast<std::size_t>(run.experts * 2 * run.n * run.d));
  faulty_product_along_tokens(run, LayerGemm::d_w1, b.d_w1_a, b.d_w1_b, b.dw1.data());
}

void leave_out_empty_experts(const Run& run, FaultyAnswer& answer) {
  for (std::int64_t e = 0; e < run.experts && has("dw1_of_an_empty_expert_unwritten"); ++e) {
    const auto at = static_cast<std::size_t>(e);
    const std::int64_t bytes = run.d * 2 * run.n * 4;
    if (run.routes.offsets[at] == run.routes.offsets[at + 1])
      answer.unwritten.push_back({1, e * bytes, (e + 1) * bytes});
  }
}

// The weights, quantized again from the forward pass's values where the recipe says so.
LayerOperand weight_again(const Run& run, LayerGemm gemm, const MatrixView& w) {
  if (!run.requantizes_weight(gemm)) return run.weight(gemm, w);
  const LayerOperand forward = run.forward_weight(gemm == LayerGemm::d_down ? LayerGemm::down : LayerGemm::up);
  return run.backward_weight(gemm, w, &forward);
}

}  // namespace

FaultyAnswer faulty_backward(const MoeProblem& p) {
  const LayerRecipe& right = layer_recipe_of(p.c.variant);
  const LayerRecipe recipe = faulty_recipe(right, true);
  const Layer layer = faulty_layer(p, recipe);
  const Run run(layer, p.routes, "dO", p.in.d_o.size());
  const LayerKept kept{kept_operand(kept_x_rule(right), p.x, run.tokens, run.d, true),
                       kept_operand(right.kept_h, p.h, run.rows, 2 * run.n, false)};
  LayerBackward b;
  const Words d_o = faulty_gather(p.in.d_o, run.d);
  const TokenRows gradient{view(d_o, run.tokens, run.d), true};
  b.d_down_a = run.row(LayerGemm::d_down, gradient);
  const Words w2 = weights_of_filled(run, layer.w2);
  b.d_down_b = weight_again(run, LayerGemm::d_down, view(w2, run.experts * run.n, run.d));
  b.p.resize(static_cast<std::size_t>(run.rows * run.n));
  faulty_product(run, LayerGemm::d_down, b.d_down_a, b.d_down_b, b.p.data());
  differentiate(run, stale(values_of(kept.h, run.routes.offsets, 0)), b);
  ds_from_y(run, p.in.d_o, b);
  b.d_up_a = run.row(LayerGemm::d_up, {view(b.dh, run.rows, 2 * run.n), false});
  if (has("dh_has_the_random_words_of_do")) {
    b.d_up_a = row_operand(run.rule(LayerGemm::d_up).a, {view(b.dh, run.rows, 2 * run.n), false}, run.routed(), 0,
                           words_of(layer.random, LayerGemm::d_down, false));
  }
  b.d_up_b = weight_again(run, LayerGemm::d_up, view(layer.w1, run.experts * run.d, 2 * run.n));
  b.dx_rows.resize(static_cast<std::size_t>(run.rows * run.d));
  faulty_product(run, LayerGemm::d_up, b.d_up_a, b.d_up_b, b.dx_rows.data());
  differentiate_weights(run, kept, gradient, b);
  b.dx = faulty_aggregate(run, b.dx_rows, false);
  FaultyAnswer answer;
  answer.tensors = {{p.outputs[0], to_bytes(b.dx)},
                    {p.outputs[1], to_bytes(b.dw1)},
                    {p.outputs[2], to_bytes(b.dw2)},
                    {p.outputs[3], to_bytes(b.ds)}};
  leave_out_empty_experts(run, answer);
  leave_out_tokens_without_slots(run, answer);
  return answer;
}

}  // namespace mxcheck::faults

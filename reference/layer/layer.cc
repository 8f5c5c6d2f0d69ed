#include "reference/layer/layer.h"

#include <cstring>
#include <string>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/layer/aggregate.h"
#include "reference/layer/operands.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

LayerKept keep(const Run& run, std::span<const std::uint16_t> x, const LayerForward& f) {
  const LayerRecipe& recipe = *run.layer.recipe;
  const TokenRows tokens{view(x, run.tokens, run.d), true};
  const TokenRows h{view(f.h, run.rows, 2 * run.n), false};
  return {recipe.keeps_quantized_x ? f.up_a : row_operand({}, tokens, run.routed(), run.layer.threads),
          row_operand(recipe.kept_h, h, run.routed(), run.layer.threads)};
}

// Codes of more than 8 bits are packed, others have a byte each.
std::int64_t packed_bytes(const Tensor& codes) {
  const auto count = static_cast<std::int64_t>(codes.size());
  return size_of(codes.format) == 1 ? count : ceil_div(count * spec(codes.format).bits, 8);
}

}  // namespace

std::int64_t kept_bytes(const LayerKept& kept) {
  std::int64_t bytes = 0;
  for (const LayerOperand* x : {&kept.x, &kept.h}) {
    const QuantizedTensor& q = x->quantized;
    bytes += std::ssize(x->values) * 2 + packed_bytes(q.codes) + std::ssize(q.scales().data);
  }
  return bytes;
}

LayerForward layer_forward(const Layer& layer, std::span<const std::uint16_t> x, const LayerRoutes& routes) {
  const Run run(layer, routes, "X", x.size());
  const std::int64_t n = run.n;
  const std::int64_t d = run.d;
  const int threads = layer.threads;
  LayerForward f;
  f.up_a = run.row(LayerGemm::up, {view(x, run.tokens, d), true});
  f.up_b = run.forward_weight(LayerGemm::up);
  f.h = sized<std::uint16_t>(run.rows, 2 * n, "H");
  run.multiply(LayerGemm::up, f.up_a, f.up_b, f.h.data());

  f.a = sized<std::uint16_t>(run.rows, n, "A");
  run.each_row(run.rows, n * 8, [&](std::int64_t r) {
    std::vector<float> h(static_cast<std::size_t>(2 * n));
    view(f.h, run.rows, 2 * n).read_row(r, h);
    swiglu_row(h, layer.gate_up, row_of(f.a, r, n));
  });

  f.down_a = run.row(LayerGemm::down, {view(f.a, run.rows, n), false});
  f.down_b = run.forward_weight(LayerGemm::down);
  f.y = sized<std::uint16_t>(run.rows, d, "Y");
  run.multiply(LayerGemm::down, f.down_a, f.down_b, f.y.data());

  f.o = aggregate({f.y, run.rows, d, routes.row_weight}, run.slots(), threads);
  f.kept = keep(run, x, f);
  return f;
}

namespace {

void check_size(const char* what, std::size_t found, std::int64_t right, const std::string& shape) {
  if (std::cmp_equal(found, right)) return;
  throw Error(ErrorKind::usage, std::string(what) + " has " + std::to_string(found) + " elements; " + shape + " is " +
                                    std::to_string(right));
}

}  // namespace

Run::Run(const Layer& l, const LayerRoutes& r, const char* input, std::size_t input_size) : layer(l), routes(r) {
  if (l.recipe == nullptr) throw Error(ErrorKind::usage, "a layer without a recipe; all_layer_recipes() has them");
  check(*l.recipe);
  tokens = l.shape.tokens, d = l.shape.width, n = l.shape.inner, experts = l.shape.experts;
  if (tokens < 0 || d < 1 || n < 1 || experts < 1) {
    throw Error(ErrorKind::usage, "a layer of " + std::to_string(tokens) + " tokens of " + std::to_string(d) + ", " +
                                      std::to_string(experts) + " experts of " + std::to_string(n) +
                                      ": tokens must be 0 or more, the others 1 or more");
  }
  const std::int64_t matrix = checked_product(d, n, "d x n");
  check_size("W1", l.w1.size(), checked_product(checked_product(experts, matrix, "W1"), 2, "W1"), "E x d x 2n");
  check_size("W2", l.w2.size(), checked_product(experts, matrix, "W2"), "E x n x d");
  check_size(input, input_size, checked_product(tokens, d, input), "T x d");
  check(r, tokens, experts);
  rows = std::ssize(r.row_token);
}

LayerOperand Run::row(LayerGemm gemm, const TokenRows& x) const {
  return row_operand(rule(gemm).a, x, routed(), layer.threads, words_of(layer.random, gemm, false));
}

LayerOperand Run::column(LayerGemm gemm, bool b, const TokenRows& x) const {
  return column_operand(b ? rule(gemm).b : rule(gemm).a, x, routed(), layer.threads, words_of(layer.random, gemm, b));
}

LayerOperand Run::weight(LayerGemm gemm, const MatrixView& w) const {
  return weight_operand(rule(gemm).b, w, experts, layer.threads, words_of(layer.random, gemm, true));
}

bool Run::requantizes_weight(LayerGemm gemm) const {
  return rule(gemm).b.quantized() && rule(gemm).b.source == OperandSource::requantized;
}

LayerOperand Run::forward_weight(LayerGemm gemm) const {
  const bool first = gemm == LayerGemm::up;
  const std::int64_t rows = first ? d : n, cols = first ? 2 * n : d;
  const Words w = transposed(first ? layer.w1 : layer.w2, rows, cols);
  return weight(gemm, view(w, experts * cols, rows));
}

LayerOperand Run::backward_weight(LayerGemm gemm, const MatrixView& w, const LayerOperand* forward) const {
  if (!requantizes_weight(gemm)) return weight(gemm, w);
  std::vector<std::int64_t> offsets;
  for (std::int64_t e = 0; e <= experts; ++e) offsets.push_back(forward->rows / experts * e);
  const std::vector<float> turned = values_of(*forward, offsets, layer.threads);
  const std::vector<float> values = transposed(std::span<const float>(turned), forward->rows / experts, forward->cols);
  return weight(gemm, view(values, experts * forward->cols, forward->rows / experts));
}

void Run::copy_known(LayerGemm gemm, void* out) const {
  const auto copy = [&](const char* name, auto known, std::int64_t cols, const std::string& shape) {
    check_size(name, known.size(), checked_product(rows, cols, name), shape);
    std::memcpy(out, known.data(), known.size_bytes());
  };
  if (gemm == LayerGemm::up) copy("H", layer.known->h, 2 * n, "R x 2n");
  if (gemm == LayerGemm::d_down) copy("P", layer.known->p, n, "R x n");
}

void Run::multiply(LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) const {
  if (layer.known != nullptr) {
    copy_known(gemm, out);
    return;
  }
  Matmul m = product(gemm);
  m.a = operand_of(rule(gemm).a, m.contract, a, Depth::columns);
  m.b = operand_of(rule(gemm).b, m.contract, b, Depth::columns, experts);
  m.grouping = Grouping::rows;
  m.alpha = alpha_of(a, b);
  m.gathers = a.by_token;
  if (a.by_token) m.row_index = routes.row_token;
  matmul(m, out);
}

void Run::multiply_along_tokens(LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) const {
  if (layer.known != nullptr) return;
  Matmul m = product(gemm);
  m.a = operand_of(rule(gemm).a, m.contract, a, Depth::rows);
  m.b = operand_of(rule(gemm).b, m.contract, b, Depth::rows);
  m.alpha = alpha_of(a, b);
  m.grouping = Grouping::depth;
  matmul(m, out);
}

Matmul Run::product(LayerGemm gemm) const {
  Matmul m;
  m.contract = parse_matmul_contract(rule(gemm).contract);
  m.output = spec(gemm).output;
  m.offsets = routes.offsets;
  m.threads = layer.threads;
  return m;
}

// layer_backward.

namespace {

// The source of an operand along tokens: the values, or the same values quantized for another GEMM and dequantized.
struct Source {
  std::vector<float> values;
  TokenRows rows;
};
Source source_of(const Run& run, const OperandRule& rule, const TokenRows& values, const LayerOperand& quantized) {
  Source s{{}, values};
  if (rule.source == OperandSource::values) return s;
  s.values = values_of(quantized, run.routes.offsets, run.layer.threads);
  s.rows = {view(s.values, quantized.rows, quantized.cols), quantized.by_token};
  return s;
}

// A, A', dH and dS from P and the H that was kept.
void differentiate_swiglu(const Run& run, const LayerKept& kept, LayerBackward& b) {
  const std::int64_t n = run.n;
  std::vector<float> h = values_of(kept.h, run.routes.offsets, run.layer.threads);
  b.a = sized<std::uint16_t>(run.rows, n, "A");
  b.scaled_a = sized<std::uint16_t>(run.rows, n, "A'");
  b.dh = sized<std::uint16_t>(run.rows, 2 * n, "dH");
  b.ds = sized<float>(run.rows, 1, "dS");
  run.each_row(run.rows, n * 8, [&](std::int64_t r) {  // exp costs as much as some eight elements
    const auto row = static_cast<std::size_t>(r);
    b.ds[row] =
        swiglu_row_gradient(row_of(h, r, 2 * n), run.layer.gate_up, row_of(b.p, r, n), run.routes.row_weight[row],
                            {row_of(b.a, r, n), row_of(b.scaled_a, r, n), row_of(b.dh, r, 2 * n)});
  });
}

// X along tokens for dW1: what was kept, or made of it.
LayerOperand x_along_tokens(const Run& run, const LayerKept& kept) {
  const OperandRule& rule = run.rule(LayerGemm::d_w1).a;
  const TokenRows values{view(kept.x.values, run.tokens, run.d), true};
  if (rule.source == OperandSource::values) return run.column(LayerGemm::d_w1, false, values);
  const LayerOperand again = kept.x.is_quantized ? LayerOperand() : run.row(LayerGemm::up, values);
  const Source s = source_of(run, rule, values, kept.x.is_quantized ? kept.x : again);
  return run.column(LayerGemm::d_w1, false, s.rows);
}

// The weights as the forward pass quantized them are not kept: they are quantized again.
LayerOperand weight_of(const Run& run, LayerGemm gemm, const MatrixView& w) {
  if (!run.requantizes_weight(gemm)) return run.weight(gemm, w);
  const LayerOperand forward = run.forward_weight(gemm == LayerGemm::d_down ? LayerGemm::down : LayerGemm::up);
  return run.backward_weight(gemm, w, &forward);
}

void check_kept(const Run& run, const LayerKept& kept) {
  const auto check_one = [](const char* what, const LayerOperand& x, bool quantized, std::int64_t rows,
                            std::int64_t cols) {
    if (x.is_quantized == quantized && x.rows == rows && x.cols == cols) return;
    throw Error(ErrorKind::usage, std::string(what) + " as it was kept is " + std::to_string(x.rows) + " x " +
                                      std::to_string(x.cols) + (x.is_quantized ? " codes" : " BF16 values") +
                                      "; the recipe and the routes need " + std::to_string(rows) + " x " +
                                      std::to_string(cols) + (quantized ? " codes" : " BF16 values"));
  };
  const LayerRecipe& recipe = *run.layer.recipe;
  const bool x_by_rows = recipe.keeps_quantized_x && recipe.gemm(LayerGemm::up).a.block.rows > 1;
  check_one("X", kept.x, recipe.keeps_quantized_x, x_by_rows ? run.rows : run.tokens, run.d);
  check_one("H", kept.h, recipe.kept_h.quantized(), run.rows, 2 * run.n);
}

}  // namespace

LayerBackward layer_backward(const Layer& layer, const LayerKept& kept, std::span<const std::uint16_t> d_o,
                             const LayerRoutes& routes) {
  const Run run(layer, routes, "dO", d_o.size());
  check_kept(run, kept);
  const std::int64_t n = run.n;
  const std::int64_t d = run.d;
  const int threads = layer.threads;
  LayerBackward b;
  const TokenRows gradient{view(d_o, run.tokens, d), true};
  b.d_down_a = run.row(LayerGemm::d_down, gradient);
  b.d_down_b = weight_of(run, LayerGemm::d_down, view(layer.w2, run.experts * n, d));
  b.p = sized<float>(run.rows, n, "P");
  run.multiply(LayerGemm::d_down, b.d_down_a, b.d_down_b, b.p.data());

  differentiate_swiglu(run, kept, b);

  const TokenRows scaled_a{view(b.scaled_a, run.rows, n), false};
  b.d_w2_a = run.column(LayerGemm::d_w2, false, scaled_a);
  const Source d_o_source = source_of(run, run.rule(LayerGemm::d_w2).b, gradient, b.d_down_a);
  b.d_w2_b = run.column(LayerGemm::d_w2, true, d_o_source.rows);
  b.dw2 = sized<float>(run.experts, n * d, "dW2");
  run.multiply_along_tokens(LayerGemm::d_w2, b.d_w2_a, b.d_w2_b, b.dw2.data());

  const TokenRows dh{view(b.dh, run.rows, 2 * n), false};
  b.d_up_a = run.row(LayerGemm::d_up, dh);
  b.d_up_b = weight_of(run, LayerGemm::d_up, view(layer.w1, run.experts * d, 2 * n));
  b.dx_rows = sized<std::uint16_t>(run.rows, d, "dX~");
  run.multiply(LayerGemm::d_up, b.d_up_a, b.d_up_b, b.dx_rows.data());

  b.d_w1_a = x_along_tokens(run, kept);
  const Source dh_source = source_of(run, run.rule(LayerGemm::d_w1).b, dh, b.d_up_a);
  b.d_w1_b = run.column(LayerGemm::d_w1, true, dh_source.rows);
  b.dw1 = sized<float>(run.experts, 2 * n * d, "dW1");
  run.multiply_along_tokens(LayerGemm::d_w1, b.d_w1_a, b.d_w1_b, b.dw1.data());

  b.dx = aggregate({b.dx_rows, run.rows, d, {}}, run.slots(), threads);
  return b;
}

}  // namespace mxcheck

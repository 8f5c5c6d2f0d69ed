#include "reference/layer/layer.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

MatrixView view(std::span<const std::uint16_t> words, std::int64_t rows, std::int64_t cols) {
  return {Format::bf16, std::as_bytes(words).data(), rows, cols, cols};
}
MatrixView view(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  return {Format::fp32, std::as_bytes(std::span(values)).data(), rows, cols, cols};
}

template <class T>
std::vector<T> sized(std::int64_t rows, std::int64_t cols, std::string_view what) {
  std::vector<T> v;
  resize_or_throw(v, checked_product(rows, cols, what), what);
  return v;
}

// Part [row * cols, (row + 1) * cols) of a tensor.
template <class T>
std::span<T> row_of(std::vector<T>& v, std::int64_t row, std::int64_t cols) {
  return std::span(v).subspan(static_cast<std::size_t>(row * cols), static_cast<std::size_t>(cols));
}

void check_size(const char* what, std::size_t found, std::int64_t right, const std::string& shape) {
  if (std::cmp_equal(found, right)) return;
  throw Error(ErrorKind::usage, std::string(what) + " has " + std::to_string(found) + " elements; " + shape + " is " +
                                    std::to_string(right));
}

// A layer and its routes, checked.
struct Run {
  const Layer& layer;
  const LayerRoutes& routes;
  std::int64_t tokens, d, n, experts, rows;

  Run(const Layer& l, const LayerRoutes& r, const char* input, std::size_t input_size) : layer(l), routes(r) {
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

  [[nodiscard]] RoutedRows routed() const { return {routes.row_token, routes.offsets}; }
  [[nodiscard]] const GemmRule& rule(LayerGemm g) const { return layer.recipe->gemm(g); }

  // body(row) for each of `count` rows of `cols` elements.
  template <class Body>
  void each_row(std::int64_t count, std::int64_t cols, Body body) const {
    parallel_ranges(count, count * cols, layer.threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }

  // Each expert's matrix, rows x cols, as cols x rows.
  [[nodiscard]] Words transposed(std::span<const std::uint16_t> w, std::int64_t w_rows, std::int64_t w_cols) const {
    Words out(w.size());
    each_row(experts * w_cols, w_rows, [&](std::int64_t to) {
      const std::int64_t from = to / w_cols * w_rows * w_cols + to % w_cols;
      for (std::int64_t i = 0; i < w_rows; ++i)
        out[static_cast<std::size_t>(to * w_rows + i)] = w[static_cast<std::size_t>(from + i * w_cols)];
    });
    return out;
  }

  // Rows of tokens by an expert's weights.
  void multiply(LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) const {
    Matmul m = product(gemm);
    m.a = operand_of(rule(gemm).a, m.contract, a, Depth::columns);
    m.b = operand_of(rule(gemm).b, m.contract, b, Depth::columns, experts);
    m.grouping = Grouping::rows;
    m.gathers = a.by_token;
    if (a.by_token) m.row_index = routes.row_token;
    matmul(m, out);
  }

  // The gradient of each expert's weights, along its tokens.
  void multiply_along_tokens(LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) const {
    Matmul m = product(gemm);
    m.a = operand_of(rule(gemm).a, m.contract, a, Depth::rows);
    m.b = operand_of(rule(gemm).b, m.contract, b, Depth::rows);
    m.grouping = Grouping::depth;
    matmul(m, out);
  }

  // The token's rows, in the order of its slots, added up by add(acc, row, column).
  template <class Add>
  [[nodiscard]] Words aggregated(Add add) const {
    Words out = sized<std::uint16_t>(tokens, d, "output");
    each_row(tokens, d, [&](std::int64_t t) {
      std::vector<float> acc(static_cast<std::size_t>(d), 0.0F);
      const auto token = static_cast<std::size_t>(t);
      for (std::int64_t slot = routes.token_offsets[token]; slot < routes.token_offsets[token + 1]; ++slot) {
        const std::int64_t row = routes.token_rows[static_cast<std::size_t>(slot)];
        if (row < 0) continue;
        for (std::int64_t j = 0; j < d; ++j) {
          float& sum = acc[static_cast<std::size_t>(j)];
          sum = add(sum, row, row * d + j);
        }
      }
      const std::span<std::uint16_t> to = row_of(out, t, d);
      for (std::size_t j = 0; j < acc.size(); ++j) to[j] = layer_bf16(acc[j]);
    });
    return out;
  }

 private:
  [[nodiscard]] Matmul product(LayerGemm gemm) const {
    Matmul m;
    m.contract = parse_matmul_contract(rule(gemm).contract);
    m.output = spec(gemm).output;
    m.offsets = routes.offsets;
    m.threads = layer.threads;
    return m;
  }
};

float fp32_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

// What an operand along tokens is made of: the values, or what the rule's other quantization left of them.
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

LayerKept keep(const Run& run, std::span<const std::uint16_t> x, const LayerForward& f) {
  const LayerRecipe& recipe = *run.layer.recipe;
  const TokenRows tokens{view(x, run.tokens, run.d), true};
  const TokenRows h{view(f.h, run.rows, 2 * run.n), false};
  return {recipe.keeps_quantized_x ? f.up_a : row_operand({}, tokens, run.routed(), run.layer.threads),
          row_operand(recipe.kept_h, h, run.routed(), run.layer.threads)};
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
    b.ds[row] = swiglu_row_gradient(row_of(h, r, 2 * n), run.layer.gate_up, row_of(b.p, r, n),
                                    run.routes.row_weight[row],
                                    {row_of(b.a, r, n), row_of(b.scaled_a, r, n), row_of(b.dh, r, 2 * n)});
  });
}

// X along tokens for dW1: what was kept, or made of it.
LayerOperand x_along_tokens(const Run& run, const LayerKept& kept) {
  const int threads = run.layer.threads;
  const OperandRule& rule = run.rule(LayerGemm::d_w1).a;
  const TokenRows values{view(kept.x.values, run.tokens, run.d), true};
  if (rule.source == OperandSource::values) return column_operand(rule, values, run.routed(), threads);
  const LayerOperand again = kept.x.is_quantized
                                 ? LayerOperand()
                                 : row_operand(run.rule(LayerGemm::up).a, values, run.routed(), threads);
  const Source s = source_of(run, rule, values, kept.x.is_quantized ? kept.x : again);
  return column_operand(rule, s.rows, run.routed(), threads);
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

std::int64_t kept_bytes(const LayerKept& kept) {
  std::int64_t bytes = 0;
  for (const LayerOperand* x : {&kept.x, &kept.h}) {
    const Quantized& q = x->quantized;
    bytes += std::ssize(x->values) * 2 + std::ssize(q.codes) + ceil_div(std::ssize(q.codes16) * 3, 2) +
             std::ssize(q.scales) + std::ssize(q.scales_fp32) * 4;
  }
  return bytes;
}

LayerForward layer_forward(const Layer& layer, std::span<const std::uint16_t> x, const LayerRoutes& routes) {
  const Run run(layer, routes, "X", x.size());
  const std::int64_t n = run.n;
  const std::int64_t d = run.d;
  const int threads = layer.threads;
  LayerForward f;
  f.up_a = row_operand(run.rule(LayerGemm::up).a, {view(x, run.tokens, d), true}, run.routed(), threads);
  const Words w1 = run.transposed(layer.w1, d, 2 * n);
  f.up_b = weight_operand(run.rule(LayerGemm::up).b, view(w1, run.experts * 2 * n, d), run.experts, threads);
  f.h = sized<std::uint16_t>(run.rows, 2 * n, "H");
  run.multiply(LayerGemm::up, f.up_a, f.up_b, f.h.data());

  f.a = sized<std::uint16_t>(run.rows, n, "A");
  run.each_row(run.rows, n * 8, [&](std::int64_t r) {
    std::vector<float> h(static_cast<std::size_t>(2 * n));
    view(f.h, run.rows, 2 * n).read_row(r, h);
    swiglu_row(h, layer.gate_up, row_of(f.a, r, n));
  });

  f.down_a = row_operand(run.rule(LayerGemm::down).a, {view(f.a, run.rows, n), false}, run.routed(), threads);
  const Words w2 = run.transposed(layer.w2, n, d);
  f.down_b = weight_operand(run.rule(LayerGemm::down).b, view(w2, run.experts * d, n), run.experts, threads);
  f.y = sized<std::uint16_t>(run.rows, d, "Y");
  run.multiply(LayerGemm::down, f.down_a, f.down_b, f.y.data());

  f.o = run.aggregated([&](float acc, std::int64_t row, std::int64_t at) {
    return std::fma(routes.row_weight[static_cast<std::size_t>(row)], fp32_of(f.y[static_cast<std::size_t>(at)]), acc);
  });
  f.kept = keep(run, x, f);
  return f;
}

LayerBackward layer_backward(const Layer& layer, const LayerKept& kept, std::span<const std::uint16_t> d_o,
                             const LayerRoutes& routes) {
  const Run run(layer, routes, "dO", d_o.size());
  check_kept(run, kept);
  const std::int64_t n = run.n;
  const std::int64_t d = run.d;
  const int threads = layer.threads;
  LayerBackward b;
  const TokenRows gradient{view(d_o, run.tokens, d), true};
  b.d_down_a = row_operand(run.rule(LayerGemm::d_down).a, gradient, run.routed(), threads);
  b.d_down_b =
      weight_operand(run.rule(LayerGemm::d_down).b, view(layer.w2, run.experts * n, d), run.experts, threads);
  b.p = sized<float>(run.rows, n, "P");
  run.multiply(LayerGemm::d_down, b.d_down_a, b.d_down_b, b.p.data());

  differentiate_swiglu(run, kept, b);

  const TokenRows scaled_a{view(b.scaled_a, run.rows, n), false};
  b.d_w2_a = column_operand(run.rule(LayerGemm::d_w2).a, scaled_a, run.routed(), threads);
  const Source d_o_source = source_of(run, run.rule(LayerGemm::d_w2).b, gradient, b.d_down_a);
  b.d_w2_b = column_operand(run.rule(LayerGemm::d_w2).b, d_o_source.rows, run.routed(), threads);
  b.dw2 = sized<float>(run.experts, n * d, "dW2");
  run.multiply_along_tokens(LayerGemm::d_w2, b.d_w2_a, b.d_w2_b, b.dw2.data());

  const TokenRows dh{view(b.dh, run.rows, 2 * n), false};
  b.d_up_a = row_operand(run.rule(LayerGemm::d_up).a, dh, run.routed(), threads);
  b.d_up_b =
      weight_operand(run.rule(LayerGemm::d_up).b, view(layer.w1, run.experts * d, 2 * n), run.experts, threads);
  b.dx_rows = sized<std::uint16_t>(run.rows, d, "dX~");
  run.multiply(LayerGemm::d_up, b.d_up_a, b.d_up_b, b.dx_rows.data());

  b.d_w1_a = x_along_tokens(run, kept);
  const Source dh_source = source_of(run, run.rule(LayerGemm::d_w1).b, dh, b.d_up_a);
  b.d_w1_b = column_operand(run.rule(LayerGemm::d_w1).b, dh_source.rows, run.routed(), threads);
  b.dw1 = sized<float>(run.experts, 2 * n * d, "dW1");
  run.multiply_along_tokens(LayerGemm::d_w1, b.d_w1_a, b.d_w1_b, b.dw1.data());

  b.dx = run.aggregated([&](float acc, std::int64_t, std::int64_t at) {
    return acc + fp32_of(b.dx_rows[static_cast<std::size_t>(at)]);
  });
  return b;
}

}  // namespace mxcheck

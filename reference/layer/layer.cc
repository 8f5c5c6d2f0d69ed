#include "reference/layer/layer.h"

#include <cstring>
#include <string>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "reference/common/checked_size.h"
#include "reference/layer/aggregate.h"
#include "reference/layer/operands.h"
#include "reference/layer/run.h"
#include "reference/quantize/hadamard.h"

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
  const Words w1 = run.transposed(layer.w1, d, 2 * n);
  f.up_b = run.weight(LayerGemm::up, view(w1, run.experts * 2 * n, d));
  f.h = sized<std::uint16_t>(run.rows, 2 * n, "H");
  run.multiply(LayerGemm::up, f.up_a, f.up_b, f.h.data());

  f.a = sized<std::uint16_t>(run.rows, n, "A");
  run.each_row(run.rows, n * 8, [&](std::int64_t r) {
    std::vector<float> h(static_cast<std::size_t>(2 * n));
    view(f.h, run.rows, 2 * n).read_row(r, h);
    swiglu_row(h, layer.gate_up, row_of(f.a, r, n));
  });

  f.down_a = run.row(LayerGemm::down, {view(f.a, run.rows, n), false});
  const Words w2 = run.transposed(layer.w2, n, d);
  f.down_b = run.weight(LayerGemm::down, view(w2, run.experts * d, n));
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

Words Run::transposed(std::span<const std::uint16_t> w, std::int64_t w_rows, std::int64_t w_cols) const {
  Words out(w.size());
  each_row(experts * w_cols, w_rows, [&](std::int64_t to) {
    const std::int64_t from = to / w_cols * w_rows * w_cols + to % w_cols;
    for (std::int64_t i = 0; i < w_rows; ++i)
      out[static_cast<std::size_t>(to * w_rows + i)] = w[static_cast<std::size_t>(from + i * w_cols)];
  });
  return out;
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
  b.d_down_b = run.weight(LayerGemm::d_down, view(layer.w2, run.experts * n, d));
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
  b.d_up_b = run.weight(LayerGemm::d_up, view(layer.w1, run.experts * d, 2 * n));
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

namespace {

std::size_t bytes_of(Format dtype) { return dtype == Format::fp32 ? 4 : 2; }

LayerOperand shaped(const MatrixView& x, bool by_token) {
  LayerOperand o;
  o.rows = x.rows, o.cols = x.cols, o.by_token = by_token;
  return o;
}

LayerOperand as_values(const MatrixView& x, bool by_token) {
  LayerOperand o = shaped(x, by_token);
  resize_or_throw(o.values, checked_product(x.rows, x.cols, "operand"), "operand");
  const std::size_t width = static_cast<std::size_t>(x.cols) * 2;
  for (std::int64_t row = 0; row < x.rows && width != 0; ++row)
    std::memcpy(o.values.data() + row * x.cols, x.data + row * x.row_stride * 2, width);
  return o;
}

// By a rule, with what is the same for all tensors that it quantizes.
struct OperandMaker {
  const OperandRule& rule;
  int threads;
  const OperandWords& words;

  [[nodiscard]] std::vector<std::uint32_t> random_words(std::int64_t count) const {
    std::vector<std::uint32_t> all;
    if (!rule.stochastic) return all;
    resize_or_throw(all, count, "random words");
    const std::uint32_t stream = 0x80000000U | words.random.layer << 8 | words.operand;
    parallel_ranges(count, count * 16, threads, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::uint64_t>(begin); i < static_cast<std::uint64_t>(end); ++i)
        all[i] = philox_word(words.random.seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                             stream, words.random.step);
    });
    return all;
  }

  [[nodiscard]] LayerOperand codes(const MatrixView& x, BlockShape block, bool by_token,
                                   std::span<const std::int64_t> offsets) const {
    LayerOperand o = shaped(x, by_token);
    o.is_quantized = true;
    Recipe recipe = any_recipe_named(rule.scales);
    if (rule.stochastic) recipe.rounding = Rounding::stochastic;
    const std::vector<std::uint32_t> given = random_words(checked_product(x.rows, x.cols, "operand"));
    o.quantized = quantize(x, rule.format, block, recipe, {.words = given}, offsets, threads);
    return o;
  }

  // In the order of the routed rows, or of an expert's weights.
  [[nodiscard]] LayerOperand in_order(const MatrixView& x, BlockShape block,
                                      std::span<const std::int64_t> offsets) const {
    return rule.quantized() ? codes(x, block, false, offsets) : as_values(x, false);
  }

  // x rotated along tokens: whole groups of an expert's rows.
  [[nodiscard]] Words rotated(const MatrixView& x, std::span<const std::int64_t> offsets) const {
    const Hadamard transform{.size = kRotationSize, .signs = {kRotationSigns}, .sum = HadamardSum::butterfly};
    Words out;
    resize_or_throw(out, checked_product(x.rows, x.cols, "rotated rows"), "rotated rows");
    const std::size_t row_bytes = static_cast<std::size_t>(x.cols) * 2;
    if (row_bytes == 0) return out;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
      const std::int64_t first = offsets[e];
      const std::int64_t whole = (offsets[e + 1] - first) / kRotationSize * kRotationSize;
      const MatrixView rows{x.dtype, x.data + first * x.row_stride * 2, whole, x.cols, x.row_stride};
      if (whole > 0) {
        const Tensor y = hadamard(rows, transform, Along::columns, {}, threads);
        std::memcpy(out.data() + first * x.cols, y.data.data(), static_cast<std::size_t>(whole) * row_bytes);
      }
      for (std::int64_t row = first + whole; row < offsets[e + 1]; ++row)
        std::memcpy(out.data() + row * x.cols, x.data + row * x.row_stride * 2, row_bytes);
    }
    return out;
  }

  [[nodiscard]] LayerOperand along_tokens(const MatrixView& x, std::span<const std::int64_t> offsets) const {
    const BlockShape block = rule.block.transposed();
    if (!rule.rotates) return in_order(x, block, offsets);
    Words rows = rotated(x, offsets);
    LayerOperand o = in_order(view(rows, x.rows, x.cols), block, offsets);
    o.rotated = std::move(rows);
    return o;
  }
};

MatrixView rows_of(const std::vector<std::byte>& bytes, const MatrixView& x, std::size_t rows) {
  return {x.dtype, bytes.data(), static_cast<std::int64_t>(rows), x.cols, x.cols};
}

}  // namespace

std::vector<std::byte> gathered(const MatrixView& x, std::span<const std::int32_t> index) {
  const std::size_t width = static_cast<std::size_t>(x.cols) * bytes_of(x.dtype);
  std::vector<std::byte> bytes;
  resize_or_throw(bytes, checked_product(std::ssize(index), static_cast<std::int64_t>(width), "gathered rows"),
                  "gathered rows");
  for (std::size_t i = 0; i < index.size() && width != 0; ++i) {
    const std::size_t from = static_cast<std::size_t>(index[i]) * static_cast<std::size_t>(x.row_stride);
    std::memcpy(bytes.data() + i * width, x.data + from * bytes_of(x.dtype), width);
  }
  return bytes;
}

LayerOperand row_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads,
                         const OperandWords& words) {
  if (!rule.quantized()) return as_values(x.values, x.by_token);
  const OperandMaker make{rule, threads, words};
  if (rule.block.rows <= 1) return make.codes(x.values, rule.block, x.by_token, {});
  if (!x.by_token) return make.codes(x.values, rule.block, false, routed.offsets);
  const std::vector<std::byte> rows = gathered(x.values, routed.row_token);
  return make.codes(rows_of(rows, x.values, routed.row_token.size()), rule.block, false, routed.offsets);
}

LayerOperand column_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads,
                            const OperandWords& words) {
  const OperandMaker make{rule, threads, words};
  if (rule.quantized() && rule.of_whole_tensor()) {
    LayerOperand o = make.codes(x.values, rule.block, false, {});
    if (!x.by_token) return o;
    o.rows = std::ssize(routed.row_token);
    Tensor codes = make_tensor(rule.format, {o.rows, o.cols}, "gathered rows");
    const std::size_t width = static_cast<std::size_t>(o.cols) * size_of(rule.format);
    for (std::size_t i = 0; i < routed.row_token.size() && width != 0; ++i) {
      std::memcpy(codes.data.data() + i * width,
                  o.quantized.codes.data.data() + static_cast<std::size_t>(routed.row_token[i]) * width, width);
    }
    o.quantized.codes = std::move(codes);
    return o;
  }
  if (!x.by_token) return make.along_tokens(x.values, routed.offsets);
  const std::vector<std::byte> rows = gathered(x.values, routed.row_token);
  return make.along_tokens(rows_of(rows, x.values, routed.row_token.size()), routed.offsets);
}

LayerOperand weight_operand(const OperandRule& rule, const MatrixView& w, std::int64_t experts, int threads,
                            const OperandWords& words) {
  const OperandMaker make{rule, threads, words};
  if (rule.quantized() && rule.of_whole_tensor()) return make.codes(w, rule.block, false, {});
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t e = 1; e <= experts; ++e) offsets.push_back(w.rows / experts * e);
  return make.in_order(w, rule.block, offsets);
}

float alpha_of(const LayerOperand& a, const LayerOperand& b) {
  const auto outer = [](const LayerOperand& x) {
    if (!x.is_quantized || x.quantized.levels.size() < 2 || x.quantized.levels[1].scales.empty()) return 1.0F;
    const auto [multiplier, divisor] = x.quantized.levels[1].multiplier_and_divisor(0);
    return static_cast<float>(multiplier / divisor);
  };
  return outer(a) * outer(b);
}

std::vector<float> values_of(const LayerOperand& x, std::span<const std::int64_t> offsets, int threads) {
  if (x.is_quantized) {
    const bool restarts = x.quantized.block().rows > 1;
    return dequantize(x.quantized, restarts ? offsets : std::span<const std::int64_t>(), threads);
  }
  std::vector<float> values(x.values.size());
  const MatrixView view{Format::bf16, std::as_bytes(std::span(x.values)).data(), x.rows, x.cols, x.cols};
  const auto width = static_cast<std::size_t>(x.cols);
  for (std::int64_t row = 0; row < x.rows; ++row)
    view.read_row(row, std::span(values).subspan(static_cast<std::size_t>(row) * width, width));
  return values;
}

MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract) {
  MatmulOperand m;
  m.format = rule.format;
  if (!rule.quantized()) return m;
  // One scale for all: blocks of any size, whose strides are 0.
  m.block = rule.of_whole_tensor() ? BlockShape{1, contract.promotion != 0 ? contract.promotion : 32} : rule.block;
  m.scale_format = any_recipe_named(rule.scales).scale_format();
  return m;
}

MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract, const LayerOperand& x, Depth depth,
                         std::int64_t experts) {
  MatmulOperand m = operand_of(rule, contract);
  const QuantizedTensor& q = x.quantized;
  m.codes = x.is_quantized ? static_cast<const void*>(q.codes.data.data()) : x.values.data();
  m.scales = q.scales().data.data();
  const bool one_scale = rule.quantized() && rule.of_whole_tensor();
  m.rows = x.rows / experts, m.depth = x.cols;
  m.row_stride = x.cols, m.depth_stride = 1;
  m.scale_row_stride = one_scale ? 0 : q.scale_cols(), m.scale_depth_stride = one_scale ? 0 : 1;
  if (depth == Depth::rows) {
    std::swap(m.rows, m.depth);
    std::swap(m.row_stride, m.depth_stride);
    std::swap(m.scale_row_stride, m.scale_depth_stride);
  }
  return m;
}

}  // namespace mxcheck

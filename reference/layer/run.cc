#include "reference/layer/run.h"

#include <cstring>
#include <string>
#include <utility>

#include "numerics/error.h"

namespace mxcheck {
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
  m.gathers = a.by_token;
  if (a.by_token) m.row_index = routes.row_token;
  matmul(m, out);
}

void Run::multiply_along_tokens(LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) const {
  if (layer.known != nullptr) return;
  Matmul m = product(gemm);
  m.a = operand_of(rule(gemm).a, m.contract, a, Depth::rows);
  m.b = operand_of(rule(gemm).b, m.contract, b, Depth::rows);
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

}  // namespace mxcheck

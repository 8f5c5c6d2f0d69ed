#pragma once
// A layer, its routes and sizes, checked, with what the forward and the backward pass share. For layer.cc and
// backward.cc. Errors: those of layer.h.

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/layer/aggregate.h"
#include "reference/layer/layer.h"

namespace mxcheck {

using Words = std::vector<std::uint16_t>;

inline float fp32_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

inline MatrixView view(std::span<const std::uint16_t> words, std::int64_t rows, std::int64_t cols) {
  return {Format::bf16, std::as_bytes(words).data(), rows, cols, cols};
}
inline MatrixView view(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
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
std::span<T> row_of(std::span<T> v, std::int64_t row, std::int64_t cols) {
  return v.subspan(static_cast<std::size_t>(row * cols), static_cast<std::size_t>(cols));
}
template <class T>
std::span<T> row_of(std::vector<T>& v, std::int64_t row, std::int64_t cols) {
  return row_of(std::span(v), row, cols);
}

struct Run {
  const Layer& layer;
  const LayerRoutes& routes;
  std::int64_t tokens = 0, d = 0, n = 0, experts = 0, rows = 0;

  // `input` is the name of the tensor of T x d elements that the pass takes.
  Run(const Layer& l, const LayerRoutes& r, const char* input, std::size_t input_size);

  [[nodiscard]] RoutedRows routed() const { return {routes.row_token, routes.offsets}; }
  [[nodiscard]] TokenSlots slots() const { return {routes.token_offsets, routes.token_rows}; }
  [[nodiscard]] const GemmRule& rule(LayerGemm g) const { return layer.recipe->gemm(g); }

  // Operands of a GEMM by its rule: A in rows of tokens, A or B (`b`) along tokens, B of weights.
  [[nodiscard]] LayerOperand row(LayerGemm gemm, const TokenRows& x) const;
  [[nodiscard]] LayerOperand column(LayerGemm gemm, bool b, const TokenRows& x) const;
  [[nodiscard]] LayerOperand weight(LayerGemm gemm, const MatrixView& w) const;

  // B of d_down or d_up, w being W2 or W1 as it lies. Where the rule takes it from `forward`, the operand of down or up
  // (E x d x n, E x 2n x d), w is not read.
  [[nodiscard]] LayerOperand backward_weight(LayerGemm gemm, const MatrixView& w, const LayerOperand* forward) const;
  [[nodiscard]] bool requantizes_weight(LayerGemm gemm) const;

  // B of up or down.
  [[nodiscard]] LayerOperand forward_weight(LayerGemm gemm) const;

  // Each expert's matrix, rows x cols, as cols x rows.
  template <class T>
  [[nodiscard]] std::vector<T> transposed(std::span<const T> w, std::int64_t w_rows, std::int64_t w_cols) const {
    std::vector<T> out(w.size());
    each_row(experts * w_cols, w_rows, [&](std::int64_t to) {
      const std::int64_t from = to / w_cols * w_rows * w_cols + to % w_cols;
      for (std::int64_t i = 0; i < w_rows; ++i)
        out[static_cast<std::size_t>(to * w_rows + i)] = w[static_cast<std::size_t>(from + i * w_cols)];
    });
    return out;
  }
  [[nodiscard]] Words transposed(const Words& w, std::int64_t w_rows, std::int64_t w_cols) const {
    return transposed(std::span<const std::uint16_t>(w), w_rows, w_cols);
  }

  // Rows of tokens by an expert's weights, or what is known of it.
  void multiply(LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) const;

  // The gradient of each expert's weights, along its tokens.
  void multiply_along_tokens(LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) const;

  // body(row) for each of `count` rows of `cols` elements.
  template <class Body>
  void each_row(std::int64_t count, std::int64_t cols, Body body) const {
    parallel_ranges(count, count * cols, layer.threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }

 private:
  void copy_known(LayerGemm gemm, void* out) const;
  [[nodiscard]] Matmul product(LayerGemm gemm) const;
};

}  // namespace mxcheck

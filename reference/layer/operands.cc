#include "reference/layer/operands.h"

#include <cstring>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/scale/recipe.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
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

LayerOperand as_codes(const OperandRule& rule, const MatrixView& x, BlockShape block, bool by_token,
                      std::span<const std::int64_t> offsets, int threads) {
  LayerOperand o = shaped(x, by_token);
  o.is_quantized = true;
  o.quantized = quantize(x, rule.format, block, recipe_named(rule.scales), offsets, threads);
  return o;
}

LayerOperand made(const OperandRule& rule, const MatrixView& x, BlockShape block, std::span<const std::int64_t> offsets,
                  int threads) {
  return rule.quantized() ? as_codes(rule, x, block, false, offsets, threads) : as_values(x, false);
}

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

LayerOperand row_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads) {
  if (!rule.quantized()) return as_values(x.values, x.by_token);
  if (rule.block.rows <= 1) return as_codes(rule, x.values, rule.block, x.by_token, {}, threads);
  if (!x.by_token) return as_codes(rule, x.values, rule.block, false, routed.offsets, threads);
  const std::vector<std::byte> rows = gathered(x.values, routed.row_token);
  return as_codes(rule, rows_of(rows, x.values, routed.row_token.size()), rule.block, false, routed.offsets, threads);
}

LayerOperand column_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads) {
  if (rule.quantized() && rule.of_whole_tensor()) {
    LayerOperand o = as_codes(rule, x.values, rule.block, false, {}, threads);
    if (!x.by_token) return o;
    std::vector<std::uint8_t> codes;
    const std::int64_t width = o.cols;
    resize_or_throw(codes, checked_product(std::ssize(routed.row_token), width, "gathered rows"), "gathered rows");
    for (std::size_t i = 0; i < routed.row_token.size() && width != 0; ++i) {
      std::memcpy(codes.data() + static_cast<std::int64_t>(i) * width,
                  o.quantized.codes.data() + routed.row_token[i] * width, static_cast<std::size_t>(width));
    }
    o.quantized.codes = std::move(codes);
    o.rows = o.quantized.rows = std::ssize(routed.row_token);
    return o;
  }
  const BlockShape block = rule.block.transposed();
  if (!x.by_token) return made(rule, x.values, block, routed.offsets, threads);
  const std::vector<std::byte> rows = gathered(x.values, routed.row_token);
  return made(rule, rows_of(rows, x.values, routed.row_token.size()), block, routed.offsets, threads);
}

LayerOperand weight_operand(const OperandRule& rule, const MatrixView& w, std::int64_t experts, int threads) {
  if (rule.quantized() && rule.of_whole_tensor()) return as_codes(rule, w, rule.block, false, {}, threads);
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t e = 1; e <= experts; ++e) offsets.push_back(w.rows / experts * e);
  return made(rule, w, rule.block, offsets, threads);
}

std::vector<float> values_of(const LayerOperand& x, std::span<const std::int64_t> offsets, int threads) {
  if (x.is_quantized) {
    const bool restarts = x.quantized.block.rows > 1;
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
  m.scale_format = recipe_named(rule.scales).has_e8m0_scales() ? Format::e8m0 : Format::fp32;
  return m;
}

MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract, const LayerOperand& x, Depth depth,
                         std::int64_t experts) {
  MatmulOperand m = operand_of(rule, contract);
  const Quantized& q = x.quantized;
  m.codes = x.is_quantized ? static_cast<const void*>(q.codes.data()) : x.values.data();
  m.scales = q.scales_fp32.empty() ? static_cast<const void*>(q.scales.data()) : q.scales_fp32.data();
  const bool one_scale = rule.quantized() && rule.of_whole_tensor();
  m.rows = x.rows / experts, m.depth = x.cols;
  m.row_stride = x.cols, m.depth_stride = 1;
  m.scale_row_stride = one_scale ? 0 : q.scale_cols, m.scale_depth_stride = one_scale ? 0 : 1;
  if (depth == Depth::rows) {
    std::swap(m.rows, m.depth);
    std::swap(m.row_stride, m.depth_stride);
    std::swap(m.scale_row_stride, m.scale_depth_stride);
  }
  return m;
}

}  // namespace mxcheck

#pragma once
// Operands of the layer's GEMMs: a tensor in BF16, or quantized by a rule, and how a matmul reads it.
//
//   const LayerOperand x = row_operand(recipe.gemm(LayerGemm::up).a, tokens_by_d, routes, threads);
//
// Errors: those of quantize.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layer/layer_recipe.h"
#include "reference/matmul/matmul.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

// In memory rows x cols, as its tensor lies: rows of tokens, or of one expert's weights after another's.
struct LayerOperand {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool by_token = false;  // a row a token, which the GEMM gathers; else in the order of the routed rows
  bool is_quantized = false;
  std::vector<std::uint16_t> values;  // BF16, where it is not quantized
  QuantizedTensor quantized;          // blocks as they lie in memory: 32x1 where 32 tokens share a scale
};

// A tensor of rows of tokens, by token or in the order of the routed rows.
struct TokenRows {
  MatrixView values;
  bool by_token = false;
};

// Which rows there are: row_token[i] is the token of row i, sorted by expert.
struct RoutedRows {
  std::span<const std::int32_t> row_token;
  std::span<const std::int64_t> offsets;
};

// An operand of a GEMM that sums along the tensor's columns. Blocks of one row, and of the whole tensor, are quantized
// before rows are gathered; others after it.
LayerOperand row_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads);

// An operand of a GEMM that sums along tokens: gathered, in columns of tokens of one expert. The whole tensor as one
// block is quantized before rows are gathered.
LayerOperand column_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads);

// Weights, k last, one expert's rows after another's; blocks start again at each expert.
LayerOperand weight_operand(const OperandRule& rule, const MatrixView& w, std::int64_t experts, int threads);

// The tensor again in FP32: code * scale, rounded once.
std::vector<float> values_of(const LayerOperand& x, std::span<const std::int64_t> offsets, int threads);

// Format, blocks and scales of an operand under a contract, without a tensor.
MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract);

enum class Depth : std::uint8_t { columns, rows };  // of the memory: which k runs along
MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract, const LayerOperand& x, Depth depth,
                         std::int64_t experts = 1);

// Rows `index` of x, one after another.
std::vector<std::byte> gathered(const MatrixView& x, std::span<const std::int32_t> index);

}  // namespace mxcheck

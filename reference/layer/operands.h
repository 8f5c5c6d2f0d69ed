#pragma once
// Operands of the layer's GEMMs: a tensor in BF16, or quantized by a rule, and how a matmul reads it.
//
//   const LayerOperand x = row_operand(recipe.gemm(LayerGemm::up).a, tokens_by_d, routes, threads);
//
// Under scales of two levels a GEMM multiplies code * block scale, which BF16 holds exactly, and its alpha is
// RN(A * B) of the two tensors' outer scales: A = s where s is stored, RN(1 / S) where S is, RN(amax / (L * 6)) where
// the amax is (numerics/scale/two_level.h), and 1 for an operand without an outer scale.
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
  std::vector<std::uint16_t> values;   // BF16, where it is not quantized
  QuantizedTensor quantized;           // blocks as they lie in memory: 32x1 where 32 tokens share a scale
  std::vector<std::uint16_t> rotated;  // BF16, the tensor that was quantized, where the rule rotates it
};

// A tensor of rows of tokens, by token or in the order of the routed rows.
struct TokenRows {
  MatrixView values;
  bool by_token = false;
};

// The rows of all experts: row_token[i] is the token of row i, sorted by expert.
struct RoutedRows {
  std::span<const std::int32_t> row_token;
  std::span<const std::int64_t> offsets;
};

// The source of the random words of a layer's stochastic rounding.
struct LayerRandom {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;  // below 2^16
  friend bool operator==(const LayerRandom&, const LayerRandom&) = default;
};

// The words of one operand: that of element i of the tensor as it is quantized (row-major; gathered first where it is
// quantized after that) is philox_word(seed, i mod 2^32, i / 2^32, 2^31 + layer * 2^8 + operand, step), the operand
// being 2 * gemm, or 2 * gemm + 1 for B (LayerGemm). Random signs of a rotation are the words 0 to 3 of "operand"
// 16 + gemm, the same for A and B: element i of every group changes its sign if bit i mod 32 of word i / 32 is set.
struct OperandWords {
  LayerRandom random;
  std::uint32_t operand = 0;
  [[nodiscard]] std::uint32_t signs() const { return 16 + operand / 2; }
};
inline OperandWords words_of(const LayerRandom& random, LayerGemm gemm, bool b) {
  return {random, 2 * static_cast<std::uint32_t>(gemm) + (b ? 1U : 0U)};
}

// An operand of a GEMM that sums along the tensor's columns. Blocks of one row, and of the whole tensor, are quantized
// before rows are gathered; others after it. Words are for a rule that rounds stochastically.
LayerOperand row_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads,
                         const OperandWords& words = {});

// An operand of a GEMM that sums along tokens: gathered, in columns of tokens of one expert. The whole tensor as one
// block is quantized before rows are gathered.
LayerOperand column_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads,
                            const OperandWords& words = {});

// Weights, k last, one expert's rows after another's; blocks start again at each expert.
LayerOperand weight_operand(const OperandRule& rule, const MatrixView& w, std::int64_t experts, int threads,
                            const OperandWords& words = {});

// A GEMM's alpha, of its operands' outer scales; 1 where neither has one.
float alpha_of(const LayerOperand& a, const LayerOperand& b);

// The tensor again in FP32: code * scale, rounded once. One that was rotated is not rotated back.
std::vector<float> values_of(const LayerOperand& x, std::span<const std::int64_t> offsets, int threads);

// Format, blocks and scales of an operand under a contract, without a tensor.
MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract);

enum class Depth : std::uint8_t { columns, rows };  // of the memory: which k runs along
MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract, const LayerOperand& x, Depth depth,
                         std::int64_t experts = 1);

// Rows `index` of x, one after another.
std::vector<std::byte> gathered(const MatrixView& x, std::span<const std::int32_t> index);

}  // namespace mxcheck

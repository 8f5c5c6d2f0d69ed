#pragma once
// Gathered, contiguous rows of an operand with their scales. For matmul.cc and explain.cc, after the checks of
// parts.h. Errors: Error{usage} of exact_factors.

#include <cstdint>
#include <vector>

#include "reference/matmul/matmul.h"

namespace mxcheck {

// A window of an operand: `rows` of them (by index, or from `first_row` on), k from first_k on. Blocks of scales begin
// at the window's first row and k: scale (i, b) of the window lies scale_row + i / block.rows, scale_depth + b.
struct OperandWindow {
  const MatmulOperand* operand = nullptr;
  const std::int32_t* index = nullptr;  // rows of the operand; null: first_row + i
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t first_k = 0;
  std::int64_t depth = 0;
  std::int64_t scale_row = 0;
  std::int64_t scale_depth = 0;

  [[nodiscard]] OperandWindow rows_from(std::int64_t row, std::int64_t count) const;  // row: a multiple of block.rows
  [[nodiscard]] std::uint32_t code(std::int64_t i, std::int64_t k) const;
  [[nodiscard]] std::uint32_t scale_code(std::int64_t i, std::int64_t k) const;  // byte, or FP32 word
  [[nodiscard]] float scale(std::int64_t i, std::int64_t k) const;               // NaN for 255; 1 without scales
};

// Codes of the window row by row, as words of `width` bytes.
std::vector<std::byte> gathered_codes(const OperandWindow& w);
std::size_t code_width(Format format);

// RN(code * scale) as BF16 codes, or as FP32 words: +decode, and the operands of ieee_fp32.
std::vector<std::uint16_t> decoded_bf16(const OperandWindow& w);
std::vector<std::uint32_t> decoded_fp32(const OperandWindow& w);

// Row i as exact factors, each with its scale in it. Error{usage} where a significand would need more than 32 bits.
std::vector<Factor> exact_factors(const OperandWindow& w, std::int64_t i);

// Row i as the contract reads its codes.
std::vector<Factor> plain_factors(const Contract& contract, const OperandWindow& w, std::int64_t i);

// Row i's scales, one for every `terms` products.
std::vector<std::uint8_t> step_scales(const OperandWindow& w, std::int64_t i, std::int64_t terms);

// A matmul as the matmuls of its groups. For matmul.cc and explain.cc; a checked matmul (checks.h), so no errors.

struct MatmulPart {
  std::int64_t expert = 0;
  OperandWindow a;
  OperandWindow b;
  std::int64_t d_first = 0;  // element of D (and C) that (0, 0) of this part is
};

// One part without groups, else one for each expert, empty ones included.
std::vector<MatmulPart> parts_of(const Matmul& m);

// The word of D where the sum is `acc` and, if adds_c, C is `c`.
std::uint32_t finished_word(const Matmul& m, std::uint32_t acc, std::uint32_t c, bool adds_c);

// Refuses operands, scales, groups and contracts that do not fit one another. Errors: Error{usage} naming what does
// not, and what would.

void check_matmul(const Matmul& m);

}  // namespace mxcheck

#pragma once
// The recipes of a layer that the library has kernels for, as docs/layer.md's table has them.

#include <cstdint>
#include <string_view>

#include "kernels/common/layer/policy.h"
#include "kernels/sm90/moe/quantize/round_trip.h"

namespace mxcheck_kernels::sm90 {

enum class MoeOperands : std::uint8_t {
  bf16,     // as they are
  rounded,  // BF16 again after a block format, blocks of 32: the contract sm90_bf16+decode decodes before it multiplies
  blocks,   // FP8: blocks of 1 x 128, of weights 128 x 128; X is kept as codes
  tensors,  // FP8: a scale for the whole tensor
};

struct MoeRecipe {
  std::string_view name;
  MoeOperands operands = MoeOperands::bf16;
  // Rounded: of activations and weights; of dO and dH.
  RoundRule value, gradient;
  // FP8, E4M3 everywhere.
  CodeScale scale = CodeScale::fp32;
  bool square_gradients = false;  // dO and dH in blocks of 128 x 128 of an expert's rows
  bool keeps_e5m6 = false;        // H

  [[nodiscard]] bool fp8() const { return operands == MoeOperands::blocks || operands == MoeOperands::tensors; }
  [[nodiscard]] bool keeps_codes() const { return operands == MoeOperands::blocks; }
};

// Throws Refusal: INVALID for no name, UNSUPPORTED for another than those offered.
const MoeRecipe& moe_recipe_named(const char* name);

}  // namespace mxcheck_kernels::sm90

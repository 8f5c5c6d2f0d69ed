#pragma once
// The recipes of a layer that the library has kernels for, as docs/layer.md's table has them.

#include <cstdint>
#include <string_view>

#include "kernels/common/layer/policy.h"
#include "kernels/sm90/moe/quantize/round_trip.h"

namespace mxcheck_kernels::sm90 {

enum class MoeOperands : std::uint8_t {
  bf16,    // as they are
  rounded  // BF16 again after a block format, blocks of 32: the contract sm90_bf16+decode decodes before it multiplies
};

struct MoeRecipe {
  std::string_view name;
  MoeOperands operands = MoeOperands::bf16;
  // Rounded: of activations and weights; of dO and dH.
  RoundRule value, gradient;
};

// Throws Refusal: INVALID for no name, UNSUPPORTED for another than those offered.
const MoeRecipe& moe_recipe_named(const char* name);

}  // namespace mxcheck_kernels::sm90

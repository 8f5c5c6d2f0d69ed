#pragma once
// The recipes of a layer that the library has kernels for, as docs/layer.md's table has them.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/common/layer/policy.h"
#include "kernels/sm90/moe/quantize/round_trip.h"

namespace mxcheck_kernels::sm90 {

enum class MoeOperands : std::uint8_t {
  values,   // BF16, as they are or rounded to a block format with blocks of 32: sm90_bf16+decode decodes, then
            // multiplies
  blocks,   // FP8: blocks of 1 x 128, of weights 128 x 128; X is kept as codes
  tensors,  // FP8: a scale for the whole tensor
};

// Operands of the six GEMMs, in docs/layer.md's order.
enum class RoundedOperand : std::uint8_t {
  up_x,
  up_w1,
  down_a,
  down_w2,
  d_down_do,
  d_down_w2,
  d_up_dh,
  d_up_w1,
  d_w2_a,
  d_w2_do,
  d_w1_x,
  d_w1_dh,
};
inline constexpr std::size_t kRoundedOperands = 12;
using RoundRules = std::array<std::optional<RoundRule>, kRoundedOperands>;  // none: the operand stays as it is

struct MoeRecipe {
  std::string_view name;
  MoeOperands operands = MoeOperands::values;
  RoundRules rules{};
  // FP8, E4M3 everywhere.
  CodeScale scale = CodeScale::fp32;
  bool square_gradients = false;  // dO and dH in blocks of 128 x 128 of an expert's rows
  bool keeps_e5m6 = false;        // H

  [[nodiscard]] const std::optional<RoundRule>& rule(RoundedOperand operand) const {
    return rules[static_cast<std::size_t>(operand)];
  }
  [[nodiscard]] bool fp8() const { return operands == MoeOperands::blocks || operands == MoeOperands::tensors; }
  [[nodiscard]] bool keeps_codes() const { return operands == MoeOperands::blocks; }
};

// A name of docs/layer.md's, or a recipe written out: "mx32" and a word for each operand, in their order, with a space
// between two: "bf16", or a format and the rule of its scales, "e3m2.rceil". Formats are e4m3, e5m2, e2m1, e2m3, e3m2,
// rules rceil and floor. The recipe lives as long as the library.
// Throws Refusal: INVALID for no name, UNSUPPORTED for another than those offered.
const MoeRecipe& moe_recipe_named(const char* name);

}  // namespace mxcheck_kernels::sm90

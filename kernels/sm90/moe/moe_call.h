#pragma once
// A call of kernels/candidate_moe.h: its recipe, policy and tensors, checked against one another before anything is
// read through them. Recipes are those of docs/layer.md's table that the library has kernels for. All throw Refusal.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "kernels/candidate_kept_weights.h"
#include "kernels/candidate_moe.h"
#include "kernels/common/arguments.h"
#include "kernels/common/layer/policy.h"
#include "kernels/sm90/moe/ms_eden.h"
#include "kernels/sm90/moe/round_trip.h"
#include "kernels/sm90/moe/two_level.h"

namespace mxcheck_kernels::sm90 {

enum class MoeOperands : std::uint8_t {
  values,   // BF16, as they are or rounded to a block format with blocks of 32, or to NVFP4: sm90_bf16+decode
            // decodes, then multiplies
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
using OperandRule = std::variant<RoundRule, TwoLevelRule, MsEdenRule>;
using RoundRules = std::array<std::optional<OperandRule>, kRoundedOperands>;  // none: the operand stays as it is

struct MoeRecipe {
  std::string_view name;
  MoeOperands operands = MoeOperands::values;
  RoundRules rules{};
  // FP8, E4M3 everywhere.
  CodeScale scale = CodeScale::fp32;
  bool square_gradients = false;  // dO and dH in blocks of 128 x 128 of an expert's rows
  bool keeps_e5m6 = false;        // H

  [[nodiscard]] const std::optional<OperandRule>& rule(RoundedOperand operand) const {
    return rules[static_cast<std::size_t>(operand)];
  }
  // True if outputs depend on the seed, the step and the layer.
  [[nodiscard]] bool stochastic() const;
  [[nodiscard]] bool fp8() const { return operands == MoeOperands::blocks || operands == MoeOperands::tensors; }
  [[nodiscard]] bool keeps_codes() const { return operands == MoeOperands::blocks; }
  // True if a pass computes something of both weights that is the same at each call with them.
  [[nodiscard]] bool keeps_weights(bool backward) const;
};

// A name of docs/layer.md's, or a recipe written out: "mx32" and a word for each operand, in their order, with a space
// between two: "bf16", or a format and the rule of its scales, "e3m2.rceil". Formats are e4m3, e5m2, e2m1, e2m3, e3m2,
// rules rceil and floor. The recipe lives as long as the library.
// Throws Refusal: INVALID for no name, UNSUPPORTED for another than those offered.
const MoeRecipe& moe_recipe_named(const char* name);

struct MoeTensors {
  Checked x, w1, w2, d_o;       // x of the backward pass: where it was kept in BF16
  Checked h, h_scales;          // as H is kept: an output of the forward pass, an input of the backward pass
  Checked kept_x, kept_scales;  // the same of X, where it is kept in codes
  Checked o, dx, dw1, dw2, ds;
  Checked row_token, row_weight, token_offsets, token_rows, offsets;
};

struct MoeCall {
  const MoeRecipe* recipe = nullptr;
  bool backward = false;
  bool interleaved = false;  // gate and up columns of H and W1
  std::int64_t tokens = 0;
  std::int64_t d = 0;
  std::int64_t n = 0;
  std::int64_t experts = 0;
  std::int64_t routed = 0;
  std::int64_t slots = 0;
  MoeTensors tensors;  // all without data where there is no workspace
  // Stochastic rounding draws its words by these.
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  mxcheck_kept_weights kept{};  // mode 0: weights are read as ever
  void* workspace = nullptr;
  mxcheck_device_report* report = nullptr;

  // True if what the pass computes of weights goes to, or comes from, the caller's memory; if it reads w1 and w2.
  [[nodiscard]] bool keeps_weights() const { return kept.mode != 0; }
  [[nodiscard]] bool quantizes_weights() const { return kept.mode == 0 || kept.mode == MXCHECK_WEIGHTS_KEEP; }
  [[nodiscard]] bool reads_weights() const { return kept.mode != MXCHECK_WEIGHTS_KEPT; }
};

// Checks a policy that "supports" is asked about: extents may be 0.
void check_moe_policy(const mxcheck_policy* policy, DLDataType wide, bool backward);

// The whole call; without a workspace the policy alone, whose extents say what a workspace needs.
MoeCall read_moe_call(const mxcheck_call& call, bool backward);

template <class T>
T* data_of(const Checked& tensor) {
  return static_cast<T*>(tensor.data);
}

}  // namespace mxcheck_kernels::sm90

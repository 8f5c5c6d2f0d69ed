#pragma once
// Each tensor of a layer made again from the tensors before it, of whatever run they are: by it a dump's own errors do
// not cascade. The layer's definition is reference/layer's; here is which tensor follows from which.
//
//   LayerData own = reference;  set_tensor(own, "H", bytes of the dump);
//   made_again(own, "A")                                   // what the dump's own H gives
//
// Errors: those of the layer; Error{internal} for a name that the layer has not.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "goldens/layer/layer_file.h"
#include "numerics/names.h"
#include "properties/core/definitions.h"

namespace mxcheck {

enum class Side : std::uint8_t { a, b };

// Puts bytes in place of a tensor's, of the same size.
void set_tensor(LayerData& d, const std::string& name, const Bytes& bytes);
Bytes bytes_of_tensor(LayerData& d, const std::string& name);

// The GEMM whose D, or part of an operand, the tensor is: its name ends with the part's.
enum class OperandPart : std::uint8_t { codes, scales, outer, rotated };
inline constexpr std::array<Named<OperandPart>, 4> kOperandParts{{{"codes", OperandPart::codes},
                                                                  {"scales", OperandPart::scales},
                                                                  {"outer", OperandPart::outer},
                                                                  {"rotated", OperandPart::rotated}}};
struct GemmTensor {
  LayerGemm gemm;
  bool is_output = false;
  Side side = Side::a;
  OperandPart part = OperandPart::codes;
};
// The part's bytes; none of one that the operand has not.
Bytes part_of(const LayerOperand& x, OperandPart part);
std::optional<GemmTensor> gemm_tensor(const std::string& name);

const OperandRule& rule_of(const LayerRecipe& recipe, LayerGemm gemm, Side side);
OperandRule& rule_of(LayerRecipe& recipe, LayerGemm gemm, Side side);

// The operand made of the tensor's values, by the rule of d.recipe.
LayerOperand operand_from_values(const LayerData& d, LayerGemm gemm, Side side);
// The tensor as d holds it.
LayerOperand operand_as_held(const LayerData& d, LayerGemm gemm, Side side);
// D of these operands under d.recipe's contract; in FP32 where that is asked for in place of BF16.
Bytes product(const LayerData& d, LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, bool in_fp32 = false);

// H as the SwiGLU reads it: forward in BF16, backward what was kept.
std::vector<float> values_of_h(const LayerData& d, bool kept);

// The tensor made of operands as d holds them; none of inputs, routes and d_logits, which the layer does not make.
Bytes made_again(const LayerData& d, const std::string& name);
// A GEMM's D with its operands made from values first; of other tensors the same as made_again.
Bytes made_from_values(const LayerData& d, const std::string& name);

// Products of two numbers that making the tensor takes, about.
double cost_of(const LayerData& d, const std::string& name);

}  // namespace mxcheck

#pragma once
// Which tensors of a layer one is made of. No errors: of a name that the layer has not, none.

#include <optional>
#include <string>
#include <vector>

#include "reference/layer/layer_recipe.h"

namespace mxcheck {

// Computed ones, without the operands between them: "A" of "Y".
std::vector<std::string> made_of(const std::string& name);

// The same with what a GEMM and its operands are made of: "scaled_A" and "dO" of "dW2".
std::vector<std::string> inputs_of(const std::string& name);

// Whose D or operand it is.
std::optional<LayerGemm> gemm_of(const std::string& name);

}  // namespace mxcheck

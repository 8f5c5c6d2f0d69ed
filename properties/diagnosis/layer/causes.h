#pragma once
// The faults of the kernels of a mixture-of-experts layer, as a table: a cause is a name, the tensors in which it
// shows, and the bytes that it would give there, made of the run's own earlier tensors. A new one is a row in
// layer_cause_*.cc.

#include <functional>
#include <string>
#include <vector>

#include "properties/diagnosis/layer/steps.h"

namespace mxcheck {

struct LayerCause {
  std::vector<std::string> tensors;
  std::string text;  // what there is in place of the right thing: "gate and up exchanged"
  // The bytes that it gives there, of the tensor's size; anything else, or an Error, means: not applicable.
  std::function<Bytes(const LayerData&, const std::string& tensor)> bytes;
};

// The faults that a kernel can have under the right recipe.
std::vector<LayerCause> structure_causes();
// Every other recipe, scale recipe, format, block and contract: families, made by name.
std::vector<LayerCause> recipe_causes(const LayerRecipe& recipe);

// All that show in the tensor, those of the structure first.
std::vector<LayerCause> layer_causes(const LayerRecipe& recipe, const std::string& tensor);

}  // namespace mxcheck

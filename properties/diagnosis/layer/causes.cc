#include "properties/diagnosis/layer/causes.h"

#include <algorithm>
#include <array>

#include "properties/diagnosis/layer/cause_tables.h"

namespace mxcheck {

std::vector<LayerCause> structure_causes() {
  constexpr std::array kTables{swiglu_causes, swiglu_gradient_causes, weight_gradient_causes, slot_sum_causes,
                               gather_causes, weight_causes,          product_causes,         block_causes};
  std::vector<LayerCause> all;
  for (const auto& table : kTables) {
    for (LayerCause& cause : table()) all.push_back(std::move(cause));
  }
  return all;
}

std::vector<LayerCause> layer_causes(const LayerRecipe& recipe, const std::string& tensor) {
  std::vector<LayerCause> all;
  const auto take = [&](std::vector<LayerCause> from) {
    for (LayerCause& cause : from) {
      const bool shows = std::find(cause.tensors.begin(), cause.tensors.end(), tensor) != cause.tensors.end();
      if (shows) all.push_back(std::move(cause));
    }
  };
  take(structure_causes());
  take(recipe_causes(recipe));
  return all;
}

}  // namespace mxcheck

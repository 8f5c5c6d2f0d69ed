#pragma once
// The table of layers: what the tensors of a layer may be in place of the right ones. A row is a name, the tensors in
// which it shows, and the bytes that it gives there, made of the run's own earlier tensors. The gate's findings,
// `layer --against` and `golden verify` ask it (properties/core/definitions.h).
//
//   slips     of kernels, under the right recipe: "gate and up exchanged" (step_slips.cc)
//   families  every other recipe, scale recipe, format, block and contract: "scales of recipe floor of X"
//   layers    that are another one throughout: "recipe dsv3", "all weights of routes taken for 1"
//
// Errors: those of the layer; a row's own count as: not defined for this layer.
//
// Does not promise: rows of whole layers show in their outputs alone; no other row carries its fault further than to
// the tensor that it is asked for.

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/definitions.h"
#include "properties/operations/layer/steps.h"

namespace mxcheck {

struct LayerRow {
  std::vector<std::string> tensors;
  std::string name;
  // The bytes that it gives there, of the tensor's size; anything else, or an Error, means: not applicable.
  std::function<Bytes(const LayerData&, const std::string& tensor)> bytes;
  std::string source = {};
};

std::vector<LayerRow> layer_slips();
std::vector<LayerRow> layer_families(const LayerRecipe& recipe);

// Random words that leave something out; they change nothing of a recipe that draws none.
struct OtherWords {
  std::string_view name;
  void (*change)(LayerRandom&);
};
inline constexpr std::array<OtherWords, 3> kOtherWords{
    {{"the random words of seed 0", [](LayerRandom& r) { r.seed = 0; }},
     {"the random words of step 0", [](LayerRandom& r) { r.step = 0; }},
     {"the random words of layer 0", [](LayerRandom& r) { r.layer = 0; }}}};
// All that show in the tensor, slips first.
std::vector<LayerRow> layer_rows(const LayerRecipe& recipe, const std::string& tensor);

// A layer of one column whose H, P, weights of rows and experts are these and whose A and A' follow; P may be empty.
std::shared_ptr<LayerData> layer_of_swiglu(std::vector<std::uint16_t> h, std::vector<float> p,
                                           std::vector<float> weights, std::vector<std::int64_t> offsets, GateUp order);
// The slips of a step alone, a layer of whose tensors are zeros but for what the step reads: output i is tensors[i].
// Rows of one name are one. What comes of the zeros alone is left out.
Table step_definitions(const std::shared_ptr<const LayerData>& d, const std::vector<std::string>& tensors);

struct OtherLayer {
  std::string name;
  std::function<void(LayerRecipe&, GateUp&, LayerRoutes&)> change;
};
std::vector<OtherLayer> other_layers(const LayerRecipe& own);

}  // namespace mxcheck

#pragma once
// A layer's recipe as JSON: written whole, read whole or as what differs from a built-in one. docs/layer.md has the
// format.
//
//   const LayerRecipe r = read_layer_recipe("mine.json");
//   to_text(layer_recipe_json(r))                           // which layer_recipe_from takes, and gives r again
//
// Reading is strict: Error{usage} for an unknown or repeated key, a wrong type, a field that is missing, a name that
// there is not, and for a recipe that cannot be (check of reference/layer/layer_recipe.h), each with its place as a
// JSON path ("mine.json: $.gemms[2].a.block: ..."). What follows from the layer itself (formula, tensor, k, output) may
// be there, as layer_recipe_json writes it, and is refused where it is anything else.

#include <map>
#include <string>

#include "goldens/json/json.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck {

Json layer_recipe_json(const LayerRecipe& recipe);

// `where` is for messages: the file's name.
LayerRecipe layer_recipe_from(std::string_view text, const std::string& where);
LayerRecipe read_layer_recipe(const std::string& path);

// "mine.json" is a file, all else the name of a built-in recipe.
LayerRecipe layer_recipe_at(const std::string& name_or_file);

// "1x32", "tensor"
std::string block_text(const OperandRule& rule);

// For a file of tensors: "recipe" with all of it as one line of JSON, and one entry a fact: "up.contract",
// "up.a.format", "up.a.block", "up.a.scales", "up.a.source", ..., "keeps_quantized_x", "kept_h.format", ...
std::map<std::string, std::string> layer_recipe_attributes(const LayerRecipe& recipe);

}  // namespace mxcheck

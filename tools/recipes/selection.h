#pragma once
// The comparison that mxcheck recipes makes: the product of formats, blocks and recipes, and the tensors, from what the
// command line names.

#include <string>
#include <vector>

#include "tools/recipes/recipes.h"

namespace mxcheck {

// One of each family that writes other bytes; docs/recipes.md lists them.
inline constexpr const char* kDefaultRecipes =
    "rceil,floor,ceil,even,fp32,deepgemm_host,deepgemm_fp32,dsv3,microxcaling_python,thunderkittens";

struct RecipeSelection {
  std::vector<std::string> formats{"e4m3", "e5m2"};
  std::vector<std::string> blocks{"1x32"};
  std::vector<std::string> recipes;  // names, globs and "all"; empty: the default ones
  std::string direction = "row";     // blocks as named; "col": turned; "both"
};

// Each once, by format, block and recipe, in the order in which they are named. Error{usage} for a name that is none,
// and for a glob that matches nothing.
std::vector<Combination> combinations(const RecipeSelection& selection);

// real:GLOB stands for each embedded tensor that matches; other inputs for themselves. Error{usage} when none does.
std::vector<std::string> expanded(const std::vector<std::string>& inputs);

}  // namespace mxcheck

#include "tools/recipes/selection.h"

#include <fnmatch.h>

#include <algorithm>
#include <string_view>

#include "goldens/format/quantized_file.h"
#include "goldens/make/embedded.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<Recipe> chosen_recipes(const RecipeSelection& o) {
  std::vector<std::string> patterns = o.recipes;
  if (patterns.empty()) {
    for (const std::string_view name : split(kDefaultRecipes, ',')) patterns.emplace_back(name);
  }
  std::vector<Recipe> out;
  const auto add = [&](const Recipe& recipe) {
    const auto same = [&](const Recipe& r) { return r.name == recipe.name; };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(recipe);
  };
  for (const std::string& pattern : patterns) {
    const bool is_glob = pattern.find_first_of("*?[") != std::string::npos;
    if (!is_glob && pattern != "all") {
      add(recipe_named(pattern));
      continue;
    }
    bool any = false;
    for (const Recipe& recipe : all_recipes()) {
      if (pattern != "all" && !matches(pattern, recipe.name)) continue;
      add(recipe);
      any = true;
    }
    if (!any) refuse("--recipe '" + pattern + "' matches no recipe; mxcheck scale --list");
  }
  return out;
}

std::vector<BlockShape> chosen_blocks(const RecipeSelection& o) {
  std::vector<BlockShape> out;
  const auto add = [&](BlockShape shape) {
    if (std::find(out.begin(), out.end(), shape) == out.end()) out.push_back(shape);
  };
  for (const std::string& name : o.blocks) {
    const BlockShape shape = block_shape_named(name);
    if (o.direction != "col") add(shape);
    if (o.direction != "row") add(shape.transposed());
  }
  return out;
}

}  // namespace

std::vector<Combination> combinations(const RecipeSelection& o) {
  std::vector<Combination> out;
  const std::vector<Recipe> recipes = chosen_recipes(o);
  std::vector<Format> formats;
  for (const std::string& name : o.formats) {
    const Format f = element_format_named(name);
    if (std::find(formats.begin(), formats.end(), f) == formats.end()) formats.push_back(f);
  }
  for (const Format format : formats) {
    for (const BlockShape block : chosen_blocks(o)) {
      for (const Recipe& recipe : recipes) out.push_back({format, block, recipe});
    }
  }
  return out;
}

std::vector<std::string> expanded(const std::vector<std::string>& inputs) {
  std::vector<std::string> out;
  for (const std::string& input : inputs) {
    if (!input.starts_with(kRealPrefix) || input.find_first_of("*?[") == std::string::npos) {
      out.push_back(input);
      continue;
    }
    const std::size_t before = out.size();
    for (const Tensor& t : real_tensors().tensors) {
      const std::string name = std::string(kRealPrefix) + t.name;
      if (matches(input, name)) out.push_back(name);
    }
    if (out.size() == before) refuse("'" + input + "' matches no real tensor; 'real:*' takes all of them");
  }
  return out;
}

}  // namespace mxcheck

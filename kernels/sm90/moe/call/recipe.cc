#include "kernels/sm90/moe/call/recipe.h"

#include <array>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "kernels/common/names.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr RoundRule kE4m3{RoundFormat::e4m3, RoundScale::rceil};
constexpr RoundRule kE4m3Floor{RoundFormat::e4m3, RoundScale::floor};
constexpr RoundRule kE5m2{RoundFormat::e5m2, RoundScale::rceil};
constexpr RoundRule kE2m1Raised{RoundFormat::e2m1, RoundScale::deepgemm_host};

// Activations and weights by one rule, dO and dH by another.
constexpr MoeRecipe rounded(std::string_view name, RoundRule value, RoundRule gradient) {
  return {name,
          MoeOperands::values,
          {value, value, value, value, gradient, value, gradient, value, value, gradient, value, gradient}};
}
constexpr MoeRecipe blocks(std::string_view name, CodeScale scale, bool square_gradients, bool keeps_e5m6) {
  return {name, MoeOperands::blocks, {}, scale, square_gradients, keeps_e5m6};
}

constexpr std::array kRecipes{
    MoeRecipe{"bf16"},
    rounded("mxfp8", kE4m3, kE4m3),
    rounded("mxfp8_floor", kE4m3Floor, kE4m3Floor),
    rounded("mxfp8_e5m2_grad", kE4m3, kE5m2),
    rounded("broken", kE4m3, kE2m1Raised),
    blocks("dsv3", CodeScale::fp32, false, false),
    blocks("dsv3_pow2", CodeScale::rceil, false, true),
    blocks("dsv3_128x128_grad", CodeScale::fp32, true, false),
    MoeRecipe{"fp8_tensor", MoeOperands::tensors},
};

}  // namespace

namespace {

struct NamedFormat {
  std::string_view name;
  RoundFormat format;
};
constexpr std::array kFormats{NamedFormat{"e4m3", RoundFormat::e4m3}, NamedFormat{"e5m2", RoundFormat::e5m2},
                              NamedFormat{"e2m1", RoundFormat::e2m1}, NamedFormat{"e2m3", RoundFormat::e2m3},
                              NamedFormat{"e3m2", RoundFormat::e3m2}};

std::optional<RoundRule> rule_of(const std::string& word) {
  if (word == "bf16") return std::nullopt;
  const std::size_t dot = word.find('.');
  const std::string scale = dot == std::string::npos ? "" : word.substr(dot + 1);
  for (const NamedFormat& f : kFormats) {
    if (f.name != std::string_view(word).substr(0, dot)) continue;
    if (scale == "rceil") return RoundRule{f.format, RoundScale::rceil};
    if (scale == "floor") return RoundRule{f.format, RoundScale::floor};
  }
  unsupported("operand '" + word + "' of a recipe is not offered: offered are bf16, and e4m3, e5m2, e2m1, e2m3 and " +
              "e3m2 with .rceil or .floor");
}

constexpr std::string_view kWrittenOut = "mx32 ";

MoeRecipe recipe_written_out(const std::string& text) {
  MoeRecipe recipe;
  std::istringstream words(text.substr(kWrittenOut.size()));
  std::size_t count = 0;
  for (std::string word; words >> word; ++count) {
    if (count < kRoundedOperands) recipe.rules[count] = rule_of(word);
  }
  if (count != kRoundedOperands)
    unsupported("a recipe of " + std::to_string(count) + " operands is not offered: it has 12");
  return recipe;
}

const MoeRecipe& kept_recipe(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, MoeRecipe> recipes;
  const std::lock_guard lock(mutex);
  const auto found = recipes.find(text);
  if (found != recipes.end()) return found->second;
  const MoeRecipe recipe = recipe_written_out(text);
  const auto at = recipes.emplace(text, recipe).first;
  at->second.name = at->first;
  return at->second;
}

}  // namespace

const MoeRecipe& moe_recipe_named(const char* name) {
  if (name != nullptr && std::string_view(name).starts_with(kWrittenOut)) return kept_recipe(name);
  return entry_named(kRecipes, "recipe", "recipe", name, [](const MoeRecipe&) { return true; });
}

}  // namespace mxcheck_kernels::sm90

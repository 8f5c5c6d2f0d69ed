#include "kernels/sm90/moe/call/recipe.h"

#include <array>

#include "kernels/common/names.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr RoundRule kE4m3{RoundFormat::e4m3, RoundScale::rceil};
constexpr RoundRule kE4m3Floor{RoundFormat::e4m3, RoundScale::floor};
constexpr RoundRule kE5m2{RoundFormat::e5m2, RoundScale::rceil};
constexpr RoundRule kE2m1Raised{RoundFormat::e2m1, RoundScale::deepgemm_host};

constexpr std::array kRecipes{
    MoeRecipe{"bf16", MoeOperands::bf16, {}, {}},
    MoeRecipe{"mxfp8", MoeOperands::rounded, kE4m3, kE4m3},
    MoeRecipe{"mxfp8_floor", MoeOperands::rounded, kE4m3Floor, kE4m3Floor},
    MoeRecipe{"mxfp8_e5m2_grad", MoeOperands::rounded, kE4m3, kE5m2},
    MoeRecipe{"broken", MoeOperands::rounded, kE4m3, kE2m1Raised},
};

}  // namespace

const MoeRecipe& moe_recipe_named(const char* name) {
  return entry_named(kRecipes, "recipe", "recipe", name, [](const MoeRecipe&) { return true; });
}

}  // namespace mxcheck_kernels::sm90

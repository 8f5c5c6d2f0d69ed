#include "kernels/sm90/moe/call/recipe.h"

#include <array>

#include "kernels/common/names.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr RoundRule kE4m3{RoundFormat::e4m3, RoundScale::rceil};
constexpr RoundRule kE4m3Floor{RoundFormat::e4m3, RoundScale::floor};
constexpr RoundRule kE5m2{RoundFormat::e5m2, RoundScale::rceil};
constexpr RoundRule kE2m1Raised{RoundFormat::e2m1, RoundScale::deepgemm_host};

constexpr MoeRecipe rounded(std::string_view name, RoundRule value, RoundRule gradient) {
  return {name, MoeOperands::rounded, value, gradient};
}
constexpr MoeRecipe blocks(std::string_view name, CodeScale scale, bool square_gradients, bool keeps_e5m6) {
  return {name, MoeOperands::blocks, {}, {}, scale, square_gradients, keeps_e5m6};
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

const MoeRecipe& moe_recipe_named(const char* name) {
  return entry_named(kRecipes, "recipe", "recipe", name, [](const MoeRecipe&) { return true; });
}

}  // namespace mxcheck_kernels::sm90

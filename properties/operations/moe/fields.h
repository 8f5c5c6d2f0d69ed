#pragma once
// The fields of whole layers, "moe_forward" and "moe_backward" (kernels/candidate_moe.h):
//
//   op=moe_backward recipe=mxfp8 gate_up=halves rows=20 cols=64 inner=32 k=2 experts=0,13,13,32 data=normal seed=7
//   optional: drops=10, with k=0; zero=1 to 7
//
// Rows and cols are tokens and d; experts are offsets of the routed rows of each expert, so that a case says which
// experts have none, one or 129. k: slots of each token, those that no row fills are dropped routes, in any order, as
// token choice with a capacity has them. k=0: each expert draws its tokens by itself, so that a token has any number of
// slots, experts ascending, as after token rounding; drops is the percentage of the tokens that have one dropped slot
// more. zero: the seed, the step or the layer of the policy is 0; 4: they are as small as a run of training's; 5: all
// three are 0; 6: the largest, of a step without an upper half; 7: the lower halves of seed and step are 0, and the
// layer is 1; otherwise all three are of the case's seed.
//
// weights=kept, after gate_up: a variant of libraries that keep weights (kernels/candidate_kept_weights.h). A call of
// it keeps them in memory that no call before has written.

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/candidate_moe.h"
#include "properties/core/case.h"
#include "reference/layer/layer_recipe.h"
#include "reference/layer/operands.h"

namespace mxcheck {

struct MoeVariant {
  std::string recipe = "mxfp8";
  int gate_up = MXCHECK_HALVES;
  bool keeps_weights = false;
  friend bool operator==(const MoeVariant&, const MoeVariant&) = default;
};
struct MoeCase {
  std::int64_t inner = 0;
  std::int64_t k = 0;
  int drops = 0;
  int zero = 0;
  std::optional<LayerRandom> random;  // of a call that was read; one that is drawn has them from its seed
  friend bool operator==(const MoeCase&, const MoeCase&) = default;
};

inline const MoeVariant& moe_of(const Variant& v) { return v.own.get<MoeVariant>(); }
inline MoeVariant& moe_of(Variant& v) { return v.own.edit<MoeVariant>(); }
inline const MoeCase& moe_case(const Case& c) { return c.own.get<MoeCase>(); }
inline MoeCase& moe_case(Case& c) { return c.own.edit<MoeCase>(); }

inline bool is_moe_backward(const Variant& v) { return v.operation == "moe_backward"; }
inline bool is_moe(const Variant& v) { return v.operation == "moe_forward" || is_moe_backward(v); }
inline bool keeps_weights(const Variant& v) { return moe_of(v).keeps_weights; }
inline const LayerRecipe& layer_recipe_of(const Variant& v) { return layer_recipe_named(moe_of(v).recipe); }

inline std::int64_t moe_experts(const Case& c) {
  return c.experts.empty() ? 0 : static_cast<std::int64_t>(c.experts.size()) - 1;
}
inline std::int64_t moe_routed(const Case& c) { return c.experts.empty() ? 0 : c.experts.back(); }

}  // namespace mxcheck

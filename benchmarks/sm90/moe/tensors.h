#pragma once
// The tensors of "moe_forward" and "moe_backward" of a shape under a recipe, as kernels/candidate_moe.h lists them, and
// their bytes.
//
//   const MoeTensors t = moe_tensors(shape, layer_recipe_named("dsv3"));
//   bytes_of(t.kept)   // what the backward pass needs of the forward one
//
// Errors: Error{usage} for a recipe that keeps what the interface has no type for.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <dlpack/dlpack.h>

#include "benchmarks/sm90/moe/shape.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck::bench {

struct MoeTensor {
  std::string name;
  DLDataType type{};
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements()) * (type.bits / 8U); }
};
std::uint64_t bytes_of(std::span<const MoeTensor> tensors);

struct MoeTensors {
  std::vector<MoeTensor> given;   // x, w1, w2, d_o
  std::vector<MoeTensor> routes;  // row_token, row_weight, token_offsets, token_rows, offsets
  // Outputs of the forward pass and inputs of the backward one: h, h scales, x, x scales, those that there are; x as it
  // was given is not among them.
  std::vector<MoeTensor> kept;
  bool keeps_given_x = true;
  std::vector<MoeTensor> forward;   // o
  std::vector<MoeTensor> backward;  // dx, dw1, dw2, ds

  // Kept in all, x as it was given included: what an implementation holds between the passes beside weights and routes.
  [[nodiscard]] std::uint64_t kept_bytes() const;
};
MoeTensors moe_tensors(const MoeShape& shape, const LayerRecipe& recipe);

// By name, in the order of a call; x is "x" where the recipe keeps it as it was given.
std::vector<std::string> moe_inputs(const MoeTensors& tensors, Direction direction);
std::vector<std::string> moe_outputs(const MoeTensors& tensors, Direction direction);

// Bytes of a call's inputs and outputs.
std::uint64_t moe_call_bytes(const MoeTensors& tensors, Direction direction);

}  // namespace mxcheck::bench

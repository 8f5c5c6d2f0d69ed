#pragma once
// MoE layers as a library of kernels/train.h has them: how a recipe is asked for, and the observations of a step, whose
// facts of operands are computed here, by the reference, from the tensors that the device computed.
//
// Errors: those of `read`; Error{environment} where a tensor is smaller than its shape, or routes are none;
// Error{usage} for a recipe that kernels/train.h has no text for.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/training/step.h"

namespace mxcheck {

// mxcheck_train_table's read, of one run: the tensor of this name, its bytes.
using ReadTensor = std::function<std::vector<std::byte>(const std::string& name)>;

// The recipe's text in kernels/train.h: a built-in one's name, or all twelve operands written out.
std::string device_recipe(const LayerRecipe& recipe);

// True if any operand of the recipe's GEMMs is quantized; without one an observation is of loads alone.
bool quantizes(const LayerRecipe& recipe);

struct LayerOfStep {
  std::int64_t step = 0;
  std::int64_t layer = 0;
};

// The observation of a layer; the output's digest is left 0. threads as everywhere.
LayerObservation observe_device_layer(const TrainingConfig& config, const LayerOfStep& at, const ReadTensor& read,
                                      int threads);

}  // namespace mxcheck

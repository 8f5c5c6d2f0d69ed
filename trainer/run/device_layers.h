#pragma once
// What a library of kernels/train.h keeps of a step that is observed, and the observations made of it: the facts of
// operands are computed here, by the reference, from the tensors that the device computed.
//
// Errors: those of `read`; Error{environment} where a tensor is smaller than its shape, or routes are none.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/training/step.h"

namespace mxcheck {

// mxcheck_train_table's read, of one run: the tensor of this name, its bytes.
using ReadTensor = std::function<std::vector<std::byte>(const std::string& name)>;

// Whether any operand of the recipe's GEMMs is quantized; without one an observation is of loads alone.
bool quantizes(const LayerRecipe& recipe);

// Of layer `layer`; the output's digest is left 0. threads as everywhere.
LayerObservation observe_device_layer(const TrainingConfig& config, std::int64_t layer, const ReadTensor& read,
                                      int threads);

}  // namespace mxcheck

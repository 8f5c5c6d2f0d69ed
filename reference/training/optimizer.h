#pragma once
// Gradient norm, clipping, AdamW and the learning rate: docs/training.md.
//
// Errors: Error{usage} for sizes that do not agree.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/training/model.h"
#include "reference/training/state.h"

namespace mxcheck {

// The Euclidean norm of all gradients together, which are given by parameter.
float gradient_norm(std::span<const std::vector<float>> gradients, int threads = 0);

// The rate of step `step` (from 0), of `config.steps`.
float learning_rate(const TrainingConfig& config, std::int64_t step);

// RN(1 - beta^t).
float bias_correction(float beta, std::int64_t t);

// Clips by `norm`, updates weights and moments, and counts the update. The caller has seen that norm is finite.
void update(const TrainingConfig& config, TrainingState& state, std::vector<std::vector<float>>& gradients, float norm,
            float rate, int threads = 0);

}  // namespace mxcheck

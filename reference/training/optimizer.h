#pragma once
// The state of a run of training, and its update: gradient norm, clipping, AdamW and the learning rate.
// docs/training.md.
//
// Errors: Error{usage} for sizes that do not agree.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/training/model.h"

namespace mxcheck {

// The state of a run of training between two steps: master weights, moments, and the number of steps and updates
// done.
//
//   TrainingState state = initial_state(config);   // docs/training.md, "Initial values"
//   branch_off(state, config);                     // docs/training.md, "Branches": a run of `config` goes on from here
//
// Errors: Error{environment} where the machine has not that much memory; of branch_off Error{usage} for a state that is
// not of the configuration's model.
struct TrainingState {
  std::int64_t step = 0;                    // steps done: the next one's number, which says where its data is
  std::int64_t updates = 0;                 // fewer where updates were skipped
  std::vector<std::vector<float>> weights;  // by parameter, in the order of parameters_of
  // FP32, or BF16 widened: what is stored is exactly representable in the configuration's type.
  std::vector<std::vector<float>> first_moments;
  std::vector<std::vector<float>> second_moments;
};

TrainingState initial_state(const TrainingConfig& config, int threads = 0);

// The state of another run, which kept its moments in FP32, as a run of `config` begins with it: weights moved as
// config.perturb says, and moments in the type that config keeps them in.
void branch_off(TrainingState& state, const TrainingConfig& config);

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

#pragma once
// A step of training in parts: the forward and backward passes of its microbatches, the sum of what they give in the
// order of a binary tree, and the update. docs/training.md, "Microbatches". Whoever computes the leaves of a subtree,
// the bits are those of training_step.
//
//   MicrobatchSum left = sum_of_microbatches(config, state, tokens, {0, 2}, observe);
//   add(left, sum_of_microbatches(config, state, tokens, {2, 2}, observe));
//   const StepOutcome outcome = finish_step(config, state, std::move(left));   // of four microbatches
//
// Errors: Error{usage} for sizes that do not agree, and for a range that is no subtree.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/training/model.h"
#include "reference/training/optimizer.h"
#include "reference/training/step.h"

namespace mxcheck {

// A subtree: `count` microbatches, a power of two, from a multiple of it on.
struct MicrobatchRange {
  std::int64_t first = 0;
  std::int64_t count = 1;
};

// The sum over a subtree.
struct MicrobatchSum {
  float loss = 0;
  float balance_loss = 0;
  bool overflowed = false;  // a router's logits were not finite: both losses are NaN, and there are no gradients
  std::vector<std::vector<float>> gradients;  // by parameter
  // Digests of outputs are summed; loads and operands are the first microbatch's of the step.
  std::vector<LayerObservation> layers;
};

// tokens are those of the whole step.
MicrobatchSum sum_of_microbatches(const TrainingConfig& config, const TrainingState& state,
                                  std::span<const std::uint8_t> tokens, MicrobatchRange range, bool observe,
                                  int threads = 0);

// A node of the tree: `left` becomes the sum of both; the microbatches of `right` follow it.
void add(MicrobatchSum& left, MicrobatchSum right, int threads = 0);

// The rest of the step, from the sum over all microbatches.
StepOutcome finish_step(const TrainingConfig& config, TrainingState& state, MicrobatchSum sum, int threads = 0);

}  // namespace mxcheck

#pragma once
// One step of training on the CPU, to the bit: docs/training.md has the definition.
//
//   const StepOutcome outcome = training_step(config, state, batch);   // state is that of the next step
//
// tokens are batch x (length + 1): a sequence's last byte is the last target alone. Threads (0: the machine's) change
// nothing but the time.
//
// Errors: Error{usage} for sizes that do not agree.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/training/model.h"
#include "reference/training/optimizer.h"

namespace mxcheck {

// Counts of one quantized operand of an MoE layer's GEMM: elements, of which so many were set to the largest number
// and so many non-zero ones became zero; scales, and the extremes of their exponents.
struct OperandFacts {
  std::string name;  // "up.a", ..., "d_w1.b"
  std::int64_t elements = 0;
  std::int64_t saturated = 0;
  std::int64_t flushed = 0;
  std::int64_t scales = 0;
  std::int32_t least_exponent = 0;  // floor(log2(scale))
  std::int32_t largest_exponent = 0;
  friend bool operator==(const OperandFacts&, const OperandFacts&) = default;
};

// Facts of one layer that a step gathers beside the loss, where they are asked for: it costs time.
struct LayerObservation {
  std::vector<std::int64_t> expert_loads;  // rows of each expert
  std::vector<OperandFacts> operands;      // of quantized operands alone
  std::uint64_t output_digest = 0;         // of the residual stream after the layer
  friend bool operator==(const LayerObservation&, const LayerObservation&) = default;
};

struct StepOutcome {
  float loss = 0;
  float balance_loss = 0;  // sum over the layers, left to right
  float gradient_norm = 0;
  float rate = 0;
  bool updated = true;                           // false where the norm was NaN or Inf
  std::int64_t skipped = 0;                      // elements of weights that were not updated: all or none
  std::uint64_t weights_digest = 0;              // after the step
  std::vector<std::uint64_t> parameter_digests;  // after the step, by parameter
  // output_digest always, the rest where observed; fewer than the model's where a router's logits were not finite.
  std::vector<LayerObservation> layers;
};

StepOutcome training_step(const TrainingConfig& config, TrainingState& state, std::span<const std::uint8_t> tokens,
                          bool observe, int threads = 0);

struct Evaluation {
  float loss = 0;
  // By layer: tokens x top_k experts of token choice; fewer where a router's logits were not finite (loss is NaN).
  std::vector<std::vector<std::int32_t>> routes;
};
// The forward pass alone, under `recipe`, with token choice; sequences are as many as tokens holds.
Evaluation evaluate(const TrainingConfig& config, const TrainingState& state, const LayerRecipe& recipe,
                    std::span<const std::uint8_t> tokens, int threads = 0);

}  // namespace mxcheck

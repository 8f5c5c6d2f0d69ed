#pragma once
// What computes a run: an engine has a state of training, and steps it. All engines give the same bits
// (docs/training.md).
//
//   const std::unique_ptr<TrainingEngine> engine = cpu_engine(config, 0);
//   engine->load(initial_state(config));
//   engine->step(training_batch(corpus, config, 0), false);
//
// Errors: those of training_step and evaluate.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "reference/training/step.h"

namespace mxcheck {

class TrainingEngine {
 public:
  virtual ~TrainingEngine() = default;
  TrainingEngine() = default;
  TrainingEngine(const TrainingEngine&) = delete;
  TrainingEngine& operator=(const TrainingEngine&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;    // "cpu"
  [[nodiscard]] virtual std::string device() const = 0;  // the machine's own name for it
  virtual void load(TrainingState state) = 0;
  [[nodiscard]] virtual const TrainingState& state() = 0;
  virtual StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) = 0;
  virtual Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) = 0;
};

// The reference. threads as everywhere: 0 for the machine's.
std::unique_ptr<TrainingEngine> cpu_engine(const TrainingConfig& config, int threads);

}  // namespace mxcheck

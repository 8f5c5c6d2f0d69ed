#pragma once
// An engine computes a run: it has a state of training, and steps it. All engines give the same bits
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
  [[nodiscard]] virtual std::int64_t steps_done() const = 0;  // state().step, at no cost
  [[nodiscard]] virtual const TrainingState& state() = 0;     // valid until the next call
  // Observed layers have loads and operands, all of them output digests.
  virtual StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) = 0;
  virtual Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) = 0;
};

// The reference. threads as everywhere: 0 for the machine's.
std::unique_ptr<TrainingEngine> cpu_engine(const TrainingConfig& config, int threads);

// A library of kernels/train.h on this machine's first GPU. Evaluations have up to `evaluation_sequences` sequences.
// Threads (0: the machine's) make the observations of what the device computed.
// Errors: Error{environment} for a library that cannot be loaded or is of another version, and of a device that fails;
// Error{usage} for a configuration that it does not offer, with its own words.
std::unique_ptr<TrainingEngine> device_engine(const TrainingConfig& config, const std::string& library,
                                              std::int64_t evaluation_sequences, int threads);

}  // namespace mxcheck

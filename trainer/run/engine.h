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
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/training/step.h"
#include "trainer/run/gpus.h"

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

class RankGroup;  // trainer/run/ranks.h; none: the run is one process's

// The reference. threads as everywhere: 0 for the machine's.
std::unique_ptr<TrainingEngine> cpu_engine(const TrainingConfig& config, int threads, RankGroup* ranks = nullptr);

// A library of kernels/train.h on a GPU of this machine: on one of `gpus`, without them on the first. Evaluations have
// up to `evaluation_sequences` sequences. Threads (0: the machine's) make the observations of what the device computed.
// Errors: Error{environment} for a library that cannot be loaded or is of another version, and of a device that fails;
// Error{usage} for a configuration that it does not offer, with its own words.
std::unique_ptr<TrainingEngine> device_engine(const TrainingConfig& config, const std::string& library,
                                              std::int64_t evaluation_sequences, int threads,
                                              const std::shared_ptr<TrainingGpus>& gpus = nullptr,
                                              RankGroup* ranks = nullptr);

// --- layers of the device engine
//
// MoE layers as a library of kernels/train.h has them: how a recipe is asked for, and the observations of a step, whose
// facts of operands are computed here, by the reference, from the tensors that the device computed.
//
// Errors: those of `read`; Error{environment} where a tensor is smaller than its shape, or routes are none;
// Error{usage} for a recipe that kernels/train.h has no text for.

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

#pragma once
// A run's configuration as JSON, and configurations that have names.
//
//   TrainingConfig config = preset_named("tiny");
//   config_from_json(to_json(config), "mine.json") == config
//
// All of it is written but "bf16_last" where it is 0 and "microbatches" where they are 1, and all else is needed;
// floats are decimals that are read as the same FP32 number. Reading is strict: Error{usage} for what is no JSON, an
// unknown, repeated or missing key, a wrong type, a name that there is not, and for a configuration that cannot be
// (check of reference/training/model.h), each with its place
// ("mine.json: $.optimizer: ...").

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "reference/training/model.h"

namespace mxcheck {

std::string to_json(const TrainingConfig& config);
TrainingConfig config_from_json(std::string_view text, const std::string& where);
TrainingConfig read_config(const std::string& path);  // Error{input} for a file that cannot be read

struct TrainingPreset {
  std::string_view name;
  ModelShape model;
  std::int64_t batch;
  std::int64_t steps;
  OptimizerConfig optimizer;
  std::string_view meaning;
};
// The preset that recipes are judged by: many tokens a step and a rate that ends at zero, which leave little noise
// between runs, on English text.
inline constexpr std::string_view kVerdictPreset = "verdict";
std::span<const TrainingPreset> all_training_presets();
// The preset's sizes and optimizer, the recipe bf16; Error{usage} lists the names.
TrainingConfig preset_named(std::string_view name);

// The memory that a run of training takes, from its sizes alone: at least so much, on a CPU. What no machine has, or
// this one has not, is refused before anything of that size is made.
//
//   if (const std::string wrong = memory_objection(config, plan.validation_sequences); !wrong.empty()) refuse(wrong);
//   require_memory(config, plan.validation_sequences);
//
// Errors: Error{environment} of require_memory, with what is needed and what there is.

// Sequences of an evaluation that are computed together.
inline constexpr std::int64_t kSequencesAtOnce = 256;

// Bytes. A product of sizes that a file gives may be beyond 2^63, so these are doubles.
struct TrainingMemory {
  double state = 0;       // weights and both moments: 12 bytes a weight
  double step = 0;        // weights in BF16, gradients, and what the forward pass keeps for the backward one
  double evaluation = 0;  // the validation data, weights in BF16, and a forward pass of what is computed together
  [[nodiscard]] double total() const { return state + std::max(step, evaluation); }
};
// The memory that a run takes, of a configuration that check() takes.
TrainingMemory training_memory(const TrainingConfig& config, std::int64_t validation_sequences);

// The most bytes that a file may ask for, whatever machine reads it.
inline constexpr double kMostTrainingMemory = 0x1p40;
// "takes at least 3000 GiB of memory (...)"; empty where kMostTrainingMemory is enough.
std::string memory_objection(const TrainingConfig& config, std::int64_t validation_sequences);

// True if this process may have that much: the machine's memory, its cgroup's and its own limit.
void require_memory(const TrainingConfig& config, std::int64_t validation_sequences);

}  // namespace mxcheck

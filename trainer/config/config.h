#pragma once
// A run's configuration as JSON, and configurations that have names.
//
//   TrainingConfig config = preset_named("tiny");
//   config_from_json(to_json(config), "mine.json") == config
//
// All of it is written, and all of it is needed; floats are decimals that are read as the same FP32 number.
// Reading is strict: Error{usage} for what is no JSON, an unknown, repeated or missing key, a wrong type, a name that
// there is not, and for a configuration that cannot be (check of reference/training/model.h), each with its place
// ("mine.json: $.optimizer: ...").

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

}  // namespace mxcheck

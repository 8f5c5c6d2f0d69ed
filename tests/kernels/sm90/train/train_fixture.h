#pragma once
// Configurations and data of the tests of training on a Hopper GPU, and when a step is the reference's.

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/training/step.h"
#include "tests/kernels/sm90/train/device_run.h"

namespace mxcheck::test {

inline TrainingConfig tiny(const std::string& recipe) {
  TrainingConfig c;
  c.model = {.layers = 2, .width = 64, .heads = 2, .experts = 8, .inner = 32, .top_k = 2, .length = 64};
  c.batch = 4;
  c.steps = 100;
  c.seed = 11;
  c.recipe = layer_recipe_named(recipe);
  c.optimizer.warm_up = 4;
  return c;
}

// Widths that recipes of FP8 codes take.
inline TrainingConfig wide(const std::string& recipe) {
  TrainingConfig c = tiny(recipe);
  c.model = {.layers = 2, .width = 128, .heads = 2, .experts = 8, .inner = 128, .top_k = 2, .length = 64};
  return c;
}

inline TrainingConfig full(const std::string& recipe) {
  TrainingConfig c = tiny(recipe);
  c.model = {.layers = 4, .width = 256, .heads = 4, .experts = 32, .inner = 128, .top_k = 4, .length = 256};
  c.batch = 16;
  return c;
}

// Bytes with a pattern that can be learnt, and some that cannot.
inline std::vector<std::uint8_t> data_of(const TrainingConfig& c, std::int64_t sequences, std::int64_t step) {
  std::vector<std::uint8_t> data;
  std::uint32_t word = static_cast<std::uint32_t>(step) * 2654435761U + 12345;
  for (std::int64_t i = 0; i < sequences * (c.model.length + 1); ++i) {
    word = word * 1664525 + 1013904223;
    const auto pattern = static_cast<std::uint32_t>(97 + (i * 5 + step) % 23);
    data.push_back(static_cast<std::uint8_t>(word >> 29 == 0 ? word >> 16 : pattern));
  }
  return data;
}

inline bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

inline bool agree(const DeviceOutcome& found, const StepOutcome& expected) {
  bool layers = found.values.layers == std::ssize(expected.layers);
  for (std::size_t l = 0; layers && l < expected.layers.size(); ++l)
    layers = found.layer_digests[l] == expected.layers[l].output_digest;
  return layers && same(found.values.loss, expected.loss) && same(found.values.balance_loss, expected.balance_loss) &&
         same(found.values.gradient_norm, expected.gradient_norm) &&
         found.values.weights_digest == expected.weights_digest &&
         found.parameter_digests == expected.parameter_digests && (found.values.updated != 0) == expected.updated;
}

}  // namespace mxcheck::test

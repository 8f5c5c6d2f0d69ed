#pragma once
// A run of training on the device (kernels/train.h) of a configuration of the reference, and where its step and the
// reference's differ first.
//
//   DeviceRun run(config, state);
//   const DeviceOutcome outcome = run.step(state, batch);   // state says which step and update it is
//
// Errors: Error{environment} with the library's message.

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/train.h"
#include "reference/training/optimizer.h"
#include "reference/training/step.h"

namespace mxcheck::test {

struct DeviceOutcome {
  mxcheck_train_outcome values{};
  std::vector<std::uint64_t> parameter_digests, layer_digests;
};

// The interface's view of a configuration; its texts and tables live as long as the config and the table.
mxcheck_train_config train_config(const TrainingConfig& config, const std::vector<float>& cosine,
                                  const std::vector<float>& sine, std::int64_t evaluation_sequences);

class DeviceRun {
 public:
  DeviceRun(const TrainingConfig& config, const TrainingState& state, std::int64_t evaluation_sequences = 0);
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  void set_state(const TrainingState& state);
  DeviceOutcome step(const TrainingState& before, std::span<const std::uint8_t> batch, bool observe = false);
  Evaluation evaluate(const std::string& recipe, std::span<const std::uint8_t> tokens);
  void get_parameter(std::size_t p, std::vector<float>& weights, std::vector<float>& first, std::vector<float>& second);

  // A tensor of the last step.
  template <class T>
  std::vector<T> read(const std::string& name) {
    std::vector<T> values(static_cast<std::size_t>(bytes_of(name) / sizeof(T)));
    read_bytes(name, values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  std::uint64_t bytes_of(const std::string& name);
  void read_bytes(const std::string& name, void* data, std::uint64_t bytes);
  void require_ok(mxcheck_status status) const;

  TrainingConfig config_;
  std::size_t parameters_ = 0;
  mxcheck_train_run* run_ = nullptr;
  char message_[512] = "";
};

// A line for each tensor that differs: every intermediate of the forward pass in order, then the gradients in the order
// in which the backward pass makes them; empty where none does. `before` is the state the step began with.
std::string differences(const TrainingConfig& config, const TrainingState& before, std::span<const std::uint8_t> batch,
                        DeviceRun& run);

// --- configurations and data

inline TrainingConfig tiny(const std::string& recipe) {
  TrainingConfig c;
  c.model = {.layers = 2, .width = 64, .heads = 2, .experts = 8, .inner = 32, .top_k = 2, .length = 64};
  c.batch = 4, c.steps = 100, c.seed = 11, c.recipe = layer_recipe_named(recipe), c.optimizer.warm_up = 4;
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

#pragma once
// A run of training on the device (kernels/train.h) of a configuration of the reference.
//
//   DeviceRun run(config, state);
//   const DeviceOutcome outcome = run.step(state, batch);   // state says which step and update it is
//
// Errors: Error{environment} with the library's message.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/train.h"
#include "reference/training/step.h"

namespace mxcheck::test {

struct DeviceOutcome {
  mxcheck_train_outcome values{};
  std::vector<std::uint64_t> parameter_digests;
  std::vector<std::uint64_t> layer_digests;
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

}  // namespace mxcheck::test

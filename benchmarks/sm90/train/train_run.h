#pragma once
// A run of the full model (4 layers, 256 wide, 32 experts of 128, 16 sequences of 256) through kernels/train.h, on data
// with a pattern.
//
// Errors: Error{environment} with the library's message.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/train.h"
#include "reference/training/model.h"

namespace mxcheck::bench {

// The library's table; it stays loaded.
const mxcheck_train_table& load_train(const std::string& path);

class TrainRun {
 public:
  TrainRun(const mxcheck_train_table& table, const std::string& recipe, const std::string& rounding, std::int64_t batch,
           std::uint64_t seed);
  ~TrainRun();
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  void step();
  [[nodiscard]] float loss() const { return loss_; }
  [[nodiscard]] std::int64_t tokens() const { return config_.tokens(); }

 private:
  void create(const std::string& rounding);
  void require_ok(mxcheck_status status) const;

  const mxcheck_train_table& table_;
  TrainingConfig config_;
  mxcheck_train_run* run_ = nullptr;
  std::vector<std::uint8_t> data_;
  std::int64_t steps_ = 0;
  float loss_ = 0;
  char message_[512] = "";
};

}  // namespace mxcheck::bench

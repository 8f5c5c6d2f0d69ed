#pragma once
// A run of training by a library of kernels/train.h, on made-up bytes, for measuring.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/train.h"
#include "reference/training/model.h"

namespace mxcheck::bench {

struct RankOfRun {
  int rank = 0;
  int ranks = 1;
  const mxcheck_train_exchange* exchange = nullptr;
};

// The library's table; it stays loaded.
const mxcheck_train_table& load_train(const std::string& path);

class TrainRun {
 public:
  TrainRun(const mxcheck_train_table& table, const TrainingConfig& config, const std::string& rounding,
           const RankOfRun& rank = {});
  ~TrainRun();
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  void step();
  [[nodiscard]] float loss() const { return loss_; }
  [[nodiscard]] std::int64_t tokens() const { return config_.tokens(); }

 private:
  void create(const std::string& rounding, const RankOfRun& rank);
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

#pragma once
// A run of training on several processes, its ranks: docs/training.md, "Ranks". The first rank leads: it alone reads
// data, writes the record and checkpoints, and evaluates. The others follow: they get the state and each step's bytes
// from it. Every rank computes its share of the microbatches, and all have the same weights after each step.
//
//   engine = cpu_engine(config, threads, &ranks);                     // or device_engine
//   rank 0:   run_training(request, *leading_engine(*engine, ranks), watch), dismiss_followers(ranks);
//   others:   follow(*engine, ranks);
//
// Errors: what a RankGroup throws of a rank that fails or ends; Error{usage} of check_ranks.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/train.h"
#include "reference/training/step.h"
#include "trainer/run/engine.h"

namespace mxcheck {

// The connection of the ranks. All call the same functions in the same order, with the same names of steps.
class RankGroup {
 public:
  RankGroup() = default;
  virtual ~RankGroup() = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  // The texts of all ranks.
  virtual std::vector<std::string> all_gather(std::string_view step, std::string_view mine) = 0;
  // Host memory in a part for each rank: part r of `received` is the part of rank r's `sent` with this rank's number.
  virtual void all_to_all(std::string_view step, std::span<const float> sent, std::span<float> received) = 0;
  // Part r becomes rank r's own.
  virtual void gather_parts(std::string_view step, std::span<float> parts) = 0;

  // The same for a library's device, or null where the group has none.
  [[nodiscard]] virtual const mxcheck_train_exchange* device_exchange() { return nullptr; }
  // Around a step on devices, which waits for other ranks where no call of a group does: a rank that fails there ends
  // the wait, and the second call throws.
  virtual void begin_device_step() {}
  virtual void end_device_step() {}
};

// Error{usage} where so many ranks cannot share the configuration's microbatches.
void check_ranks(const TrainingConfig& config, std::int64_t ranks);

// training_step, by all ranks together.
StepOutcome step_of_ranks(const TrainingConfig& config, TrainingState& state, std::span<const std::uint8_t> tokens,
                          bool observe, int threads, RankGroup& ranks);

// The engine of rank 0 as one that also tells the followers of states and steps.
std::unique_ptr<TrainingEngine> leading_engine(TrainingEngine& own, RankGroup& ranks);
// The followers' end.
void dismiss_followers(RankGroup& ranks);
// Does what rank 0 says until it dismisses.
void follow(TrainingEngine& own, RankGroup& ranks);

}  // namespace mxcheck

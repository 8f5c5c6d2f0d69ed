#include "trainer/run/engine.h"

#include <fstream>
#include <utility>

namespace mxcheck {
namespace {

// "model name" of the first processor, as Linux has it.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "a processor without a name";
}

class CpuEngine final : public TrainingEngine {
 public:
  CpuEngine(const TrainingConfig& config, int threads) : config_(config), threads_(threads) {}

  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] std::string device() const override { return processor_name(); }
  void load(TrainingState state) override { state_ = std::move(state); }
  [[nodiscard]] std::int64_t steps_done() const override { return state_.step; }
  [[nodiscard]] const TrainingState& state() override { return state_; }
  StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) override {
    return training_step(config_, state_, tokens, observe, threads_);
  }
  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    return mxcheck::evaluate(config_, state_, recipe, tokens, threads_);
  }

 private:
  TrainingConfig config_;
  int threads_;
  TrainingState state_;
};

}  // namespace

std::unique_ptr<TrainingEngine> cpu_engine(const TrainingConfig& config, int threads) {
  check(config);
  return std::make_unique<CpuEngine>(config, threads);
}

}  // namespace mxcheck

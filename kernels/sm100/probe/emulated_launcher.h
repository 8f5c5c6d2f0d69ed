#pragma once
// Probes on the CPU.

#include <cstdint>

#include "emulation/sm100/launch.h"
#include "kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// A finding of the emulation is a refusal, whether or not the run went on.
class EmulatedLauncher : public Launcher {
 public:
  explicit EmulatedLauncher(const emulation::sm100::LaunchOptions& options = {}, std::uint32_t repeat = 1)
      : options_(options), repeat_(repeat) {}
  Outcome run(const Launch& launch) override;
  [[nodiscard]] std::uint32_t repetitions(std::uint32_t few, std::uint32_t /*many*/) const override {
    return few * repeat_;
  }

 private:
  emulation::sm100::LaunchOptions options_;
  std::uint32_t repeat_;
};

}  // namespace mxcheck::sm100::probe

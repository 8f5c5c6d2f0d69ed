#pragma once
// Where a device's step and the reference's differ first: every intermediate of the forward pass in order, then the
// gradients in the order in which the backward pass makes them.

#include <cstdint>
#include <span>
#include <string>

#include "reference/training/state.h"
#include "tests/kernels/sm90/train/device_run.h"

namespace mxcheck::test {

// A line for each tensor that differs, in that order; empty where none does. `before` is the state the step began with.
std::string differences(const TrainingConfig& config, const TrainingState& before, std::span<const std::uint8_t> batch,
                        DeviceRun& run);

}  // namespace mxcheck::test

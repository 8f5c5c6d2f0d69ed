#pragma once
// mxcheck_sm100_probe: the open points of Blackwell's documents, asked of a card, or of the emulation.
//
//   mxcheck_sm100_probe --record b200.json      all ten on the card, and what they found as JSON
//   mxcheck_sm100_probe --emulated --only 3     the third on the CPU
//
// Exit codes: 0 all agree with the model; 1 one disagrees, or was not decided; 2 wrong arguments, or the record cannot
// be written; 3 no card that the program is for.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// The card and the functions that reach it, which a build with CUDA has.
struct CardState {
  std::string name;     // for the record; empty where there is none that the probes can run on
  std::string problem;  // "the card is NVIDIA H200, of compute capability 9.0"
};
struct CardFunctions {
  const char* needs;  // "compute capability 10.0"
  CardState (*state)();
  std::unique_ptr<Launcher> (*launcher)(unsigned timeout_seconds, std::uint32_t repeat);
  std::vector<Probe> (*probes)();
};

// `card` is null in a build without CUDA. `out` gets a probe's lines as soon as it is over.
using Print = std::function<void(std::string_view)>;
int run_program(std::span<const std::string> arguments, const CardFunctions* card, const Print& out, const Print& err);

}  // namespace mxcheck::sm100::probe

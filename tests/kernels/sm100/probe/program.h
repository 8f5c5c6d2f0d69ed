#pragma once
// mxcheck_sm100_probe: the open points of Blackwell's documents, asked of a card, or of the emulation.
//
//   mxcheck_sm100_probe --record b200.json      all of them on the card, and what they found as JSON
//   mxcheck_sm100_probe --emulated --only 3     the third on the CPU
//
// Exit codes: 0 all agree with the model; 1 one disagrees, or was not decided; 2 wrong arguments, or the record cannot
// be written; 3 no card that the program is for.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/sm100/launch.h"
#include "tests/kernels/sm100/probe/launcher.h"

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

// --- a process of its own
// Work in a process of its own, with a time limit: what it breaks, a CUDA context too, ends with it.

// The state and the message that a child leaves for its parent, beside the words.
struct Left {
  Outcome::State state;
  char text[496];
};
void leave(Left& left, Outcome::State state, const std::string& text);

// `work` leaves a state and, with `ran`, `words` words. A child that takes longer than `limit` is killed: hung. One
// that ends by a signal, or leaves nothing, has failed. By a process with one thread that has not called CUDA.
Outcome in_a_child(std::chrono::milliseconds limit, std::size_t words,
                   const std::function<void(Left&, std::uint32_t*)>& work);

// --- on the CPU

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

// --- on a card
// Probes on a card. Every launch is in a process of its own: an illegal instruction ends a CUDA context, a wait without
// end is killed, and the next launch sees neither. The program's own process never calls CUDA, as a process that has
// cannot fork another that does.

CardState card_state();  // of the first card
std::unique_ptr<Launcher> card_launcher(unsigned timeout_seconds, std::uint32_t repeat);

}  // namespace mxcheck::sm100::probe

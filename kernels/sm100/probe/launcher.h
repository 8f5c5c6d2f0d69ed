#pragma once
// Where a probe's kernels run: on a card (cuda_launcher.h) or on the CPU (emulated_launcher.h). A probe sees neither.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/sm100/probe/report.h"

namespace mxcheck::sm100::probe {

inline constexpr unsigned kThreads = 128;  // of every CTA: four warps, one for each quarter of tensor memory's lanes

// The arguments of every kernel. Pointers are into memory that the kernel reaches.
struct Arguments {
  const std::uint32_t* image = nullptr;  // of shared memory: image_bytes for each rank of the cluster
  const std::uint32_t* words = nullptr;  // what the probe's header says
  std::uint32_t* out = nullptr;          // zeros before
  std::uint64_t a_extra = 0;             // added to A's descriptor
  std::uint32_t image_bytes = 0;
  std::uint32_t instruction = 0;  // its descriptor
  std::uint32_t count = 1;        // of repetitions
  std::uint32_t variant = 0;      // what the probe's header says
  std::uint32_t columns = 0;      // of D
  const void* engine = nullptr;   // of emulation/on_sm90: its Launch
};
using Kernel = void (*)(Arguments);

struct Launch {
  Kernel kernel = nullptr;
  unsigned blocks = 1;
  unsigned cluster = 1;
  std::size_t shared_bytes = 0;
  Arguments arguments;                // its pointers and image_bytes come from the launcher
  std::vector<std::uint8_t> image{};  // of all ranks
  std::vector<std::uint32_t> words{};
  std::size_t out_words = 0;
  unsigned patience = 1;  // times the time that a launch may take
};

struct Outcome {
  enum class State : std::uint8_t {
    ran,
    refused,  // by the emulation: it has findings. `out` is there if the run came to its end
    faulted,  // illegal instruction or address, misaligned
    hung,     // no end in time
    failed    // it could not be run
  };
  State state = State::failed;
  std::string text;  // of everything but `ran`
  std::vector<std::uint32_t> out;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual Outcome run(const Launch& launch) = 0;
  // How often a loop that the emulation runs `few` times runs here.
  [[nodiscard]] virtual std::uint32_t repetitions(std::uint32_t few, std::uint32_t many) const = 0;
};

struct Probe {
  int number;
  Report (*run)(Launcher&);
};
inline constexpr int kProbes = 10;

// The same ten, compiled for either.
std::vector<Probe> emulated_probes();
std::vector<Probe> device_probes();

}  // namespace mxcheck::sm100::probe

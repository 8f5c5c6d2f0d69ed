#include "kernels/sm100/probe/emulated_launcher.h"

#include <cstring>

#include "kernels/sm100/probe/all_inl.h"

namespace mxcheck::sm100::probe {

Outcome EmulatedLauncher::run(const Launch& launch) {
  Outcome outcome{.state = Outcome::State::ran, .text = "", .out = std::vector<std::uint32_t>(launch.out_words)};
  std::vector<std::uint32_t> image(launch.image.size() / 4);
  if (!image.empty()) std::memcpy(image.data(), launch.image.data(), launch.image.size());
  Arguments arguments = launch.arguments;
  arguments.image = image.data();
  arguments.image_bytes = static_cast<std::uint32_t>(launch.image.size() / launch.cluster);
  arguments.words = launch.words.data();
  arguments.out = outcome.out.data();
  const emulation::sm100::LaunchResult result = emulation::sm100::launch(
      {.blocks = launch.blocks, .threads = kThreads, .cluster = launch.cluster, .shared_bytes = launch.shared_bytes},
      options_, [&] { launch.kernel(arguments); });
  if (!result.completed) outcome.out.clear();
  if (result.findings.empty() && result.completed) return outcome;
  outcome.state = Outcome::State::refused;
  outcome.text = result.findings.empty() ? "it did not come to its end" : text_of(result.findings.front());
  if (result.findings.size() > 1) outcome.text += ", and " + std::to_string(result.findings.size() - 1) + " more";
  return outcome;
}

std::vector<Probe> emulated_probes() { return probes(); }

}  // namespace mxcheck::sm100::probe

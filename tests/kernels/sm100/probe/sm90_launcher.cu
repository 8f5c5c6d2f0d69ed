// Probes on a Hopper card, by emulation/on_sm90: each launch in a process of its own, as on Blackwell.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "emulation/on_sm90/launch.h"
#include "tests/kernels/sm100/probe/probes.h"
#include "tests/kernels/sm100/probe/program.h"

namespace mxcheck::sm100::probe {
namespace {

namespace engine = emulation::on_sm90;

// Memory on the card, with a copy of `from` in it, or zeros; never freed, as the process ends after one launch.
std::uint32_t* on_card(const void* from, std::size_t bytes) {
  void* to = nullptr;
  if (cudaMalloc(&to, bytes + 16) != cudaSuccess) return nullptr;
  if (cudaMemset(to, 0, bytes + 16) != cudaSuccess) return nullptr;
  if (from != nullptr && cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice) != cudaSuccess) return nullptr;
  return static_cast<std::uint32_t*>(to);
}

void run_on_card(const Launch& launch, Left& left, std::uint32_t* out) {
  Arguments arguments = launch.arguments;
  std::uint32_t* const image = on_card(launch.image.data(), launch.image.size());
  std::uint32_t* const words = on_card(launch.words.data(), 4 * launch.words.size());
  std::uint32_t* const result = on_card(nullptr, 4 * launch.out_words);
  if (image == nullptr || words == nullptr || result == nullptr) {
    return leave(left, Outcome::State::failed, cudaGetErrorString(cudaGetLastError()));
  }
  arguments.image = image;
  arguments.image_bytes = static_cast<std::uint32_t>(launch.image.size() / launch.cluster);
  arguments.words = words;
  arguments.out = result;
  arguments.engine = engine::launch_in_memory();
  const engine::KernelShape shape{.function = reinterpret_cast<const void*>(launch.kernel),
                                  .blocks = launch.blocks,
                                  .threads = kThreads,
                                  .cluster = launch.cluster,
                                  .shared_bytes = (launch.shared_bytes + 15) / 16 * 16};
  const auto ran = engine::launch(shape, &arguments, {});
  if (!ran.findings.empty()) return leave(left, Outcome::State::refused, text_of(ran.findings.front()));
  if (!ran.completed) return leave(left, Outcome::State::faulted, ran.dump);
  const cudaError_t error = cudaMemcpy(out, result, 4 * launch.out_words, cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return leave(left, Outcome::State::failed, cudaGetErrorString(error));
  leave(left, Outcome::State::ran, "");
}

class Sm90Launcher : public Launcher {
 public:
  Sm90Launcher(unsigned timeout_seconds, std::uint32_t repeat) : timeout_(timeout_seconds), repeat_(repeat) {}
  Outcome run(const Launch& launch) override {
    return in_a_child(std::chrono::seconds(timeout_ * launch.patience), launch.out_words,
                      [&](Left& left, std::uint32_t* out) {
                        try {
                          run_on_card(launch, left, out);
                        } catch (const std::exception& error) {
                          leave(left, Outcome::State::failed, error.what());
                        }
                      });
  }
  // No more than on the CPU: what is asked is whether the software is right, and it has no chances.
  [[nodiscard]] std::uint32_t repetitions(std::uint32_t few, std::uint32_t /*many*/) const override {
    return few * repeat_;
  }

 private:
  unsigned timeout_;
  std::uint32_t repeat_;
};

}  // namespace

CardState card_state() {
  const Outcome found = in_a_child(std::chrono::seconds(120), 1, [](Left& left, std::uint32_t*) {
    const std::string refusal = engine::card_refusal();
    if (!refusal.empty()) return leave(left, Outcome::State::failed, refusal);
    cudaDeviceProp properties{};
    cudaGetDeviceProperties(&properties, 0);
    leave(left, Outcome::State::ran, properties.name);
  });
  if (found.state != Outcome::State::ran) return {"", found.text};
  return {found.text + ", software for the tensor core", ""};
}

std::unique_ptr<Launcher> card_launcher(unsigned timeout_seconds, std::uint32_t repeat) {
  return std::make_unique<Sm90Launcher>(timeout_seconds, repeat);
}

std::vector<Probe> device_probes() { return probes(); }

}  // namespace mxcheck::sm100::probe

#include "tests/kernels/sm100/probe/program.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "tests/kernels/sm100/probe/probes.h"

namespace mxcheck::sm100::probe {
namespace {

// True if the error is the kernel's, and not the machine's.
bool is_fault(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalInstruction:
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

void run_on_card(const Launch& launch, Left& left, std::uint32_t* out) {
  cudaError_t error = cudaSuccess;
  const char* what = "";
  const auto tried = [&](const char* name, cudaError_t result) {
    if (error == cudaSuccess && result != cudaSuccess) {
      error = result;
      what = name;
    }
    return error == cudaSuccess;
  };
  void* memory[3] = {};  // image, words, out
  const std::size_t bytes[3] = {launch.image.size(), 4 * launch.words.size(), 4 * launch.out_words};
  const void* from[3] = {launch.image.data(), launch.words.data(), nullptr};
  for (int i = 0; i < 3; ++i) {
    if (!tried("cudaMalloc", cudaMalloc(&memory[i], bytes[i] + 16))) break;
    tried("cudaMemset", cudaMemset(memory[i], 0, bytes[i] + 16));
    if (from[i] != nullptr) tried("cudaMemcpy", cudaMemcpy(memory[i], from[i], bytes[i], cudaMemcpyHostToDevice));
  }
  Arguments arguments = launch.arguments;
  arguments.image = static_cast<const std::uint32_t*>(memory[0]);
  arguments.image_bytes = static_cast<std::uint32_t>(launch.image.size() / launch.cluster);
  arguments.words = static_cast<const std::uint32_t*>(memory[1]);
  arguments.out = static_cast<std::uint32_t*>(memory[2]);

  const auto* kernel = reinterpret_cast<const void*>(launch.kernel);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = launch.cluster;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.blocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  void* parameters[] = {&arguments};
  if (error == cudaSuccess) {
    tried("cudaFuncSetAttribute", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(launch.shared_bytes)));
  }
  if (error == cudaSuccess) tried("cudaLaunchKernelExC", cudaLaunchKernelExC(&config, kernel, parameters));
  if (error == cudaSuccess) tried("the kernel", cudaDeviceSynchronize());
  if (error == cudaSuccess) tried("cudaMemcpy", cudaMemcpy(out, memory[2], bytes[2], cudaMemcpyDeviceToHost));
  if (error == cudaSuccess) return leave(left, Outcome::State::ran, "");
  leave(left, is_fault(error) ? Outcome::State::faulted : Outcome::State::failed,
        std::string(what) + ": " + cudaGetErrorString(error));
}

class CudaLauncher : public Launcher {
 public:
  CudaLauncher(unsigned timeout_seconds, std::uint32_t repeat) : timeout_(timeout_seconds), repeat_(repeat) {}
  Outcome run(const Launch& launch) override {
    return in_a_child(std::chrono::seconds(timeout_ * launch.patience), launch.out_words,
                      [&](Left& left, std::uint32_t* out) { run_on_card(launch, left, out); });
  }
  [[nodiscard]] std::uint32_t repetitions(std::uint32_t /*few*/, std::uint32_t many) const override {
    constexpr std::uint64_t kMost = 4'000'000'000;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{many} * repeat_, kMost));
  }

 private:
  unsigned timeout_;
  std::uint32_t repeat_;
};

}  // namespace

CardState card_state() {
  const Outcome found = in_a_child(std::chrono::seconds(120), 2, [](Left& left, std::uint32_t* words) {
    cudaDeviceProp properties{};
    const cudaError_t error = cudaGetDeviceProperties(&properties, 0);
    if (error != cudaSuccess) return leave(left, Outcome::State::failed, cudaGetErrorString(error));
    words[0] = static_cast<std::uint32_t>(properties.major);
    words[1] = static_cast<std::uint32_t>(properties.minor);
    leave(left, Outcome::State::ran, properties.name);
  });
  if (found.state != Outcome::State::ran) return {"", "there is no card (" + found.text + ")"};
  if (found.out[0] == 10 && found.out[1] == 0) return {found.text, ""};
  return {"", "the card is " + found.text + ", of compute capability " + std::to_string(found.out[0]) + "." +
                  std::to_string(found.out[1])};
}

std::unique_ptr<Launcher> card_launcher(unsigned timeout_seconds, std::uint32_t repeat) {
  return std::make_unique<CudaLauncher>(timeout_seconds, repeat);
}

std::vector<Probe> device_probes() { return probes(); }

}  // namespace mxcheck::sm100::probe

#include "trainer/run/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "numerics/error.h"

namespace mxcheck {
namespace {

// The driver's functions that place a thread on a GPU, with their names and signatures of the CUDA driver API. The
// library's CUDA runtime shares the primary context that is current.
struct PlacingDriver {
  int (*cuInit)(unsigned) = nullptr;
  int (*cuDeviceGetCount)(int*) = nullptr;
  int (*cuDeviceGet)(int*, int) = nullptr;
  int (*cuDeviceGetName)(char*, int, int) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void**, int) = nullptr;
  int (*cuCtxSetCurrent)(void*) = nullptr;

  // False where there is no driver, or no such function in it.
  bool load() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return false;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(cuInit, "cuInit") && find(cuDeviceGetCount, "cuDeviceGetCount") && find(cuDeviceGet, "cuDeviceGet") &&
           find(cuDeviceGetName, "cuDeviceGetName") && find(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") &&
           find(cuCtxSetCurrent, "cuCtxSetCurrent");
  }
};

struct PlacedContexts {
  PlacingDriver driver;
  std::mutex mutex;
  std::vector<void*> of_gpus;

  void bind(int gpu) {
    const std::lock_guard lock(mutex);
    void*& context = of_gpus[static_cast<std::size_t>(gpu)];
    int device = 0;
    int code = context != nullptr ? 0 : driver.cuDeviceGet(&device, gpu);
    if (code == 0 && context == nullptr) code = driver.cuDevicePrimaryCtxRetain(&context, device);
    if (code == 0) code = driver.cuCtxSetCurrent(context);
    if (code != 0)
      throw Error(ErrorKind::environment, fmt::format("GPU {}: no context on it: CUDA error {}", gpu, code));
  }
};

}  // namespace

HostGpus visible_gpus() {
  const auto placed = std::make_shared<PlacedContexts>();
  HostGpus host;
  if (!placed->driver.load() || placed->driver.cuInit(0) != 0 || placed->driver.cuDeviceGetCount(&host.count) != 0)
    return {};
  placed->of_gpus.resize(static_cast<std::size_t>(host.count));
  host.bind = [placed](int gpu) { placed->bind(gpu); };
  host.name = [placed](int gpu) {
    std::array<char, 128> name{};
    int device = 0;
    const bool is_known = placed->driver.cuDeviceGet(&device, gpu) == 0 &&
                          placed->driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device) == 0;
    return is_known ? std::string(name.data()) : "a GPU without a name";
  };
  return host;
}

TrainingGpus::TrainingGpus(HostGpus host)
    : host_(std::move(host)), runs_(static_cast<std::size_t>(std::max(1, host_.count))) {}

int TrainingGpus::take() {
  const std::lock_guard lock(mutex_);
  const auto fewest = std::min_element(runs_.begin(), runs_.end());
  ++*fewest;
  return static_cast<int>(fewest - runs_.begin());
}

void TrainingGpus::give_back(int gpu) {
  const std::lock_guard lock(mutex_);
  --runs_[static_cast<std::size_t>(gpu)];
}

}  // namespace mxcheck

#include "properties/process/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>

#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr int kSuccess = 0;

// Layouts of the driver API's structures for virtual memory (cuda.h, CUmemAllocationProp and CUmemAccessDesc).
struct Location {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  int requested_handles = 0;
  Location location;
  void* win32 = nullptr;
  unsigned char flags[8] = {};
};
struct AccessDescription {
  Location location;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

// The driver's functions by the names under which cuda.h links them.
#define MXCHECK_CUDA_FUNCTIONS(X)                                                                   \
  X(cuInit, (unsigned))                                                                             \
  X(cuDriverGetVersion, (int*))                                                                     \
  X(cuDeviceGetCount, (int*))                                                                       \
  X(cuDeviceGet, (int*, int))                                                                       \
  X(cuDeviceGetName, (char*, int, int))                                                             \
  X(cuDeviceGetAttribute, (int*, int, int))                                                         \
  X(cuDeviceTotalMem_v2, (std::size_t*, int))                                                       \
  X(cuDeviceGetUuid, (unsigned char*, int))                                                         \
  X(cuDevicePrimaryCtxRetain, (CudaHandle*, int))                                                   \
  X(cuCtxSetCurrent, (CudaHandle))                                                                  \
  X(cuGetErrorString, (int, const char**))                                                          \
  X(cuMemAlloc_v2, (CudaPointer*, std::size_t))                                                     \
  X(cuMemFree_v2, (CudaPointer))                                                                    \
  X(cuMemsetD8Async, (CudaPointer, unsigned char, std::size_t, CudaHandle))                         \
  X(cuMemcpyHtoDAsync_v2, (CudaPointer, const void*, std::size_t, CudaHandle))                      \
  X(cuMemcpyDtoHAsync_v2, (void*, CudaPointer, std::size_t, CudaHandle))                            \
  X(cuMemcpyDtoDAsync_v2, (CudaPointer, CudaPointer, std::size_t, CudaHandle))                      \
  X(cuStreamCreate, (CudaHandle*, unsigned))                                                        \
  X(cuStreamSynchronize, (CudaHandle))                                                              \
  X(cuLaunchHostFunc, (CudaHandle, CudaHostFunction, void*))                                        \
  X(cuStreamBeginCapture_v2, (CudaHandle, int))                                                     \
  X(cuStreamEndCapture, (CudaHandle, CudaHandle*))                                                  \
  X(cuGraphInstantiateWithFlags, (CudaHandle*, CudaHandle, unsigned long long))                     \
  X(cuGraphLaunch, (CudaHandle, CudaHandle))                                                        \
  X(cuGraphExecDestroy, (CudaHandle))                                                               \
  X(cuGraphDestroy, (CudaHandle))                                                                   \
  X(cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int))                \
  X(cuMemAddressReserve, (CudaPointer*, std::size_t, std::size_t, CudaPointer, unsigned long long)) \
  X(cuMemAddressFree, (CudaPointer, std::size_t))                                                   \
  X(cuMemCreate, (std::uint64_t*, std::size_t, const AllocationProperties*, unsigned long long))    \
  X(cuMemRelease, (std::uint64_t))                                                                  \
  X(cuMemMap, (CudaPointer, std::size_t, std::size_t, std::uint64_t, unsigned long long))           \
  X(cuMemUnmap, (CudaPointer, std::size_t))                                                         \
  X(cuMemSetAccess, (CudaPointer, std::size_t, const AccessDescription*, std::size_t))

// NOLINTBEGIN(bugprone-macro-parentheses): names and lists of parameters cannot have them
struct Driver {
#define MXCHECK_CUDA_MEMBER(name, arguments) int(*name) arguments = nullptr;
  MXCHECK_CUDA_FUNCTIONS(MXCHECK_CUDA_MEMBER)
#undef MXCHECK_CUDA_MEMBER
  std::string problem;

  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      problem = "no CUDA driver: libcuda.so.1 cannot be loaded";
      return;
    }
#define MXCHECK_CUDA_LOAD(name, arguments)                          \
  name = reinterpret_cast<int(*) arguments>(dlsym(library, #name)); \
  if (name == nullptr) problem = "the CUDA driver has no function " #name;
    MXCHECK_CUDA_FUNCTIONS(MXCHECK_CUDA_LOAD)
#undef MXCHECK_CUDA_LOAD
  }
};

// NOLINTEND(bugprone-macro-parentheses)

const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

std::string words_of(int code) {
  const char* text = nullptr;
  if (driver().cuGetErrorString(code, &text) != kSuccess || text == nullptr) text = "unknown error";
  return "CUDA error " + std::to_string(code) + ", " + text;
}

void check(int code) {
  if (code != kSuccess) throw CudaFailure{code, words_of(code)};
}

int attribute_of(int device, int attribute) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, attribute, device));
  return value;
}

// ", 580.159.04" where Linux reports it.
std::string kernel_module() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 && word.find('.') != std::string::npos)
      return ", " + word;
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> model_of(int device) {
  char name[128] = {};
  std::size_t memory = 0;
  check(driver().cuDeviceGetName(name, sizeof(name) - 1, device));
  check(driver().cuDeviceTotalMem_v2(&memory, device));
  constexpr int kMajor = 75;
  constexpr int kMinor = 76;
  constexpr int kMultiprocessors = 16;
  return {{"device", name},
          {"compute capability",
           std::to_string(attribute_of(device, kMajor)) + "." + std::to_string(attribute_of(device, kMinor))},
          {"multiprocessors", std::to_string(attribute_of(device, kMultiprocessors))},
          {"device memory", std::to_string(memory >> 20) + " MiB"}};
}

// "GPU-8-4-4-4-12 digits", as CUDA_VISIBLE_DEVICES takes it and nvidia-smi -L prints it.
std::string uuid_of(int device) {
  std::array<unsigned char, 16> bytes{};
  check(driver().cuDeviceGetUuid(bytes.data(), device));
  std::string text = "GPU";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", bytes[i]);
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits.data();
  }
  return text;
}

}  // namespace

CudaDevice::CudaDevice() {
  const Driver& d = driver();
  if (!d.problem.empty()) throw Error(ErrorKind::environment, d.problem);
  const auto need = [&](int code, const char* what) {
    if (code != kSuccess) throw Error(ErrorKind::environment, std::string(what) + ": " + words_of(code));
  };
  need(d.cuInit(0), "the CUDA driver does not start");
  int count = 0;
  need(d.cuDeviceGetCount(&count), "CUDA devices cannot be counted");
  if (count == 0) throw Error(ErrorKind::environment, "there is no CUDA device");
  need(d.cuDeviceGet(&device_, 0), "no CUDA device 0");
  need(d.cuDevicePrimaryCtxRetain(&context_, device_), "no context on CUDA device 0");
  need(d.cuCtxSetCurrent(context_), "no context on CUDA device 0");
}

void CudaDevice::bind_thread() const { check(driver().cuCtxSetCurrent(context_)); }

std::vector<std::pair<std::string, std::string>> CudaDevice::description() const {
  int version = 0;
  check(driver().cuDriverGetVersion(&version));
  std::vector<std::pair<std::string, std::string>> all = model_of(device_);
  all.emplace_back(
      "driver", "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + kernel_module());
  return all;
}

std::vector<Gpu> CudaDevice::all_alike() const {
  int count = 0;
  check(driver().cuDeviceGetCount(&count));
  const auto model = model_of(device_);
  std::vector<Gpu> all;
  for (int number = 0; number < count; ++number) {
    int device = 0;
    check(driver().cuDeviceGet(&device, number));
    if (model_of(device) == model) all.push_back({number, uuid_of(device)});
  }
  return all;
}

CudaPointer CudaDevice::allocate(std::uint64_t bytes) {
  CudaPointer memory = 0;
  check(driver().cuMemAlloc_v2(&memory, bytes));
  return memory;
}

void CudaDevice::free(CudaPointer memory) {
  if (memory != 0) check(driver().cuMemFree_v2(memory));
}

void CudaDevice::fill(CudaPointer to, std::uint8_t value, std::uint64_t bytes, CudaHandle stream) {
  if (bytes != 0) check(driver().cuMemsetD8Async(to, value, bytes, stream));
}

void CudaDevice::to_device(CudaPointer to, const void* from, std::uint64_t bytes, CudaHandle stream) {
  if (bytes != 0) check(driver().cuMemcpyHtoDAsync_v2(to, from, bytes, stream));
}

void CudaDevice::to_host(void* to, CudaPointer from, std::uint64_t bytes, CudaHandle stream) {
  if (bytes != 0) check(driver().cuMemcpyDtoHAsync_v2(to, from, bytes, stream));
}

void CudaDevice::copy(CudaPointer to, CudaPointer from, std::uint64_t bytes, CudaHandle stream) {
  if (bytes != 0) check(driver().cuMemcpyDtoDAsync_v2(to, from, bytes, stream));
}

CudaHandle CudaDevice::create_stream() {
  constexpr unsigned kNonBlocking = 1;
  CudaHandle stream = nullptr;
  check(driver().cuStreamCreate(&stream, kNonBlocking));
  return stream;
}

void CudaDevice::synchronize(CudaHandle stream) { check(driver().cuStreamSynchronize(stream)); }

void CudaDevice::run_on_host(CudaHandle stream, CudaHostFunction function, void* argument) {
  check(driver().cuLaunchHostFunc(stream, function, argument));
}

void CudaDevice::begin_capture(CudaHandle stream) {
  constexpr int kThreadLocal = 1;  // what this thread must not do while it captures, allocations included, fails
  check(driver().cuStreamBeginCapture_v2(stream, kThreadLocal));
}

CudaHandle CudaDevice::end_capture(CudaHandle stream) {
  CudaHandle graph = nullptr;
  return driver().cuStreamEndCapture(stream, &graph) == kSuccess ? graph : nullptr;
}

CudaHandle CudaDevice::instantiate(CudaHandle graph) {
  CudaHandle executable = nullptr;
  check(driver().cuGraphInstantiateWithFlags(&executable, graph, 0));
  return executable;
}

void CudaDevice::launch(CudaHandle executable, CudaHandle stream) { check(driver().cuGraphLaunch(executable, stream)); }

void CudaDevice::destroy_graph(CudaHandle graph, CudaHandle executable) {
  if (executable != nullptr) check(driver().cuGraphExecDestroy(executable));
  if (graph != nullptr) check(driver().cuGraphDestroy(graph));
}

CudaDevice::Guarded CudaDevice::allocate_guarded(std::uint64_t bytes) {
  AllocationProperties properties;
  properties.location.id = device_;
  std::size_t granule = 0;
  check(driver().cuMemGetAllocationGranularity(&granule, &properties, 0));
  Guarded memory;
  memory.bytes = (bytes + granule - 1) / granule * granule;
  check(driver().cuMemAddressReserve(&memory.reserved, memory.bytes + 2 * granule, 0, 0, 0));
  memory.begin = memory.reserved + granule;
  check(driver().cuMemCreate(&memory.handle, memory.bytes, &properties, 0));
  check(driver().cuMemMap(memory.begin, memory.bytes, 0, memory.handle, 0));
  AccessDescription access;
  access.location.id = device_;
  check(driver().cuMemSetAccess(memory.begin, memory.bytes, &access, 1));
  return memory;
}

void CudaDevice::free_guarded(const Guarded& memory) {
  if (memory.reserved == 0) return;
  const std::uint64_t granule = memory.begin - memory.reserved;
  check(driver().cuMemUnmap(memory.begin, memory.bytes));
  check(driver().cuMemRelease(memory.handle));
  check(driver().cuMemAddressFree(memory.reserved, memory.bytes + 2 * granule));
}

}  // namespace mxcheck

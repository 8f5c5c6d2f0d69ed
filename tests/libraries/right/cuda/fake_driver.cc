// A CUDA driver of host memory, built as libcuda.so.1: as much of it as properties/process/cuda_driver.h asks for, so
// that the gate's handling of CUDA candidates is tested where there is no GPU. Streams are queues that run when
// somebody waits, as late as they can: of another stream only what an event asks for. With FAKE_GPUS, memory can be
// shown to other processes; FAKE_NO_IPC refuses that.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using Work = std::vector<std::function<void()>>;

struct Stream {
  std::deque<std::function<void()>> queue;
  std::size_t enqueued = 0, begun = 0;  // by number
  bool capturing = false, invalidated = false;
  Work captured;
};

constexpr int kInvalid = 1;
constexpr int kCaptureInvalidated = 901;
constexpr std::size_t kGranule = 4096;

std::map<void*, Stream>& streams() {
  static std::map<void*, Stream> all;
  return all;
}
int& device_error() {
  static int code = 0;
  return code;
}

int enqueue(void* stream, std::function<void()> work) {
  if (device_error() != 0) return device_error();
  Stream& s = streams()[stream];
  if (s.capturing) {
    s.captured.push_back(std::move(work));
  } else {
    s.queue.push_back(std::move(work)), ++s.enqueued;
  }
  return 0;
}

// FAKE_GPUS of them (1), numbered from 0. CUDA_VISIBLE_DEVICES names some as CUDA takes it, by number or by UUID; the
// first name of none ends the list.
std::vector<int> visible_gpus() {
  if (std::getenv("FAKE_NO_DEVICE") != nullptr) return {};
  const char* const count = std::getenv("FAKE_GPUS");
  const int all = count == nullptr ? 1 : std::atoi(count);
  std::vector<int> gpus;
  const char* const names = std::getenv("CUDA_VISIBLE_DEVICES");
  if (names == nullptr) {
    for (int i = 0; i < all; ++i) gpus.push_back(i);
    return gpus;
  }
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    const std::string number = name.substr(name.rfind('-') + 1);
    if (number.empty() || std::stoi(number) >= all) break;
    gpus.push_back(std::stoi(number));
  }
  return gpus;
}

// A line in FAKE_LOG for each process that takes a GPU up.
void note_use_of(int device) {
  const char* const path = std::getenv("FAKE_LOG");
  if (path != nullptr) std::ofstream(path, std::ios::app) << device << "\n";
}

// Thrown by work that waits for another process; it is done again later.
struct NotYet {};
constexpr int kNotReady = 600;

// Work up to this number, which may have other streams do theirs.
void run_until(void* stream, std::size_t number) {
  while (streams()[stream].begun < number) {
    Stream& s = streams()[stream];
    const auto work = s.queue.front();
    work();
    s.queue.pop_front(), ++s.begun;
  }
}

// Memory that other processes can open, in files without a name.
struct Shared {
  int process = 0;
  int file = -1;
  std::size_t bytes = 0;
};
std::map<std::uint64_t, Shared>& shared_memory() {
  static std::map<std::uint64_t, Shared> all;
  return all;
}
std::map<std::uint64_t, std::size_t>& opened_memory() {
  static std::map<std::uint64_t, std::size_t> all;
  return all;
}
std::uint64_t map_file(int file, std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(memory);
}
std::uint32_t& word_at(std::uint64_t at) { return *reinterpret_cast<std::uint32_t*>(at); }

struct Event {
  void* stream = nullptr;
  std::size_t number = 0;
  double milliseconds = 0;
};

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

// For the fake candidates: a kernel, and a fault of the device.
FAKE_EXPORT int fake_launch(void* stream, void (*kernel)(void*), void* argument) {
  return enqueue(stream, [kernel, argument] { kernel(argument); });
}
FAKE_EXPORT void fake_fault() { device_error() = 700; }
// The number of the GPU that the process sees first, among all.
FAKE_EXPORT int fake_gpu() { return visible_gpus().front(); }

FAKE_EXPORT int cuInit(unsigned) { return 0; }
FAKE_EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
FAKE_EXPORT int cuDeviceGetCount(int* count) { return *count = static_cast<int>(visible_gpus().size()), 0; }
FAKE_EXPORT int cuDeviceGet(int* device, int number) {
  return *device = visible_gpus().at(static_cast<std::size_t>(number)), 0;
}
FAKE_EXPORT int cuDeviceGetName(char* name, int size, int device) {
  const char* const other = std::getenv("FAKE_OTHER_MODEL");
  const bool is_other = other != nullptr && std::atoi(other) == device;
  return std::snprintf(name, static_cast<std::size_t>(size), is_other ? "Another fake GPU" : "Fake GPU"), 0;
}
FAKE_EXPORT int cuDeviceGetUuid(unsigned char* bytes, int device) {
  std::memset(bytes, 0, 16);
  return bytes[15] = static_cast<unsigned char>(device), 0;
}
FAKE_EXPORT int cuDeviceGetAttribute(int* value, int, int) { return *value = 9, 0; }
FAKE_EXPORT int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = std::size_t{1} << 30, 0; }
FAKE_EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  note_use_of(device);
  return *context = &streams(), 0;
}
FAKE_EXPORT int cuCtxSetCurrent(void*) { return 0; }
FAKE_EXPORT int cuGetErrorString(int code, const char** text) {
  *text = code == 700 ? "an illegal memory access was encountered" : "another error";
  return 0;
}
FAKE_EXPORT int cuMemAlloc_v2(std::uint64_t* memory, std::size_t bytes) {
  for (auto& [id, stream] : streams()) stream.invalidated = stream.invalidated || stream.capturing;
  if (std::getenv("FAKE_GPUS") != nullptr) {
    const int file = memfd_create("fake GPU", MFD_CLOEXEC);
    *memory = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0 ? map_file(file, bytes) : 0;
    if (*memory == 0) return 2;
    std::memset(reinterpret_cast<void*>(*memory), 0xA5, bytes);  // memory that is not written is no zero
    shared_memory()[*memory] = {getpid(), file, bytes};
    return 0;
  }
  *memory = reinterpret_cast<std::uint64_t>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  return *memory != 0 ? 0 : 2;
}
FAKE_EXPORT int cuMemFree_v2(std::uint64_t memory) {
  const auto found = shared_memory().find(memory);
  if (found == shared_memory().end()) return std::free(reinterpret_cast<void*>(memory)), 0;
  munmap(reinterpret_cast<void*>(memory), found->second.bytes);
  close(found->second.file);
  return shared_memory().erase(found), 0;
}
FAKE_EXPORT int cuMemGetAddressRange_v2(std::uint64_t* begin, std::size_t* bytes, std::uint64_t inside) {
  for (const auto& [at, shared] : shared_memory()) {
    if (inside >= at && inside < at + shared.bytes) return *begin = at, *bytes = shared.bytes, 0;
  }
  return kInvalid;
}
struct IpcHandle {
  Shared shared;
  char rest[64 - sizeof(Shared)];
};
FAKE_EXPORT int cuIpcGetMemHandle(IpcHandle* handle, std::uint64_t memory) {
  const auto found = shared_memory().find(memory);
  if (found == shared_memory().end() || std::getenv("FAKE_NO_IPC") != nullptr) return kInvalid;
  *handle = {};
  handle->shared = found->second;
  return 0;
}
FAKE_EXPORT int cuIpcOpenMemHandle_v2(std::uint64_t* memory, IpcHandle handle, unsigned) {
  const std::string name =
      "/proc/" + std::to_string(handle.shared.process) + "/fd/" + std::to_string(handle.shared.file);
  const int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalid;
  *memory = map_file(file, handle.shared.bytes);
  close(file);
  if (*memory != 0) opened_memory()[*memory] = handle.shared.bytes;
  return *memory != 0 ? 0 : kInvalid;
}
FAKE_EXPORT int cuIpcCloseMemHandle(std::uint64_t memory) {
  const auto found = opened_memory().find(memory);
  if (found == opened_memory().end()) return kInvalid;
  munmap(reinterpret_cast<void*>(memory), found->second);
  return opened_memory().erase(found), 0;
}
FAKE_EXPORT int cuStreamWriteValue32_v2(void* stream, std::uint64_t to, std::uint32_t value, unsigned) {
  return enqueue(stream, [=] { std::atomic_ref(word_at(to)).store(value, std::memory_order_release); });
}
// At least the value.
FAKE_EXPORT int cuStreamWaitValue32_v2(void* stream, std::uint64_t at, std::uint32_t value, unsigned) {
  return enqueue(stream, [=] {
    if (std::atomic_ref(word_at(at)).load(std::memory_order_acquire) < value) throw NotYet();
  });
}
FAKE_EXPORT int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void* stream) {
  return enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}
FAKE_EXPORT int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
  return enqueue(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}
FAKE_EXPORT int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  return enqueue(stream, [=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
}
FAKE_EXPORT int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
  return enqueue(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
}
FAKE_EXPORT int cuStreamCreate(void** stream, unsigned) {
  *stream = std::malloc(1);
  return 0;
}
FAKE_EXPORT int cuStreamQuery(void* stream) {
  try {
    run_until(stream, streams()[stream].enqueued);
    return device_error();
  } catch (const NotYet&) {
    return kNotReady;
  }
}
FAKE_EXPORT int cuStreamSynchronize(void* stream) {
  Stream& s = streams()[stream];
  if (s.capturing) return s.invalidated = true, kCaptureInvalidated;
  while (cuStreamQuery(stream) == kNotReady) usleep(100);
  return device_error();
}
FAKE_EXPORT int cuStreamCreateWithPriority(void** stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
FAKE_EXPORT int cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, 0; }
FAKE_EXPORT int cuEventCreate(void** event, unsigned) { return *event = new Event, 0; }
FAKE_EXPORT int cuEventDestroy_v2(void* event) { return delete static_cast<Event*>(event), 0; }
FAKE_EXPORT int cuEventRecord(void* event, void* stream) {
  auto* const e = static_cast<Event*>(event);
  const int code = enqueue(stream, [e] {
    e->milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
  });
  e->stream = stream, e->number = streams()[stream].enqueued;
  return code;
}
FAKE_EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const Event e = *static_cast<Event*>(event);
  return enqueue(stream, [e] { run_until(e.stream, e.number); });
}
FAKE_EXPORT int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  *milliseconds = static_cast<float>(static_cast<Event*>(to)->milliseconds - static_cast<Event*>(from)->milliseconds);
  return 0;
}
FAKE_EXPORT int cuModuleLoadData(void** module, const void*) { return *module = &streams(), 0; }
// The kernels of tools/parallel/gpu_device.cc, by name: words of 4 or 16 bytes.
FAKE_EXPORT int cuModuleGetFunction(void** function, void*, const char* name) {
  static std::size_t words[] = {4, 16};
  *function = std::strcmp(name, "gather16") == 0 ? &words[1] : &words[0];
  return 0;
}
FAKE_EXPORT int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               void* stream, void** arguments, void**) {
  char* to = nullptr;
  const char* from = nullptr;
  const std::int32_t* index = nullptr;
  std::uint64_t words = 0, rows = 0;
  std::memcpy(&to, arguments[0], sizeof(to)), std::memcpy(&from, arguments[1], sizeof(from));
  std::memcpy(&index, arguments[2], sizeof(index)), std::memcpy(&words, arguments[3], sizeof(words));
  std::memcpy(&rows, arguments[4], sizeof(rows));
  const std::size_t bytes = words * *static_cast<std::size_t*>(function);
  return enqueue(stream, [=] {
    for (std::uint64_t i = 0; i < rows; ++i)
      std::memcpy(to + i * bytes, from + static_cast<std::size_t>(index[i]) * bytes, bytes);
  });
}
FAKE_EXPORT int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  return fake_launch(stream, function, argument);
}
FAKE_EXPORT int cuStreamBeginCapture_v2(void* stream, int) {
  Stream& s = streams()[stream];
  s.capturing = true, s.invalidated = false, s.captured.clear();
  return 0;
}
FAKE_EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  Stream& s = streams()[stream];
  s.capturing = false;
  if (s.invalidated) return kCaptureInvalidated;
  *graph = new Work(std::move(s.captured));
  return 0;
}
FAKE_EXPORT int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new Work(*static_cast<Work*>(graph));
  return 0;
}
FAKE_EXPORT int cuGraphLaunch(void* executable, void* stream) {
  for (const auto& work : *static_cast<Work*>(executable)) enqueue(stream, work);
  return device_error();
}
FAKE_EXPORT int cuGraphExecDestroy(void* executable) { return delete static_cast<Work*>(executable), 0; }
FAKE_EXPORT int cuGraphDestroy(void* graph) { return delete static_cast<Work*>(graph), 0; }
FAKE_EXPORT int cuMemGetAllocationGranularity(std::size_t* bytes, const void*, int) { return *bytes = kGranule, 0; }
FAKE_EXPORT int cuMemAddressReserve(std::uint64_t* at, std::size_t bytes, std::size_t, std::uint64_t,
                                    unsigned long long) {
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *at = reinterpret_cast<std::uint64_t>(memory);
  return memory == MAP_FAILED ? kInvalid : 0;
}
FAKE_EXPORT int cuMemAddressFree(std::uint64_t at, std::size_t bytes) {
  return munmap(reinterpret_cast<void*>(at), bytes);
}
FAKE_EXPORT int cuMemCreate(std::uint64_t* handle, std::size_t, const void*, unsigned long long) {
  return *handle = 1, 0;
}
FAKE_EXPORT int cuMemRelease(std::uint64_t) { return 0; }
FAKE_EXPORT int cuMemMap(std::uint64_t, std::size_t, std::size_t, std::uint64_t, unsigned long long) { return 0; }
FAKE_EXPORT int cuMemUnmap(std::uint64_t at, std::size_t bytes) {
  return mprotect(reinterpret_cast<void*>(at), bytes, PROT_NONE);
}
FAKE_EXPORT int cuMemSetAccess(std::uint64_t at, std::size_t bytes, const void*, std::size_t) {
  return mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE);
}

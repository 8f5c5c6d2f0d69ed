#include "tools/parallel/gpu_peer.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "kernels/parallel/ranks.h"

namespace mxcheck {
namespace {

using mxcheck_kernels::parallel::Fault;
using mxcheck_kernels::parallel::ParallelError;
using mxcheck_kernels::parallel::PeerCopy;
using mxcheck_kernels::parallel::PeerPush;

constexpr std::size_t kCopyStreams = 4;
constexpr unsigned kUntimed = 2;           // CU_EVENT_DISABLE_TIMING
constexpr unsigned kNotLegacy = 1;         // CU_STREAM_NON_BLOCKING
constexpr unsigned kReachesPeers = 1;      // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
constexpr unsigned kAtLeast = 0;           // CU_STREAM_WAIT_VALUE_GEQ
constexpr std::uint8_t kBeyondAll = 0x3F;  // of each byte of a word: beyond every number of a step

}  // namespace

GpuPeerMemory::GpuPeerMemory(CudaDevice& cuda, const MoreOfDriver& driver, CudaHandle lane)
    : cuda_(cuda), driver_(driver), lane_(lane), control_(cuda.create_stream()) {
  int least = 0, greatest = 0;
  driver_.check(driver_.priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
  for (std::size_t i = 0; i < kCopyStreams; ++i) {
    CudaHandle stream = nullptr, event = nullptr;
    driver_.check(driver_.create_stream(&stream, kNotLegacy, greatest), "cuStreamCreateWithPriority");
    driver_.check(driver_.event_create(&event, kUntimed), "cuEventCreate");
    copies_.push_back(stream), joins_.push_back(event);
  }
  driver_.check(driver_.event_create(&fork_, kUntimed), "cuEventCreate");
  driver_.check(driver_.event_create(&ready_, kUntimed), "cuEventCreate");
}

GpuPeerMemory::~GpuPeerMemory() {
  for (CudaHandle event : joins_) driver_.event_destroy(event);
  driver_.event_destroy(fork_), driver_.event_destroy(ready_);
}

bool GpuPeerMemory::keeps(CudaPointer memory) {
  if (!shown_.contains(memory)) return false;
  kept_.push_back(memory);
  return true;
}

void GpuPeerMemory::release_waits(std::uint32_t* words, std::uint64_t count) noexcept {
  try {
    cuda_.fill(address(words), kBeyondAll, count * sizeof(*words), control_);
    cuda_.synchronize(control_);
  } catch (const CudaFailure&) {  // the context is gone, and what waits with it
  }
}

std::vector<std::uint32_t> GpuPeerMemory::read(const std::uint32_t* words, std::uint64_t count) {
  std::vector<std::uint32_t> values(count);
  cuda_.to_host(values.data(), address(words), count * sizeof(*words), control_);
  cuda_.synchronize(control_);
  return values;
}

std::string GpuPeerMemory::host() const {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot;
}

GpuPeerMemory::Shown GpuPeerMemory::show(const void* inside) {
  if (!driver_.shows_memory) throw ParallelError(Fault::environment, "the CUDA driver is older than 12.0");
  CudaPointer begin = 0;
  std::size_t bytes = 0;
  driver_.check(driver_.address_range(&begin, &bytes, address(inside)), "cuMemGetAddressRange");
  IpcHandle handle;
  const int code = driver_.ipc_show(&handle, begin);
  if (code != 0) throw ParallelError(Fault::environment, "cuIpcGetMemHandle: " + driver_.words_of(code));
  shown_.insert(begin);
  return {std::string(handle.bytes.data(), handle.bytes.size()),
          reinterpret_cast<std::byte*>(begin)};  // NOLINT(performance-no-int-to-ptr)
}

std::byte* GpuPeerMemory::open(const std::string& key) {
  IpcHandle handle;
  if (key.size() != handle.bytes.size()) throw ParallelError(Fault::environment, "it shows none");
  std::memcpy(handle.bytes.data(), key.data(), key.size());
  CudaPointer memory = 0;
  const int code = driver_.ipc_open(&memory, handle, kReachesPeers);
  if (code != 0) throw ParallelError(Fault::environment, "cuIpcOpenMemHandle: " + driver_.words_of(code));
  return reinterpret_cast<std::byte*>(memory);  // NOLINT(performance-no-int-to-ptr)
}

void GpuPeerMemory::close(std::byte* opened) noexcept { (void)driver_.ipc_close(address(opened)); }

void GpuPeerMemory::all_closed() {
  for (const CudaPointer memory : kept_) {
    shown_.erase(memory);
    cuda_.free(memory);
  }
  kept_.clear();
}

void GpuPeerMemory::copy(const PeerCopy& here) { cuda_.copy(address(here.to), address(here.from), here.bytes, lane_); }

void GpuPeerMemory::write(std::uint32_t* word, std::uint32_t value) {
  const int code = driver_.stream_write_word(lane_, address(word), value, 0);
  if (code != 0) throw ParallelError(Fault::environment, "cuStreamWriteValue32: " + driver_.words_of(code));
}

void GpuPeerMemory::wait(int, const std::uint32_t* word, std::uint32_t value, std::string_view) {
  driver_.check(driver_.stream_wait_word(lane_, address(word), value, kAtLeast), "cuStreamWaitValue32");
}

void GpuPeerMemory::follow(CudaHandle stream, CudaHandle before, CudaHandle event) {
  driver_.check(driver_.event_record(event, before), "cuEventRecord");
  driver_.check(driver_.stream_wait(stream, event, 0), "cuStreamWaitEvent");
}

void GpuPeerMemory::push(std::span<const PeerPush> pushes, std::uint32_t value, std::string_view) {
  if (pushes.empty()) return;
  driver_.check(driver_.event_record(fork_, lane_), "cuEventRecord");
  for (CudaHandle stream : copies_) driver_.check(driver_.stream_wait(stream, fork_, 0), "cuStreamWaitEvent");
  const std::size_t ways = std::max<std::size_t>(1, copies_.size() / pushes.size());
  for (std::size_t i = 0; i < pushes.size(); ++i)
    push_in(std::span(copies_).subspan(i * ways % copies_.size(), ways), pushes[i], value);
  for (std::size_t i = 0; i < copies_.size(); ++i) follow(lane_, copies_[i], joins_[i]);
}

// The first of the streams waits for the peer, and tells it at the end.
void GpuPeerMemory::push_in(std::span<const CudaHandle> streams, const PeerPush& push, std::uint32_t value) {
  driver_.check(driver_.stream_wait_word(streams[0], address(push.ready), value, kAtLeast), "cuStreamWaitValue32");
  driver_.check(driver_.event_record(ready_, streams[0]), "cuEventRecord");
  for (CudaHandle other : streams.subspan(1)) driver_.check(driver_.stream_wait(other, ready_, 0), "cuStreamWaitEvent");
  for (std::size_t i = 0; i < push.copies.size(); ++i) {
    const PeerCopy& c = push.copies[i];
    cuda_.copy(address(c.to), address(c.from), c.bytes, streams[i % streams.size()]);
  }
  for (std::size_t k = 1; k < streams.size(); ++k) follow(streams[0], streams[k], ready_);
  driver_.check(driver_.stream_write_word(streams[0], address(push.arrived), value, 0), "cuStreamWriteValue32");
}

}  // namespace mxcheck

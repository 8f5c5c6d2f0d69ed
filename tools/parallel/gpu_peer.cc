#include "tools/parallel/gpu_peer.h"

#include <cstring>
#include <fstream>

#include "kernels/parallel/ranks.h"

namespace mxcheck {
namespace {

using mxcheck_kernels::parallel::Fault;
using mxcheck_kernels::parallel::ParallelError;
using mxcheck_kernels::parallel::PeerCopy;
using mxcheck_kernels::parallel::PeerPush;

constexpr unsigned kReachesPeers = 1;      // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
constexpr unsigned kAtLeast = 0;           // CU_STREAM_WAIT_VALUE_GEQ
constexpr std::uint8_t kBeyondAll = 0x3F;  // of each byte of a word: beyond every number of a step

}  // namespace

GpuPeerMemory::GpuPeerMemory(CudaDevice& cuda, const MoreOfDriver& driver, CudaHandle lane)
    : cuda_(cuda),
      driver_(driver),
      lane_(lane),
      says_(cuda.create_stream()),
      sends_(cuda.create_stream()),
      control_(cuda.create_stream()) {}

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

void GpuPeerMemory::write_in(CudaHandle stream, std::uint32_t* word, std::uint32_t value) const {
  const int code = driver_.stream_write_word(stream, address(word), value, 0);
  if (code != 0) throw ParallelError(Fault::environment, "cuStreamWriteValue32: " + driver_.words_of(code));
}

void GpuPeerMemory::wait_in(CudaHandle stream, const std::uint32_t* word, std::uint32_t value) const {
  driver_.check(driver_.stream_wait_word(stream, address(word), value, kAtLeast), "cuStreamWaitValue32");
}

void GpuPeerMemory::write(std::uint32_t* word, std::uint32_t value) { write_in(says_, word, value); }

void GpuPeerMemory::wait(int, const std::uint32_t* word, std::uint32_t value, std::string_view) {
  wait_in(lane_, word, value);
}

void GpuPeerMemory::push(std::span<const PeerPush> pushes, std::uint32_t value, std::string_view) {
  for (const PeerPush& push : pushes) {
    wait_in(sends_, push.ready, value);
    for (const PeerCopy& c : push.copies) cuda_.copy(address(c.to), address(c.from), c.bytes, sends_);
    write_in(sends_, push.arrived, value);
  }
}

}  // namespace mxcheck

// Memory of the host in files without a name, which other processes open by the number of this one and of the file.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "kernels/parallel/peer.h"
#include "kernels/parallel/ranks.h"
#include "kernels/parallel/sockets.h"

namespace mxcheck_kernels::parallel {
namespace {

constexpr int kSpins = 2000;  // before a wait sleeps
constexpr int kSleepsBetweenLooks = 20;

std::byte* mapped(int file, std::uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

SharedHostMemory::~SharedHostMemory() {
  while (!own_.empty()) release(own_.begin()->first);
}

void* SharedHostMemory::allocate(std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const int file = memfd_create("mxcheck rows", MFD_CLOEXEC);
  std::byte* memory = nullptr;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) memory = mapped(file, bytes);
  if (memory == nullptr) {
    if (file >= 0) ::close(file);
    throw ParallelError(Fault::environment, "no shared memory for " + std::to_string(bytes) + " bytes on the host");
  }
  own_[memory] = {file, bytes};
  return memory;
}

void SharedHostMemory::release(void* memory) noexcept {
  const auto found = own_.find(static_cast<std::byte*>(memory));
  if (found == own_.end()) return;
  munmap(memory, found->second.bytes);
  ::close(found->second.file);
  own_.erase(found);
}

// The same kernel and the same numbers of processes.
std::string SharedHostMemory::host() const {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 128> numbers{};
  if (readlink("/proc/self/ns/pid", numbers.data(), numbers.size() - 1) < 0) return boot;
  return boot + " " + numbers.data();
}

PeerMemory::Shown SharedHostMemory::show(const void* inside) {
  for (const auto& [begin, allocation] : own_) {
    if (inside < begin || inside >= begin + allocation.bytes) continue;
    return {"/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(allocation.file), begin};
  }
  throw ParallelError(Fault::configuration, "memory that this device did not allocate cannot be shown");
}

std::byte* SharedHostMemory::open(const std::string& key) {
  const int file = ::open(key.c_str(), O_RDWR | O_CLOEXEC);
  struct stat about {};
  std::byte* memory = nullptr;
  const bool is_there = file >= 0 && fstat(file, &about) == 0;
  if (is_there) memory = mapped(file, static_cast<std::uint64_t>(about.st_size));
  const std::string why = std::strerror(errno);
  if (file >= 0) ::close(file);
  if (memory == nullptr) throw ParallelError(Fault::environment, key + ": " + why);
  opened_[memory] = static_cast<std::uint64_t>(about.st_size);
  return memory;
}

void SharedHostMemory::close(std::byte* opened) noexcept {
  const auto found = opened_.find(opened);
  if (found == opened_.end()) return;
  munmap(opened, found->second);
  opened_.erase(found);
}

void SharedHostMemory::copy(const PeerCopy& here) { std::memcpy(here.to, here.from, here.bytes); }

void SharedHostMemory::write(std::uint32_t* word, std::uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

void SharedHostMemory::wait(int peer, const std::uint32_t* word, std::uint32_t value, std::string_view step) {
  // Only read; an atomic_ref of const is not in C++20.
  std::atomic_ref<std::uint32_t> flag(*const_cast<std::uint32_t*>(word));  // NOLINT(*-const-cast)
  const Deadline deadline = Clock::now() + timeout_;
  for (int polls = 0; flag.load(std::memory_order_acquire) < value; ++polls) {
    if (polls < kSpins) continue;
    if (polls % kSleepsBetweenLooks == 0) {
      mesh_.look(step);
      if (Clock::now() > deadline) {
        throw ParallelError(Fault::rank, "rank " + std::to_string(peer) + " did not reach '" + std::string(step) +
                                             "' within " + seconds_text(timeout_) + " of rank " +
                                             std::to_string(mesh_.rank()));
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void SharedHostMemory::push(std::span<const PeerPush> pushes, std::uint32_t value, std::string_view step) {
  for (const PeerPush& push : pushes) {
    wait(push.peer, push.ready, value, step);
    for (const PeerCopy& copy : push.copies) std::memcpy(copy.to, copy.from, copy.bytes);
    write(push.arrived, value);
  }
}

}  // namespace mxcheck_kernels::parallel

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "kernels/parallel/device.h"
#include "kernels/parallel/peer.h"
#include "kernels/parallel/ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

HostDevice::HostDevice(Mesh& mesh) : mesh_(mesh) {}

HostDevice::HostDevice(Mesh& mesh, std::chrono::milliseconds timeout_of_peers)
    : mesh_(mesh), shared_(std::make_unique<SharedHostMemory>(mesh, timeout_of_peers)) {
  const std::uint64_t words = PeerExchange::words_of(mesh.ranks());
  peers_ = std::make_unique<PeerExchange>(
      mesh, *shared_, static_cast<std::uint32_t*>(shared_->allocate(words * sizeof(std::uint32_t))));
  if (!peers_->problem().empty()) throw ParallelError(Fault::environment, peers_->problem());
}

HostDevice::~HostDevice() = default;

void* HostDevice::allocate(std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  if (shared_) return shared_->allocate(bytes);
  const std::uint64_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = whole < bytes ? nullptr : std::aligned_alloc(kAlignment, whole);
  if (memory == nullptr)
    throw ParallelError(Fault::environment, "no memory for " + std::to_string(bytes) + " bytes on the host");
  return memory;
}

void HostDevice::release(void* memory) noexcept {
  if (shared_) return shared_->release(memory);
  std::free(memory);
}

void HostDevice::to_device(void* to, const void* from, std::uint64_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void HostDevice::to_host(void* to, const void* from, std::uint64_t bytes) { to_device(to, from, bytes); }

void HostDevice::copy(void* to, const void* from, std::uint64_t bytes) { to_device(to, from, bytes); }

void HostDevice::clear(void* to, std::uint64_t bytes) {
  if (bytes != 0) std::memset(to, 0, bytes);
}

void HostDevice::gather_rows(void* to, const void* from, const std::int32_t* index, std::int64_t rows,
                             std::int64_t row_bytes) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(static_cast<std::byte*>(to) + i * row_bytes, static_cast<const std::byte*>(from) + index[i] * row_bytes,
                static_cast<std::size_t>(row_bytes));
  }
}

void HostDevice::transfer(std::string_view step, std::span<const Transfer> sends, std::span<const Transfer> receives) {
  if (peers_) return peers_->transfer(step);
  mesh_.exchange(step, sends, receives);
}

void HostDevice::connect(std::span<const Exchange> all) {
  if (peers_) peers_->connect(all);
}

void HostDevice::disconnect() {
  if (peers_) peers_->disconnect();
  peers_.reset();
}

int HostDevice::mark(Lane) {
  marks_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
  return static_cast<int>(marks_.size()) - 1;
}

double HostDevice::seconds_between(int from, int to) {
  return marks_.at(static_cast<std::size_t>(to)) - marks_.at(static_cast<std::size_t>(from));
}

}  // namespace mxcheck_kernels::parallel

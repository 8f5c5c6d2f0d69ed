#pragma once
// A rank's memory, its two queues of work, and what moves rows between ranks: on the host, or on a GPU (the program's
// own, tools/parallel). Work of one lane runs in the order in which it was enqueued; what waits for another lane says
// so by a mark. On the host all work is done when a call returns.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dlpack/dlpack.h>

#include "kernels/parallel/mesh.h"

namespace mxcheck_kernels::parallel {

enum class Lane : std::uint8_t { compute, transfer };

// The rows that travel between the ranks in one step.
struct Exchange {
  std::string step;
  std::vector<Transfer> sends, receives;
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual DLDeviceType type() const = 0;
  [[nodiscard]] virtual void* stream() const = 0;  // of the compute lane, for calls of libraries; null on the host

  // At a multiple of 256 bytes; ParallelError{environment} without so much memory. 0 bytes: null.
  virtual void* allocate(std::uint64_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Between host and device. to_host waits for the compute lane.
  virtual void to_device(void* to, const void* from, std::uint64_t bytes) = 0;
  virtual void to_host(void* to, const void* from, std::uint64_t bytes) = 0;
  // In the compute lane.
  virtual void clear(void* to, std::uint64_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::uint64_t bytes) = 0;

  // Row i of `to` is row index[i] of `from`: in the compute lane. Rows of a multiple of 4 bytes.
  virtual void gather_rows(void* to, const void* from, const std::int32_t* index, std::int64_t rows,
                           std::int64_t row_bytes) = 0;
  // Between the ranks, in the transfer lane: a mark after it is after what was received. Those of this rank to itself
  // are copied. What one step receives is not what an earlier one still sends or receives, but for marks that the lane
  // waited for: steps may overlap.
  virtual void transfer(std::string_view step, std::span<const Transfer> sends, std::span<const Transfer> receives) = 0;
  // Told before the first transfer of these steps, by all ranks alike: a device that writes to memory of other ranks
  // learns where. Those told before are forgotten, and a transfer of a step that was told has these sends and receives.
  virtual void connect(std::span<const Exchange>) {}

  // A point in a lane, after what was enqueued there; numbers are valid until forget_marks().
  virtual int mark(Lane lane) = 0;
  virtual void wait(Lane lane, int mark) = 0;
  // Waits for both lanes. Throws what a peer that failed said.
  virtual void synchronize(std::string_view step) = 0;
  [[nodiscard]] virtual double seconds_between(int from, int to) = 0;  // after synchronize()
  virtual void forget_marks() = 0;
  // After the last transfer of all ranks, which call it alike.
  virtual void disconnect() {}
};

// Memory of a device that is given back.
class Memory {
 public:
  Memory() = default;
  Memory(Device& device, std::uint64_t bytes) : device_(&device), data_(device.allocate(bytes)), bytes_(bytes) {}
  ~Memory() {
    if (data_ != nullptr) device_->release(data_);
  }
  Memory(Memory&& other) noexcept { *this = static_cast<Memory&&>(other); }
  Memory& operator=(Memory&& other) noexcept {
    Device* const device = device_;
    void* const data = data_;
    const std::uint64_t bytes = bytes_;
    device_ = other.device_, data_ = other.data_, bytes_ = other.bytes_;
    other.device_ = device, other.data_ = data, other.bytes_ = bytes;
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return static_cast<std::byte*>(data_) + offset; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

class PeerExchange;
class SharedHostMemory;

// Host memory, and rows over the mesh, or by memory that the ranks share (peer.h).
class HostDevice final : public Device {
 public:
  explicit HostDevice(Mesh& mesh);
  // All ranks together. ParallelError{environment} where some cannot reach memory of others.
  HostDevice(Mesh& mesh, std::chrono::milliseconds timeout_of_peers);
  ~HostDevice() override;
  [[nodiscard]] DLDeviceType type() const override { return kDLCPU; }
  [[nodiscard]] void* stream() const override { return nullptr; }
  void* allocate(std::uint64_t bytes) override;
  void release(void* memory) noexcept override;
  void to_device(void* to, const void* from, std::uint64_t bytes) override;
  void to_host(void* to, const void* from, std::uint64_t bytes) override;
  void clear(void* to, std::uint64_t bytes) override;
  void copy(void* to, const void* from, std::uint64_t bytes) override;
  void gather_rows(void* to, const void* from, const std::int32_t* index, std::int64_t rows,
                   std::int64_t row_bytes) override;
  void transfer(std::string_view step, std::span<const Transfer> sends, std::span<const Transfer> receives) override;
  void connect(std::span<const Exchange> all) override;
  void disconnect() override;
  int mark(Lane lane) override;
  void wait(Lane, int) override {}
  void synchronize(std::string_view) override {}
  [[nodiscard]] double seconds_between(int from, int to) override;
  void forget_marks() override { marks_.clear(); }

 private:
  Mesh& mesh_;
  std::unique_ptr<SharedHostMemory> shared_;
  std::unique_ptr<PeerExchange> peers_;
  std::vector<double> marks_;
};

}  // namespace mxcheck_kernels::parallel

#pragma once
// Calls of a CUDA candidate, in the child process. The gate's shared memory is copied to the device whole, red zones
// included, and back after the call: what is checked on the host is what the device left.

#include <array>
#include <memory>

#include "properties/cuda_driver.h"
#include "properties/worker_lane.h"

namespace mxcheck {

class CudaWorker {
 public:
  CudaWorker();  // Error{environment} without driver or device

  [[nodiscard]] const CudaDevice& device() const { return device_; }

  // Runs as message.stream_mode says; c.shared is replaced by what the device holds afterwards. A driver call that
  // fails becomes reply.device_error, after which the process is of no more use.
  void run(const DeviceCall& c);

 private:
  void in_one_stream(const DeviceCall& c, CudaHandle stream);
  void behind_a_barrier(const DeviceCall& c);
  void captured(const DeviceCall& c);
  void crowded(const DeviceCall& c);
  Lane& lane(std::size_t number);

  static constexpr std::size_t kLanes = 3;
  CudaDevice device_;
  std::array<CudaHandle, kLanes> streams_{};
  std::array<std::unique_ptr<Lane>, kLanes> lanes_;
};

}  // namespace mxcheck

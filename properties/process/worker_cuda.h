#pragma once
// Calls of a CUDA candidate, in the child process. The gate's shared memory is copied to the device whole, red zones
// included, and back after the call: what is checked on the host is what the device left.

#include <array>
#include <memory>
#include <string>

#include "properties/process/cuda_driver.h"
#include "properties/process/worker_lane.h"
#include "properties/process/worker_model.h"

namespace mxcheck {

class CudaWorker {
 public:
  // gpu_model: path of its library. Error{environment} without driver or device.
  explicit CudaWorker(std::string gpu_model);

  [[nodiscard]] const CudaDevice& device() const { return device_; }

  // Runs as message.stream_mode says, or, for Request::compare, in a stream of its own with the GPU model after it;
  // c.shared is replaced by what the device holds afterwards. A driver call that fails becomes reply.device_error,
  // after which the process is of no more use.
  void run(const DeviceCall& c);
  // The same of a candidate behind an adapter (CandidateSource::Loaded).
  void run_adapted(const DeviceCall& c, bool captures, bool waits);
  // Before the first call that a thread makes.
  void bind_thread() const { device_.bind_thread(); }

 private:
  void in_one_stream(const DeviceCall& c, CudaHandle stream);
  void behind_a_barrier(const DeviceCall& c);
  void captured(const DeviceCall& c);
  void crowded(const DeviceCall& c);
  void compared(const DeviceCall& c);
  Lane& lane(std::size_t number);

  static constexpr std::size_t kLanes = 3;
  CudaDevice device_;
  GpuModel model_;
  std::array<CudaHandle, kLanes> streams_{};
  std::array<std::unique_ptr<Lane>, kLanes> lanes_;
};

}  // namespace mxcheck

#pragma once
// Calls of a CUDA candidate, in the child process. The gate's shared memory is copied to the device whole, red zones
// included, and back after the call: what is checked on the host is what the device left.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "properties/gpu_model/gpu_model.h"
#include "properties/process/cuda_driver.h"
#include "properties/process/wire.h"
#include "properties/process/worker_lane.h"

namespace mxcheck {

// The GPU model on the tensors of a call that has run, in the child process: what of them differs from what it
// computes.

using AddressOfTensor = std::function<CudaPointer(int)>;  // of the message's: inputs, then outputs

// The message's product as the model takes it: everything but report and stream. Operands that are decoded first are
// not in it yet.
MxcheckGpuModelCall model_call(const wire::Message& message, const AddressOfTensor& address_of);

class GpuModel {
 public:
  // library: its path; it is loaded when it is needed.
  GpuModel(CudaDevice& device, std::string library) : device_(device), library_(std::move(library)) {}
  GpuModel(const GpuModel&) = delete;
  GpuModel& operator=(const GpuModel&) = delete;

  // Waits. into.problem says why nothing was compared; a driver call that fails is a CudaFailure.
  void compare(const wire::Message& message, const AddressOfTensor& address_of, CudaHandle stream,
               DeviceComparison& into);

 private:
  struct Buffer {
    CudaPointer memory = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::string load();
  CudaPointer reserve(Buffer& buffer, std::uint64_t bytes);
  [[nodiscard]] bool decode(const wire::Message& message, MxcheckGpuModelCall& call, DeviceComparison& into);

  CudaDevice& device_;
  std::string library_;
  bool loaded_ = false;
  decltype(&mxcheck_gpu_model_compare) compare_ = nullptr;
  decltype(&mxcheck_gpu_model_decode_mx) decode_ = nullptr;
  decltype(&mxcheck_gpu_model_decode_nvfp4) decode_nvfp4_ = nullptr;
  Buffer report_;
  Buffer decoded_[2];
};

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
  void interrupt(const DeviceCall& c, CudaHandle stream);
  Lane& lane(std::size_t number);

  static constexpr std::size_t kLanes = 3;
  CudaDevice device_;
  GpuModel model_;
  std::array<CudaHandle, kLanes> streams_{};
  std::array<std::unique_ptr<Lane>, kLanes> lanes_;
  MessageBuffer other_text_;  // of calls that come between another one's workspace and run
};

}  // namespace mxcheck

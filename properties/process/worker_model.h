#pragma once
// The GPU model on the tensors of a call that has run, in the child process: what of them differs from what it
// computes.

#include <cstdint>
#include <functional>
#include <string>

#include "properties/gpu_model/gpu_model.h"
#include "properties/process/cuda_driver.h"
#include "properties/process/wire.h"

namespace mxcheck {

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
  Buffer report_;
  Buffer decoded_[2];
};

}  // namespace mxcheck

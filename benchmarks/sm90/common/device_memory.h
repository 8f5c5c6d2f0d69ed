#pragma once
// Memory of the device, and CUDA's errors as exceptions.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

namespace mxcheck::bench {

// Throws Error{environment} with CUDA's words.
void check_cuda(cudaError_t error, const char* what);

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::uint64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace mxcheck::bench

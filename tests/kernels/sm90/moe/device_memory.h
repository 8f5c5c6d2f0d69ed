#pragma once
// Memory of a CUDA device for a test: poisoned, and with guards around it that must stay so.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck::test {

template <class T>
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&bytes_), size()), cudaSuccess);
    poison();
  }
  explicit DeviceMemory(const std::vector<T>& values) : DeviceMemory(values.size()) {
    EXPECT_EQ(cudaMemcpy(data(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(bytes_); }

  void poison() { EXPECT_EQ(cudaMemset(bytes_, kPoison, size()), cudaSuccess); }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(bytes_ + kGuard); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> all(count_);
    EXPECT_EQ(cudaMemcpy(all.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return all;
  }
  [[nodiscard]] bool guards_intact() const { return poisoned(0, kGuard) && poisoned(size() - kGuard, kGuard); }
  [[nodiscard]] bool untouched() const { return poisoned(0, size()); }

 private:
  static constexpr std::size_t kGuard = 4096;
  static constexpr unsigned char kPoison = 0xA5;
  [[nodiscard]] std::size_t size() const { return count_ * sizeof(T) + 2 * kGuard; }
  [[nodiscard]] bool poisoned(std::size_t at, std::size_t count) const {
    std::vector<unsigned char> bytes(count);
    EXPECT_EQ(cudaMemcpy(bytes.data(), bytes_ + at, count, cudaMemcpyDeviceToHost), cudaSuccess);
    return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == kPoison; });
  }

  std::size_t count_;
  unsigned char* bytes_ = nullptr;
};

}  // namespace mxcheck::test

#pragma once
// Arrays of the device for tests of kernels: inputs, and outputs that are poisoned and lie between guards.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck::test {

// The index of an element of a vector.
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    if (cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)) != cudaSuccess) throw std::bad_alloc();
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

template <class T>
class Input {
 public:
  explicit Input(const std::vector<T>& values) : bytes_(values.size() * sizeof(T)) {
    cudaMemcpy(bytes_.data(), values.data(), bytes_.size(), cudaMemcpyHostToDevice);
  }
  [[nodiscard]] const T* data() const { return static_cast<const T*>(bytes_.data()); }

 private:
  DeviceBytes bytes_;
};

inline constexpr std::uint8_t kPoison = 0xA5;

template <class T>
class Output {
 public:
  explicit Output(std::int64_t count)
      : count_(static_cast<std::size_t>(count)), bytes_(count_ * sizeof(T) + 2 * kGuard) {
    cudaMemset(bytes_.data(), kPoison, bytes_.size());
  }
  [[nodiscard]] T* data() const {
    return static_cast<T*>(static_cast<void*>(static_cast<char*>(bytes_.data()) + kGuard));
  }

  // The values that were written; the test fails where a guard was overwritten.
  [[nodiscard]] std::vector<T> read() const {
    std::vector<std::uint8_t> all(bytes_.size());
    EXPECT_EQ(cudaMemcpy(all.data(), bytes_.data(), all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    for (std::size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(all[i], kPoison) << kGuard - i << " bytes before the output";
      EXPECT_EQ(all[all.size() - kGuard + i], kPoison) << i << " bytes after the output";
      if (::testing::Test::HasFailure()) break;
    }
    std::vector<T> values(count_);
    if (count_ != 0) std::memcpy(values.data(), all.data() + kGuard, count_ * sizeof(T));
    return values;
  }

 private:
  static constexpr std::size_t kGuard = 512;
  std::size_t count_;
  DeviceBytes bytes_;
};

template <class T>
std::vector<T> poisoned(std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count != 0) std::memset(values.data(), kPoison, values.size() * sizeof(T));
  return values;
}

// "" where bits are equal, else the first place where they are not.
template <class T>
std::string first_difference(const std::vector<T>& expected, const std::vector<T>& got, std::int64_t cols) {
  if (expected.size() != got.size()) return "other sizes";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::uint64_t e = 0;
    std::uint64_t g = 0;
    std::memcpy(&e, &expected[i], sizeof(T)), std::memcpy(&g, &got[i], sizeof(T));
    if (e == g) continue;
    const auto at = static_cast<std::int64_t>(i);
    return "(" + std::to_string(at / cols) + ", " + std::to_string(at % cols) + ") is " + std::to_string(g) +
           ": must be " + std::to_string(e);
  }
  return {};
}

}  // namespace mxcheck::test

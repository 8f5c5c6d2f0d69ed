#pragma once
// A CUDA device for tests: whether there is one, how long work on it takes, and arrays of it: inputs, and outputs that
// are poisoned and lie between guards. Speed tests print and decide nothing, and need seconds and most of a GPU's
// memory: they are disabled, and run by name with --gtest_also_run_disabled_tests.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace mxcheck::test {

inline bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices != 0;
}

// The error of a launch, or of the device by its end.
inline cudaError_t done(cudaError_t launched) { return launched != cudaSuccess ? launched : cudaDeviceSynchronize(); }

// Skipped without a device.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

// Seconds that one run takes, as the mean of ten that follow one another, after three that are not timed.
inline double seconds(const std::function<void()>& run) {
  constexpr int kRuns = 10;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  float milliseconds = 0;
  EXPECT_EQ(cudaEventCreate(&begin), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(cudaEventRecord(begin), cudaSuccess);
  for (int i = 0; i < kRuns; ++i) run();
  EXPECT_EQ(cudaEventRecord(end), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  return milliseconds / 1e3 / kRuns;
}

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
    EXPECT_EQ(cudaMemcpy(bytes_.data(), values.data(), bytes_.size(), cudaMemcpyHostToDevice), cudaSuccess);
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
    poison();
  }
  // Makes it look unwritten, in the order of the default stream.
  void poison() const { cudaMemsetAsync(bytes_.data(), kPoison, bytes_.size(), nullptr); }
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
  static constexpr std::size_t kGuard = 4096;
  std::size_t count_;
  DeviceBytes bytes_;
};

template <class T>
std::vector<T> poisoned(std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count != 0) std::memset(values.data(), kPoison, values.size() * sizeof(T));
  return values;
}

// Any NaN is as good as another.
inline bool same_bf16(std::uint16_t a, std::uint16_t b) {
  return a == b || ((a & 0x7FFF) > 0x7F80 && (b & 0x7FFF) > 0x7F80);
}

// "" where bits are equal, else the first place where they are not.
template <class T>
std::string first_difference(const std::vector<T>& expected, const std::vector<T>& got, std::int64_t cols) {
  if (expected.size() != got.size()) return "other sizes";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::uint64_t e = 0, g = 0;
    std::memcpy(&e, &expected[i], sizeof(T)), std::memcpy(&g, &got[i], sizeof(T));
    if (e == g) continue;
    const auto at = static_cast<std::int64_t>(i);
    return "(" + std::to_string(at / cols) + ", " + std::to_string(at % cols) + ") is " + std::to_string(g) +
           ": must be " + std::to_string(e);
  }
  return {};
}

}  // namespace mxcheck::test

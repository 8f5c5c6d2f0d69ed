#pragma once
// Whether there is a CUDA device, and how long work on it takes. Speed tests print and decide nothing, and need seconds
// and most of a GPU's memory: they are disabled, and run by name with --gtest_also_run_disabled_tests.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>

namespace mxcheck::test {

inline bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices != 0;
}

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

}  // namespace mxcheck::test

// Bytes a second of the kernels of kernels/sm90/moe/quantize against a copy of as many bytes within the device, on
// sizes of layers. Prints and decides nothing, and is run by name alone: --gtest_also_run_disabled_tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

#include "kernels/sm90/moe/round_trip.h"
#include "tests/kernels/sm90/moe/blocks.h"
#include "tests/kernels/sm90/moe/device.h"

namespace {

using namespace mxcheck_kernels::sm90;
using namespace mxcheck::test;

constexpr std::size_t kMost = std::size_t{262144} * 4096;  // numbers of the largest tensor

class Speed : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
    for (auto& tensor : tensors) ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&tensor), kMost * 2), cudaSuccess);
    const auto words = ordinary_words(std::size_t{1} << 24, 1);
    for (std::size_t at = 0; at < kMost; at += words.size()) {
      ASSERT_EQ(cudaMemcpy(tensors[0] + at, words.data(), words.size() * 2, cudaMemcpyHostToDevice), cudaSuccess);
    }
  }
  ~Speed() override {
    for (auto* tensor : tensors) cudaFree(tensor);
  }

  // `bytes` are those read and written.
  void compare(const char* what, std::int64_t bytes, const std::function<void()>& run) {
    const std::size_t half = std::min(static_cast<std::size_t>(bytes) / 2, kMost * 2);  // read, and written
    const double copy = 2e-9 * static_cast<double>(half) /
                        seconds([&] { cudaMemcpyAsync(tensors[1], tensors[0], half, cudaMemcpyDeviceToDevice); });
    const double time = seconds(run);
    const double mine = 1e-9 * static_cast<double>(bytes) / time;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::printf("%-58s %8.1f us %6.0f GB/s, copy %5.0f GB/s, ratio %.3f\n", what, time * 1e6, mine, copy, mine / copy);
  }

  RoundTripJob job(std::int64_t rows, std::int64_t cols, RoundRule rule = {}) const {
    RoundTripJob j;
    j.x = tensors[0], j.cols = cols, j.rows.rows = rows, j.rows.tiles = (rows + kTileRows - 1) / kTileRows;
    j.row_rule = j.column_rule = rule;
    return j;
  }

  std::uint16_t* tensors[3] = {};
};

TEST_F(Speed, DISABLED_of_round_trips) {
  const auto run = [](const RoundTripJob& j) { return [j] { EXPECT_EQ(launch_round_trip(j, nullptr), cudaSuccess); }; };
  for (const RoundRule rule : {RoundRule{}, RoundRule{RoundFormat::e2m1, RoundScale::floor}}) {
    RoundTripJob j = job(262144, 2048, rule);
    j.along_rows = tensors[1], j.along_columns = tensors[2];
    compare("262144 x 2048, both", j.rows.rows * j.cols * 6, run(j));
    j.along_columns = nullptr;
    compare("262144 x 2048, along rows", j.rows.rows * j.cols * 4, run(j));
  }
  RoundTripJob j = job(262144, 1024);
  j.along_columns = tensors[1];
  compare("262144 x 1024, along columns", j.rows.rows * j.cols * 4, run(j));

  std::vector<std::int32_t> index(262144);  // eight experts of 32768 rows, each with its tokens ascending
  std::mt19937 random(1);
  for (auto& row : index) row = static_cast<std::int32_t>(random() % 32768);
  for (auto at = index.begin(); at != index.end(); at += 2048) std::sort(at, at + 2048);
  const DeviceMemory<std::int32_t> on_device(index);
  j = job(262144, 4096), j.index = on_device.data(), j.along_columns = tensors[1];
  compare("32768 x 4096 gathered to 262144 rows, along columns", j.rows.rows * j.cols * 4, run(j));

  for (const std::int64_t experts : {128, 8}) {
    j = job(experts * 4096, 2048), j.expert_rows = 4096;
    j.along_columns = tensors[1];
    compare("weights of 4096 x 2048 an expert, along columns", j.rows.rows * j.cols * 4, run(j));
    j.along_rows = tensors[2];
    compare("weights of 4096 x 2048 an expert, both", j.rows.rows * j.cols * 6, run(j));
  }
}

}  // namespace

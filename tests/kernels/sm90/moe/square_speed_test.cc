// Times, next to device-to-device copies of as many bytes: --gtest_also_run_disabled_tests, on a GPU with 32 GiB.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/square_codes.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {
namespace {

using mxcheck_kernels::sm90::launch_amax;
using mxcheck_kernels::sm90::SquareJob;
using mxcheck_kernels::sm90::SquareScales;
using mxcheck_kernels::sm90::TransposeJob;

constexpr int kRuns = 9;

float median_ms(const std::function<cudaError_t()>& enqueue) {
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  cudaEventCreate(&from), cudaEventCreate(&to);
  std::vector<float> times;
  for (int i = -2; i < kRuns; ++i) {
    cudaEventRecord(from);
    EXPECT_EQ(enqueue(), cudaSuccess);
    cudaEventRecord(to);
    EXPECT_EQ(cudaEventSynchronize(to), cudaSuccess);
    float ms = 0;
    cudaEventElapsedTime(&ms, from, to);
    if (i >= 0) times.push_back(ms);
  }
  cudaEventDestroy(from), cudaEventDestroy(to);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

// `bytes` are read or written; the copy reads half of them and writes half.
void report(const char* what, std::int64_t bytes, const DeviceBytes& room,
            const std::function<cudaError_t()>& enqueue) {
  const std::size_t half = static_cast<std::size_t>(bytes) / 2 / 256 * 256;
  ASSERT_LE(2 * half, room.size());
  auto* const at = static_cast<char*>(room.data());
  const float copy = median_ms([&] { return cudaMemcpyAsync(at + half, at, half, cudaMemcpyDeviceToDevice); });
  const float mine = median_ms(enqueue);
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  std::printf("%-58s %8.1f MB %8.1f us %6.0f GB/s, %.3f of the copy at %.0f GB/s\n", what, gigabytes * 1e3,
              1e3 * static_cast<double>(mine), gigabytes / static_cast<double>(mine) * 1e3,
              static_cast<double>(copy) / static_cast<double>(mine), gigabytes / static_cast<double>(copy) * 1e3);
}

// Random BF16 from 2^-17 to 1, a sample repeated.
void fill(const DeviceBytes& room) {
  std::vector<std::uint16_t> some(std::size_t{1} << 24);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::uint64_t r = random_word(40, i);
    some[i] = static_cast<std::uint16_t>((r & 0x807F) | (127 - 1 - (r >> 32) % 17) << 7);
  }
  const std::size_t bytes = some.size() * 2;
  for (std::size_t at = 0; at + bytes <= room.size(); at += bytes) {
    cudaMemcpy(static_cast<char*>(room.data()) + at, some.data(), bytes, cudaMemcpyHostToDevice);
  }
}

constexpr std::int64_t kExperts = 128;
constexpr std::int64_t kWeights = kExperts * 4096 * 2048;

TEST(Sm90SquareSpeed, DISABLED_of_weights) {
  if (!has_device()) GTEST_SKIP() << "no CUDA device";
  const DeviceBytes x(2 * kWeights);
  const DeviceBytes codes(2 * kWeights);
  const DeviceBytes scales(std::size_t{64} << 20);
  const DeviceBytes room(4 * kWeights);
  const DeviceBytes amax(4);
  fill(x), fill(room);
  const auto squares = [&](const char* what, std::size_t way, std::int64_t expert_rows, int directions, bool whole) {
    SquareJob job;
    job.x = static_cast<const std::uint16_t*>(x.data());
    job.cols = 4096 * 2048 / expert_rows, job.expert_rows = expert_rows, job.rows.rows = kExperts * expert_rows;
    job.coding = ways(128)[way].coding, job.kind = SquareScales::shared;
    job.codes = static_cast<std::uint8_t*>(codes.data()), job.scales = scales.data();
    job.transposed_scales = static_cast<char*>(scales.data()) + scales.size() / 2;
    if (directions != 1) job.transposed = job.codes + kWeights;
    if (directions == 3) job.codes = nullptr;
    if (whole) job.amax = static_cast<const float*>(amax.data());
    report(what, (directions == 2 ? 4 : 3) * kWeights, room, [&] { return launch_square(job, nullptr); });
  };
  report("amax of 128 x 4096 x 2048", 2 * kWeights, room, [&] {
    return launch_amax(
        {static_cast<const std::uint16_t*>(x.data()), kWeights, static_cast<float*>(amax.data()), nullptr}, nullptr);
  });
  squares("128 x 4096 x 2048, e4m3 fp32", 0, 4096, 2, false);
  squares("128 x 4096 x 2048, e4m3 rceil", 1, 4096, 2, false);
  squares("128 x 2048 x 4096, e4m3 fp32", 0, 2048, 2, false);
  squares("128 x 4096 x 2048, e5m2 fp32", 3, 4096, 2, false);
  squares("128 x 4096 x 2048, e4m3 fp32, amax given", 0, 4096, 2, true);
  squares("128 x 4096 x 2048, e4m3 fp32, as they lie alone", 0, 4096, 1, false);
  squares("128 x 4096 x 2048, e4m3 fp32, transposed alone", 0, 4096, 3, false);
}

// 262144 rows of 32768 tokens: 128 experts of some 2048 rows, none of them at a multiple of 128.
TEST(Sm90SquareSpeed, DISABLED_of_tokens) {
  if (!has_device()) GTEST_SKIP() << "no CUDA device";
  constexpr std::int64_t kRows = 262144;
  constexpr std::int64_t kTokens = 32768;
  constexpr std::int64_t kCols = 4096;
  std::vector<std::int64_t> rows;
  for (std::int64_t e = 0; e < kExperts; ++e) rows.push_back(2048 + (e % 2 == 0 ? e : 1 - e));
  const Experts experts(rows);
  ASSERT_EQ(experts.rows(), kRows);
  const Experts aligned(std::vector<std::int64_t>(kExperts, 2048));
  std::vector<std::int32_t> of_rows;
  for (std::int64_t e = 0, r = 0; e < kExperts; ++e) {  // ascending within an expert
    for (std::int64_t i = 0; i < rows[static_cast<std::size_t>(e)]; ++i, ++r) {
      of_rows.push_back(static_cast<std::int32_t>((i * 16 * kTokens / 33792 + e % 16) % kTokens));
    }
  }
  const Input<std::int32_t> index(of_rows);
  const std::int64_t bands = experts.bands.back();
  const std::int64_t padded = 128 * bands;
  const DeviceBytes x(2 * kRows * kCols);
  const DeviceBytes codes(static_cast<std::size_t>((kRows + padded) * kCols));
  const DeviceBytes scales(static_cast<std::size_t>(4 * kRows * kCols / 128 + 4 * kCols * bands));
  const DeviceBytes source_scales(static_cast<std::size_t>(4 * kRows * kCols / 128));
  const DeviceBytes room(4 * kRows * kCols);
  fill(x), fill(room);
  cudaMemset(source_scales.data(), 0x3F, source_scales.size());
  auto* const to = static_cast<std::uint8_t*>(codes.data());
  const auto columns = [&](const char* what, const Experts& of, std::size_t way, bool gather, bool coded, bool pad) {
    TransposeJob job;
    job.x = x.data(), job.stride = job.cols = kCols, job.rows = of.tiled, job.index = gather ? index.data() : nullptr;
    job.out = {to, scales.data(), of.bands.back(), ways(128)[way].coding, pad ? 128 * of.bands.back() : 0, pad};
    if (coded) job.scales = source_scales.data(), job.scale_blocks = kCols / 128, job.e8m0 = way % 3 != 0;
    const std::int64_t read = (gather ? kTokens : kRows) * kCols * (coded ? 1 : 2);
    report(what, read + kRows * kCols, room, [&] { return launch_transpose(job, true, nullptr); });
  };
  columns("BF16, 1x128 fp32", aligned, 0, false, false, false);
  columns("BF16, 1x128 fp32, padded", aligned, 0, false, false, true);
  columns("BF16, 1x128 fp32, padded, ragged", experts, 0, false, false, true);
  columns("BF16 gathered, 1x128 fp32, padded, ragged", experts, 0, true, false, true);
  columns("codes, 1x128 fp32, padded, ragged", experts, 0, false, true, true);
  columns("codes gathered, 1x128 fp32, padded, ragged", experts, 0, true, true, true);
  columns("codes gathered, 1x128 rceil, padded, ragged", experts, 1, true, true, true);
  SquareJob job;
  job.x = static_cast<const std::uint16_t*>(x.data()), job.cols = kCols, job.rows = experts.tiled;
  job.coding = ways(128).front().coding, job.codes = to, job.scales = scales.data(),
  job.transposed = to + kRows * kCols;
  job.transposed_scales = static_cast<float*>(scales.data()) + kRows * kCols / 128, job.stride = padded;
  job.bands = bands;
  report("squares of tokens, fp32, a scale each", 4 * kRows * kCols, room, [&] { return launch_square(job, nullptr); });
  job.index = index.data();
  report("squares of tokens gathered, fp32, a scale each", 2 * (kRows + kTokens) * kCols, room,
         [&] { return launch_square(job, nullptr); });
}

}  // namespace
}  // namespace mxcheck::test

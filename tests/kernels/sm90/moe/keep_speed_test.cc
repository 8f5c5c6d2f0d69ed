// Time of SwiGLU and its gradient with H kept in E5M6 against the same kernels with H in BF16. Prints and decides
// nothing, and is run by name alone: --gtest_also_run_disabled_tests.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/moe/kept_job.h"

namespace {

using namespace mxcheck::test;

constexpr std::int64_t kRows = 262144;
constexpr std::int64_t kN = 1024;

// `bytes`: read and written, of a row and column of n.
void print(const char* what, bool interleaved, double bytes, const std::function<void()>& run) {
  const double time = seconds(run);
  std::printf("%-46s %-12s %8.1f us %6.0f GB/s\n", what, interleaved ? "interleaved" : "halves", time * 1e6,
              1e-9 * bytes * static_cast<double>(kRows * kN) / time);
}

// `count` numbers of a large array, the same ones again and again.
template <class T>
void fill(const DeviceBytes& to, const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  for (std::size_t at = 0; at < to.size(); at += bytes) {
    EXPECT_EQ(cudaMemcpy(static_cast<char*>(to.data()) + at, values.data(), std::min(bytes, to.size() - at),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
}

class KeepSpeed : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(KeepSpeed, DISABLED_of_swiglu_with_h_in_e5m6) {
  const DeviceBytes h(kRows * kN * 4);
  const DeviceBytes p(kRows * kN * 4);
  const DeviceBytes weights(kRows * 4);
  const std::vector<float> numbers = Upstream::floats(1 << 22, 1);
  Words words;
  for (const float x : numbers) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    words.push_back(static_cast<std::uint16_t>((bits >> 16) + 0x100));  // four times
  }
  fill(h, words), fill(p, numbers), fill(weights, numbers);
  const Output<std::uint8_t> packed(kRows * kN * 3);
  const Output<std::uint8_t> scales(kRows * kN / 64);
  const Gradient to(kRows, kN, kRows / 128);
  const Experts experts(std::vector<std::int64_t>(8, kRows / 8));
  for (const bool interleaved : {true, false}) {
    KeepJob keep{{}, packed.data(), scales.data()};
    keep.rows.h = h_input(h.data(), nullptr, kN, interleaved), keep.rows.rows = kRows, keep.rows.n = kN;
    keep.rows.row = to.dh_rows.to(), keep.rows.row.blocks = kN / 128;
    print("swiglu", interleaved, 5, [&] { EXPECT_EQ(launch_forward_rows(keep.rows, true, nullptr), cudaSuccess); });
    print("swiglu, H to E5M6", interleaved, 8, [&] { EXPECT_EQ(launch_keep(keep, nullptr), cudaSuccess); });
    const Upstream none(0, 0);
    for (const bool kept : {false, true}) {
      const HInput from = kept ? h_input(packed.data(), scales.data(), kN, interleaved) : keep.rows.h;
      RowsJob job = to.job(from, none);
      job.p = static_cast<const float*>(p.data()), job.weights = static_cast<const float*>(weights.data());
      if (takes_tiles(from, kN, 128)) {
        const BackwardTilesJob tiles{job, experts.tiled, to.a_columns.to(), to.dh_columns.to()};
        print(kept ? "swiglu_backward by tiles, H in E5M6" : "swiglu_backward by tiles", interleaved, kept ? 12 : 13,
              [&] { EXPECT_EQ(launch_backward_tiles(tiles, true, nullptr), cudaSuccess); });
      }
      job.a = to.a.data(), job.dh = to.dh.data();
      print(kept ? "swiglu_backward by rows, H in E5M6" : "swiglu_backward by rows", interleaved, kept ? 15 : 16,
            [&] { EXPECT_EQ(launch_backward_rows(job, true, nullptr), cudaSuccess); });
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }
}

}  // namespace

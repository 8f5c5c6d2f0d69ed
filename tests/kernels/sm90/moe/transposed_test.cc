// GEMMs of operands that lie by k against those of K-major operands (gemm/matmul.h), which the gate compares with
// the reference: the same chain, so the same bits. Skipped without a GPU.

#include "kernels/sm90/moe/moe_kernels.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>

#include <cuda_runtime.h>

#include "kernels/sm90/gemm/matmul.h"
#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck_kernels::sm90 {
namespace {

using mxcheck::test::at, mxcheck::test::DeviceBytes, mxcheck::test::done, mxcheck::test::Input, mxcheck::test::Output;
using mxcheck::test::same_bf16;

void require(cudaError_t e) {
  if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

using Words = std::vector<std::uint16_t>;

// BF16 of a wide range, some words NaN or Inf.
Words random_words(std::int64_t count, std::uint32_t seed, bool special) {
  std::mt19937 random(seed);
  Words words(static_cast<std::size_t>(count));
  for (auto& w : words) {
    const auto bits = static_cast<std::uint32_t>(random());
    w = static_cast<std::uint16_t>((bits & 0x807F) | (112 + (bits >> 16) % 24) << 7);
    if (special && bits >> 20 == 0) w = bits % 3 == 0 ? 0x7F80 : 0x7FC1;
  }
  return words;
}

Words transposed(const Words& x, std::int64_t matrices, std::int64_t rows, std::int64_t cols) {
  Words y(x.size());
  for (std::int64_t e = 0; e < matrices; ++e)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) y[at((e * cols + c) * rows + r)] = x[at((e * rows + r) * cols + c)];
  return y;
}

std::vector<std::int64_t> ends_of(const std::vector<int>& rows) {
  std::vector<std::int64_t> ends;
  std::int64_t end = 0;
  for (const int r : rows) ends.push_back(end += r);
  return ends;
}

bool same(float x, float y) {
  std::uint32_t a = 0, b = 0;
  std::memcpy(&a, &x, 4), std::memcpy(&b, &y, 4);
  return a == b || (std::isnan(x) && std::isnan(y));
}
bool same(std::uint16_t a, std::uint16_t b) { return same_bf16(a, b); }

template <class T>
std::int64_t differences(const std::vector<T>& x, const std::vector<T>& y) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) count += same(x[i], y[i]) ? 0 : 1;
  return count;
}

const std::vector<std::vector<int>> kRows{
    {0, 1, 63, 64, 65, 0, 127, 128, 129, 300, 15, 16, 17}, {700}, {0, 0, 5}, {256, 512, 128}};

class Transposed : public testing::Test {
 protected:
  void SetUp() override {
    if (!mxcheck::test::has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(Transposed, GroupsAlongRowsHaveTheBitsOfKMajor) {
  for (const auto& rows : kRows) {
    for (const auto& [n, k] : {std::pair{264, 72}, {8, 8}, {520, 1032}, {256, 640}}) {
      const std::vector<std::int64_t> ends = ends_of(rows);
      const std::int64_t m = ends.back();
      const auto experts = static_cast<int>(rows.size());
      const Words b = random_words(experts * k * n, 2, true);
      const Input<std::uint16_t> a_on(random_words(m * k, 1, true));
      const Input<std::uint16_t> b_on(b);
      const Input<std::uint16_t> b_major(transposed(b, experts, k, n));
      const Input<std::int64_t> ends_on(ends);
      const Output<std::uint16_t> d(m * n);
      const Output<std::uint16_t> expected(m * n);
      MatmulCall x;
      x.kind = MatmulKind::rows, x.a = a_on.data(), x.b = b_on.data(), x.d = d.data();
      x.m = m, x.n = n, x.k = k, x.experts = experts, x.offsets = ends_on.data();
      ASSERT_EQ(matmul_mn_major_launch(x, nullptr), cudaSuccess);
      MatmulCall y = x;
      y.b = b_major.data(), y.d = expected.data();
      ASSERT_EQ(matmul_bf16_launch(y, nullptr), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_EQ(differences(d.read(), expected.read()), 0) << m << " x " << n << " x " << k;
    }
  }
}

TEST_F(Transposed, RowsByIndexAreRefused) {
  const Output<std::uint16_t> words(64 * 64);
  const Input<std::int64_t> ends(std::vector<std::int64_t>{64});
  const Input<std::int32_t> index(std::vector<std::int32_t>(64, 0));
  MatmulCall x;
  x.kind = MatmulKind::rows, x.a = x.b = words.data(), x.d = words.data();
  x.m = x.n = x.k = 64, x.experts = 1, x.offsets = ends.data(), x.row_index = index.data(), x.a_rows = 1;
  EXPECT_EQ(matmul_mn_major_launch(x, nullptr), cudaErrorInvalidValue);
}

// Each expert alone as a dense GEMM of K-major copies, k filled up with zeros, which change no sum.
std::vector<float> expected_of(const Words& a, const Words& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t whole = (k + 7) / 8 * 8;
  Words a_major(static_cast<std::size_t>(m * whole));
  Words b_major(static_cast<std::size_t>(n * whole));
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t c = 0; c < m; ++c) a_major[at(c * whole + i)] = a[at(i * m + c)];
    for (std::int64_t c = 0; c < n; ++c) b_major[at(c * whole + i)] = b[at(i * n + c)];
  }
  const Input<std::uint16_t> a_on(a_major);
  const Input<std::uint16_t> b_on(b_major);
  const Output<float> d(m * n);
  MatmulCall y;
  y.output = MatmulOutput::fp32, y.a = a_on.data(), y.b = b_on.data(), y.d = d.data(), y.m = m, y.n = n, y.k = whole;
  require(matmul_bf16_launch(y, nullptr));
  require(cudaDeviceSynchronize());
  return d.read();
}

Words rows_of(const Words& x, std::int64_t cols, std::int64_t from, std::int64_t to) {
  return {x.begin() + from * cols, x.begin() + to * cols};
}

void check_depth(const std::vector<int>& rows, std::int64_t m, std::int64_t n) {
  const std::vector<std::int64_t> ends = ends_of(rows);
  const std::int64_t k = ends.back();
  const auto experts = static_cast<int>(rows.size());
  const Words a = random_words(k * m, 3, true);
  const Words b = random_words(k * n, 4, true);
  const Input<std::uint16_t> a_on(a);
  const Input<std::uint16_t> b_on(b);
  const Input<std::int64_t> ends_on(ends);
  const Output<float> d(experts * m * n);
  MatmulCall x;
  x.kind = MatmulKind::depth, x.output = MatmulOutput::fp32, x.a = a_on.data(), x.b = b_on.data(), x.d = d.data();
  x.m = m, x.n = n, x.k = k, x.experts = experts, x.offsets = ends_on.data();
  ASSERT_EQ(done(matmul_mn_major_launch(x, nullptr)), cudaSuccess);
  const std::vector<float> got = d.read();
  for (int e = 0; e < experts; ++e) {
    const std::int64_t to = ends[at(e)];
    const std::int64_t from = to - rows[at(e)];
    const auto expected = expected_of(rows_of(a, m, from, to), rows_of(b, n, from, to), m, n, to - from);
    const std::vector<float> part(got.begin() + e * m * n, got.begin() + (e + 1) * m * n);
    EXPECT_EQ(differences(part, expected), 0) << "expert " << e << " of " << to - from << " rows, " << m << " x " << n;
  }
}

TEST_F(Transposed, GroupsAlongDepthHaveTheBitsOfEachExpertAlone) {
  for (const auto& rows : kRows) {
    for (const auto& [m, n] : {std::pair{264, 72}, {8, 8}, {72, 520}, {256, 640}}) check_depth(rows, m, n);
  }
}

// Microseconds a launch.
double time_of(const std::function<cudaError_t()>& launch) {
  return 1e6 * mxcheck::test::seconds([&] { require(launch()); });
}

// --gtest_also_run_disabled_tests: the GEMMs of a layer next to the K-major ones.
TEST_F(Transposed, DISABLED_Speed) {
  constexpr std::int64_t kTokens = 32768, kD = 4096, kN = 1024, kExperts = 128, kR = kTokens * 8;
  std::vector<std::int64_t> ends;
  for (int e = 1; e <= kExperts; ++e) ends.push_back(kR / kExperts * e + (e == kExperts ? 0 : e * 37 % 61 - 30));
  const Words some = random_words(1 << 20, 9, false);
  const auto filled = [&](std::int64_t words) {
    auto b = std::make_unique<DeviceBytes>(at(words) * 2);
    for (std::int64_t from = 0; from < words; from += std::ssize(some)) {
      const std::size_t bytes = at(std::min<std::int64_t>(std::ssize(some), words - from)) * 2;
      require(cudaMemcpy(static_cast<std::uint16_t*>(b->data()) + from, some.data(), bytes, cudaMemcpyHostToDevice));
    }
    return b;
  };
  const auto x = filled(kR * kD), w1 = filled(kExperts * kD * 2 * kN), h = filled(kR * 2 * kN);
  const Input<std::int64_t> ends_on(ends);
  const DeviceBytes d(at(std::max(kR * kD / 2, kExperts * kD * 2 * kN)) * sizeof(float));
  const auto tell = [](const char* name, double us, double products) {
    std::printf("%-44s %9.1f us %7.1f TFLOPS\n", name, us, 2 * products / us / 1e6);
  };
  MatmulCall c;
  c.experts = kExperts, c.offsets = ends_on.data(), c.d = d.data();
  for (int round = 0; round < 2; ++round) {
    c.kind = MatmulKind::rows, c.output = MatmulOutput::bf16, c.m = kR, c.n = 2 * kN, c.k = kD;
    c.a = x->data(), c.b = w1->data();
    const double up = 1.0 * kR * 2 * kN * kD;
    tell("up, B by k", time_of([&] { return matmul_mn_major_launch(c, nullptr); }), up);
    tell("up, K-major", time_of([&] { return matmul_bf16_launch(c, nullptr); }), up);
    c.n = kD, c.k = kN, c.a = h->data();
    tell("down, B by k", time_of([&] { return matmul_mn_major_launch(c, nullptr); }), up / 2);
    tell("down, K-major", time_of([&] { return matmul_bf16_launch(c, nullptr); }), up / 2);
    c.n = kD, c.k = 2 * kN;
    tell("d_up, K-major", time_of([&] { return matmul_bf16_launch(c, nullptr); }), up);
    c.output = MatmulOutput::fp32, c.a = x->data(), c.n = kN, c.k = kD;
    tell("d_down, K-major", time_of([&] { return matmul_bf16_launch(c, nullptr); }), up / 2);
    c.kind = MatmulKind::depth, c.k = kR, c.m = kN, c.n = kD, c.a = h->data(), c.b = x->data();
    tell("d_w2", time_of([&] { return matmul_mn_major_launch(c, nullptr); }), up / 2);
    c.m = kD, c.n = 2 * kN, c.a = x->data(), c.b = h->data();
    tell("d_w1", time_of([&] { return matmul_mn_major_launch(c, nullptr); }), up);
  }
}

}  // namespace
}  // namespace mxcheck_kernels::sm90

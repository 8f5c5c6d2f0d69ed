// H to E5M6 in SwiGLU's read of it, and its gradient of H as it was kept: every byte of codes and scales that of the
// reference, every bit of what is made of them that of the kernels that read H in BF16. Needs a GPU; without one every
// test is skipped.

#include <gtest/gtest.h>

#include <span>

#include "numerics/format/packing.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/sm90/moe/blocks.h"
#include "tests/kernels/sm90/moe/kept_job.h"

namespace {

using namespace mxcheck::test;

// Eight codes in three little-endian words: rows are whole groups, so that they are one long row.
Bytes packed_bytes(const std::vector<std::uint16_t>& codes) {
  Bytes bytes;
  for (const std::uint32_t word : mxcheck::pack_e5m6(codes)) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(word >> 8 * i));
  }
  return bytes;
}

const char* text_of(bool interleaved) { return interleaved ? "interleaved" : "halves"; }

void expect_gradients(const mxcheck::QuantizedTensor& q) {
  const std::int64_t n = q.cols() / 2;
  const Input<std::uint8_t> packed(packed_bytes(mxcheck::values_in<std::uint16_t>(q.codes.data)));
  const Input<std::uint8_t> scales(mxcheck::values_in<std::uint8_t>(q.scales().data));
  const Input<std::uint16_t> values(dequantize_bf16(q));
  const Upstream up(q.rows(), n);
  const Experts experts({q.rows() / 3, 0, q.rows() - q.rows() / 3});
  for (const bool interleaved : {false, true}) {
    const HInput kept = h_input(packed.data(), scales.data(), n, interleaved);
    const HInput bf16 = h_input(values.data(), nullptr, n, interleaved);
    const auto compare = [&](const std::string& what, const auto& run) {
      const Gradient right(q.rows(), n, experts.bands.back());
      const Gradient mine(q.rows(), n, experts.bands.back());
      run(right, bf16);
      run(mine, kept);
      right.expect(mine, std::string(text_of(interleaved)) + what);
    };
    compare(", by rows", [&](const Gradient& to, const HInput& h) { to.by_rows(h, up); });
    if (!takes_tiles(kept, n, 128)) continue;
    compare(", by tiles", [&](const Gradient& to, const HInput& h) { to.by_tiles(h, up, experts.tiled); });
  }
}

void expect_kept(const Words& h, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(h.size()) / cols;
  const std::int64_t n = cols / 2;
  const auto q = quantize(view_of(h, rows, cols), mxcheck::Format::e5m6, {1, 128}, mxcheck::recipe_named("rceil"));
  const Bytes right = packed_bytes(mxcheck::values_in<std::uint16_t>(q.codes.data));
  const Input<std::uint16_t> in(h);
  for (const bool interleaved : {false, true}) {
    const Output<std::uint8_t> packed(rows * cols / 8 * 12);
    const Output<std::uint8_t> scales(rows * cols / 128);
    const CodedRows mine(rows, n);
    KeepJob job{{}, packed.data(), scales.data()};
    job.rows.h = h_input(in.data(), nullptr, n, interleaved), job.rows.rows = rows, job.rows.n = n;
    job.rows.row = mine.to();
    ASSERT_EQ(launch_keep(job, nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(first_difference(mxcheck::values_in<std::uint8_t>(q.scales().data), scales.read(), cols / 128), "")
        << text_of(interleaved) << ", n " << n;
    EXPECT_EQ(first_difference(right, packed.read(), cols / 8 * 12), "") << text_of(interleaved) << ", n " << n;
    const CodedRows alone(rows, n);
    job.rows.row = alone.to();
    ASSERT_EQ(launch_forward_rows(job.rows, true, nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    alone.expect(mine, std::string(text_of(interleaved)) + ": codes of A");
  }
  expect_gradients(q);
}

class Keep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(Keep, codes_every_number_in_blocks_of_every_exponent) {
  Words blocks = blocks_of_every_exponent(128, 0x7E);
  blocks.resize((blocks.size() + 1023) / 1024 * 1024);
  expect_kept(blocks, 1024);
}

TEST_F(Keep, takes_nan_and_infinity_and_zeros_and_subnormals) {
  expect_kept(all_words(64 * 1024, 1), 256);
  Words few = ordinary_words(std::size_t{77} * 256, 2);  // in some blocks one alone
  few[5] = 0x7F80, few[50 * 256 + 7] = 0xFF80, few[60 * 256 + 140] = 0x7FC0, few[76 * 256 + 255] = 0xFFFF;
  expect_kept(few, 256);
  expect_kept(Words(1024, 0x8000), 256);
  expect_kept(bf16_cells(200, 768, 3), 768);
}

TEST_F(Keep, takes_any_blocks_and_any_rows) {
  for (const std::int64_t n : {128, 256, 384, 640}) {
    for (const std::int64_t rows : {1, 3, 31, 33, 128, 300}) {
      expect_kept(ordinary_words(static_cast<std::size_t>(rows * 2 * n), 3), 2 * n);
    }
  }
  expect_kept(ordinary_words(std::size_t{9001} * 256, 4), 256);  // more rows than warps at once
}

TEST_F(Keep, reads_every_code_under_every_scale) {
  mxcheck::QuantizedTensor q =
      mxcheck::make_quantized(mxcheck::Format::e5m6, 256, 4096, {1, 128}, mxcheck::Format::e8m0, 256, 32);
  for (std::uint32_t i = 0; i < q.scales().size(); ++i) q.scales().set_code(i, i / 32);
  for (std::uint32_t i = 0; i < q.codes.size(); ++i) q.codes.set_code(i, i % 4096);
  expect_gradients(q);
  // Gates of one, up values of every code; and the other way round.
  for (const std::size_t even : {std::size_t{0}, std::size_t{1}}) {
    for (std::size_t i = 0; i < q.codes.size(); i += 2) {
      q.codes.set_code(i + 1 - even, static_cast<std::uint32_t>(i / 2 % 4096)), q.codes.set_code(i + even, 0x3C0);
    }
    expect_gradients(q);
  }
}

TEST_F(Keep, does_nothing_where_the_plan_is_refused) {
  const RefusedHeader refused;
  const Input<std::uint16_t> h(Words(2048, 0x3F80));
  const Output<std::uint8_t> packed(3072);
  const Output<std::uint8_t> scales(16);
  const CodedRows codes(8, 128);
  KeepJob job{{}, packed.data(), scales.data()};
  job.rows.h = h_input(h.data(), nullptr, 128, true), job.rows.rows = 8, job.rows.n = 128;
  job.rows.row = codes.to(), job.rows.header = refused.data();
  ASSERT_EQ(launch_keep(job, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(packed.read(), poisoned<std::uint8_t>(3072));
  EXPECT_EQ(scales.read(), poisoned<std::uint8_t>(16));
  EXPECT_EQ(codes.codes.read(), poisoned<std::uint8_t>(1024));
}

TEST_F(Keep, takes_no_rows_and_refuses_what_is_not_offered) {
  KeepJob job;
  job.rows.n = 128, job.rows.row.coding = kept_coding();
  EXPECT_EQ(launch_keep(job, nullptr), cudaSuccess);
  job.rows.rows = 1;
  EXPECT_EQ(launch_keep(job, nullptr), cudaErrorInvalidValue);  // no codes of A
  const Upstream up(1, 128);
  const Gradient to(1, 128, 1);
  RowsJob rows = to.job(h_input(up.p.data(), static_cast<const std::uint8_t*>(to.sums.data()), 128, true), up);
  rows.row.coding.fp32 = true;
  EXPECT_EQ(launch_backward_rows(rows, true, nullptr), cudaErrorInvalidValue);
  rows.row.codes = nullptr;
  EXPECT_EQ(launch_backward_rows(rows, true, nullptr), cudaErrorInvalidValue);
}

}  // namespace

// H to E5M6 in blocks of 1 x 128 and back on the device (kernels/sm90/moe/quantize/keep.h): every byte of codes and
// scales that of the reference, every bit of what comes back. Needs a GPU; without one every test is skipped.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "kernels/sm90/moe/quantize/keep.h"
#include "numerics/format/packing.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/sm90/moe/blocks.h"
#include "tests/kernels/sm90/moe/device_memory.h"

namespace {

using namespace mxcheck_kernels::sm90;
using namespace mxcheck::test;
using Words = std::vector<std::uint16_t>;
using Bytes = std::vector<std::uint8_t>;

// Eight codes in three little-endian words: rows are whole groups, so that they are one long row.
Bytes packed_bytes(const std::vector<std::uint16_t>& codes) {
  Bytes bytes;
  for (const std::uint32_t word : mxcheck::pack_e5m6(codes)) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(word >> 8 * i));
  }
  return bytes;
}

void expect_restored(const mxcheck::Quantized& q) {
  const DeviceMemory<std::uint8_t> packed(packed_bytes(q.codes16));
  const DeviceMemory<std::uint8_t> scales(q.scales);
  const DeviceMemory<std::uint16_t> h(q.codes16.size());
  ASSERT_EQ(launch_restore({packed.data(), scales.data(), h.data(), q.rows, q.cols, nullptr}, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Words mine = h.values();
  const Words right = dequantize_bf16(q);
  const auto at = std::mismatch(mine.begin(), mine.end(), right.begin(), same_bf16);
  EXPECT_EQ(at.first, mine.end()) << "place " << at.first - mine.begin() << " of rows of " << q.cols << " columns";
  EXPECT_TRUE(h.guards_intact());
}

void expect_kept(const Words& h, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(h.size()) / cols;
  const mxcheck::MatrixView view{mxcheck::Format::bf16, std::as_bytes(std::span(h)).data(), rows, cols, cols};
  const auto q = quantize(view, mxcheck::Format::e5m6, {1, 128}, mxcheck::recipe_named("rceil"));
  const DeviceMemory<std::uint16_t> in(h);
  const DeviceMemory<std::uint8_t> packed(h.size() / 8 * 12);
  const DeviceMemory<std::uint8_t> scales(q.scales.size());
  ASSERT_EQ(launch_keep({in.data(), packed.data(), scales.data(), rows, cols, nullptr}, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(scales.values(), q.scales);
  const Bytes mine = packed.values();
  const Bytes right = packed_bytes(q.codes16);
  const auto at = std::mismatch(mine.begin(), mine.end(), right.begin());
  EXPECT_EQ(at.first, mine.end()) << "byte " << at.first - mine.begin() << " of rows of " << cols << " columns";
  EXPECT_TRUE(packed.guards_intact() && scales.guards_intact());
  expect_restored(q);
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

TEST_F(Keep, takes_nan_and_infinity_and_zeros) {
  expect_kept(all_words(64 * 1024, 1), 64);
  Words few = ordinary_words(std::size_t{77} * 256, 2);  // in some blocks one alone
  few[5] = 0x7F80, few[50 * 256 + 7] = 0xFF80, few[60 * 256 + 140] = 0x7FC0, few[76 * 256 + 255] = 0xFFFF;
  expect_kept(few, 256);
  expect_kept(Words(1024, 0x8000), 128);
}

TEST_F(Keep, takes_any_multiple_of_eight_columns_and_any_rows) {
  for (const std::int64_t cols : {8, 120, 128, 136, 256, 264, 392, 1000}) {
    for (const std::int64_t rows : {1, 3, 31, 32, 33}) {
      expect_kept(ordinary_words(static_cast<std::size_t>(rows * cols), 3), cols);
    }
  }
}

TEST_F(Keep, restores_every_code_under_every_scale) {
  mxcheck::Quantized q;
  q.element = mxcheck::Format::e5m6, q.block = {1, 128}, q.rows = 256, q.cols = 4096, q.scale_rows = 256;
  q.scale_cols = 32;
  for (std::uint32_t scale = 0; scale < 256; ++scale) {
    q.scales.insert(q.scales.end(), 32, static_cast<std::uint8_t>(scale));
    for (std::uint32_t code = 0; code < 4096; ++code) q.codes16.push_back(static_cast<std::uint16_t>(code));
  }
  expect_restored(q);
}

TEST_F(Keep, does_nothing_where_the_plan_is_refused) {
  std::vector<PlanHeader> header(1);
  header[0].status = MXCHECK_INVALID;
  const DeviceMemory<PlanHeader> refused(header);
  const DeviceMemory<std::uint16_t> h(Words(1024, 0x3F80));
  const DeviceMemory<std::uint8_t> packed(1536);
  const DeviceMemory<std::uint8_t> scales(8);
  ASSERT_EQ(launch_keep({h.data(), packed.data(), scales.data(), 8, 128, refused.data()}, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(packed.untouched() && scales.untouched());
  const DeviceMemory<std::uint16_t> back(1024);
  ASSERT_EQ(launch_restore({packed.data(), scales.data(), back.data(), 8, 128, refused.data()}, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(back.untouched());
}

TEST_F(Keep, takes_no_rows) {
  EXPECT_EQ(launch_keep({nullptr, nullptr, nullptr, 0, 128, nullptr}, nullptr), cudaSuccess);
  EXPECT_EQ(launch_restore({nullptr, nullptr, nullptr, 0, 128, nullptr}, nullptr), cudaSuccess);
}

}  // namespace

// Padding of codes along tokens: the offsets of experts, the gradient of SwiGLU, and what is refused. Needs a GPU;
// without one every test is skipped.

#include <gtest/gtest.h>

#include <bit>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "tests/kernels/sm90/moe/transposed_codes.h"

namespace mxcheck::test {
namespace {

using mxcheck_kernels::sm90::BackwardTilesJob;
using mxcheck_kernels::sm90::launch_padded_offsets;
using mxcheck_kernels::sm90::launch_transpose;
using mxcheck_kernels::sm90::TransposeJob;

class Sm90Padding : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(Sm90Padding, nothing_is_written_after_a_refusal) {
  const RefusedHeader refused;
  const Input<std::uint8_t> x(std::vector<std::uint8_t>(128 * 128 * 4));
  const Input<float> source_scales(std::vector<float>(128, 1.0F));
  const Input<std::int64_t> offsets({0, 5, 128});
  for (const bool coded : {false, true}) {
    Output<std::uint8_t> codes(128 * 128);
    Output<float> scales(128);
    Output<std::int64_t> padded(3);
    TransposeJob job;
    job.x = x.data(), job.stride = job.cols = 128, job.rows = {128, 1, refused.data(), nullptr};
    job.out = {codes.data(), scales.data(), 1, ways(128).front().coding, 128, true};
    if (coded) job.scales = source_scales.data(), job.scale_blocks = 1;
    ASSERT_EQ(launch_transpose(job, true, nullptr), cudaSuccess);
    ASSERT_EQ(launch_padded_offsets(offsets.data(), 2, padded.data(), refused.data(), nullptr), cudaSuccess);
    EXPECT_EQ(codes.read(), poisoned<std::uint8_t>(128 * 128));
    EXPECT_EQ(first_difference(poisoned<float>(128), scales.read(), 1), "");
    EXPECT_EQ(padded.read(), poisoned<std::int64_t>(3));
  }
}

TEST_F(Sm90Padding, a_padding_that_there_is_not_is_an_error) {
  TransposeJob job;
  job.cols = 8, job.rows = {128, 1, nullptr, nullptr};
  job.out.padded = true, job.out.stride = 128;
  EXPECT_EQ(launch_transpose(job, true, nullptr), cudaErrorInvalidValue);
  job.out.coding.block = 128, job.out.stride = 130;
  EXPECT_EQ(launch_transpose(job, true, nullptr), cudaErrorInvalidValue);
}

TEST_F(Sm90Padding, padded_offsets_are_sums_of_multiples_of_128) {
  for (const std::size_t experts : {0U, 1U, 10U, 1023U, 1024U, 1025U, 5000U}) {
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int64_t> expected = {0};
    for (std::size_t e = 0; e < experts; ++e) {
      const std::int64_t rows = e < kRaggedRows.size()
                                    ? kRaggedRows[e]
                                    : static_cast<std::int64_t>(random_word(28, e) >> 24) % (std::int64_t{1} << 36);
      offsets.push_back(offsets.back() + rows);
      expected.push_back(expected.back() + 128 * down(rows, 128));
    }
    const Input<std::int64_t> device(offsets);
    Output<std::int64_t> padded(static_cast<std::int64_t>(expected.size()));
    ASSERT_EQ(launch_padded_offsets(device.data(), static_cast<std::int64_t>(experts), padded.data(), nullptr, nullptr),
              cudaSuccess);
    EXPECT_EQ(padded.read(), expected) << experts << " experts";
  }
}

// SwiGLU's gradient by tiles: what is padded is what is not, and zeros.
TEST_F(Sm90Padding, of_the_gradient_of_swiglu) {
  const Experts experts(kRaggedRows);
  const std::int64_t rows = experts.rows();
  constexpr std::int64_t kN = 128;
  const std::int64_t bands = experts.bands.back();
  const Input<std::uint16_t> h(bf16_cells(rows, 2 * kN, 29));
  std::vector<float> p;
  for (const std::uint16_t w : bf16_cells(rows, kN, 30)) p.push_back(std::bit_cast<float>(std::uint32_t{w} << 16));
  const Input<float> device_p(p);
  const Input<float> weights(std::vector<float>(static_cast<std::size_t>(rows), 0.75F));
  for (const Way& way : ways(128)) {
    std::vector<std::uint8_t> codes[2];
    for (const bool padded : {false, true}) {
      const std::int64_t stride = padded ? 128 * bands + 4 : rows;
      Output<std::uint8_t> a(kN * stride);
      Output<std::uint8_t> dh(2 * kN * stride);
      Output<float> scales(3 * kN * bands);
      Output<float> ds(rows);
      const DeviceBytes sums(mxcheck_kernels::sm90::sums_bytes(rows, kN, mxcheck_kernels::sm90::kTilePart));
      BackwardTilesJob job;
      job.rows.h.data = h.data(), job.rows.h.stride = 2 * kN, job.rows.h.interleaved = true;
      job.rows.rows = rows, job.rows.n = kN, job.rows.p = device_p.data(), job.rows.weights = weights.data();
      job.rows.ds = ds.data(), job.rows.sums = static_cast<float*>(sums.data()), job.tiles = experts.tiled;
      job.rows.header = experts.tiled.header;
      job.a = {a.data(), scales.data(), bands, way.coding, padded ? stride : 0, padded};
      job.dh = {dh.data(), scales.data() + kN * bands, bands, way.coding, padded ? stride : 0, padded};
      ASSERT_EQ(launch_backward_tiles(job, true, nullptr), cudaSuccess);
      codes[padded ? 1 : 0] = a.read();
      const std::vector<std::uint8_t> more = dh.read();
      codes[padded ? 1 : 0].insert(codes[padded ? 1 : 0].end(), more.begin(), more.end());
    }
    QuantizedTensor q = make_quantized(Format::e4m3, rows, 3 * kN, {1, 1}, Format::e8m0, 0, 0);
    for (std::int64_t j = 0; j < q.cols(); ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        q.codes.set_code(static_cast<std::size_t>(i * q.cols() + j), codes[0][static_cast<std::size_t>(j * rows + i)]);
      }
    }
    EXPECT_EQ(first_difference(transposed_codes(q, experts, {true, 128 * bands + 4}), codes[1], 128 * bands + 4), "")
        << way.recipe;
  }
}

}  // namespace
}  // namespace mxcheck::test

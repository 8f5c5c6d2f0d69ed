// Codes along tokens on the device, padded and not, from BF16, FP32 and codes: every byte against the reference. Needs
// a GPU; without one every test is skipped.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/kernels/sm90/moe/columns_case.h"

namespace mxcheck::test {
namespace {

using mxcheck_kernels::Dtype;
using mxcheck_kernels::Element;
using mxcheck_kernels::sm90::TransposeJob;

class Sm90Columns : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

// Every coding, padded or not, of a source.
template <class T>
void expect_all(const TransposeJob& job, const std::vector<T>& values, bool vector, const std::string& what) {
  const Experts by_32(kRaggedRows, 32);
  const Experts by_128(kRaggedRows, 128);
  for (const Way& way : ways(32)) expect_columns(job, way, values, by_32, {}, vector, what);
  for (const Way& way : ways(128)) {
    const std::int64_t padded = 128 * by_128.bands.back();
    expect_columns(job, way, values, by_128, {}, vector, what);
    expect_columns(job, way, values, by_128, {false, by_128.rows() + 5}, vector, what + ", stride");
    expect_columns(job, way, values, by_128, {true, padded}, vector, what);
    expect_columns(job, way, values, by_128, {true, padded + 4}, vector, what + ", stride");
  }
}

std::int64_t ragged_rows() { return Experts(kRaggedRows).rows(); }

TEST_F(Sm90Columns, of_bf16_rows) {
  const std::int64_t rows = ragged_rows();
  for (const bool gather : {false, true}) {
    for (const std::int64_t cols : {72, 77, 128}) {
      const std::vector<std::uint16_t> x = bf16_cells(rows, cols, 20);
      const auto index = gather ? random_index(rows, rows, 21) : std::vector<std::int32_t>{};
      const Input<std::uint16_t> device(x);
      const Input<std::int32_t> device_index(index);
      TransposeJob job;
      job.x = device.data(), job.stride = job.cols = cols, job.index = gather ? device_index.data() : nullptr;
      expect_all(job, gathered(x, index, cols), cols % 8 == 0, gather ? "gathered BF16" : "BF16");
    }
  }
}

TEST_F(Sm90Columns, of_fp32_rows) {
  const std::int64_t rows = ragged_rows();
  constexpr std::int64_t kCols = 77;
  const std::vector<std::uint16_t> words = bf16_cells(rows, kCols, 22);
  std::vector<float> x;
  for (std::size_t i = 0; i < words.size(); ++i) {
    x.push_back(
        std::bit_cast<float>(std::uint32_t{words[i]} << 16 | static_cast<std::uint32_t>(random_word(23, i)) >> 17));
  }
  const Input<float> device(x);
  TransposeJob job;
  job.x = device.data(), job.dtype = Dtype::fp32, job.stride = job.cols = kCols;
  expect_all(job, x, false, "FP32");
}

// x of 24 bits with x / s next to a midpoint of codes' floats (kernels/sm90/layer/steps/coder.cuh), or to such a
// midpoint itself: S N / 2^j, rounded, and its neighbours.
float beside_a_tie(float s, std::uint64_t r) {
  const std::uint64_t significand = (std::bit_cast<std::uint32_t>(s) & 0x7FFFFF) | 0x800000;
  const std::uint64_t n = ((16 + r % 17) << 20) + r / 32 % 3 - 1;
  std::uint64_t x = significand * n >> 24;
  int exponent = 0;
  for (; x >= 0x1000000; ++exponent) x = (x + 1) >> 1;
  x += r / 128 % 4;
  const float magnitude = std::ldexp(static_cast<float>(x), std::ilogb(s) - 23 - static_cast<int>(r / 1024 % 20) + 7);
  return r / 65536 % 2 == 0 ? magnitude : -magnitude;
}

// Scales whose significand is next to a multiple of 2^20, where quotients have to be exact, and others.
TEST_F(Sm90Columns, of_fp32_rows_with_quotients_beside_ties) {
  const Experts experts({128, 128, 77});
  constexpr std::int64_t kCols = 4096;
  for (const Way& way : ways(128)) {
    const float largest = way.format == Format::e4m3 ? 448.0F : 57344.0F;
    std::vector<float> x(static_cast<std::size_t>(experts.rows() * kCols));
    for (std::int64_t j = 0; j < kCols; ++j) {
      const std::uint64_t r = random_word(31, static_cast<std::uint64_t>(j));
      std::uint32_t bits = static_cast<std::uint32_t>(r) & 0x7FFFFF;
      if (r >> 60 < 8) bits = static_cast<std::uint32_t>(((r & 7) << 20) + (r >> 32) % 41 - 20) & 0x7FFFFF;
      const float wanted = std::ldexp(static_cast<float>(bits | 0x800000), static_cast<int>((r >> 40) % 180) - 113);
      const float amax = wanted * largest;
      const float s = amax / largest;
      for (std::int64_t i = 0; i < experts.rows(); ++i) {
        const std::uint64_t word = random_word(32, static_cast<std::uint64_t>(i * kCols + j));
        x[static_cast<std::size_t>(i * kCols + j)] = i % 32 == 0 ? amax : beside_a_tie(s, word);
      }
    }
    const Input<float> device(x);
    TransposeJob job;
    job.x = device.data(), job.dtype = Dtype::fp32, job.stride = job.cols = kCols;
    expect_columns(job, way, x, experts, {}, false, "FP32 beside ties");
  }
}

// Codes of `from`, gathered or not, as values in FP32.
void expect_of_codes(const QuantizedTensor& from, bool gather, bool vector, const std::string& what) {
  const std::vector<float> values = dequantize(from);
  const std::int64_t rows = ragged_rows();
  const auto index = gather ? random_index(rows, from.rows(), 24) : std::vector<std::int32_t>{};
  const Input<std::uint8_t> codes(values_in<std::uint8_t>(from.codes.data));
  const Input<std::uint8_t> scales(values_in<std::uint8_t>(from.scales().data));
  const Input<std::int32_t> device_index(index);
  TransposeJob job;
  job.x = codes.data(), job.stride = job.cols = from.cols(), job.index = gather ? device_index.data() : nullptr;
  job.scales = scales.data(), job.scale_blocks = from.scale_cols();
  job.e8m0 = from.scales().format == Format::e8m0;
  job.element = from.element() == Format::e4m3 ? Element::e4m3 : Element::e5m2;
  expect_all(job, gathered(values, index, from.cols()), vector, what);
}

TEST_F(Sm90Columns, of_codes_that_quantization_made) {
  for (const Way& way : ways(128)) {
    for (const std::int64_t cols : {72, 128, 264, 131}) {
      const bool gather = cols != 128;
      const std::int64_t rows = gather ? 333 : ragged_rows();
      const std::vector<std::uint16_t> x = bf16_cells(rows, cols, 25);
      const QuantizedTensor from = quantize(view_of(x, rows, cols), way.format, {1, 128}, recipe_named(way.recipe));
      expect_of_codes(from, gather, cols % 8 == 0, "codes " + way.recipe + " of " + std::to_string(cols));
    }
  }
}

TEST_F(Sm90Columns, of_codes_and_scales_of_any_bits) {
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    for (const bool fp32 : {false, true}) {
      const std::int64_t rows = ragged_rows();
      QuantizedTensor from = make_quantized(format, rows, 136, {1, 128}, fp32 ? Format::fp32 : Format::e8m0, rows, 2);
      for (std::int64_t i = 0; i < from.rows() * from.cols(); ++i) {
        const std::uint64_t r = random_word(26, static_cast<std::uint64_t>(i));
        const std::uint64_t narrow = (r >> 8) % 64 == 0 ? 0xFF : 0xBB;  // few NaN
        from.codes.set_code(static_cast<std::size_t>(i), static_cast<std::uint32_t>(r & narrow));
      }
      for (std::int64_t i = 0; i < from.rows() * 2; ++i) {
        const std::uint64_t r = random_word(27, static_cast<std::uint64_t>(i));
        // An expert of 300 has all kinds; those before it have one kind each, so that not every block is NaN.
        const std::uint64_t kind = i / 2 > 416 ? r >> 60 : static_cast<std::uint64_t>(i) / 2 / 32;
        const std::uint64_t byte = kind == 0 ? r & 1 : kind == 1 ? 230 + r % 25 : kind == 2 ? 100 + r % 40 : r % 255;
        const std::uint64_t e8m0 = (r >> 48) % 64 == 0 ? 255 : byte;
        from.scales().set_code(static_cast<std::size_t>(i),
                               static_cast<std::uint32_t>(fp32 ? byte << 23 | ((r >> 32) & 0x7FFFFF) : e8m0));
      }
      expect_of_codes(from, false, true, fp32 ? "any codes, FP32 scales" : "any codes, E8M0 scales");
    }
  }
}

}  // namespace
}  // namespace mxcheck::test

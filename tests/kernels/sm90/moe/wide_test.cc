// Codes along tokens by tiles of 128 x 128, at the edges of tiles and of what halves hold: every byte against the
// reference. Needs a GPU; without one every test is skipped.

#include "kernels/sm90/layer/steps/steps.h"

#include <gtest/gtest.h>

#include "tests/kernels/sm90/moe/columns_case.h"

namespace mxcheck::test {
namespace {

using mxcheck_kernels::sm90::takes_wide;
using mxcheck_kernels::sm90::TransposeJob;

class Sm90Wide : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

std::vector<std::int64_t> rows_of_experts(std::size_t experts) {
  static const std::vector<std::int64_t> kRows = {129, 0, 1, 300, 127, 128, 8, 0, 256};
  std::vector<std::int64_t> rows;
  for (std::size_t e = 0; e < experts; ++e) rows.push_back(kRows[e % kRows.size()]);
  return rows;
}

// Padded, and where they lie, at strides of every alignment.
template <class T>
void expect_targets(const TransposeJob& job, const Way& way, const std::vector<T>& values, const Experts& experts,
                    const std::string& what) {
  const std::int64_t padded = 128 * experts.bands.back();
  for (const Target& to : {Target{false, 0}, {false, experts.rows() + 4}, {true, padded}, {true, padded + 20}}) {
    expect_columns(job, way, values, experts, to, true, what + ", stride " + std::to_string(to.stride));
  }
}

TEST_F(Sm90Wide, of_bf16_at_the_edges_of_tiles) {
  for (const std::size_t count : {1U, 3U, 40U}) {
    const Experts experts(rows_of_experts(count));
    for (const std::int64_t cols : {8, 120, 128, 136, 264}) {
      for (const bool gather : {false, true}) {
        const std::int64_t source_rows = gather ? 77 : experts.rows();
        const auto index = gather ? random_index(experts.rows(), source_rows, 51) : std::vector<std::int32_t>{};
        const std::vector<std::uint16_t> x = bf16_cells(source_rows, cols, 50);
        const Input<std::uint16_t> device(x);
        const Input<std::int32_t> device_index(index);
        TransposeJob job;
        job.x = device.data(), job.stride = job.cols = cols, job.index = gather ? device_index.data() : nullptr;
        const std::string what = std::to_string(count) + " experts of " + std::to_string(cols);
        for (const Way& way : ways(128)) {
          job.out.coding = way.coding;
          ASSERT_TRUE(takes_wide(job, true));
          expect_targets(job, way, gathered(x, index, cols), experts, what + (gather ? ", gathered BF16" : ", BF16"));
        }
      }
    }
  }
}

// Columns that are a part of a wider matrix.
TEST_F(Sm90Wide, of_bf16_with_a_stride) {
  const Experts experts(rows_of_experts(3));
  constexpr std::int64_t kCols = 136;
  constexpr std::int64_t kStride = 160;
  const std::vector<std::uint16_t> wide = bf16_cells(experts.rows(), kStride, 52);
  std::vector<std::uint16_t> x;
  for (std::int64_t i = 0; i < experts.rows(); ++i) {
    x.insert(x.end(), wide.begin() + i * kStride + 8, wide.begin() + i * kStride + 8 + kCols);
  }
  const Input<std::uint16_t> device(wide);
  TransposeJob job;
  job.x = device.data() + 8, job.stride = kStride, job.cols = kCols;
  for (const Way& way : ways(128)) expect_targets(job, way, x, experts, "BF16 of a wider matrix");
}

// Compares the codes along tokens that the kernel makes of the codes `from` with the right ones.
void expect_of_codes(const QuantizedTensor& from, const Experts& experts, bool gather, const std::string& what) {
  const auto index = gather ? random_index(experts.rows(), from.rows(), 53) : std::vector<std::int32_t>{};
  const std::vector<float> values = gathered(dequantize(from), index, from.cols());
  const Input<std::uint8_t> codes(values_in<std::uint8_t>(from.codes.data));
  const Input<std::uint8_t> scales(values_in<std::uint8_t>(from.scales().data));
  const Input<std::int32_t> device_index(index);
  TransposeJob job;
  job.x = codes.data(), job.stride = job.cols = from.cols(), job.index = gather ? device_index.data() : nullptr;
  job.scales = scales.data(), job.scale_blocks = from.scale_cols();
  job.e8m0 = from.scales().format == Format::e8m0;
  job.element = from.element() == Format::e4m3 ? mxcheck_kernels::Element::e4m3 : mxcheck_kernels::Element::e5m2;
  for (const Way& way : ways(128)) expect_targets(job, way, values, experts, what);
}

TEST_F(Sm90Wide, of_codes_at_the_edges_of_tiles) {
  const std::vector<Way> all = ways(128);
  for (const std::size_t count : {1U, 3U, 40U}) {
    const Experts experts(rows_of_experts(count));
    for (const std::int64_t cols : {8, 120, 128, 136, 264}) {
      const Way& way = all[static_cast<std::size_t>(cols / 8 + static_cast<std::int64_t>(count)) % all.size()];
      const bool gather = cols != 128;
      const std::int64_t rows = gather ? 77 : experts.rows();
      const std::vector<std::uint16_t> x = bf16_cells(rows, cols, 54);
      const QuantizedTensor from = quantize(view_of(x, rows, cols), way.format, {1, 128}, recipe_named(way.recipe));
      expect_of_codes(from, experts, gather,
                      way.recipe + " codes, " + std::to_string(count) + " experts of " + std::to_string(cols));
    }
  }
}

// E4M3 codes with E8M0 scales that differ by `apart` at most among 16 rows: a column in five has the least codes alone
// and those where the scale is the least, another one zeros of both signs, a third now and then a NaN.
QuantizedTensor codes_of_scales(std::int64_t rows, int apart) {
  static constexpr std::uint64_t kLargest[] = {0, 1, 2, 14, 15, 16, 127, 140, 245, 246, 247, 254};
  QuantizedTensor from = make_quantized(Format::e4m3, rows, 136, {1, 128}, Format::e8m0, rows, 2);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t b = 0; b < 2; ++b) {
      const std::uint64_t largest = kLargest[random_word(55, static_cast<std::uint64_t>(i / 128 * 2 + b)) % 12];
      const auto down = static_cast<std::uint64_t>(i % 16 == 3 ? 0 : i % 16 == 5 ? apart : i % (apart + 1));
      const std::uint64_t r = random_word(56, static_cast<std::uint64_t>(2 * i + b));
      const std::uint64_t more = i / 16 % 8 == 7 ? 40 + r % 40 : 0;  // one warp of a tile is far below the others
      from.scales().set_code(static_cast<std::size_t>(2 * i + b),
                             static_cast<std::uint32_t>(largest > down + more ? largest - down - more : 0));
    }
    for (std::int64_t j = 0; j < from.cols(); ++j) {
      const std::uint64_t r = random_word(57, static_cast<std::uint64_t>(i * from.cols() + j));
      std::uint64_t code = r & ((r >> 8) % 2 == 0 ? 0xBF : 0xFB);  // no NaN
      if (j % 5 == 1) code = i % 16 == 5 ? r & 0x81 : r & 0x80;
      if (j % 5 == 2) code = r & 0x80;
      if (j % 5 == 3 && (r >> 16) % 200 == 0) code |= 0x7F;
      from.codes.set_code(static_cast<std::size_t>(i * from.cols() + j), static_cast<std::uint32_t>(code));
    }
  }
  return from;
}

TEST_F(Sm90Wide, of_codes_around_what_halves_hold) {
  const Experts experts({128 * 30 + 5});
  for (const int apart : {0, 1, 7, 13, 14, 15, 16, 24}) {
    expect_of_codes(codes_of_scales(experts.rows(), apart), experts, false,
                    "scales " + std::to_string(apart) + " apart");
  }
}

}  // namespace
}  // namespace mxcheck::test

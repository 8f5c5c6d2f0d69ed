// Files of several panels: the values are those of the whole matrix at once, whoever computes.

#include "tools/quantize/dequantize_stream.h"

#include <cstring>

#include "bindings/simd/simd.h"
#include "numerics/bytes.h"
#include "properties/core/rng.h"
#include "tests/tools/command.h"
#include "tools/common/panels.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kRows = 2210;  // of 16 KiB (BF16): three panels; no multiple of any block's rows
constexpr std::int64_t kCols = 8200;

class DequantizeStream : public test::ToolTest {
 protected:
  // A file of random bits: NaN and infinities are in some blocks.
  void write_file(Format element, BlockShape block, const char* recipe, ScaleLayout layout, bool experts) {
    std::vector<std::byte> x(static_cast<std::size_t>(kRows * kCols) * 2);
    for (std::size_t i = 0; i < x.size(); i += 8) {
      std::uint64_t word = mix64(i);
      if (i % 4096 != 0) word &= 0xBFFFBFFFBFFFBFFF;  // finite
      std::memcpy(x.data() + i, &word, std::min<std::size_t>(8, x.size() - i));
    }
    const Recipe r = recipe_named(recipe);
    const MatrixView view{Format::bf16, x.data(), kRows, kCols, kCols};
    QuantizedFile file{{}, {}, layout, 3};
    if (experts) file.offsets = {0, 5, 5, 1100, 1101, 2000, kRows};
    file.matrix = quantize(view, element, block, r, file.offsets);
    write_quantized(dir / "q.safetensors", to_safetensors(file, r, Format::bf16));
  }

  void expect_same() {
    const QuantizedFile whole = from_safetensors(read_safetensors(dir / "q.safetensors"), "q");
    for (const Format values : {Format::fp32, Format::bf16}) {
      const bool wide = values == Format::fp32;
      const Tensor want{"values",
                        wide ? Dtype::f32 : Dtype::bf16,
                        {kRows, kCols},
                        wide ? to_bytes(dequantize(whole.matrix, whole.offsets))
                             : to_bytes(dequantize_bf16(whole.matrix, whole.offsets))};
      write_npy(dir / "want.npy", want);
      write_safetensors(dir / "want.safetensors", {{want}, {}});
      for (const std::string kind : {".npy", ".safetensors"}) {
        Progress progress("test");
        QuantizedReader reader(dir / "q.safetensors");
        dequantize_stream(reader, values, dir / ("y" + kind), progress);
        EXPECT_TRUE(test::read_file(dir / ("y" + kind)) == test::read_file(dir / ("want" + kind))) << kind << wide;
      }
    }
  }
};

TEST_F(DequantizeStream, writes_what_the_whole_gives_where_the_simd_library_computes) {
  ASSERT_TRUE(offers_simd_values(Format::fp32, Format::e4m3, {1, 32}));
  write_file(Format::e4m3, {1, 32}, "rceil", ScaleLayout::tcgen05, false);
  expect_same();
  write_file(Format::e5m2, {32, 1}, "te", ScaleLayout::compact, true);
  expect_same();
}

TEST_F(DequantizeStream, writes_what_the_whole_gives_where_the_reference_computes) {
  ASSERT_FALSE(offers_simd_values(Format::fp32, Format::e2m1, {1, 32}));
  write_file(Format::e5m6, {1, 0}, "rceil", ScaleLayout::compact, false);
  expect_same();
  write_file(Format::e4m3, {128, 1}, "fp32", ScaleLayout::compact, true);
  expect_same();
}

TEST(Panels, are_whole_rows_of_blocks_and_hold_the_offsets_within_them) {
  const std::vector<std::int64_t> starts{0, 32, 40, 72, 104};
  const auto cut = panels(starts, kPanelBytes / 40);
  ASSERT_EQ(cut.size(), 3U);
  EXPECT_EQ(cut[0].at, 0U);
  EXPECT_EQ(cut[0].end, 2U);
  EXPECT_EQ(cut[1].at, 2U);
  EXPECT_EQ(cut[1].end, 3U);
  EXPECT_EQ(cut[2].at, 3U);
  EXPECT_EQ(cut[2].end, 4U);
  EXPECT_EQ(panels(starts, 2 * kPanelBytes).size(), 4U) << "one row of blocks at least";
  EXPECT_TRUE(panels({0}, 1).empty());
  EXPECT_EQ(offsets_within(std::vector<std::int64_t>{0, 40, 40, 104}, 32, 40),
            (std::vector<std::int64_t>{0, 8, 8, 40}));
  EXPECT_TRUE(offsets_within({}, 0, 5).empty());
}

}  // namespace
}  // namespace mxcheck

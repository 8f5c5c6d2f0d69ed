#include <cmath>
#include <cstring>
#include <functional>

#include "bindings/simd/simd.h"
#include "numerics/bytes.h"
#include "properties/core/rng.h"
#include "tests/tools/command.h"
#include "tools/common/panels.h"
#include "tools/quantize/quantize_stream.h"

namespace mxcheck {
namespace {

using test::make_tensor;
using test::tensor_of;
using test::values_of;

class DequantizeTool : public test::ToolTest {
 protected:
  void SetUp() override {
    write_npy(dir / "x.npy", make_tensor("", Format::fp32, {2, 3}, std::vector<float>{448, -1, 0.5, 3, 1e-3F, -0.0F}));
    ASSERT_EQ(mxcheck("quantize x.npy -o q.safetensors").code, 0);
  }
  // The file of SetUp with one thing changed.
  void write_changed(const std::function<void(SafetensorsFile&)>& change) {
    SafetensorsFile file = read_safetensors(dir / "q.safetensors");
    change(file);
    write_safetensors(dir / "bad.safetensors", file);
  }
};

Tensor& tensor_in(SafetensorsFile& file, const std::string& name) { return const_cast<Tensor&>(tensor_of(file, name)); }

TEST_F(DequantizeTool, writes_npy_and_safetensors_in_f32_and_bf16) {
  ASSERT_EQ(mxcheck("dequantize q.safetensors -o y.npy").code, 0);
  const Tensor f32 = read_tensor(dir / "y.npy");
  EXPECT_EQ(f32.shape, (std::vector<std::int64_t>{2, 3}));
  // 3 and 1e-3 share a scale of 2^-7: 1e-3 * 2^7 = 0.128 is 0.125 in E4M3.
  EXPECT_EQ(values_of<float>(f32), (std::vector<float>{448, -1, 0.5, 3, 0.125F / 128, -0.0F}));
  EXPECT_TRUE(std::signbit(values_of<float>(f32)[5]));
  ASSERT_EQ(mxcheck("dequantize q.safetensors -o y.safetensors").code, 0);
  EXPECT_EQ(read_tensor((dir / "y.safetensors") + ":values").data, f32.data);
  for (const std::string out : {"b.npy", "b.safetensors"}) {
    ASSERT_EQ(mxcheck("dequantize q.safetensors --dtype bf16 -o " + out).code, 0);
    const Tensor b = read_tensor(dir / out);
    EXPECT_EQ(b.format, Format::bf16);
    EXPECT_EQ(values_of<std::uint16_t>(b),
              (std::vector<std::uint16_t>{0x43E0, 0xBF80, 0x3F00, 0x4040, 0x3A80, 0x8000}));
  }
}

TEST_F(DequantizeTool, its_default_type_is_what_help_says) {
  const std::string help = mxcheck("dequantize --help").out;
  EXPECT_TRUE(help.find("}=f32") != std::string::npos || help.find("[f32]") != std::string::npos) << help;
  mxcheck("dequantize q.safetensors -o y.npy");
  EXPECT_EQ(read_tensor(dir / "y.npy").format, Format::fp32);
}

TEST_F(DequantizeTool, refuses_files_that_contradict_themselves) {
  using Change = std::function<void(SafetensorsFile&)>;
  const auto meta = [](const std::string& key, const std::string& value) {
    return [=](SafetensorsFile& f) { f.metadata[key] = value; };
  };
  const auto without = [](const std::string& key) { return [=](SafetensorsFile& f) { f.metadata.erase(key); }; };
  const std::vector<std::pair<Change, std::string>> cases{
      {[](SafetensorsFile& f) { f.metadata.clear(); }, "not a file of mxcheck quantize"},
      {meta("mxcheck_file", "other"), "not a file of mxcheck quantize"},
      {meta("file_version", "2"), "file_version is '2'; this mxcheck reads 1"},
      {without("file_version"), "file_version is ''"},
      {without("block"), "its metadata has no 'block'"},
      {without("rule"), "its metadata has no 'rule'"},
      {meta("rule", "best"), "metadata 'rule' is 'best'"},
      {meta("format", "e4m4"), "unknown format 'e4m4'"},
      {meta("block", "3x3"), "3x3"},
      {meta("layout", "spiral"), "metadata 'layout' is 'spiral'"},
      {meta("layout", "tcgen05"), "by the metadata it should be U8 [512]"},
      {meta("layout", "deepgemm"), "by the metadata it should be U32 [4]"},
      {meta("block", "32x1"), "scale_rows and scale_cols should be 1 and 3"},
      {meta("pad_byte", "256"), "over 255"},
      {meta("rows", "3"), "'codes' is U8 [2 x 3]; by the metadata it should be U8 [3 x 3]"},
      {meta("rows", "-2"), "which is no size"},
      {meta("rows", "2x"), "which is no size"},
      {meta("cols", "99999999999999999999"), "which is no size"},
      {meta("cols", "9223372036854775807"), "by the metadata it should be"},
      {meta("scale_cols", "2"), "should be 2 and 1"},
      {meta("offsets", "0,1"), "last offset (offset 1) is 1"},
      {meta("offsets", "0,x"), "expected numbers"},
      {meta("offsets", "0,1,2"), ""},  // legal for 1 x 32 blocks: rows 0 and 1 as experts of their own
      {meta("format", "e5m6"), "by the metadata it should be U16"},
      {meta("format", "e2m1"), "code 126 at row 0, column 0: e2m1 codes are 0 to 15"},
      {meta("rule", "fp32"), "by the metadata it should be F32"},
      {[](SafetensorsFile& f) { f.tensors.pop_back(); }, "should hold the tensors"},
      {[](SafetensorsFile& f) {
         f.tensors.push_back({"more", Format::uint8, {0}, {}});
       },
       "and no others"},
      {[](SafetensorsFile& f) { tensor_in(f, "codes").name = "Codes"; }, "should hold the tensors"},
      {[](SafetensorsFile& f) { tensor_in(f, "codes").format = Format::int8; }, "'codes' is I8"},
      {[](SafetensorsFile& f) {
         tensor_in(f, "codes").shape = {3, 2};
       },
       "'codes' is U8 [3 x 2]"},
      {[](SafetensorsFile& f) { tensor_in(f, "scales").shape = {2}; }, "'scales' is U8 [2]"},
  };
  for (const auto& [change, text] : cases) {
    write_changed(change);
    if (text.empty()) {
      EXPECT_EQ(mxcheck("dequantize bad.safetensors -o ok.npy").code, 0);
      std::filesystem::remove(dir / "ok.npy");
    } else {
      expect_refused(2, text, "dequantize bad.safetensors -o y.npy");
    }
  }
}

TEST_F(DequantizeTool, refuses_in_one_line_and_writes_nothing) {
  test::write_file(dir / "cut.safetensors", test::read_file(dir / "q.safetensors").substr(0, 300));
  const std::vector<std::pair<std::string, std::string>> cases{
      {"q.safetensors", "--output is required"},
      {"q.h5 -o y.npy", "takes the safetensors file that quantize writes"},
      {"q.safetensors -o y.h5", "name the output OUT.npy or OUT.safetensors"},
      {"q.safetensors -o q.safetensors", "is the input file"},
      {"q.safetensors -o none/y.npy", "No such file or directory"},
      {"none.safetensors -o y.npy", "cannot be opened"},
      {"cut.safetensors -o y.npy", "truncated"},
      {"x.npy -o y.npy", "safetensors"},
      {"q.safetensors -o y.npy --dtype f64", "not in {"},
  };
  for (const auto& [arguments, text] : cases) expect_refused(2, text, "dequantize " + arguments);
}

}  // namespace

// Files of several panels: the values are those of the whole matrix at once, whoever computes.

namespace {

using test::kPanelsCols;
using test::kPanelsRows;

class DequantizeStream : public test::ToolTest {
 protected:
  // A file of random bits: NaN and infinities are in some blocks.
  void write_file(Format element, BlockShape block, const char* recipe, ScaleLayout layout, bool experts) {
    std::vector<std::byte> x(static_cast<std::size_t>(kPanelsRows * kPanelsCols) * 2);
    for (std::size_t i = 0; i < x.size(); i += 8) {
      std::uint64_t word = mix64(i);
      if (i % 4096 != 0) word &= 0xBFFFBFFFBFFFBFFF;  // finite
      std::memcpy(x.data() + i, &word, std::min<std::size_t>(8, x.size() - i));
    }
    const Recipe r = recipe_named(recipe);
    const MatrixView view{Format::bf16, x.data(), kPanelsRows, kPanelsCols, kPanelsCols};
    QuantizedFile file{{}, {}, layout, 3};
    if (experts) file.offsets = {0, 5, 5, 1100, 1101, 2000, kPanelsRows};
    file.matrix = quantize(view, element, block, r, file.offsets);
    write_quantized(dir / "q.safetensors", to_safetensors(file, r, Format::bf16));
  }

  void expect_same() {
    const QuantizedFile whole = from_safetensors(read_safetensors(dir / "q.safetensors"), "q");
    for (const Format values : {Format::fp32, Format::bf16}) {
      const bool wide = values == Format::fp32;
      const Tensor want{"values",
                        wide ? Format::fp32 : Format::bf16,
                        {kPanelsRows, kPanelsCols},
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

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "bindings/simd/simd.h"
#include "numerics/bytes.h"
#include "numerics/scale/recipe.h"
#include "properties/core/rng.h"
#include "tests/tools/command.h"
#include "tools/common/panels.h"
#include "tools/quantize/quantize_stream.h"

namespace mxcheck {
namespace {

using namespace test;

class DequantizeTool : public ToolTest {
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
  write_file(dir / "cut.safetensors", read_file(dir / "q.safetensors").substr(0, 300));
  const std::vector<std::pair<std::string, std::string>> cases{
      {"q.safetensors", "--output is required"},
      {"x.npy -o y.npy", "x.npy: is one NumPy array; dequantize takes OUT.safetensors of mxcheck quantize"},
      {"q.safetensors:codes -o y.npy", "is one tensor of a file; dequantize takes OUT.safetensors"},
      {"real:layer0.x -o y.npy", "has no scales; dequantize takes OUT.safetensors of mxcheck quantize"},
      {"q.h5 -o y.npy", "is an HDF5 file; dequantize takes OUT.safetensors of mxcheck quantize"},
      {"q.safetensors -o y.h5", "name the output OUT.npy or OUT.safetensors"},
      {"q.safetensors -o q.safetensors", "is the input file"},
      {"q.safetensors -o none/y.npy", "No such file or directory"},
      {"none.safetensors -o y.npy", "cannot be opened"},
      {"cut.safetensors -o y.npy", "truncated"},
      {"x.npy -o y.npy", "safetensors"},
      {"q.safetensors -o y.npy --dtype f64", "is none of "},
  };
  for (const auto& [arguments, text] : cases) expect_refused(2, text, "dequantize " + arguments);
}

// Files of several panels: the values are those of the whole matrix at once, whoever computes.

class DequantizeStream : public ToolTest {
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
        EXPECT_TRUE(read_file(dir / ("y" + kind)) == read_file(dir / ("want" + kind))) << kind << wide;
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

using ScaleTool = ToolTest;
using nlohmann::json;

// Measured on the implementations that the presets are named after; E4M3.
const std::pair<std::string, std::vector<std::pair<const char*, int>>> kCells[] = {
    {"0", {{"rceil", 0}, {"deepgemm_host", 105}, {"thunderkittens", 88}}},
    {"0x04600001", {{"rceil", 1}, {"torchao", 0}}},  // one ulp above 448 * 2^-127
    {"0x04600002", {{"te_ftz", 0}}},
    {"0x04e00001", {{"torchao_old", 1}}},
    {"0x00800000", {{"triton", 1}, {"deepgemm_device", 1}}},  // 2^-126
    {"1e-5", {{"dsv3", 105}}},
    {"1.0", {{"te", 119}}},
    {"448", {{"rceil", 127}, {"torchao_ceil", 128}}},
    {"0x43e00001", {{"rceil", 128}, {"ocp", 127}}},
    {"496", {{"even", 128}}},
    {"0x43ffffff", {{"microxcaling_python", 128}, {"microxcaling_cuda", 127}}},
    {"0x47e00001", {{"dsv3", 135}}},
    {"0x63e00001", {{"torchao_old", 191}}},
    {"0x1.fffffep127", {{"torchao_even", 255}, {"torchao_0_18_even", 247}, {"rceil", 247}}},
    {"inf", {{"te", 254}, {"torchao", 255}, {"torchao_0_18", 254}, {"torchao_0_18_floor", 247}}},
    {"nan", {{"deepgemm_host", 254}, {"triton", 0}}},
    {"0x047FFFFF", {{"torchao_floor", 0}, {"torchao_floor_cuda", 1}}},
};

TEST_F(ScaleTool, prints_the_bytes_that_implementations_were_seen_to_write) {
  for (const auto& [amax, bytes] : kCells) {
    for (const auto& [rule, byte] : bytes) {
      const Answer a = mxcheck(std::string("scale --json --rule ") + rule + " " + amax);
      ASSERT_EQ(a.code, 0) << a.err;
      EXPECT_EQ(json::parse(a.out)["rows"][0]["byte"], byte) << amax << " by " << rule;
    }
  }
}

TEST_F(ScaleTool, answers_in_a_table_that_says_which_float_was_used) {
  EXPECT_EQ(mxcheck("scale --rule rceil 448 448.0001 0x1.8p3 nan").out,
            "amax           bits       hexfloat           rule                 byte hex  scale\n"
            "448            0x43e00000 0x1.cp+8           rceil                 127 0x7f 0x1p+0\n"
            "448.0001       0x43e00003 0x1.c00006p+8      rceil                 128 0x80 0x1p+1\n"
            "0x1.8p3        0x41400000 0x1.8p+3           rceil                 122 0x7a 0x1p-5\n"
            "nan            0x7fc00000 nan                rceil                 255 0xff nan\n");
}

TEST_F(ScaleTool, lists_every_recipe_with_what_it_was_checked_against) {
  const std::string text = mxcheck("scale --list").out;
  for (const Recipe& r : all_recipes()) {
    EXPECT_NE(text.find("\n" + r.name + " "), r.name == "rceil" ? 0 : std::string::npos) << r.name;
    EXPECT_NE(text.find(r.checked_against), std::string::npos) << r.name;
  }
  for (const Recipe& r : two_level_recipes()) {
    expect_contains(text, "\n" + r.name + " ");
    expect_contains(text, r.checked_against);
  }
  const json rules = json::parse(mxcheck("scale --list --json").out)["rules"];
  ASSERT_EQ(rules.size(), all_recipes().size() + two_level_recipes().size());
  EXPECT_EQ(rules[0], (json{{"rule", "rceil"}, {"checked_against", ""}}));
  EXPECT_EQ(mxcheck("scale").code, 2);
}

TEST_F(ScaleTool, reads_decimals_hexfloats_and_bits) {
  const std::vector<std::pair<std::string, std::string>> spellings{
      {"0.1", "0x3dcccccd"},       // rounded once, to the nearest float
      {"16777217", "0x4b800000"},  // a tie, to even
      {"16777219", "0x4b800002"},  // a tie, to even
      {"1e-46", "0x00000000"},     // below half the smallest float
      {"0x1p-149", "0x00000001"},    {"0x1p3", "0x41000000"},      {"0x1.", "0x3f800000"},
      {"0x3F80", "0x00003f80"},      {"0X3f800000", "0x3f800000"}, {"1e5", "0x47c35000"},
      {"0x1e5", "0x000001e5"},       {"INF", "0x7f800000"},        {"infinity", "0x7f800000"},
      {"0x7f800000", "0x7f800000"},  {"0xffc00000", "0xffc00000"}, {"+1", "0x3f800000"},
      {"3.4028235e38", "0x7f7fffff"}};
  for (const auto& [text, bits] : spellings) {
    const Answer a = mxcheck("scale --json --rule rceil " + text);
    ASSERT_EQ(a.code, 0) << text << a.err;
    EXPECT_EQ(json::parse(a.out)["rows"][0]["bits"], bits) << text;
  }
}

TEST_F(ScaleTool, without_a_rule_asks_every_recipe_in_order) {
  const json rows = json::parse(mxcheck("scale --json --format e5m2 57344 1").out)["rows"];
  const auto recipes = all_recipes();
  ASSERT_EQ(rows.size(), 2 * recipes.size());
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    EXPECT_EQ(rows[i]["rule"], recipes[i].name);
    EXPECT_EQ(rows[i]["amax"], "57344");
    if (recipes[i].rule == ScaleRule::fp32) {
      EXPECT_TRUE(rows[i]["byte"].is_null());
      EXPECT_EQ(rows[i]["scale"], 1.0);
      EXPECT_EQ(rows[i]["scale_bits"], "0x3f800000");
    } else {
      EXPECT_EQ(rows[i]["byte"], scale_byte_for_amax(recipes[i], Format::e5m2, 57344)) << recipes[i].name;
    }
  }
}

TEST_F(ScaleTool, writes_what_json_cannot_hold_as_strings) {
  const json rows = json::parse(mxcheck("scale --json --rule torchao inf nan").out)["rows"];
  EXPECT_EQ(rows[0]["value"], "inf");
  EXPECT_EQ(rows[1]["value"], "nan");
  EXPECT_EQ(rows[0]["scale"], "nan");
}

TEST_F(ScaleTool, refuses_what_is_no_magnitude) {
  for (const std::string text : {"-1", "-0", "-inf", "0x80000000", "0xff800000", "-0x1p3"})
    expect_refused(2, "is negative", "scale --rule rceil -- " + text);
  for (const std::string text : {"abc", "''", "1x", "' 1'", "1,5", "0x", "0xg", "1e", "--"})
    expect_refused(2, "is not a number", "scale --rule rceil -- " + text);
  expect_refused(2, "beyond FP32's largest value", "scale 1e39");
  expect_refused(2, "more than the 8 hexadecimal digits", "scale 0x123456789");
  expect_refused(2, "required", "scale");
  expect_refused(2, "unknown rule or preset 'round'; known are rceil, floor", "scale --rule round 1");
  expect_refused(2, "unknown format 'e4m4'; known are e4m3, e5m2", "scale --format e4m4 1");
  expect_refused(2, "'bf16' is not a format of block elements; these are e4m3", "scale --format bf16 1");
}

}  // namespace
}  // namespace mxcheck

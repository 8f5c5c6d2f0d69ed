#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bindings/simd/simd.h"
#include "numerics/bytes.h"
#include "properties/core/rng.h"
#include "reference/quantize/quantize.h"
#include "tests/tools/command.h"
#include "tools/quantize/quantize_stream.h"

namespace mxcheck {
namespace {

using namespace test;
using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

class QuantizeTool : public ToolTest {
 protected:
  void SetUp() override { write_safetensors(dir / "real.safetensors", real_tensors()); }

  void write_matrix(const std::string& name, std::int64_t rows, std::int64_t cols, const std::vector<float>& values) {
    write_npy(dir / name, make_tensor("", Format::fp32, {rows, cols}, values));
  }
  // Runs quantize and reads what it wrote.
  SafetensorsFile quantized(const std::string& arguments) {
    expect_output("quantize " + arguments + " -o q.safetensors", 0);
    return read_safetensors(dir / "q.safetensors");
  }
  std::vector<float> dequantized() {
    expect_output("dequantize q.safetensors -o y.npy", 0);
    return values_of<float>(read_tensor(dir / "y.npy"));
  }
};

float bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// The cases that backends agreed to share: block contents, scale byte, codes.
TEST_F(QuantizeTool, gives_the_bytes_of_the_shared_cases) {
  using Case = std::tuple<std::string, std::vector<float>, Bytes, Bytes>;
  const std::vector<Case> cases{
      {"", {0, 0}, {0}, {0x00, 0x00}},
      {"", {0x1p-126F, 0x1p-126F}, {0}, {0x40, 0x40}},
      {"", {448, -448}, {127}, {0x7E, 0xFE}},
      {"", {1, -1e-30F}, {119}, {0x78, 0x80}},
      {"", {480, 0}, {128}, {0x77, 0x00}},
      {"--rule floor", {480, 0}, {127}, {0x7E, 0x00}},
      {"--preset torchao", {kNaN, 1}, {255}, {0x7F, 0x7F}},
      {"--preset torchao", {-kInf, 1}, {255}, {0x7F, 0x7F}},
      {"--preset te", {kNaN, 448}, {127}, {0x7F, 0x7E}},
      {"--preset te", {kInf, 0}, {254}, {0x7E, 0x00}},
      {"--inf saturate", {kInf, -kInf}, {254}, {0x7E, 0xFE}},
      {"--preset te --inf nan", {kInf, 0}, {255}, {0x7F, 0x7F}},
      {"--nan drop", {kNaN, 448}, {127}, {0x7F, 0x7E}},
      {"--preset te --nan propagate", {kNaN, 448}, {255}, {0x7F, 0x7F}},
      {"--preset triton --nan propagate", {kNaN, 448}, {255}, {0x7F, 0x7F}},
      {"--amax-min 1e-4", {0, 0}, {105}, {0x00, 0x00}},
      {"--rounding toward_zero", {448, 447.9F}, {127}, {0x7E, 0x7D}},
      {"--rounding upward", {448, 17}, {127}, {0x7E, 0x59}},
      {"--rounding upward", {448, -17}, {127}, {0x7E, 0xD8}},
      {"--rounding nearest_away", {448, 17}, {127}, {0x7E, 0x59}},
      {"--rounding nearest_even", {448, 17}, {127}, {0x7E, 0x58}},
      {"--rule floor --overflow non_saturate", {480, 448}, {127}, {0x7F, 0x7E}},
      {"--format e5m2", {57344, -1}, {127}, {0x7B, 0xBC}},
      {"--format e2m1", {6, -0.5}, {127}, {0x7, 0x9}},
  };
  for (const auto& [flags, block, scales, codes] : cases) {
    write_matrix("x.npy", 1, 2, block);
    const SafetensorsFile file = quantized("x.npy " + flags);
    EXPECT_EQ(values_of<std::uint8_t>(tensor_of(file, "scales")), scales) << flags << " " << block[0];
    EXPECT_EQ(values_of<std::uint8_t>(tensor_of(file, "codes")), codes) << flags << " " << block[0];
  }
}

// x / s, x * RN(1/s) and x * RN(vmax/amax) part on inputs that are exact ties.
TEST_F(QuantizeTool, divides_or_multiplies_by_float_scales_as_asked) {
  write_matrix("x.npy", 1, 2, {408, 306});
  const std::vector<std::pair<std::string, std::uint8_t>> cases{
      {"--rule fp32", 0x7A}, {"--rule fp32 --op divide", 0x7A}, {"--rule fp32 --op quotient", 0x7B}};
  for (const auto& [flags, code] : cases) {  // 0x7A = 320, 0x7B = 352
    const SafetensorsFile file = quantized("x.npy " + flags);
    EXPECT_EQ(tensor_of(file, "scales").format, Format::fp32);
    EXPECT_EQ(values_of<float>(tensor_of(file, "scales")), std::vector<float>{408.0F / 448.0F});
    EXPECT_EQ(values_of<std::uint8_t>(tensor_of(file, "codes")), (Bytes{0x7E, code})) << flags;
  }
}

TEST_F(QuantizeTool, quantizes_real_tensors_within_half_a_step_of_every_value) {
  for (const std::string name : {"layer0.x", "layer0.dO", "layer3.h", "layer3.dw1"}) {
    const auto x = values_of<std::uint16_t>(real_tensor(name));
    for (const std::string block : {"1x32", "32x1", "32x32", "1x128", "128x1", "128x128", "row"}) {
      const SafetensorsFile file = quantized("real.safetensors:" + name + " --block " + block);
      EXPECT_EQ(tensor_of(file, "codes").shape, real_tensor(name).shape);
      const std::vector<float> y = dequantized();
      ASSERT_EQ(y.size(), x.size());
      // rceil never saturates: the error is half a step, 2^-4 of the value, or half of 2^-9 scales near zero.
      const auto scales = values_of<std::uint8_t>(tensor_of(file, "scales"));
      const double top = std::ldexp(1.0, *std::max_element(scales.begin(), scales.end()) - 127);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double value = bf16(x[i]);
        const double error = std::fabs(value - y[i]);
        const bool pass = error <= std::max(std::fabs(value) * 0x1p-4, top * 0x1p-10);
        wrong += pass ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0U) << name << " " << block;
    }
  }
}

TEST_F(QuantizeTool, writes_what_the_reference_computes) {
  const Tensor& t = real_tensor("layer3.dh");
  const MatrixView view{Format::bf16, t.data.data(), 160, 512, 512};
  const std::vector<std::int64_t> offsets{0, 50, 50, 160};
  const QuantizedTensor q = quantize(view, Format::e5m2, {32, 1}, recipe_named("te"), offsets);
  const SafetensorsFile file =
      quantized("real.safetensors:layer3.dh --format e5m2 --block 32x1 --preset te --offsets 0,50,50,160");
  EXPECT_EQ(values_of<std::uint8_t>(tensor_of(file, "codes")), values_in<std::uint8_t>(q.codes.data));
  EXPECT_EQ(values_of<std::uint8_t>(tensor_of(file, "scales")), values_in<std::uint8_t>(q.scales().data));
  EXPECT_EQ(tensor_of(file, "scales").shape, (std::vector<std::int64_t>{6, 512}));  // 2 + 0 + 4 rows of blocks
}

TEST_F(QuantizeTool, every_layout_holds_the_same_scales_and_dequantizes_to_the_same_values) {
  for (const std::string block : {"1x32", "32x1", "128x1"}) {
    for (const std::string offsets : {"", " --offsets 0,33,33,192"}) {
      const std::string what = "real.safetensors:layer0.x --block " + block + offsets;
      quantized(what);
      const std::vector<float> compact = dequantized();
      for (const std::string layout : {"tcgen05", "tcgen05 --pad-byte 255", "deepgemm", "deepgemm --pad-byte 127"}) {
        quantized(what + " --layout " + layout);
        EXPECT_EQ(dequantized(), compact) << what << layout;
      }
    }
  }
}

TEST_F(QuantizeTool, lays_scales_out_as_the_hardware_reads_them) {
  const SafetensorsFile compact = quantized("real.safetensors:layer0.x");  // 192 x 512: scales 192 x 16
  const auto scales = values_of<std::uint8_t>(tensor_of(compact, "scales"));
  const SafetensorsFile tiled = quantized("real.safetensors:layer0.x --layout tcgen05 --pad-byte 85");
  const auto tiles = values_of<std::uint8_t>(tensor_of(tiled, "scales"));
  ASSERT_EQ(tiles.size(), 256U * 16U);
  Bytes expected(256 * 16, 85);
  for (std::size_t i = 0; i < 192; ++i) {
    for (std::size_t j = 0; j < 16; ++j)
      expected[((i / 128) * 4 + j / 4) * 512 + (i % 32) * 16 + ((i % 128) / 32) * 4 + j % 4] = scales[i * 16 + j];
  }
  EXPECT_EQ(tiles, expected);
  const SafetensorsFile packed = quantized("real.safetensors:layer0.x --layout deepgemm");
  EXPECT_EQ(tensor_of(packed, "scales").format, Format::uint32);
  const auto words = values_of<std::uint32_t>(tensor_of(packed, "scales"));
  ASSERT_EQ(words.size(), 4U * 192U);
  EXPECT_EQ(words[192 + 5] >> 16 & 0xFF, scales[5 * 16 + 6]);
}

TEST_F(QuantizeTool, writes_the_same_tensors_as_hdf5) {
  for (const char* flags : {"--layout tcgen05 --offsets 0,33,192", "--rule fp32 --block 1x128", "--format e5m6"}) {
    SCOPED_TRACE(flags);
    const SafetensorsFile file = quantized(std::string("real.safetensors:layer0.x ") + flags);
    ASSERT_EQ(mxcheck(std::string("quantize real.safetensors:layer0.x -o q.h5 ") + flags).code, 0);
    for (const char* name : {"codes", "scales"}) {
      const Tensor tensor = read_tensor(dir / ("q.h5:/" + std::string(name)));
      EXPECT_EQ(tensor.data, tensor_of(file, name).data) << name;
      EXPECT_EQ(tensor.shape, tensor_of(file, name).shape) << name;
    }
    const std::string again = read_file(dir / "q.h5");
    ASSERT_EQ(mxcheck(std::string("quantize real.safetensors:layer0.x -o q.h5 ") + flags).code, 0);
    EXPECT_EQ(read_file(dir / "q.h5"), again);
  }
}

TEST_F(QuantizeTool, gives_e5m6_two_bytes_a_code) {
  write_matrix("x.npy", 1, 2, {65024, -1});
  for (const std::string flags : {"--block row", "--block row --rule fp32", ""}) {
    const SafetensorsFile file = quantized("x.npy --format e5m6 " + flags);
    EXPECT_EQ(values_of<std::uint16_t>(tensor_of(file, "codes")), (std::vector<std::uint16_t>{0x7BF, 0xBC0})) << flags;
    EXPECT_EQ(dequantized(), (std::vector<float>{65024, -1})) << flags;
  }
}

TEST_F(QuantizeTool, reads_every_type_a_matrix_out_of_three_dimensions_and_reinterpreted_integers) {
  const std::vector<std::uint16_t> values{0x3F80, 0xC000, 0x0000, 0x4000, 0x3F80, 0x4080};  // 1 -2 0, 2 1 4 in BF16
  write_npy(dir / "u.npy", make_tensor("", Format::uint16, {2, 1, 3}, values));
  write_npy(dir / "b.npy", make_tensor("", Format::bf16, {2, 1, 3}, values));
  write_npy(dir / "h.npy", make_tensor("", Format::fp16, {1, 2}, std::vector<std::uint16_t>{0x3C00, 0x0001}));
  for (const std::string what : {"u.npy --dtype bf16 --index 1", "b.npy --index 1"}) {
    quantized(what);
    EXPECT_EQ(dequantized(), (std::vector<float>{2, 1, 4})) << what;
  }
  quantized("b.npy --index 0");
  EXPECT_EQ(dequantized(), (std::vector<float>{1, -2, 0}));
  quantized("h.npy --block 32x1");
  EXPECT_EQ(dequantized(), (std::vector<float>{1, 0x1p-24F}));
}

TEST_F(QuantizeTool, takes_empty_matrices) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 64}, {5, 0}, {std::int64_t{1} << 40, 0}}) {
    write_npy(dir / "e.npy", make_tensor("", Format::fp32, shape, std::vector<float>{}));
    for (const std::string flags :
         {"", "--layout tcgen05", "--block 32x1 --layout deepgemm", "--rule fp32", "--block 128x128"}) {
      const SafetensorsFile file = quantized("e.npy " + flags);
      EXPECT_EQ(tensor_of(file, "codes").shape, shape);
      EXPECT_TRUE(tensor_of(file, "scales").data.empty());
      EXPECT_TRUE(dequantized().empty()) << flags;
    }
  }
}

TEST_F(QuantizeTool, reads_offsets_from_files) {
  const std::string what = "real.safetensors:layer0.x --block 32x1 --offsets ";
  const SafetensorsFile expected = quantized(what + "0,7,192");
  write_file(dir / "o.txt", "0\n7\n192\n");
  write_npy(dir / "o64.npy", make_tensor("", Format::int64, {3}, std::vector<std::int64_t>{0, 7, 192}));
  write_npy(dir / "o32.npy", make_tensor("", Format::int32, {3}, std::vector<std::int32_t>{0, 7, 192}));
  for (const std::string file : {"o.txt", "o64.npy", "o32.npy", "'0 7 192'"})
    EXPECT_EQ(tensor_of(quantized(what + file), "scales").data, tensor_of(expected, "scales").data) << file;
}

TEST_F(QuantizeTool, writes_the_same_bytes_again_and_explains_them) {
  quantized("real.safetensors:layer0.x --preset te --layout tcgen05 --block 32x1 --offsets 0,64,192");
  const std::string first = read_file(dir / "q.safetensors");
  const SafetensorsFile file =
      quantized("real.safetensors:layer0.x --rule te --layout tcgen05 --block 32x1 --offsets 0,64,192");
  EXPECT_EQ(read_file(dir / "q.safetensors"), first);
  std::map<std::string, std::string> expected;
  std::istringstream words(
      "mxcheck_file quantized file_version 1 format e4m3 block 32x1 layout tcgen05 pad_byte 0 rows 192 cols 512 "
      "scale_rows 6 scale_cols 512 offsets 0,64,192 source_dtype bfloat16 recipe te rule rceil_fp32 nan drop "
      "amax_min 0x0p+0 quotient_min 0x0p+0 byte_min 0 byte_max 255 inf_byte 254 nan_byte 255 inf_factor nan "
      "nan_factor nan element_scaling exact zero_scale 0x1p+0 rounding nearest_even overflow saturate "
      "drop_negative_zero no nan_sign no");
  for (std::string name, value; words >> name >> value;) expected[name] = value;
  EXPECT_EQ(file.metadata, expected);
}

TEST_F(QuantizeTool, its_documented_defaults_are_what_it_does) {
  const std::string help = mxcheck("quantize --help").out;
  const std::vector<std::pair<std::string, std::string>> defaults{
      {"--format", "e4m3"}, {"--block", "1x32"}, {"--layout", "compact"}, {"--pad-byte", "0"}, {"--rule", "rceil"}};
  std::string all;
  for (const auto& [flag, value] : defaults) {
    const std::size_t at = help.find("  " + flag);
    ASSERT_NE(at, std::string::npos) << flag;
    const std::string line = help.substr(at, help.find("\n  -", at) - at);
    const bool said = line.find("=" + value) != std::string::npos ||
                      line.find("[" + value + "]") != std::string::npos ||
                      line.find("(default: " + value + ")") != std::string::npos;
    EXPECT_TRUE(said) << line;
    all += " " + flag + " " + value;
  }
  quantized("real.safetensors:layer0.x");
  const std::string bytes = read_file(dir / "q.safetensors");
  quantized("real.safetensors:layer0.x" + all);
  EXPECT_EQ(read_file(dir / "q.safetensors"), bytes);
}

TEST_F(QuantizeTool, summarizes_as_json) {
  const json j = json::parse(mxcheck("quantize real.safetensors:layer0.w2 -o q.safetensors --json --amax-min 0.5").out);
  EXPECT_EQ(j["rows"], 128);
  EXPECT_EQ(j["scale_cols"], 16);
  EXPECT_EQ(j["policy"]["recipe"], "rceil");
  EXPECT_EQ(j["policy"]["amax_min"], "0x1p-1");
}

TEST_F(QuantizeTool, refuses_in_one_line_and_writes_nothing) {
  write_matrix("x.npy", 2, 3, {1, 2, 3, 4, kNaN, 6});
  write_npy(dir / "v.npy", make_tensor("", Format::fp32, {3}, std::vector<float>(3)));
  write_npy(dir / "t.npy", make_tensor("", Format::fp32, {2, 1, 3}, std::vector<float>(6)));
  write_npy(dir / "four.npy", make_tensor("", Format::fp32, {1, 1, 1, 1}, std::vector<float>(1)));
  write_npy(dir / "d.npy", make_tensor("", Format::fp64, {1, 1}, std::vector<double>(1)));
  write_npy(dir / "u.npy", make_tensor("", Format::uint16, {1, 1}, std::vector<std::uint16_t>(1)));
  write_npy(dir / "i.npy", make_tensor("", Format::int64, {1, 1}, std::vector<std::int64_t>(1)));
  write_file(dir / "cut.npy", read_file(dir / "x.npy").substr(0, 140));
  write_file(dir / "words.txt", "zero one");
  std::filesystem::create_directory(dir / "folder.safetensors");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"x.npy", "--output is required"},
      {"-o q.safetensors", "IN is required"},
      {"x.npy -o q.txt", "name the output OUT.safetensors or OUT.h5"},
      {"x.npy -o missing/q.safetensors", "No such file or directory"},
      {"x.npy -o folder.safetensors", "it is a directory"},
      {"real.safetensors:layer0.x -o real.safetensors", "is the input file"},
      {"real.safetensors:layer0.x -o ./folder.safetensors/../real.safetensors", "is the input file"},
      {"none.npy -o q.safetensors", "cannot be opened"},
      {"cut.npy -o q.safetensors", "truncated"},
      {"x.bin -o q.safetensors", "not a known kind of file"},
      {"real.safetensors -o q.safetensors", "which tensor?"},
      {"real.safetensors:layer9.x -o q.safetensors", "has no tensor 'layer9.x'; it has layer0.dO"},
      {"v.npy -o q.safetensors", "has 1 dimensions; two are needed: reshape it"},
      {"four.npy -o q.safetensors", "has 4 dimensions"},
      {"t.npy -o q.safetensors", "pick one of its 2 matrices with --index"},
      {"t.npy -o q.safetensors --index 2", "holds matrices 0 to 1"},
      {"t.npy -o q.safetensors --index -1", "holds matrices 0 to 1"},
      {"x.npy -o q.safetensors --index 0", "--index picks a matrix out of three"},
      {"d.npy -o q.safetensors", "has dtype F64; F32, BF16 or F16 is needed"},
      {"i.npy -o q.safetensors", "has dtype I64"},
      {"u.npy -o q.safetensors", "say --dtype bf16"},
      {"x.npy -o q.safetensors --dtype bf16", "reinterprets 16-bit unsigned integers"},
      {"x.npy -o q.safetensors --format fp8", "unknown format 'fp8'; known are e4m3"},
      {"x.npy -o q.safetensors --format bf16", "is not a format of block elements"},
      {"x.npy -o q.safetensors --block 2x2", "2x2"},
      {"x.npy -o q.safetensors --rule best", "unknown rule or preset 'best'; known are rceil"},
      {"x.npy -o q.safetensors --preset best", "unknown rule or preset 'best'"},
      {"x.npy -o q.safetensors --rule floor --preset te", "contradict"},
      {"x.npy -o q.safetensors --layout blocked", "is none of compact, tcgen05, deepgemm"},
      {"x.npy -o q.safetensors --layout tcgen05 --block 32x32", "need layout compact"},
      {"x.npy -o q.safetensors --layout tcgen05 --rule fp32", "FP32 scales need layout compact"},
      {"x.npy -o q.safetensors --layout deepgemm --format e5m6", "no e5m6"},
      {"x.npy -o q.safetensors --pad-byte 256", "256"},
      {"x.npy -o q.safetensors --nan refuse", "x.npy: NaN at row 1, column 1"},
      {"x.npy -o q.safetensors --nan maybe", "is none of propagate, drop, refuse"},
      {"x.npy -o q.safetensors --rule fp32 --inf saturate", "FP32 scales"},
      {"x.npy -o q.safetensors --op divide", "--op is for FP32 scales"},
      {"x.npy -o q.safetensors --amax-min -1", "at least 0"},
      {"x.npy -o q.safetensors --amax-min nan", "at least 0"},
      {"x.npy -o q.safetensors --rounding stochastic", "needs --seed"},
      {"x.npy -o q.safetensors --offsets 0,3", "--offsets: last offset (offset 1) is 3"},
      {"x.npy -o q.safetensors --offsets 1,2", "--offsets: offset 0 is 1"},
      {"x.npy -o q.safetensors --offsets 0,2,1,2", "--offsets: offset 2 is 1"},
      {"x.npy -o q.safetensors --offsets ,", "expected numbers"},
      {"x.npy -o q.safetensors --offsets words.txt", "expected numbers"},
      {"x.npy -o q.safetensors --offsets x.npy", "one vector of I64 or I32"},
      {"x.npy -o q.safetensors --offsets none.txt", "cannot be opened"},
      {"x.npy -o q.safetensors --quickly", "--quickly"},
  };
  for (const auto& [arguments, text] : cases) expect_refused(2, text, "quantize " + arguments);
}

TEST_F(QuantizeTool, keeps_an_older_output_when_it_refuses) {
  quantized("real.safetensors:layer0.x");
  const std::string before = read_file(dir / "q.safetensors");
  expect_refused(2, "unknown rule", "quantize real.safetensors:layer0.x -o q.safetensors --rule best");
  expect_refused(3, "writing failed", "quantize real.safetensors:layer0.x -o q.safetensors", "ulimit -f 8; ");
  EXPECT_EQ(read_file(dir / "q.safetensors"), before);
}

// Matrices of several panels: the file is the one that quantizing the whole at once gives, whoever computes.

struct Job {
  Format source, element;
  BlockShape block;
  const char* recipe;
  ScaleLayout layout = ScaleLayout::compact;
  bool experts = false;
};

class QuantizeStream : public ToolTest {
 protected:
  // Random bits with neither NaN nor infinity in BF16.
  static std::vector<std::byte> matrix(Format source) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(kPanelsRows * kPanelsCols) *
                                 (source == Format::fp32 ? 4 : 2));
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      const std::uint64_t word = mix64(i) & 0xBFFFBFFFBFFFBFFF;
      std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
    }
    return bytes;
  }

  void expect_same(const Job& job) {
    const std::vector<std::byte> x = matrix(job.source);
    const Format dtype = job.source == Format::fp32 ? Format::fp32 : Format::bf16;
    write_safetensors(dir / "x.safetensors", {{{"x", dtype, {kPanelsRows, kPanelsCols}, x}}, {}});
    QuantizeRequest r{job.element, job.block, recipe_named(job.recipe), {}, job.layout, 9};
    if (job.experts) r.offsets = {0, 5, 5, 1100, 1101, 2000, kPanelsRows};
    Progress progress("test");
    MatrixPanels matrix_of_file({dir / "x.safetensors", std::nullopt, ""});
    quantize_stream(matrix_of_file, r, dir / "stream.safetensors", progress);

    const MatrixView view{job.source, x.data(), kPanelsRows, kPanelsCols, kPanelsCols};
    const QuantizedFile whole{quantize(view, job.element, job.block, r.recipe, r.offsets), r.offsets, r.layout, 9};
    write_quantized(dir / "whole.safetensors", to_safetensors(whole, r.recipe, job.source));
    EXPECT_TRUE(read_file(dir / "stream.safetensors") == read_file(dir / "whole.safetensors"))
        << spec(job.element).name << " " << to_text(job.block) << " " << job.recipe;
  }
};

TEST_F(QuantizeStream, writes_what_the_whole_gives_where_the_simd_library_computes) {
  ASSERT_TRUE(offers_simd(Format::bf16, Format::e4m3, {1, 32}, recipe_named("rceil")));
  expect_same({Format::bf16, Format::e4m3, {1, 32}, "rceil", ScaleLayout::tcgen05});
  expect_same({Format::bf16, Format::e5m2, {32, 1}, "floor", ScaleLayout::tcgen05, true});
  expect_same({Format::fp32, Format::e4m3, {128, 128}, "te", ScaleLayout::compact, true});
}

TEST_F(QuantizeStream, writes_what_the_whole_gives_where_the_reference_computes) {
  expect_same({Format::bf16, Format::e5m6, {1, 0}, "rceil"});
  expect_same({Format::bf16, Format::e4m3, {128, 1}, "fp32", ScaleLayout::compact, true});  // scales before the codes
  Recipe changed = recipe_named("rceil");
  changed.amax_min = 1e-4F;
  EXPECT_FALSE(offers_simd(Format::bf16, Format::e4m3, {1, 32}, changed)) << "a policy replaced is another recipe";
}

TEST_F(QuantizeStream, names_the_row_of_a_nan_in_a_later_panel_and_writes_nothing) {
  std::vector<std::byte> x = matrix(Format::bf16);
  const std::uint16_t nan = 0x7FC1;
  std::memcpy(x.data() + 2 * (1999 * kPanelsCols + 77), &nan, 2);
  write_safetensors(dir / "x.safetensors", {{{"x", Format::bf16, {kPanelsRows, kPanelsCols}, x}}, {}});
  expect_refused(2, "x.safetensors: NaN at row 1999, column 77",
                 "quantize x.safetensors --nan refuse -o q.safetensors");
}

#if !defined(__SANITIZE_ADDRESS__)  // which takes memory of its own

TEST_F(QuantizeStream, takes_memory_for_a_few_panels_and_not_for_the_matrix) {
  write_large_zeros("x.safetensors");
  const Answer a = mxcheck("quantize x.safetensors -o q.safetensors --block 32x1", "ulimit -d 140000; ");  // KiB
  EXPECT_EQ(a.code, 0) << a.err;
}

#endif

}  // namespace
}  // namespace mxcheck

// quantize and identify with a Hadamard transform before, and quantize with MS-EDEN.

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/ms_eden.h"
#include "reference/quantize/quantize.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;

class HadamardTool : public ToolTest {
 protected:
  void SetUp() override { write_safetensors(dir / "real.safetensors", real_tensors()); }

  SafetensorsFile quantized(const std::string& arguments) {
    expect_output("quantize real.safetensors:layer0.x -o q.safetensors " + arguments, 0);
    return read_safetensors(dir / "q.safetensors");
  }
  [[nodiscard]] Tensor x() const { return read_tensor(dir / "real.safetensors:layer0.x"); }
  static MatrixView view_of_matrix(const Tensor& x) { return {x.format, x.data.data(), x.rows(), x.cols(), x.cols()}; }
  static const Tensor& tensor_named(const SafetensorsFile& file, const std::string& name) {
    for (const Tensor& t : file.tensors) {
      if (t.name == name) return t;
    }
    throw std::runtime_error("no tensor " + name);
  }
  static void expect_file(const SafetensorsFile& file, const QuantizedTensor& q) {
    EXPECT_EQ(tensor_named(file, "codes").data, q.codes.data);
    EXPECT_EQ(tensor_named(file, "scales").data, q.scales().data);
    if (q.levels.size() > 1) {
      EXPECT_EQ(tensor_named(file, "tensor_scale").data, q.levels[1].scales.data);
    }
  }
};

struct TransformCase {
  const char* options;
  Hadamard transform;
};

TEST_F(HadamardTool, a_file_is_that_of_the_transformed_matrix) {
  const std::array<std::uint32_t, 4> of_seed{philox_word(7, 0, 0, 0, 0), philox_word(7, 1, 0, 0, 0),
                                             philox_word(7, 2, 0, 0, 0), philox_word(7, 3, 0, 0, 0)};
  const TransformCase cases[] = {
      {"--hadamard 16", {.size = 16}},
      {"--hadamard 16 --signs 0x2D4b", {.size = 16, .signs = {0x2D4B}}},
      {"--hadamard 64 --signs 0x0000000123456789abcdef --hadamard-sum exact",
       {.size = 64, .signs = {0x89ABCDEF, 0x01234567}}},
      {"--hadamard 32 --signs 7 --hadamard-sum butterfly",
       {.size = 32, .signs = {of_seed[0]}, .sum = HadamardSum::butterfly}},
      {"--hadamard 16 --signs 7", {.size = 16, .signs = {of_seed[0] & 0xFFFF}}},
      {"--hadamard 128 --signs 7 --hadamard-result fp32", {.size = 128, .signs = of_seed, .result = Format::fp32}},
      {"--hadamard 16 --hadamard-sum sm90_bf16", {.size = 16, .sum = HadamardSum::matrix}},
      {"--hadamard 16 --hadamard-sum ieee_fp32", {.size = 16, .sum = HadamardSum::matrix, .contract = "ieee_fp32"}}};
  const Tensor matrix = x();
  for (const TransformCase& one : cases) {
    const Tensor y = hadamard(view_of_matrix(matrix), one.transform, Along::rows);
    for (const std::string recipe : {"rceil", "nvfp4_te"}) {
      const bool nested = recipe != "rceil";
      SCOPED_TRACE(recipe + " " + one.options);
      const QuantizedTensor q = quantize(view_of_matrix(y), nested ? Format::e2m1 : Format::e4m3,
                                         nested ? BlockShape{1, 16} : BlockShape{1, 32}, any_recipe_named(recipe));
      expect_file(quantized("--rule " + recipe + " " + one.options), q);
      expect_output("dequantize q.safetensors -o y.npy", 0);
      EXPECT_EQ(read_tensor(dir / "y.npy").data, to_bytes(dequantize(q)));
    }
  }
}

// Bit i is element i's: a sign of element 0 is that of a matrix whose element 0 was negated.
TEST_F(HadamardTool, the_lowest_bit_is_the_first_element_of_every_group) {
  std::vector<float> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  std::vector<float> negated = values;
  negated[0] = -negated[0], negated[16] = -negated[16], negated[32] = -negated[32], negated[48] = -negated[48];
  write_npy(dir / "x.npy", make_tensor("x", Format::fp32, {2, 32}, values));
  write_npy(dir / "y.npy", make_tensor("x", Format::fp32, {2, 32}, negated));
  expect_output("quantize x.npy -o x.safetensors --hadamard 16 --signs 0x1", 0);
  expect_output("quantize y.npy -o y.safetensors --hadamard 16", 0);
  EXPECT_EQ(tensor_named(read_safetensors(dir / "x.safetensors"), "codes").data,
            tensor_named(read_safetensors(dir / "y.safetensors"), "codes").data);
}

TEST_F(HadamardTool, says_what_it_did) {
  const std::string options = "--hadamard 16 --signs 0x2d4b --hadamard-sum butterfly ";
  const SafetensorsFile file = quantized(options);
  EXPECT_EQ(file.metadata.at("hadamard"), "16");
  EXPECT_EQ(file.metadata.at("hadamard_signs"), "0x2d4b");
  EXPECT_EQ(file.metadata.at("hadamard_sum"), "butterfly");
  EXPECT_EQ(file.metadata.at("hadamard_result"), "bf16");
  EXPECT_EQ(file.metadata.at("source_dtype"), "bfloat16");
  expect_contains(mxcheck("quantize real.safetensors:layer0.x -o q.h5 " + options).out,
                  "\nhadamard 16 along rows, signs 0x2d4b, sum butterfly, to bf16\n");
  expect_contains(mxcheck("quantize real.safetensors:layer0.x -o q.safetensors --json " + options).out,
                  "\"hadamard_signs\": \"0x2d4b\"");
  const std::string help = mxcheck("quantize --help").out;
  expect_contains(help, {"--hadamard TEXT:{16,32,64,128}", "bit i for element i", "--hadamard-sum", "ms_eden"});
}

TEST_F(HadamardTool, refuses_what_is_no_transform) {
  write_npy(dir / "odd.npy", make_tensor("x", Format::fp32, {4, 40}, std::vector<float>(160, 1)));
  write_npy(dir / "none.npy", make_tensor("x", Format::fp32, {0, 40}, std::vector<float>()));
  write_npy(dir / "empty.npy", make_tensor("x", Format::fp32, {0, 32}, std::vector<float>()));
  const auto refused = [&](const std::string& text, const std::string& arguments) {
    expect_refused(2, text, "quantize -o r.safetensors " + arguments);
    EXPECT_FALSE(std::filesystem::exists(dir / "r.safetensors")) << arguments;
  };
  for (const char* other : {"--signs 0x1", "--hadamard-sum exact", "--hadamard-result bf16"}) {
    refused("are of --hadamard, which is missing", std::string("real.safetensors:layer0.x ") + other);
  }
  refused("'17' is none of 16, 32, 64, 128", "real.safetensors:layer0.x --hadamard 17");
  for (const std::string signs : {"0x", "0x12345", "0xfg", "abc", "-1", "1.5", "18446744073709551616"}) {
    refused("--signs '" + signs + "': must be 0x and up to 4 hexadecimal digits",
            "real.safetensors:layer0.x --hadamard 16 --signs " + signs);
  }
  refused("'matrix'; known are exact, butterfly, ieee_fp32, sm90_bf16",
          "real.safetensors:layer0.x --hadamard 16 --hadamard-sum matrix");
  refused("'e4m3' is none of fp32, bf16, fp16", "real.safetensors:layer0.x --hadamard 16 --hadamard-result e4m3");
  refused("odd.npy: Hadamard transform of 16 along rows of 40 elements: these must be a multiple of the size",
          "odd.npy --hadamard 16");
  refused("none.npy: Hadamard transform of 16 along rows of 40", "none.npy --hadamard 16");
  expect_output("quantize empty.npy -o r.safetensors --hadamard 16", 0);
}

std::vector<std::uint32_t> words_of_seed(std::uint64_t seed, std::size_t count) {
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < count; ++i) words.push_back(philox_word(seed, i, 0, 0, 0));
  return words;
}

TEST_F(HadamardTool, ms_eden_rounds_the_scales_of_blocks_by_a_seed) {
  const Tensor matrix = x();
  const std::vector<std::uint32_t> words = words_of_seed(5, matrix.size() / 16);
  expect_file(quantized("--rounding ms_eden --seed 5"), ms_eden(view_of_matrix(matrix), {}, words));
  const Tensor y = hadamard(view_of_matrix(matrix), {.size = 32, .signs = {0x2D4B}}, Along::rows);
  const QuantizedTensor q = ms_eden(view_of_matrix(y), {.group = 32}, words);
  const SafetensorsFile file = quantized("--rounding ms_eden --seed 5 --hadamard 32 --signs 0x2d4b");
  expect_file(file, q);
  EXPECT_EQ(file.metadata.at("recipe"), "ms_eden");
  EXPECT_EQ(file.metadata.at("group"), "32");
  EXPECT_EQ(file.metadata.at("seed"), "5");
  expect_output("dequantize q.safetensors -o y.npy", 0);
  EXPECT_EQ(read_tensor(dir / "y.npy").data, to_bytes(dequantize(q)));
  EXPECT_NE(tensor_named(quantized("--rounding ms_eden --seed 6 --hadamard 32 --signs 0x2d4b"), "scales").data,
            q.scales().data);
}

TEST_F(HadamardTool, ms_eden_refuses_other_choices) {
  write_npy(dir / "odd.npy", make_tensor("x", Format::fp32, {4, 40}, std::vector<float>(160, 1)));
  write_npy(dir / "nan.npy", make_tensor("x", Format::fp32, {1, 128}, std::vector<float>(128, std::nanf(""))));
  const auto refused = [&](const std::string& text, const std::string& arguments) {
    expect_refused(2, text, "quantize -o r.safetensors --rounding ms_eden " + arguments);
    EXPECT_FALSE(std::filesystem::exists(dir / "r.safetensors")) << arguments;
  };
  refused("--rounding ms_eden needs --seed", "real.safetensors:layer0.x");
  for (const std::string option : {"--preset nvfp4", "--rule te", "--format e4m3", "--block 16x16", "--tensor-scale 1",
                                   "--offsets 0,192", "--nan drop", "--overflow saturate", "--amax-min 1"}) {
    refused("--rounding ms_eden is a recipe of its own: it takes no --",
            "real.safetensors:layer0.x --seed 1 " + option);
  }
  refused("groups of 128 of rows of 40 elements", "odd.npy --seed 1");
  refused("NaN at row 0, column 0", "nan.npy --seed 1");
  refused("layout deepgemm", "real.safetensors:layer0.x --seed 1 --layout deepgemm");
}

// FP32 loses the 1 between 2^30 and -2^30, and E5M6 has room for it beside 2^31.
TEST_F(HadamardTool, identify_says_which_sums_give_every_bit) {
  std::vector<float> values(32);
  values[0] = 0x1p30F, values[1] = 1, values[2] = -0x1p30F;
  write_npy(dir / "x.npy", make_tensor("x", Format::fp32, {1, 32}, values));
  const std::string dump =
      "identify --x x.npy --codes q.safetensors:codes --scales q.safetensors:scales --format e5m6 ";
  for (const std::string sum : {"butterfly", "exact"}) {
    expect_output("quantize x.npy -o q.safetensors --format e5m6 --rule fp32 --hadamard 16 --hadamard-sum " + sum, 0);
    expect_contains(mxcheck(dump + "--hadamard 16").out, {"explained by  fp32, every bit", "--hadamard-sum " + sum});
    expect_contains(mxcheck(dump + "--hadamard 16 --hadamard-sum " + (sum == "exact" ? "butterfly" : "exact")).out,
                    "none of the definitions");
  }
}

TEST_F(HadamardTool, identify_takes_the_same_options) {
  const std::string dump =
      "identify --x real.safetensors:layer0.x --codes q.safetensors:codes --scales q.safetensors:scales ";
  const std::string transform = "--hadamard 16 --signs 0x2d4b --hadamard-sum butterfly ";
  quantized("--rule floor " + transform);
  expect_contains(mxcheck(dump + transform).out, "explained by  floor, every bit");
  expect_contains(mxcheck(dump).out, "none of the definitions");
  expect_contains(mxcheck(dump + "--hadamard 16").out, "none of the definitions");
  const SafetensorsFile file = quantized("--rule nvfp4_46 " + transform);
  expect_contains(mxcheck(dump + "--tensor-scale q.safetensors:tensor_scale " + transform).out,
                  "explained by  nvfp4_46, every bit");
  expect_contains(mxcheck(dump + "--tensor-scale q.safetensors:tensor_scale --hadamard 16 --signs 0x2d4b").out,
                  {"explained by  nvfp4_46, every bit", "butterfly"});
  expect_refused(2, "--signs '0x12345'", dump + "--hadamard 16 --signs 0x12345");
  expect_refused(2, "are of --hadamard, which is missing", dump + "--signs 0x1");
  expect_refused(2, "--hadamard is of a quantization", "identify --a a.npy --b a.npy --d a.npy --hadamard 16");
  write_npy(dir / "odd.npy", make_tensor("x", Format::fp32, {4, 40}, std::vector<float>(160, 1)));
  expect_refused(2, "odd.npy: Hadamard transform of 16 along rows of 40",
                 "identify --x odd.npy --codes odd.npy --hadamard 16");
}

}  // namespace
}  // namespace mxcheck

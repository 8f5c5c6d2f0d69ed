#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/tools/command.h"
#include "tools/matmul/operands.h"

namespace mxcheck {
namespace {

using test::make_tensor;
using test::values_of;

// Integers from -2 to 2, four times as large for even seeds so that the two sides' scales differ. They become codes
// without a remainder, and sums of theirs are exact under every contract: at most 4 * 256 units, which 13 bits hold. So
// products of them must be equal, and no tolerance is needed.
float integer(std::int64_t i, unsigned seed) {
  return static_cast<float>(((i * i + i / 7 + seed) % 5 - 2) * (seed % 2 == 0 ? 4 : 1));
}

// 20 x 30 sums over k = 256 of integers.
std::vector<float> integer_sums(unsigned seed_x, unsigned seed_w) {
  std::vector<float> sums;
  for (std::int64_t i = 0; i < 20; ++i) {
    for (std::int64_t j = 0; j < 30; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < 256; ++k) sum += integer(i * 256 + k, seed_x) * integer(j * 256 + k, seed_w);
      sums.push_back(sum);
    }
  }
  return sums;
}

float wave(std::int64_t i, unsigned seed) {
  return std::sin(static_cast<float>(i) * 0.7F + static_cast<float>(seed)) * (i % 11 == 0 ? 4 : 1);
}

class MatmulTool : public test::ToolTest {
 protected:
  using Value = float (*)(std::int64_t, unsigned);
  enum class As { is, transposed };

  void quantized(const std::string& name, std::int64_t rows, std::int64_t cols, const std::string& arguments,
                 unsigned seed, Value value = integer, As as = As::is) {
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const std::int64_t at = as == As::is ? i : i % cols * rows + i / cols;
      x[static_cast<std::size_t>(at)] = value(i, seed);
    }
    const std::vector<std::int64_t> shape = as == As::is ? std::vector{rows, cols} : std::vector{cols, rows};
    write_npy(dir / "raw.npy", make_tensor("", Format::fp32, shape, x));
    ASSERT_EQ(mxcheck("quantize raw.npy -o " + name + " " + arguments).code, 0);
  }
  std::vector<float> product(const std::string& arguments) {
    const auto ran = mxcheck("matmul " + arguments + " -o d.npy");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return values_of<float>(read_tensor(dir / "d.npy"));
  }
};

TEST_F(MatmulTool, the_default_contract_is_exact_and_others_differ_from_it) {
  quantized("x.safetensors", 20, 256, "--block 1x128", 1, wave);
  quantized("w.safetensors", 30, 256, "--block 128x128", 2, wave);
  const std::vector<float> exact = product("x.safetensors w.safetensors");
  EXPECT_EQ(exact.size(), 600U);
  EXPECT_EQ(product("x.safetensors w.safetensors --contract exact"), exact);
  EXPECT_NE(product("x.safetensors w.safetensors --contract sm90_fp8+promote128"), exact);
  quantized("x.safetensors", 20, 256, "--block 1x128", 1);
  quantized("w.safetensors", 30, 256, "--block 128x128", 2);
  for (const char* contract : {"exact", "sm90_fp8+promote128"}) {
    EXPECT_EQ(product(std::string("x.safetensors w.safetensors --contract ") + contract), integer_sums(1, 2))
        << contract;
  }
}

TEST_F(MatmulTool, mx_scales_in_five_ways) {
  quantized("x.safetensors", 20, 256, "--block 1x32", 3);
  quantized("w.safetensors", 30, 256, "--block 1x32", 4);
  const std::vector<float> sums = integer_sums(3, 4);
  for (const char* contract : {"exact", "sm90_bf16+decode", "sm100_mxf8f6f4", "sm90_fp8+promote32", "ieee_fp32"}) {
    EXPECT_EQ(product(std::string("x.safetensors w.safetensors --contract ") + contract), sums) << contract;
  }
}

// The same product by a transposed file, quantized along its rows.
TEST_F(MatmulTool, transposed_files_sum_over_their_rows) {
  quantized("x.safetensors", 20, 256, "--block 1x128", 5, wave);
  quantized("w.safetensors", 30, 256, "--block 1x128", 6, wave);
  quantized("xt.safetensors", 20, 256, "--block 128x1", 5, wave, As::transposed);
  quantized("wt.safetensors", 30, 256, "--block 128x1", 6, wave, As::transposed);
  EXPECT_EQ(product("xt.safetensors wt.safetensors --transpose-a --transpose-b --contract sm90_fp8+promote128"),
            product("x.safetensors w.safetensors --contract sm90_fp8+promote128"));
}

TEST_F(MatmulTool, groups_of_depth_add_up_to_the_whole) {
  quantized("x.safetensors", 20, 256, "--block 1x128", 5);
  quantized("w.safetensors", 30, 256, "--block 1x128", 6);
  const std::vector<float> d = product("x.safetensors w.safetensors --contract sm90_fp8+promote128");
  EXPECT_EQ(d, integer_sums(5, 6));
  // Three groups of tokens, one empty: three matrices, the second of zeros.
  quantized("xg.safetensors", 20, 256, "--block 128x1 --offsets 0,130,130,256", 5, integer, As::transposed);
  quantized("wg.safetensors", 30, 256, "--block 128x1 --offsets 0,130,130,256", 6, integer, As::transposed);
  const std::vector<float> g = product(
      "xg.safetensors wg.safetensors --transpose-a --transpose-b --groups depth --contract sm90_fp8+promote128");
  ASSERT_EQ(g.size(), 1800U);
  for (std::size_t i = 600; i < 1200; ++i) EXPECT_EQ(g[i], 0);
  for (std::size_t i = 0; i < 600; ++i) EXPECT_EQ(g[i] + g[1200 + i], d[i]);
}

TEST_F(MatmulTool, groups_of_rows_use_their_experts_weights) {
  quantized("x.safetensors", 20, 128, "--block 1x128 --offsets 0,5,20", 7);
  quantized("w.safetensors", 256, 128, "--block 128x128", 8);
  const std::vector<float> all = product("x.safetensors w.safetensors --contract sm90_fp8+promote128");
  const std::vector<float> d = product("x.safetensors w.safetensors --groups rows --contract sm90_fp8+promote128");
  ASSERT_EQ(d.size(), 20U * 128);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = 0; j < 128; ++j) EXPECT_EQ(d[i * 128 + j], all[i * 256 + j + (i < 5 ? 0 : 128)]);
  }
}

TEST_F(MatmulTool, adds_c_and_explains) {
  quantized("x.safetensors", 2, 128, "--block 1x128", 9);
  quantized("w.safetensors", 2, 128, "--block 1x128", 10);
  const std::vector<float> d = product("x.safetensors w.safetensors --contract sm90_fp8+promote128");
  write_npy(dir / "c.npy", make_tensor("", Format::fp32, {2, 2}, std::vector<float>{1, 2, 3, 4}));
  const std::vector<float> sum =
      product("x.safetensors w.safetensors --contract sm90_fp8+promote128 --c c.npy --alpha 0.5");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sum[i], d[i] * 0.5F + static_cast<float>(i + 1));
  const auto ran = mxcheck("matmul x.safetensors w.safetensors --contract sm90_fp8+promote128 --explain 1,1");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("promoted: "), std::string::npos) << ran.out;
}

TEST_F(MatmulTool, says_what_it_did_as_json) {
  using nlohmann::json;
  quantized("x.safetensors", 2, 128, "--block 1x128", 9);
  quantized("w.safetensors", 3, 128, "--block 1x128", 10);
  const std::string matmul = "matmul x.safetensors w.safetensors --contract sm90_fp8+promote128 --dtype bf16 --json ";
  const json both = json::parse(mxcheck(matmul + "-o d.npy --explain 1,2").out);
  EXPECT_EQ(both["output"], "d.npy");
  EXPECT_EQ(both["contract"], "sm90_fp8+promote128");
  EXPECT_EQ(both["a"],
            json({{"input", "x.safetensors"}, {"format", "e4m3"}, {"block", "1x128"}, {"rows", 2}, {"k", 128}}));
  EXPECT_EQ(both["b"]["rows"], 3);
  EXPECT_EQ(both["d"], json({{"dtype", "BF16"}, {"shape", {2, 3}}}));
  EXPECT_EQ(both["explained"]["row"], 1);
  EXPECT_EQ(both["explained"]["column"], 2);
  EXPECT_GT(both["explained"]["steps"].size(), 1U);
  const json alone = json::parse(mxcheck(matmul + "--explain 1,2").out);
  EXPECT_EQ(alone["explained"], both["explained"]);
  EXPECT_EQ(alone["output"], "");
}

TEST_F(MatmulTool, an_answer_that_nobody_can_read_leaves_no_file) {
  quantized("x.safetensors", 2, 128, "--block 1x128", 9);
  for (const char* out : {"d.npy", "d.safetensors", "d.npy --json"}) {
    expect_refused(3, "standard output cannot be written",
                   std::string("matmul x.safetensors x.safetensors -o ") + out + " > /dev/full");
  }
}

TEST_F(MatmulTool, a_number_that_is_none_of_fp32_is_refused) {
  quantized("x.safetensors", 2, 128, "--block 1x128", 9);
  for (const char* alpha : {"nan", "inf", "1e40"}) {
    expect_refused(2, std::string("--alpha: '") + alpha + "' is no finite number of FP32",
                   std::string("matmul x.safetensors x.safetensors -o d.npy --alpha ") + alpha);
  }
}

TEST_F(MatmulTool, refuses_what_does_not_fit_and_writes_nothing) {
  quantized("x.safetensors", 20, 256, "--block 1x128 --offsets 0,5,20", 1);
  quantized("w.safetensors", 30, 256, "--block 128x128", 2);
  quantized("short.safetensors", 30, 128, "--block 128x128", 2);
  quantized("fp4.safetensors", 30, 256, "--block 1x32 --format e2m1", 2);
  write_npy(dir / "c.npy", make_tensor("", Format::fp32, {2, 2}, std::vector<float>{1, 2, 3, 4}));
  for (const char* arguments :
       {"x.safetensors short.safetensors", "x.safetensors missing.safetensors",
        "x.safetensors w.safetensors --contract nothing", "x.safetensors w.safetensors --contract sm90_fp8",
        "x.safetensors w.safetensors --contract sm90_fp8+promote256",
        "x.safetensors fp4.safetensors --contract sm90_fp8+promote32", "x.safetensors w.safetensors --c c.npy",
        "w.safetensors x.safetensors --groups rows", "x.safetensors w.safetensors --groups depth",
        "x.safetensors w.safetensors --groups rows --transpose-a", "x.safetensors w.safetensors --dtype f16"}) {
    const auto ran = mxcheck(std::string("matmul ") + arguments + " -o d.npy");
    EXPECT_EQ(ran.code, 2) << arguments << ran.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "d.npy")) << arguments;
  }
  EXPECT_EQ(mxcheck("matmul x.safetensors w.safetensors -o x.safetensors").code, 2);
  EXPECT_EQ(mxcheck("matmul x.safetensors w.safetensors").code, 2);
}

using test::expect_error;

TEST(StackOf, is_a_matrix_or_a_batch) {
  const Stack one = stack_of({"", Format::uint8, {2, 3}, {}}, "x");
  EXPECT_TRUE(!one.batched && one.count == 1 && one.rows == 2 && one.cols == 3);
  const Stack many = stack_of({"", Format::uint8, {4, 2, 3}, {}}, "x");
  EXPECT_TRUE(many.batched && many.count == 4 && many.rows == 2 && many.cols == 3);
  expect_error(ErrorKind::input, "x: has 1 dimensions", [] { stack_of({"", Format::uint8, {6}, {}}, "x"); });
}

TEST(CodeFormat, follows_the_dtype_or_the_name_where_it_fits) {
  const auto of = [](const char* name, Format dtype) { return code_format(name, {"", dtype, {1, 1}, {}}, "x"); };
  EXPECT_EQ(of("", Format::uint8), Format::e4m3);
  EXPECT_EQ(of("", Format::uint16), Format::bf16);
  EXPECT_EQ(of("", Format::fp32), Format::fp32);
  EXPECT_EQ(of("e2m1", Format::uint8), Format::e2m1);
  EXPECT_EQ(of("fp16", Format::fp16), Format::fp16);
  EXPECT_EQ(of("e5m6", Format::uint16), Format::e5m6);
  expect_error(ErrorKind::input, "x: is U16; e4m3 codes are U8", [&] { of("e4m3", Format::uint16); });
  expect_error(ErrorKind::input, "x: is BF16; fp16 codes are U16", [&] { of("fp16", Format::bf16); });
  expect_error(ErrorKind::input, "x: is I64; codes are U8 or U16", [&] { of("", Format::int64); });
  expect_error(ErrorKind::usage, "'e9' is no format", [&] { of("e9", Format::uint8); });
}

TEST(CheckCodes, finds_the_first_with_bits_beyond_its_format) {
  const auto codes = to_bytes(std::vector<std::uint8_t>{0, 15, 16, 17});
  check_codes(Format::e2m3, codes, "x");
  check_codes(Format::e4m3, to_bytes(std::vector<std::uint8_t>{255}), "x");
  expect_error(ErrorKind::input, "x: code 16 at place 2: e2m1 codes are 0 to 15, one a byte",
               [&] { check_codes(Format::e2m1, codes, "x"); });
}

TEST(ParsePlace, is_two_numbers_from_zero) {
  EXPECT_EQ(parse_place("3,7", "--explain"), std::pair(std::int64_t{3}, std::int64_t{7}));
  for (const char* text : {"", ",", "3", "3,", ",7", "3,7,1", "-1,0", "0,-1", "a,0", "3, 7"}) {
    expect_error(ErrorKind::usage, "--explain " + std::string(text) + ": an output is named ROW,COLUMN",
                 [&] { parse_place(text, "--explain"); });
  }
}

TEST(WriteResult, gives_the_one_tensor_in_either_format) {
  const test::TemporaryDirectory dir;
  const Tensor d{"d", Format::fp32, {1, 2}, to_bytes(std::vector<float>{1, 2})};
  for (const char* name : {"d.npy", "d.safetensors"}) {
    write_result(dir / name, d);
    EXPECT_EQ(read_tensor(dir / name).data, d.data) << name;
  }
}

}  // namespace
}  // namespace mxcheck

#include <cmath>
#include <nlohmann/json.hpp>

#include "numerics/bytes.h"
#include "tests/tools/command.h"
#include "tools/matmul/operands.h"

namespace mxcheck {
namespace {

using namespace test;

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

class MatmulTool : public ToolTest {
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
    expect_output("matmul " + arguments + " -o d.npy", 0);
    return values_of<float>(read_tensor(dir / "d.npy"));
  }
};

TEST_F(MatmulTool, codes_and_scales_of_fp8_dtypes_say_their_format) {
  const std::vector<std::uint8_t> ones(64, 0x38), scales{0x7F, 0x80}, fifteen(64, 0x4B);
  const Tensor as_e8m0 = make_tensor("s", Format::e8m0, {1, 2}, scales);
  write_safetensors(dir / "x.safetensors",
                    {{make_tensor("x", Format::e4m3, {1, 64}, ones), as_e8m0,
                      make_tensor("g", Format::e5m2, {1, 64}, fifteen), make_tensor("h", Format::e5m2, {1, 2}, scales)},
                     {}});
  const std::string scaled = " --scale-a x.safetensors:s --scale-b x.safetensors:s -o d.npy --contract sm100_mxf8f6f4";
  expect_output("mma --a x.safetensors:x --b x.safetensors:x" + scaled, 0);
  EXPECT_EQ(values_of<float>(read_tensor(dir / "d.npy")), std::vector<float>{32 * 1 + 32 * 4});
  expect_output("mma --a x.safetensors:g --b x.safetensors:x" + scaled, 0);
  EXPECT_EQ(values_of<float>(read_tensor(dir / "d.npy")), std::vector<float>{14 * (32 * 1 + 32 * 4)});  // 0x4B is 14
  expect_refused(2, "is F8_E4M3; e5m2 codes are U8: codes of one format are not read as another's",
                 "mma --a x.safetensors:x --format-a e5m2 --b x.safetensors:x" + scaled);
  expect_refused(
      2, "scales are U8, F8_E8M0 or F32",
      "mma --a x.safetensors:x --b x.safetensors:x --scale-a x.safetensors:h --scale-b x.safetensors:s -o e.npy "
      "--contract sm100_mxf8f6f4");
}

TEST_F(MatmulTool, says_which_file_it_takes) {
  quantized("x.safetensors", 4, 32, "--block 1x32", 1);
  const std::string takes = "matmul takes OUT.safetensors of mxcheck quantize, which has codes and scales";
  expect_refused(2, "x.npy: is one NumPy array; " + takes, "matmul x.safetensors x.npy -o d.npy");
  expect_refused(2, "q.h5: is an HDF5 file; " + takes, "matmul q.h5 x.safetensors -o d.npy");
  expect_refused(2, "x.safetensors:codes: is one tensor of a file; " + takes + ": x.safetensors",
                 "matmul x.safetensors:codes x.safetensors -o d.npy");
}

TEST_F(MatmulTool, the_default_contract_is_exact_and_others_differ_from_it) {
  quantized("x.safetensors", 20, 256, "--block 1x128", 1, wave);
  quantized("w.safetensors", 30, 256, "--block 128x128", 2, wave);
  const std::vector<float> exact = product("x.safetensors w.safetensors");
  EXPECT_EQ(exact.size(), 600U);
  EXPECT_EQ(product("x.safetensors w.safetensors --contract exact"), exact);
  EXPECT_NE(product("x.safetensors w.safetensors --contract sm90_fp8+promote128"), exact);
  quantized("x.safetensors", 20, 256, "--block 1x128", 1);
  quantized("w.safetensors", 30, 256, "--block 128x128", 2);
  for (const char* contract : {"exact", "sm90_fp8+promote128"})
    EXPECT_EQ(product(std::string("x.safetensors w.safetensors --contract ") + contract), integer_sums(1, 2))
        << contract;
}

TEST_F(MatmulTool, mx_scales_in_five_ways) {
  quantized("x.safetensors", 20, 256, "--block 1x32", 3);
  quantized("w.safetensors", 30, 256, "--block 1x32", 4);
  const std::vector<float> sums = integer_sums(3, 4);
  for (const char* contract : {"exact", "sm90_bf16+decode", "sm100_mxf8f6f4", "sm90_fp8+promote32", "ieee_fp32"})
    EXPECT_EQ(product(std::string("x.safetensors w.safetensors --contract ") + contract), sums) << contract;
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
  expect_output("matmul x.safetensors w.safetensors --contract sm90_fp8+promote128 --explain 1,1", 0, {"promoted: "});
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
  for (const char* out : {"d.npy", "d.safetensors", "d.npy --json"})
    expect_refused(3, "standard output cannot be written",
                   std::string("matmul x.safetensors x.safetensors -o ") + out + " > /dev/full");
}

TEST_F(MatmulTool, a_number_that_is_none_of_fp32_is_refused) {
  quantized("x.safetensors", 2, 128, "--block 1x128", 9);
  for (const char* alpha : {"nan", "inf", "1e40"})
    expect_refused(2, std::string("--alpha: '") + alpha + "' is no finite number of FP32",
                   std::string("matmul x.safetensors x.safetensors -o d.npy --alpha ") + alpha);
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
    expect_output(std::string("matmul ") + arguments + " -o d.npy", 2);
    EXPECT_FALSE(std::filesystem::exists(dir / "d.npy")) << arguments;
  }
  EXPECT_EQ(mxcheck("matmul x.safetensors w.safetensors -o x.safetensors").code, 2);
  EXPECT_EQ(mxcheck("matmul x.safetensors w.safetensors").code, 2);
}

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
  EXPECT_EQ(of("", Format::e2m1), Format::e2m1);
  EXPECT_EQ(of("e2m1", Format::e2m1), Format::e2m1);
  expect_error(ErrorKind::input, "x: is F4; e2m3 codes are U8: codes of one", [&] { of("e2m3", Format::e2m1); });
  EXPECT_EQ(of("fp16", Format::fp16), Format::fp16);
  EXPECT_EQ(of("e5m6", Format::uint16), Format::e5m6);
  expect_error(ErrorKind::input, "x: is U16; e4m3 codes are U8", [&] { of("e4m3", Format::uint16); });
  expect_error(ErrorKind::input, "x: is BF16; fp16 codes are U16", [&] { of("fp16", Format::bf16); });
  expect_error(ErrorKind::input, "x: is I64; codes are U8, F8_E4M3, F8_E5M2, F4 or U16",
               [&] { of("", Format::int64); });
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
  for (const char* text : {"", ",", "3", "3,", ",7", "3,7,1", "-1,0", "0,-1", "a,0", "3, 7"})
    expect_error(ErrorKind::usage, "--explain " + std::string(text) + ": an output is named ROW,COLUMN",
                 [&] { parse_place(text, "--explain"); });
}

TEST(WriteResult, gives_the_one_tensor_in_either_format) {
  const TemporaryDirectory dir;
  const Tensor d{"d", Format::fp32, {1, 2}, to_bytes(std::vector<float>{1, 2})};
  for (const char* name : {"d.npy", "d.safetensors"}) {
    write_result(dir / name, d);
    EXPECT_EQ(read_tensor(dir / name).data, d.data) << name;
  }
}

class MmaTool : public ToolTest {
 protected:
  void codes(const std::string& name, const std::vector<std::int64_t>& shape, std::uint8_t code) {
    std::size_t count = 1;
    for (std::int64_t n : shape) count *= static_cast<std::size_t>(n);
    write_npy(dir / name, make_tensor("", Format::uint8, shape, std::vector<std::uint8_t>(count, code)));
  }
  void SetUp() override {
    codes("a.npy", {2, 64}, 0x38);  // ones
    codes("b.npy", {3, 64}, 0x40);  // twos
    write_npy(dir / "c.npy", make_tensor("", Format::fp32, {2, 3}, std::vector<float>{0, 1, 2, 16384, -128, 0.5}));
  }
};

TEST_F(MmaTool, sums_start_from_c_in_steps_of_the_instruction) {
  ASSERT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy --c c.npy -o d.npy").code, 0);
  const Tensor d = read_tensor(dir / "d.npy");
  EXPECT_EQ(d.format, Format::fp32);
  EXPECT_EQ(d.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(values_of<float>(d), (std::vector<float>{128, 129, 130, 16512, 0, 128.5}));
  // Twos beside 2^15 are units of 4: nothing of them is left.
  write_npy(dir / "c.npy", make_tensor("", Format::fp32, {2, 3}, std::vector<float>(6, 32768)));
  ASSERT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy --c c.npy -o d.npy").code, 0);
  EXPECT_EQ(values_of<float>(read_tensor(dir / "d.npy"))[0], 32768);
  ASSERT_EQ(mxcheck("mma --contract sm100_f8f6f4 --a a.npy --b b.npy --c c.npy -o d.npy").code, 0);
  EXPECT_EQ(values_of<float>(read_tensor(dir / "d.npy"))[0], 32896);
}

TEST_F(MmaTool, batches_formats_and_hardware_scales) {
  codes("a.npy", {4, 2, 64}, 0x3C);  // E5M2: 1
  codes("b.npy", {4, 3, 64}, 0x38);  // E4M3: 1
  ASSERT_EQ(mxcheck("mma --contract sm90_fp8 --format-a e5m2 --a a.npy --b b.npy -o d.npy").code, 0);
  const Tensor d = read_tensor(dir / "d.npy");
  EXPECT_EQ(d.shape, (std::vector<std::int64_t>{4, 2, 3}));
  EXPECT_EQ(values_of<float>(d), std::vector<float>(24, 64));
  codes("sa.npy", {4, 2, 2}, 129);
  codes("sb.npy", {4, 3, 2}, 126);
  ASSERT_EQ(mxcheck("mma --contract sm100_mxf8f6f4 --format-a e5m2 --a a.npy --b b.npy --scale-a sa.npy --scale-b "
                    "sb.npy -o d.npy")
                .code,
            0);
  EXPECT_EQ(values_of<float>(read_tensor(dir / "d.npy")), std::vector<float>(24, 128));
}

TEST_F(MmaTool, lists_and_explains) {
  expect_output("mma --list", 0, {"sm90_fp8 ", "published words"});
  expect_output("mma --contract sm90_fp8 --a a.npy --b b.npy --c c.npy --explain 1,0", 0,
                {"k 0..31: window 2^14, unit 2^1;", "D as fp32: 46810000 = 16512"});
}

TEST_F(MmaTool, a_contract_that_accumulates_in_fp16_says_which_c_it_wants) {
  const std::string mma = "mma --contract sm90_fp8_fp16 --a a.npy --b b.npy -o d.npy --c ";
  const std::string wanted = "C and D of sm90_fp8_fp16 are FP16: F16 (or its bits as U16) of 2 x 3";
  expect_refused(2, "c.npy: is F32 of 2 x 3; " + wanted, mma + "c.npy");
  write_npy(dir / "small.npy", make_tensor("", Format::fp16, {2, 2}, std::vector<std::uint16_t>(4)));
  expect_refused(2, "small.npy: is F16 of 2 x 2; " + wanted, mma + "small.npy");
  write_npy(dir / "half.npy", make_tensor("", Format::fp16, {2, 3}, std::vector<std::uint16_t>(6, 0x3C00)));
  write_npy(dir / "bits.npy", make_tensor("", Format::uint16, {2, 3}, std::vector<std::uint16_t>(6, 0x3C00)));
  for (const char* c : {"half.npy", "bits.npy"}) {
    ASSERT_EQ(mxcheck(mma + c).code, 0) << c;
    EXPECT_EQ(values_of<std::uint16_t>(read_tensor(dir / "d.npy")), std::vector<std::uint16_t>(6, 0x5808)) << c;  // 129
  }
  expect_refused(2, "half.npy: is F16 of 2 x 3; C and D of sm90_fp8 are FP32: F32 (or its bits as U32) of 2 x 3",
                 "mma --contract sm90_fp8 --a a.npy --b b.npy -o e.npy --c half.npy");
  const auto help = mxcheck("mma --help").out;
  expect_contains(help, "F16 where the contract accumulates in FP16");
}

TEST_F(MmaTool, says_what_it_did_as_json) {
  using nlohmann::json;
  const std::string mma = "mma --contract sm90_fp8 --a a.npy --b b.npy --c c.npy --json ";
  const json both = json::parse(mxcheck(mma + "-o d.npy --explain 1,0").out);
  EXPECT_EQ(both["output"], "d.npy");
  EXPECT_EQ(both["contract"], "sm90_fp8+from_c");
  EXPECT_EQ(both["a"], json({{"input", "a.npy"}, {"format", "e4m3"}, {"shape", {2, 64}}}));
  EXPECT_EQ(both["b"]["shape"], json({3, 64}));
  EXPECT_EQ(both["d"], json({{"dtype", "F32"}, {"shape", {2, 3}}}));
  EXPECT_EQ(both["explained"]["row"], 1);
  EXPECT_EQ(both["explained"]["column"], 0);
  expect_contains(both["explained"]["steps"].back().get<std::string>(), "46810000 = 16512");
  const json alone = json::parse(mxcheck(mma + "--explain 1,0").out);
  EXPECT_EQ(alone["explained"], both["explained"]);
  EXPECT_EQ(alone["output"], "");
  EXPECT_FALSE(json::parse(mxcheck(mma + "-o d.npy").out).contains("explained"));
  const json list = json::parse(mxcheck("mma --list --json").out);
  EXPECT_EQ(list["contracts"][0]["name"], "exact");
  EXPECT_EQ(list["contracts"][0]["evidence"], "definition");
  EXPECT_EQ(list["contracts"][2]["operands"], json({"e4m3", "e5m2"}));
}

TEST_F(MmaTool, an_answer_that_nobody_can_read_leaves_no_file) {
  for (const char* out : {"d.npy", "d.safetensors", "d.npy --json"})
    expect_refused(3, "standard output cannot be written",
                   std::string("mma --contract sm90_fp8 --a a.npy --b b.npy -o ") + out + " > /dev/full");
}

TEST_F(MmaTool, refuses_what_does_not_fit_and_writes_nothing) {
  codes("k32.npy", {3, 32}, 0);
  codes("flat.npy", {64}, 0);
  codes("three.npy", {3, 3, 64}, 0);
  for (const char* arguments :
       {"--contract sm90_fp8 --a a.npy --b k32.npy", "--contract sm90_fp8 --a flat.npy --b b.npy",
        "--contract sm90_fp8 --a a.npy --b three.npy", "--contract sm90 --a a.npy --b b.npy", "--a a.npy --b b.npy",
        "--contract sm90_bf16 --a a.npy --b b.npy", "--contract sm90_fp8 --format-a bf16 --a a.npy --b b.npy",
        "--contract sm90_fp8 --format-a nothing --a a.npy --b b.npy",
        "--contract sm90_fp8 --a a.npy --b b.npy --c a.npy", "--contract sm100_mxf8f6f4 --a a.npy --b b.npy",
        "--contract sm90_fp8 --a a.npy --b b.npy --scale-a a.npy",
        "--contract sm90_fp8+promote32 --a a.npy --b b.npy --scale-a a.npy",
        "--contract sm90_fp8 --a missing.npy --b b.npy"}) {
    const Answer ran = expect_output(std::string("mma ") + arguments + " -o d.npy", 2);
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "d.npy")) << arguments;
  }
  const Answer wide = expect_output("mma --contract sm100_f8f6f4 --format-a e2m1 --a a.npy --b b.npy -o d.npy", 2);
  expect_contains(wide.err, "code 56 at place 0: e2m1 codes are 0 to 15");
  EXPECT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy -o d.txt").code, 2);
  EXPECT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy -o a.npy").code, 2);
  EXPECT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy").code, 2);
  for (const char* place : {"2,0", "0,3", "x", "1", "1,2,3", "-1,0", "1,"})
    EXPECT_EQ(mxcheck(std::string("mma --contract sm90_fp8 --a a.npy --b b.npy --explain ") + place).code, 2) << place;
}

}  // namespace
}  // namespace mxcheck

#include <cmath>

#include "tools/command.h"

namespace mxcheck {
namespace {

using test::make_tensor;
using test::values_of;

class MatmulTool : public test::ToolTest {
 protected:
  void quantized(const std::string& name, std::int64_t rows, std::int64_t cols, const std::string& arguments,
                 unsigned seed) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      x.push_back(std::sin(static_cast<float>(i) * 0.7F + static_cast<float>(seed)) * (i % 11 == 0 ? 4 : 1));
    }
    write_npy(dir / "raw.npy", make_tensor("", Dtype::f32, {rows, cols}, x));
    ASSERT_EQ(mxcheck("quantize raw.npy -o " + name + " " + arguments).code, 0);
  }
  std::vector<float> product(const std::string& arguments) {
    const auto ran = mxcheck("matmul " + arguments + " -o d.npy");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return values_of<float>(read_tensor(dir / "d.npy"));
  }
};

TEST_F(MatmulTool, contracts_differ_a_little_and_the_default_is_exact) {
  quantized("x.safetensors", 20, 256, "--block 1x128", 1);
  quantized("w.safetensors", 30, 256, "--block 128x128", 2);
  const std::vector<float> exact = product("x.safetensors w.safetensors");
  const std::vector<float> hopper = product("x.safetensors w.safetensors --contract sm90_fp8+promote128");
  EXPECT_NE(exact, hopper);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(exact[i], hopper[i], 0.02 + std::fabs(exact[i]) / 100);
  EXPECT_EQ(exact.size(), 600U);
}

TEST_F(MatmulTool, mx_scales_in_three_ways) {
  quantized("x.safetensors", 20, 256, "--block 1x32", 3);
  quantized("w.safetensors", 30, 256, "--block 1x32", 4);
  const std::vector<float> exact = product("x.safetensors w.safetensors");
  for (const char* contract : {"sm90_bf16+decode", "sm100_mxf8f6f4", "sm90_fp8+promote32", "ieee_fp32"}) {
    const std::vector<float> d = product(std::string("x.safetensors w.safetensors --contract ") + contract);
    for (std::size_t i = 0; i < exact.size(); ++i)
      EXPECT_NEAR(exact[i], d[i], 0.01 + std::fabs(exact[i]) / 200) << contract;
  }
}

// The same product by a transposed file, quantized along its rows.
TEST_F(MatmulTool, transposed_files_sum_over_their_rows) {
  quantized("x.safetensors", 20, 256, "--block 1x128", 5);
  quantized("w.safetensors", 30, 256, "--block 1x128", 6);
  const std::vector<float> d = product("x.safetensors w.safetensors --contract sm90_fp8+promote128");
  const auto transpose = [&](const std::string& name, std::int64_t rows, std::int64_t cols, unsigned seed,
                             const std::string& extra) {
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const float v = std::sin(static_cast<float>(i) * 0.7F + static_cast<float>(seed)) * (i % 11 == 0 ? 4 : 1);
      x[static_cast<std::size_t>(i % cols * rows + i / cols)] = v;
    }
    write_npy(dir / "raw.npy", make_tensor("", Dtype::f32, {cols, rows}, x));
    ASSERT_EQ(mxcheck("quantize raw.npy -o " + name + " --block 128x1 " + extra).code, 0);
  };
  transpose("xt.safetensors", 20, 256, 5, "");
  transpose("wt.safetensors", 30, 256, 6, "");
  EXPECT_EQ(product("xt.safetensors wt.safetensors --transpose-a --transpose-b --contract sm90_fp8+promote128"), d);
  // Three groups of tokens, one empty: three matrices, the second of zeros.
  transpose("xg.safetensors", 20, 256, 5, "--offsets 0,130,130,256");
  transpose("wg.safetensors", 30, 256, 6, "--offsets 0,130,130,256");
  const std::vector<float> g = product(
      "xg.safetensors wg.safetensors --transpose-a --transpose-b --groups depth --contract sm90_fp8+promote128");
  ASSERT_EQ(g.size(), 1800U);
  for (std::size_t i = 600; i < 1200; ++i) EXPECT_EQ(g[i], 0);
  for (std::size_t i = 0; i < 600; ++i) EXPECT_NEAR(g[i] + g[1200 + i], d[i], 0.7);  // other blocks, other scales
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
  write_npy(dir / "c.npy", make_tensor("", Dtype::f32, {2, 2}, std::vector<float>{1, 2, 3, 4}));
  const std::vector<float> sum =
      product("x.safetensors w.safetensors --contract sm90_fp8+promote128 --c c.npy --alpha 0.5");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sum[i], d[i] * 0.5F + static_cast<float>(i + 1));
  const auto ran = mxcheck("matmul x.safetensors w.safetensors --contract sm90_fp8+promote128 --explain 1,1");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("promoted: "), std::string::npos) << ran.out;
}

TEST_F(MatmulTool, refuses_what_does_not_fit_and_writes_nothing) {
  quantized("x.safetensors", 20, 256, "--block 1x128 --offsets 0,5,20", 1);
  quantized("w.safetensors", 30, 256, "--block 128x128", 2);
  quantized("short.safetensors", 30, 128, "--block 128x128", 2);
  quantized("fp4.safetensors", 30, 256, "--block 1x32 --format e2m1", 2);
  write_npy(dir / "c.npy", make_tensor("", Dtype::f32, {2, 2}, std::vector<float>{1, 2, 3, 4}));
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

}  // namespace
}  // namespace mxcheck

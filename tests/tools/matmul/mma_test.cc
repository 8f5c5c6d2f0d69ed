#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using test::make_tensor;
using test::values_of;

class MmaTool : public test::ToolTest {
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
  const auto list = mxcheck("mma --list");
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("sm90_fp8 "), std::string::npos);
  EXPECT_NE(list.out.find("published words"), std::string::npos);
  const auto steps = mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy --c c.npy --explain 1,0");
  EXPECT_EQ(steps.code, 0);
  EXPECT_NE(steps.out.find("k 0..31: window 2^14, unit 2^1;"), std::string::npos) << steps.out;
  EXPECT_NE(steps.out.find("D as fp32: 46810000 = 16512"), std::string::npos) << steps.out;
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
  EXPECT_NE(help.find("F16 where the contract accumulates in FP16"), std::string::npos) << help;
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
  EXPECT_NE(both["explained"]["steps"].back().get<std::string>().find("46810000 = 16512"), std::string::npos);
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
  for (const char* out : {"d.npy", "d.safetensors", "d.npy --json"}) {
    expect_refused(3, "standard output cannot be written",
                   std::string("mma --contract sm90_fp8 --a a.npy --b b.npy -o ") + out + " > /dev/full");
  }
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
    const auto ran = mxcheck(std::string("mma ") + arguments + " -o d.npy");
    EXPECT_EQ(ran.code, 2) << arguments << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "d.npy")) << arguments;
  }
  const auto wide = mxcheck("mma --contract sm100_f8f6f4 --format-a e2m1 --a a.npy --b b.npy -o d.npy");
  EXPECT_EQ(wide.code, 2);
  EXPECT_NE(wide.err.find("code 56 at place 0: e2m1 codes are 0 to 15"), std::string::npos) << wide.err;
  EXPECT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy -o d.txt").code, 2);
  EXPECT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy -o a.npy").code, 2);
  EXPECT_EQ(mxcheck("mma --contract sm90_fp8 --a a.npy --b b.npy").code, 2);
  for (const char* place : {"2,0", "0,3", "x", "1", "1,2,3", "-1,0", "1,"}) {
    EXPECT_EQ(mxcheck(std::string("mma --contract sm90_fp8 --a a.npy --b b.npy --explain ") + place).code, 2) << place;
  }
}

}  // namespace
}  // namespace mxcheck

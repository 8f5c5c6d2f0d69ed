#include <gtest/gtest.h>

#include <cmath>

#include "goldens/json/json.h"
#include "numerics/format/codec.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using test::make_tensor;
using test::tensor_of;

class IdentifyTool : public test::ToolTest {
 protected:
  void SetUp() override {
    std::vector<std::uint8_t> codes;
    for (std::uint32_t i = 0; i < 8 * 256; ++i)
      codes.push_back(static_cast<std::uint8_t>((i * 2654435761U >> 24) & 0xF7));
    write_npy(dir / "a.npy", make_tensor("", Format::uint8, {8, 256}, codes));
    write_npy(dir / "b.npy", make_tensor("", Format::uint8, {8, 256}, codes));
  }
};

TEST_F(IdentifyTool, a_dump_names_its_contract_and_the_number_of_words_compared) {
  ASSERT_EQ(mxcheck("mma --contract sm90_fp8+promote64 --a a.npy --b b.npy -o d.npy").code, 0);
  const auto right = mxcheck("identify --a a.npy --b b.npy --d d.npy");
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  EXPECT_NE(right.out.find("explained by  sm90_fp8+promote64, every bit"), std::string::npos) << right.out;
  EXPECT_NE(right.out.find("compared      64 words of 1 probes"), std::string::npos) << right.out;
  Tensor d = read_tensor(dir / "d.npy");
  d.data[0] ^= std::byte{1};
  write_npy(dir / "wrong.npy", d);
  const auto wrong = mxcheck("identify --a a.npy --b b.npy --d wrong.npy");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.out.find("closest       sm90_fp8+promote64: 63 of 64 words equal"), std::string::npos) << wrong.out;
}

TEST_F(IdentifyTool, scales_of_rows_and_of_blocks_of_rows_are_read_and_their_order_is_named) {
  std::vector<float> x(8 * 256);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<double>(i * 2654435761U % 8191) - 4095) / 813;
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {8, 256}, x));
  ASSERT_EQ(mxcheck("quantize x.npy --rule fp32 --block 1x128 -o xq.safetensors").code, 0);
  ASSERT_EQ(mxcheck("quantize x.npy --rule fp32 --block 128x128 -o wq.safetensors").code, 0);
  for (const char* order : {"", "+a_first", "+b_first"}) {
    ASSERT_EQ(
        mxcheck(std::string("matmul xq.safetensors wq.safetensors -o d.npy --contract sm90_fp8+promote128") + order)
            .code,
        0);
    const auto a = mxcheck(
        "identify --a xq.safetensors:codes --b wq.safetensors:codes --d d.npy --scale-a xq.safetensors:scales "
        "--scale-b wq.safetensors:scales");
    EXPECT_EQ(a.code, 0) << a.out << a.err;
    EXPECT_NE(a.out.find(std::string("explained by  sm90_fp8+promote128") + order + ", every bit"), std::string::npos)
        << a.out;
  }
  EXPECT_EQ(
      mxcheck("identify --a xq.safetensors:codes --b wq.safetensors:codes --d d.npy --scale-a xq.safetensors:scales "
              "--scale-b wq.safetensors:scales --scale-k 64")
          .code,
      2);
}

TEST_F(IdentifyTool, a_dump_of_a_cast_names_its_rounding) {
  std::vector<float> x;
  for (int i = 0; i < 512; ++i) x.push_back(static_cast<float>(i) / 16 - 8);
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {8, 64}, x));
  std::vector<std::uint8_t> codes;
  for (float value : x) {
    codes.push_back(static_cast<std::uint8_t>(encode(Format::e4m3, value, Rounding::nearest_away, Overflow::saturate)));
  }
  write_npy(dir / "codes.npy", make_tensor("", Format::uint8, {8, 64}, codes));
  const auto a = mxcheck("identify --x x.npy --codes codes.npy");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_NE(a.out.find("explained by  nearest_away, saturate, every bit\nthe same here nearest_away, non_saturate"),
            std::string::npos)
      << a.out;
  EXPECT_EQ(mxcheck("identify --x x.npy --codes codes.npy --format e5m2").code, 1);
  expect_refused(2, "codes.npy: is 8 x 64, and x 8 x 256", "identify --x a.npy --codes codes.npy");
  expect_refused(2, "--codes is needed", "identify --x x.npy");
  expect_refused(2, "--svg draws a product's", "identify --x x.npy --codes codes.npy --svg t.svg");
}

TEST_F(IdentifyTool, a_dump_of_a_quantization_names_its_recipe) {
  std::vector<float> x;
  for (int i = 0; i < 64 * 64; ++i)
    x.push_back(
        std::ldexp(static_cast<float>(static_cast<std::uint32_t>(i) * 2654435761U % 511) + 1, i / 32 % 40 - 20));
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {64, 64}, x));
  for (const char* recipe : {"floor", "even", "rceil", "fp32"}) {
    ASSERT_EQ(mxcheck(std::string("quantize x.npy -o q.safetensors --rule ") + recipe).code, 0);
    const auto a = mxcheck("identify --x x.npy --codes q.safetensors:codes --scales q.safetensors:scales");
    EXPECT_EQ(a.code, 0) << a.out << a.err;
    EXPECT_NE(a.out.find(recipe), std::string::npos) << a.out;
    EXPECT_NE(a.out.find("compared      4224 words"), std::string::npos) << a.out;
  }
  ASSERT_EQ(mxcheck("quantize x.npy -o q.safetensors --rule floor").code, 0);
  Tensor codes = tensor_of(read_safetensors(dir / "q.safetensors"), "codes");
  codes.data[3] ^= std::byte{1};
  write_npy(dir / "one.npy", codes);
  const auto one = mxcheck("identify --x x.npy --codes one.npy --scales q.safetensors:scales");
  EXPECT_EQ(one.code, 1);
  EXPECT_NE(one.out.find("its elements under its own scales:\nexplained by  none"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("4095 of 4096 words equal"), std::string::npos) << one.out;
  write_npy(dir / "wrong.npy", make_tensor("", Format::uint8, {64, 3}, std::vector<std::uint8_t>(192)));
  expect_refused(2, "which no block makes of 64 x 64",
                 "identify --x x.npy --codes q.safetensors:codes --scales wrong.npy");
}

TEST_F(IdentifyTool, a_dump_of_a_router_names_its_variant) {
  std::vector<float> logits;
  for (int i = 0; i < 16 * 32; ++i)
    logits.push_back(static_cast<float>(static_cast<std::uint32_t>(i) * 2654435761U % 997) / 100 - 5);
  write_npy(dir / "l.npy", make_tensor("", Format::fp32, {16, 32}, logits));
  ASSERT_EQ(mxcheck("route l.npy --top-k 4 --variant sigmoid -o r.safetensors").code, 0);
  const auto a = mxcheck("identify --logits l.npy --experts r.safetensors:experts --weights r.safetensors:weights");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_NE(a.out.find("explained by  sigmoid, every bit"), std::string::npos) << a.out;
  ASSERT_EQ(mxcheck("route real:layer0.router_logits --top-k 4 -o real.safetensors").code, 0);
  const auto real = mxcheck(
      "identify --logits real:layer0.router_logits --experts real.safetensors:experts --weights "
      "real.safetensors:weights");
  EXPECT_EQ(real.code, 0) << real.out << real.err;
  EXPECT_NE(real.out.find("topk-softmax"), std::string::npos) << real.out;
  expect_refused(2, "logits are 16 x 32, experts 16 x 32",
                 "identify --logits l.npy --experts l.npy --weights r.safetensors:weights");
  expect_refused(2, "--weights is needed", "identify --logits l.npy --experts r.safetensors:experts");
}

// The members that scripts read.
TEST_F(IdentifyTool, json_of_a_dump_keeps_its_form) {
  ASSERT_EQ(mxcheck("mma --contract sm90_fp8+promote64 --a a.npy --b b.npy -o d.npy").code, 0);
  const auto a = mxcheck("identify --a a.npy --b b.npy --d d.npy --json --order");
  ASSERT_EQ(a.code, 0) << a.err;
  const Json json = parse_json(a.out, "stdout", 16, ErrorKind::input);
  EXPECT_EQ(to_text(*json.find("explaining"), {-1}), R"(["sm90_fp8+promote64","sm90_fp8+promote64+descending"])");
  EXPECT_EQ(to_text(*json.find("declared"), {-1}), "null");
  EXPECT_EQ(to_text(*json.find("also"), {-1}), R"(["split-k of 4 in parts of 64, no promotion within them"])");
  EXPECT_EQ(to_text(*json.find("compared"), {-1}), "64");
  EXPECT_EQ(*json.find("order")->find("shape")->get_if<std::string>(), "fused steps of 32, promoted every 64");
  const Json& first = *json.find("closest")->get_if<Json::Array>()->front().find("first");
  for (const char* member : {"probe", "part", "row", "column", "expected", "observed"})
    EXPECT_NE(first.find(member), nullptr);
}

TEST_F(IdentifyTool, the_tree_of_a_dump_and_one_given_as_text_are_drawn) {
  ASSERT_EQ(mxcheck("mma --contract sm90_fp8+promote64 --a a.npy --b b.npy -o d.npy").code, 0);
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy --d d.npy --svg dump.svg").code, 0);
  const std::string dump = test::read_file(dir / "dump.svg");
  EXPECT_NE(dump.find("<text x=\"16\" y=\"20\" class=\"t\">sm90_fp8+promote64, 256 of 256 terms</text>"),
            std::string::npos);
  const auto a = mxcheck("identify --draw '((0 2) (1 3))' --svg text.svg");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(a.out, "order         the upper half added to the lower, again and again\n  tree        ((0 2) (1 3))\n");
  expect_refused(2, "the tree of summation is wrong at place 4", "identify --draw '(0 1' --svg text2.svg");
  expect_refused(2, "/none", "identify --a a.npy --b b.npy --d d.npy --svg /none/t.svg");
  expect_refused(2, "/none", "identify --draw '(0 1)' --svg /none/t.svg");
  Tensor d = read_tensor(dir / "d.npy");
  d.data[0] ^= std::byte{1};
  write_npy(dir / "wrong.npy", d);
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy --d wrong.npy --svg wrong.svg").code, 2);
}

TEST_F(IdentifyTool, files_that_do_not_belong_together_are_refused) {
  expect_refused(2, "nothing to identify", "identify");
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy").code, 2);
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy --d a.npy").code, 2);
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy --d a.npy --scale-k 32").code, 2);
}

}  // namespace
}  // namespace mxcheck

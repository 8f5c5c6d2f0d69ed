// Boxes at the other end of standard input and output. The probes are the same on every run, so the answers can be in a
// file before they are asked for: they are collected from a box in this process, whose report the program's must equal.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "goldens/json/json.h"
#include "numerics/format/codec.h"
#include "properties/identify/blocks.h"
#include "properties/identify/product.h"
#include "properties/identify/reveal.h"
#include "properties/identify/router.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint32_t>;

struct Part {
  Format format;
  std::int64_t rows;
  std::int64_t cols;
  Words words;
};

std::string frame_of(const std::vector<Part>& parts) {
  Json tensors = Json::array();
  std::string data;
  for (const Part& p : parts) {
    const std::size_t width = size_of(p.format);
    tensors.push_back({{"dtype", spec(p.format).name},
                       {"shape", std::vector<std::int64_t>{p.rows, p.cols}},
                       {"bytes", p.words.size() * width}});
    for (const std::uint64_t word : p.words) data.append(reinterpret_cast<const char*>(&word), width);
  }
  return to_text(Json{{"tensors", std::move(tensors)}}, {-1}) + "\n" + data;
}

class IdentifyBox : public test::ToolTest {
 protected:
  std::string answers;  // of the box, frame by frame

  test::Answer identify(const std::string& arguments) {
    test::write_file(dir / "answers", answers);
    return mxcheck("identify --box " + arguments + " < answers");
  }

  // The last frame, after as many calls as there are answers.
  Json last_frame(const test::Answer& a) {
    const std::size_t at = a.out.rfind("{\"answer\":");
    if (at == std::string::npos) ADD_FAILURE() << a.err;
    return at == std::string::npos ? Json()
                                   : *parse_json(a.out.substr(at), "stdout", 16, ErrorKind::input).find("answer");
  }

  ProductBox box_of(const std::string& contract) {
    return [this, contract](const ProductCall& call) {
      Words d = answer_of_contract(contract, call);
      answers += frame_of({{call.output, call.m, call.n, d}});
      return d;
    };
  }

  void expect_error(const std::string& text, const std::string& arguments = "cast") {
    const test::Answer a = identify(arguments);
    EXPECT_EQ(a.code, 2) << a.err;
    test::expect_contains(a.err, "mxcheck: error: the box");
    test::expect_contains(a.err, text);
  }
};

std::string sorted(const Json& json) { return to_text(json, {-1, JsonOrder::by_name}); }

TEST_F(IdentifyBox, a_product_with_scales_is_what_the_same_box_is_in_this_process) {
  ProductSpace space{Format::e4m3, Format::e4m3, Format::fp32, 256, 128, Format::fp32};
  space.b_scale_rows = 128, space.m = 4, space.n = 8, space.one_shape = true;
  const ProductReport here = identify_product(space, box_of("sm90_fp8+promote128+a_first"));
  const auto a = identify(
      "matmul --format-a e4m3 --format-b e4m3 --m 4 --n 8 --k 256 --scale-type fp32 --block-a 1x128 --block-b 128x128");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(sorted(last_frame(a)), sorted(to_json(here.match, here.order)));
  EXPECT_EQ(here.match.explaining, std::vector<std::string>{"sm90_fp8+promote128+a_first"});
  test::expect_contains(a.out, R"({"name":"scale_b","dtype":"fp32","shape":[1,2],"bytes":8}]})");
}

TEST_F(IdentifyBox, definitions_that_are_named_are_tried_in_place_of_all_and_then_the_tree) {
  ProductSpace space{Format::bf16, Format::bf16, Format::fp32, 48};
  space.m = space.n = 8, space.one_shape = true;
  const std::string product = "matmul --m 8 --n 8 --k 48 --names exact --names ieee_fp32";
  const ProductReport here = identify_product(space, box_of("sm90_bf16"), {"", TreeWanted::never});
  const TreeReport order = reveal_order(space, box_of("sm90_bf16"), 2000);
  const auto a = identify(product);
  EXPECT_EQ(a.code, 1) << a.err;
  const Json answer = last_frame(a);
  EXPECT_EQ(sorted(*answer.find("order")), sorted(to_json(order)));
  EXPECT_EQ(*answer.find("order")->find("tree")->get_if<std::string>(), "(((0..15) 16..31) 32..47)");
  EXPECT_EQ(answer.find("closest")->size(), 2U);
  EXPECT_EQ(sorted(*last_frame(identify(product + " --tree never")).find("order")), "null");
  EXPECT_EQ(sorted(*last_frame(identify(product + " --names sm90_bf16")).find("explaining")), R"(["sm90_bf16"])");
  const auto alone = identify("matmul --m 8 --n 8 --k 48 --names sm90_fp8");
  EXPECT_EQ(alone.code, 2);
  EXPECT_EQ(alone.out.find("answer"), std::string::npos);
}

TEST_F(IdentifyBox, the_order_of_summation_alone) {
  ProductSpace space{Format::e4m3, Format::e4m3, Format::fp32, 128};
  space.m = space.n = 8;
  const TreeReport here = reveal_order(space, box_of("sm90_fp8+promote64"), 300);
  const auto a = identify("tree --format-a e4m3 --m 8 --n 8 --k 128 --checked 300");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(sorted(*last_frame(a).find("order")), sorted(to_json(here)));
}

TEST_F(IdentifyBox, a_cast_of_every_word_and_the_code_that_it_has_for_a_nan) {
  Words codes;
  for (std::uint32_t word = 0; word < 65536; ++word) {
    const std::uint32_t code =
        encode(Format::e4m3, decode(Format::bf16, word), Rounding::nearest_even, Overflow::saturate);
    codes.push_back(word > 0xFF80 ? 0xFF : code);  // a NaN keeps its sign
  }
  answers = frame_of({{Format::e4m3, 1, 65536, codes}});
  const auto a = identify("cast --format e4m3");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(sorted(*last_frame(a).find("explaining")), R"(["nearest_even, saturate"])");
  EXPECT_EQ(sorted(*last_frame(a).find("also")), R"(["nearest_even, saturate but for which code of NaN: 127 words"])");
}

TEST_F(IdentifyBox, a_quantization_of_all_recipes_and_of_those_that_are_named) {
  const auto box = [&](const QuantizeCall& call) {
    QuantizeAnswer q{Words(static_cast<std::size_t>(call.rows * call.cols), 8), {}};
    q.scales.assign(static_cast<std::size_t>(call.rows * call.cols / 32), 127);
    answers +=
        frame_of({{Format::e4m3, call.rows, call.cols, q.codes}, {Format::uint8, call.rows, call.cols / 32, q.scales}});
    return q;
  };
  const Match here = identify_quantize(Format::e4m3, {1, 32}, box, {"", Format::bf16});
  const auto all = identify("quantize --dtype bf16");
  EXPECT_EQ(all.code, 1) << all.err;
  EXPECT_EQ(sorted(last_frame(all)), sorted(to_json(here, std::nullopt)));
  const Json named = last_frame(identify("quantize --dtype bf16 --names floor --names even"));
  EXPECT_EQ(named.find("closest")->size(), 2U);
  EXPECT_EQ(identify("quantize --dtype bf16 --names ceiling").code, 2);
}

TEST_F(IdentifyBox, a_router_whose_experts_are_of_64_bits) {
  const auto box = [&](const RouteCall& call) {
    RouteAnswer r{std::vector<std::int32_t>(static_cast<std::size_t>(call.tokens * 2), 1),
                  std::vector<float>(static_cast<std::size_t>(call.tokens * 2), 0.5F)};
    answers += frame_of({{Format::int64, call.tokens, 2, Words(r.experts.begin(), r.experts.end())},
                         {Format::fp32, call.tokens, 2, Words(r.weights.size(), std::bit_cast<std::uint32_t>(0.5F))}});
    return r;
  };
  const Match here = identify_router({16, 2}, box);
  const auto a = identify("route --expert-count 16 --top-k 2");
  EXPECT_EQ(a.code, 1) << a.err;
  EXPECT_EQ(sorted(last_frame(a)), sorted(to_json(here, std::nullopt)));
}

TEST_F(IdentifyBox, that_ends_or_answers_wrongly_is_an_error) {
  expect_error("ended without an answer");
  answers = "no JSON\n";
  expect_error("the box's answer");
  answers = std::string(70000, '7') + "\n";
  expect_error("no line of at most 65536 bytes");
  for (const char* frame : {"[]", "{}", R"({"tensors":3})", R"({"tensors":[3]})", R"({"tensors":[{}]})"}) {
    answers = std::string(frame) + "\n";
    expect_error("the box's answer");
  }
  answers = R"({"tensors":[{"dtype":"e4m3","shape":[1,65536],"bytes":99999999999}]})"
            "\n";
  expect_error(
      "codes is (1, 65536) of e4m3, 99999999999 bytes: (1, 65536) of codes or numbers, 65536 bytes, is needed");
  answers = R"({"tensors":[{"dtype":"e4m3","shape":[1,65536],"bytes":65536}]})"
            "\nshort";
  expect_error("ended within the 65536 bytes of codes");
  expect_error("has 1 tensors: 2 are needed, codes, scales", "quantize");
  answers = frame_of({{Format::bf16, 4, 4, Words(16)}});
  expect_error("D is (4, 4) of bf16, 32 bytes: (4, 4) of fp32, 64 bytes, is needed", "matmul --m 4 --n 4 --k 32");
  answers = frame_of({{Format::fp32, 2, 8, Words(16)}});
  expect_error("D is (2, 8) of fp32, 64 bytes: (4, 4) of fp32", "matmul --m 4 --n 4 --k 32");
}

TEST_F(IdentifyBox, wrong_options_are_refused_before_any_call) {
  expect_refused(2, "unknown format", "identify --box cast --format e9");
  expect_refused(2, "--output is e4m3", "identify --box matmul --output e4m3");
  expect_refused(2, "--scale-type is e4m3", "identify --box matmul --scale-type e4m3");
  expect_refused(2, "do not share", "identify --box matmul --scale-type fp32 --block-b 1x128");
  expect_refused(2, "block", "identify --box matmul --scale-type fp32 --block-b 2x2");
  expect_refused(2, "no contract multiplies", "identify --box matmul --format-a e5m6");
  expect_refused(2, "over 2^24", "identify --box tree --m 4096 --k 8192");
  expect_refused(2, "one dump or one library", "identify --box cast --draw '(0 1)'");
  expect_refused(2, "--box", "identify --box divide");
}

}  // namespace
}  // namespace mxcheck

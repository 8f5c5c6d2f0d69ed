#include "goldens/json/json.h"
#include "numerics/format/codec.h"
#include "properties/identify/blocks.h"
#include "properties/identify/product.h"
#include "properties/identify/reveal.h"
#include "properties/identify/router.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;

class IdentifyTool : public ToolTest {
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
  expect_output("identify --a a.npy --b b.npy --d d.npy", 0,
                {"explained by  sm90_fp8+promote64, every bit", "compared      64 words of 1 probes"});
  Tensor d = read_tensor(dir / "d.npy");
  d.data[0] ^= std::byte{1};
  write_npy(dir / "wrong.npy", d);
  expect_output("identify --a a.npy --b b.npy --d wrong.npy", 1,
                {"closest       sm90_fp8+promote64: 63 of 64 words equal"});
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
    expect_output(
        "identify --a xq.safetensors:codes --b wq.safetensors:codes --d d.npy --scale-a xq.safetensors:scales "
        "--scale-b wq.safetensors:scales",
        0, {std::string("explained by  sm90_fp8+promote128") + order + ", every bit"});
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
  for (float value : x)
    codes.push_back(static_cast<std::uint8_t>(encode(Format::e4m3, value, Rounding::nearest_away, Overflow::saturate)));
  write_npy(dir / "codes.npy", make_tensor("", Format::uint8, {8, 64}, codes));
  const Answer a =
      expect_output("identify --x x.npy --codes codes.npy", 0,
                    {"explained by  nearest_away, saturate, every bit\nidentical here nearest_away, non_saturate"});
  expect_output("identify --x x.npy --codes codes.npy --format e5m2", 1,
                {"and           without --scales the codes are those of a cast; scales are given as --scales FILE\n"});
  expect_refused(2, "codes.npy: is 8 x 64, and x 8 x 256", "identify --x a.npy --codes codes.npy");
  expect_refused(2, "--codes is needed: a cast, or with --scales a quantization, takes --x, --codes; given: --x",
                 "identify --x x.npy");
  expect_refused(2, "--svg draws a product's", "identify --x x.npy --codes codes.npy --svg t.svg");
}

TEST_F(IdentifyTool, a_dump_of_a_stochastic_cast_is_held_to_its_random_words) {
  std::vector<float> x;
  std::vector<std::uint32_t> words;
  std::vector<std::uint8_t> codes;
  for (std::uint32_t i = 0; i < 512; ++i) {
    x.push_back(static_cast<float>(i) / 37 - 5);
    words.push_back(i % 3 == 0 ? 0x40000000U : 0x10000000U);  // of no share that a uniform word has
    codes.push_back(static_cast<std::uint8_t>(
        encode(Format::e4m3, x.back(), Rounding::stochastic, Overflow::saturate, words.back())));
  }
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {8, 64}, x));
  write_npy(dir / "codes.npy", make_tensor("", Format::uint8, {8, 64}, codes));
  write_npy(dir / "words.npy", make_tensor("", Format::uint32, {8, 64}, words));
  EXPECT_EQ(mxcheck("identify --x x.npy --codes codes.npy").code, 1);
  expect_output("identify --x x.npy --codes codes.npy --words words.npy", 0,
                {"explained by  stochastic with these words, saturate, every bit\n"});
  words[7] ^= 0x80000000U;
  write_npy(dir / "words.npy", make_tensor("", Format::uint32, {8, 64}, words));
  EXPECT_EQ(mxcheck("identify --x x.npy --codes codes.npy --words words.npy").code, 1);
  write_npy(dir / "words.npy", make_tensor("", Format::uint32, {64, 8}, words));
  expect_refused(2, "words.npy: is 64 x 8, and x 8 x 64", "identify --x x.npy --codes codes.npy --words words.npy");
  expect_refused(2, "random words are I32 or U32", "identify --x x.npy --codes codes.npy --words x.npy");
  expect_refused(2, "--x is needed", "identify --words words.npy");
}

TEST_F(IdentifyTool, a_dump_of_a_quantization_names_its_recipe) {
  std::vector<float> x;
  for (int i = 0; i < 64 * 64; ++i)
    x.push_back(
        std::ldexp(static_cast<float>(static_cast<std::uint32_t>(i) * 2654435761U % 511) + 1, i / 32 % 40 - 20));
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {64, 64}, x));
  for (const char* recipe : {"floor", "even", "rceil", "fp32"}) {
    ASSERT_EQ(mxcheck(std::string("quantize x.npy -o q.safetensors --rule ") + recipe).code, 0);
    expect_output("identify --x x.npy --codes q.safetensors:codes --scales q.safetensors:scales", 0,
                  {recipe, "compared      4224 words"});
  }
  // Without its scales it is a cast, which has none: the message names the tensor that is missing.
  expect_output("identify --x x.npy --codes q.safetensors:codes", 1,
                {"and           without --scales the codes are those of a cast; q.safetensors has ",
                 ": --scales q.safetensors:scales\n"});
  expect_refused(2, "--x is needed: ", "identify --scales q.safetensors:scales");
  expect_refused(2, "q.safetensors: has no tensor 'scale'; it has ",
                 "identify --x x.npy --codes q.safetensors:codes --scales q.safetensors:scale");
  ASSERT_EQ(mxcheck("quantize x.npy -o q.safetensors --rule floor").code, 0);
  Tensor codes = tensor_of(read_safetensors(dir / "q.safetensors"), "codes");
  codes.data[3] ^= std::byte{1};
  write_npy(dir / "one.npy", codes);
  expect_output("identify --x x.npy --codes one.npy --scales q.safetensors:scales", 1,
                {"its elements under its own scales:\nexplained by  none", "4095 of 4096 words equal"});
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
  expect_output("identify --logits l.npy --experts r.safetensors:experts --weights r.safetensors:weights", 0,
                {"explained by  sigmoid, every bit"});
  ASSERT_EQ(mxcheck("route real:layer0.router_logits --top-k 4 -o real.safetensors").code, 0);
  expect_output(
      "identify --logits real:layer0.router_logits --experts real.safetensors:experts --weights "
      "real.safetensors:weights",
      0, {"topk-softmax"});
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
  const std::string dump = read_file(dir / "dump.svg");
  expect_contains(dump, "<text class=\"t\" x=\"16\" y=\"20\">sm90_fp8+promote64, 256 of 256 terms</text>");
  const Answer a = expect_output("identify --draw '((0 2) (1 3))' --svg text.svg", 0);
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

// Boxes at the other end of standard input and output. The probes are the same on every run, so the answers can be in a
// file before they are asked for: they are collected from a box in this process, whose report the program's must equal.

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

class IdentifyBox : public ToolTest {
 protected:
  std::string answers;  // of the box, frame by frame

  Answer identify(const std::string& arguments) {
    write_file(dir / "answers", answers);
    return mxcheck("identify --box " + arguments + " < answers");
  }

  // The last frame, after as many calls as there are answers.
  Json last_frame(const Answer& a) {
    const std::size_t at = a.out.rfind("{\"answer\":");
    if (at == std::string::npos) {
      ADD_FAILURE() << a.err;
    }
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
    const Answer a = identify(arguments);
    EXPECT_EQ(a.code, 2) << a.err;
    expect_contains(a.err, {"mxcheck: error: the box", text});
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
  expect_contains(a.out, R"({"name":"scale_b","dtype":"fp32","shape":[1,2],"bytes":8}]})");
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
  const QuantizeMatch here = identify_quantize(Format::e4m3, {1, 32}, box, {"", Format::bf16});
  const auto all = identify("quantize --dtype bf16");
  EXPECT_EQ(all.code, 1) << all.err;
  EXPECT_EQ(sorted(last_frame(all)), sorted(to_json(here)));
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

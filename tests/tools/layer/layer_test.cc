#include <filesystem>
#include <nlohmann/json.hpp>

#include "goldens/layer/layer_file.h"
#include "numerics/bytes.h"
#include "numerics/text.h"
#include "reference/layer/layer_recipe.h"
#include "reference/router/router.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/testing.h"
#include "tests/tools/command.h"
#include "tools/layer/layer.h"

namespace mxcheck {
namespace {

using namespace test;
using LayerTool = ToolTest;
using nlohmann::json;

TEST_F(LayerTool, lists_every_recipe) {
  const json rows = json::parse(mxcheck("layer --list --json").out);
  ASSERT_EQ(rows.size(), all_layer_recipes().size());
  const std::string text = mxcheck("layer --list").out;
  for (const LayerRecipe& r : all_layer_recipes()) expect_contains(text, r.name + " ");
}

TEST_F(LayerTool, shows_each_gemm_and_what_is_kept) {
  for (const LayerRecipe& r : all_layer_recipes()) {
    const json shown = json::parse(mxcheck("layer --show --json --recipe " + r.name).out);
    ASSERT_EQ(shown["gemms"].size(), kLayerGemms.size());
    for (const LayerGemmSpec& g : kLayerGemms) {
      const json& row = shown["gemms"][static_cast<std::size_t>(g.value)];
      EXPECT_EQ(row["name"], g.name);
      EXPECT_EQ(row["contract"], r.gemm(g.value).contract);
      EXPECT_EQ(row["a"]["format"], spec(r.gemm(g.value).a.format).name);
      EXPECT_EQ(row["b"]["tensor"], g.b);
    }
  }
  const std::string text = mxcheck("layer --recipe dsv3_pow2 --show").out;
  expect_contains(text, {"X   e4m3 1x128 rceil again", "\nH        e5m6 1x128 rceil\n"});
  expect_contains(mxcheck("layer --recipe fp8_tensor --show").out, "W1  e4m3 tensor fp32");
}

TEST_F(LayerTool, takes_a_recipe_that_it_printed) {
  for (const LayerRecipe& r : all_layer_recipes()) {
    const std::string shown = mxcheck("layer --show --json --recipe " + r.name).out;
    write_file(dir / "r.json", shown);
    EXPECT_EQ(mxcheck("layer --show --json --recipe r.json").out, shown);
  }
}

TEST_F(LayerTool, shows_a_recipe_from_a_file) {
  write_file(dir / "mine.json", R"({"base": "mxfp8", "name": "mine", "gemms": [
      {"name": "down", "a": {"scales": "floor"}}]})");
  const std::string text = mxcheck("layer --recipe mine.json --show").out;
  EXPECT_EQ(text.rfind("mine: mxfp8 with changes\n", 0), 0U) << text;
  expect_contains(text, {"A   e4m3 1x32 floor", "\nforward\n"});
}

TEST_F(LayerTool, shows_ms_eden_and_what_it_is_made_of) {
  expect_contains(mxcheck("layer --recipe quartet2 --show").out,
                  {"W1  e2m1 1x16 nvfp4_46 ", "dO  e2m1 1x16 ms_eden rotated128 stochastic",
                   "W2  e2m1 1x16 ms_eden again rotated128 stochastic",
                   "again: made of the tensor as it was quantized along its rows, of weights for the forward pass, not",
                   "rotatedN: the Hadamard transform of N numbers along k, signs at random"});
}

TEST_F(LayerTool, shows_rotation_and_stochastic_rounding) {
  const std::string text = mxcheck("layer --recipe nvfp4 --show").out;
  expect_contains(text,
                  {"W1  e2m1 16x16 nvfp4_te ", "X   e2m1 1x16 nvfp4_te rotated", "dH  e2m1 1x16 nvfp4_te stochastic",
                   "dH  e2m1 1x16 nvfp4_te rotated stochastic", "rotated: the Hadamard transform of 16 tokens"});
  write_file(dir / "mine.json", R"({"base": "nvfp4", "name": "mine", "gemms": [
      {"name": "d_up", "a": {"stochastic": false}}]})");
  expect_contains(mxcheck("layer --recipe mine.json --show").out, "dH  e2m1 1x16 nvfp4_te  ");
  write_file(dir / "bad.json", R"({"base": "nvfp4", "name": "bad", "gemms": [
      {"name": "d_w1", "a": {"rotates": false}}]})");
  expect_refused(2, "one operand is rotated and the other is not", "layer --recipe bad.json --show");
}

TEST_F(LayerTool, takes_the_recipe_of_its_page) {
  const std::string page = read_file(MXCHECK_SOURCE_DIR "/docs/layer.md");
  const std::size_t begin = page.find("```json\n") + 8;
  write_file(dir / "mine.json", page.substr(begin, page.find("```", begin) - begin));
  expect_output("layer --recipe mine.json --show", 0, {"dH  e5m2 1x32 floor"});
}

TEST_F(LayerTool, refuses_a_recipe_that_cannot_be) {
  write_file(dir / "bad.json", R"({"base": "dsv3", "name": "bad", "gemms": [
      {"name": "up", "a": {"block": "7x33"}}]})");
  expect_refused(2, "bad.json: layer recipe 'bad', GEMM up: ", "layer --recipe bad.json --show");
  write_file(dir / "bad.json", R"({"base": "dsv3", "name": "bad", "gems": []})");
  expect_refused(2, "bad.json: $: has \"gems\", which is not a known key here", "layer --recipe bad.json --show");
  expect_refused(2, "none.json: ", "layer --recipe none.json --show");
  std::filesystem::create_directory(dir / "d.json");
  expect_refused(2, "d.json: not a regular file but a directory", "layer --recipe d.json --show");
}

TEST_F(LayerTool, writes_a_picture) {
  ASSERT_EQ(mxcheck("layer --recipe mxfp8 --show --svg flow.svg").code, 0);
  const std::string svg = read_file(dir / "flow.svg");
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  ASSERT_EQ(mxcheck("layer --recipe mxfp8_floor --show --svg flow.svg").code, 0);
  EXPECT_NE(read_file(dir / "flow.svg"), svg);
  expect_refused(3, "standard output cannot be written", "layer --recipe mxfp8 --show --svg full.svg > /dev/full");
  expect_refused(2, "flow.png: name the picture OUT.svg", "layer --recipe mxfp8 --show --svg flow.png");
  expect_refused(2, "a name is needed, not ''", "layer --recipe mxfp8 --show --svg ''");
  expect_refused(2, "none/flow.svg", "layer --recipe mxfp8 --show --svg none/flow.svg");
  expect_refused(2, "--svg", "layer --recipe mxfp8 --svg flow.svg");
}

TEST_F(LayerTool, refuses_what_it_does_not_know) {
  expect_refused(2, "mxfp8_floor", "layer --show --recipe mxfp9");
  expect_refused(2, "--show is of one --recipe", "layer --show");
  expect_refused(2, "--recipe NAME or FILE.json is needed", "layer");
}

// mxcheck layer on files: every way that weights and routes come, and what is refused.

constexpr std::int64_t kT = 24, kD = 64, kN = 48, kE = 4, kK = 2;

class LayerOnFiles : public ToolTest {
 protected:
  TestLayer t{{kT, kD, kN, kE}, kK, 7};
  Words logits = random_words(kT * kE, 1, 99);
  LayerData right;

  void SetUp() override {
    right.shape = t.shape, right.recipe = layer_recipe_named("mxfp8");
    right.x = t.x, right.w1 = t.w1, right.w2 = t.w2, right.d_o = t.d_o;
    right.routes = layer_routes(route(router, view()), kE), right.has_backward = true;
    compute(right);
    right.d_logits = logits_gradient();
    write("l.safetensors",
          {bf16("X", {kT, kD}, t.x), bf16("W1", {kE, kD, 2 * kN}, t.w1), bf16("W2", {kE, kN, kD}, t.w2),
           bf16("dO", {kT, kD}, t.d_o), bf16("logits", {kT, kE}, logits)});
  }
  const Router router{.variant = &router_variant_named("topk-softmax"), .top_k = kK};
  [[nodiscard]] MatrixView view() const { return {Format::bf16, std::as_bytes(std::span(logits)).data(), kT, kE, kE}; }
  [[nodiscard]] std::vector<float> logits_gradient() const {
    return route_backward(router, view(), route(router, view()).experts, slot_gradient(right.routes, right.backward.ds),
                          kK);
  }
  static Tensor bf16(const std::string& name, std::vector<std::int64_t> shape, const Words& words) {
    return make_tensor(name, Format::bf16, std::move(shape), words);
  }
  void write(const std::string& name, std::vector<Tensor> tensors) {
    write_safetensors(dir / name, {std::move(tensors), {}});
  }
  // Each expert's matrix, rows x cols, the other way round.
  static Words turned(const Words& w, std::int64_t rows, std::int64_t cols) {
    Words out(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i), e = at / (rows * cols), r = at / cols % rows, c = at % cols;
      out[static_cast<std::size_t>(e * rows * cols + c * rows + r)] = w[i];
    }
    return out;
  }
  // Runs, and expects the tensors of `right`.
  void expect_right(const std::string& arguments) {
    const Answer a =
        mxcheck("layer " + arguments + " --recipe " + right.recipe.name + " --backward --d-o dO -o out.safetensors");
    ASSERT_EQ(a.code, 0) << arguments << "\n" << a.err;
    const SafetensorsFile file = read_safetensors(dir / "out.safetensors");
    for (const LayerTensor& one : tensors_of(right)) {
      const auto same = [&](const Tensor& f) { return f.name == one.name; };
      const auto at = std::find_if(file.tensors.begin(), file.tensors.end(), same);
      if (one.name == "d_logits" && arguments.find("--logits") == std::string::npos) continue;
      ASSERT_NE(at, file.tensors.end()) << arguments << " " << one.name;
      EXPECT_TRUE(std::equal(at->data.begin(), at->data.end(), one.data.begin(), one.data.end()))
          << arguments << " " << one.name;
    }
  }
};

TEST_F(LayerOnFiles, writes_the_layer_of_one_file) {
  expect_right("l.safetensors --logits logits --top-k 2");
  expect_right("l.safetensors --logits logits --top-k 2 --threads 1");
}

TEST_F(LayerOnFiles, rounds_stochastically_by_the_words_that_are_given) {
  right.recipe = layer_recipe_named("nvfp4");
  right.random = {5, 6, 7};
  compute(right);
  right.d_logits = logits_gradient();
  const std::string run = "l.safetensors --logits logits --top-k 2 ";
  expect_right(run + "--random-seed 5 --random-step 6 --random-layer 7");
  const SafetensorsFile file = read_safetensors(dir / "out.safetensors");
  EXPECT_EQ(file.metadata.at("random_step"), "6");
  EXPECT_EQ(file.metadata.at("d_w1.b.rotates"), "true");
  const auto named = [&](const char* name) {
    return std::any_of(file.tensors.begin(), file.tensors.end(), [&](const Tensor& t) { return t.name == name; });
  };
  EXPECT_TRUE(named("up_a_outer") && named("d_w1_b_rotated") && !named("up_a_rotated"));
  expect_refused(2, "are of recipes that round stochastically; mxfp8 does not",
                 "layer " + run + "--recipe mxfp8 --random-seed 5 -o o.h5");
  expect_refused(2, "--random-step is 4294967296: must be below 2^32",
                 "layer " + run + "--recipe nvfp4 --random-step 4294967296 -o o.h5");
  expect_refused(2, "--random-layer is 65536: must be below 65536",
                 "layer " + run + "--recipe nvfp4 --random-layer 65536 -o o.h5");
}

TEST_F(LayerOnFiles, takes_routes_from_mxcheck_route_and_from_its_own_file) {
  for (const std::string routes : {"r.safetensors", "r.h5"}) {
    ASSERT_EQ(mxcheck("route l.safetensors:logits --top-k 2 -o " + routes).code, 0);
    expect_right("l.safetensors --routes " + routes);
  }
  ASSERT_EQ(mxcheck("layer l.safetensors --logits logits --top-k 2 --recipe mxfp8 --backward --d-o dO -o own.h5").code,
            0);
  expect_right("own.h5 --routes own.h5");
}

TEST_F(LayerOnFiles, takes_weights_in_torchs_order) {
  write("w.safetensors",
        {bf16("up", {kE, 2 * kN, kD}, turned(t.w1, kD, 2 * kN)), bf16("down", {kE, kD, kN}, turned(t.w2, kN, kD))});
  expect_right(
      "l.safetensors w.safetensors --w1 up --w1-layout 2n-d --w2 down --w2-layout d-n --logits logits --top-k 2");
  expect_refused(
      2,
      "w.safetensors:up: is [4, 96, 64]; [E, d, 2n] is needed, with E = 4 of l.safetensors:logits and d = 64 of "
      "l.safetensors:X; it fits --w1-layout 2n-d",
      "layer l.safetensors --w1 w.safetensors:up --w2 w.safetensors:down --recipe mxfp8 --logits logits "
      "--top-k 2 -o o.h5");
}

TEST_F(LayerOnFiles, takes_three_tensors_an_expert) {
  for (const bool interleaved : {false, true}) {
    right.gate_up = interleaved ? GateUp::interleaved : GateUp::halves;
    compute(right);
    right.d_logits = logits_gradient();
    std::vector<Tensor> tensors;
    for (std::int64_t e = 0; e < kE; ++e) {
      const auto at = [&](std::int64_t i, std::int64_t j) {
        const std::int64_t col = interleaved ? 2 * (j % kN) + j / kN : j;
        return t.w1[static_cast<std::size_t>(e * kD * 2 * kN + i * 2 * kN + col)];
      };
      Words gate, up;
      for (std::int64_t j = 0; j < kN; ++j) {
        for (std::int64_t i = 0; i < kD; ++i) gate.push_back(at(i, j)), up.push_back(at(i, kN + j));
      }
      const Words w2(t.w2.begin() + e * kN * kD, t.w2.begin() + (e + 1) * kN * kD);
      const std::string name = "l.experts." + std::to_string(e);
      tensors.push_back(bf16(name + ".gate_proj.weight", {kN, kD}, gate));
      tensors.push_back(bf16(name + ".up_proj.weight", {kN, kD}, up));
      tensors.push_back(bf16(name + ".down_proj.weight", {kD, kN}, turned(w2, kN, kD)));
    }
    write("e.safetensors", tensors);
    const std::string order = interleaved ? " --gate-up interleaved" : "";
    const std::string logits_of = " l.safetensors --logits logits --top-k 2" + order;
    expect_right("e.safetensors --experts 'l.experts.{}'" + logits_of);
    expect_right(
        "e.safetensors --gate-proj 'l.experts.{}.gate_proj.weight' --up-proj l.experts.{}.up_proj.weight "
        "--down-proj 'l.experts.{}.down_proj.weight'" +
        logits_of);
    tensors.pop_back();
    write("e.safetensors", tensors);
    expect_refused(2, "l.experts.3.down_proj.weight",
                   "layer e.safetensors --experts 'l.experts.{}' --recipe mxfp8 -o o.h5" + logits_of);
  }
}

TEST_F(LayerOnFiles, says_what_it_did_as_text_and_json) {
  const std::string run = "layer l.safetensors --recipe mxfp8 --logits logits --top-k 2 ";
  const std::string text = mxcheck(run).out;
  expect_contains(text,
                  {"24 tokens of width 64, 4 experts of inner width 48, 48 rows; recipe mxfp8", "aggregate        O "});
  const json all = json::parse(mxcheck(run + "--json --only H,O").out);
  ASSERT_EQ(all["tensors"].size(), 2U);
  EXPECT_EQ(all["tensors"][0]["tensor"], "H");
  EXPECT_EQ(all["tensors"][0]["shape"], json({48, 96}));
  EXPECT_EQ(all["tensors"][0]["nan"], 0);
  EXPECT_EQ(all["tensors"][1]["sha256"].get<std::string>().size(), 64U);
}

TEST_F(LayerOnFiles, refuses_what_does_not_fit) {
  const std::string run = "layer l.safetensors --recipe mxfp8 -o o.h5 ";
  const std::string routed = run + "--logits logits --top-k 2 ";
  expect_refused(2, "one of --logits NAME and --routes FILE is needed", run);
  expect_refused(2, "one of --logits NAME", routed + "--routes r.h5");
  expect_refused(2, "--recipe NAME or FILE.json is needed", "layer l.safetensors --logits logits --top-k 2");
  expect_refused(2, "--top-k is needed", run + "--logits logits");
  expect_refused(2, "--backward needs the gradient of O: --d-o", routed + "--backward");
  expect_refused(2, "--d-o is of --backward", routed + "--d-o dO");
  expect_refused(2, "has no tensor 'Y'; it has W1, W2, X, dO, logits; --x names another", routed + "--x Y");
  expect_refused(2, "l.safetensors:W1: is [4, 64, 96]; [tokens, d] is needed", routed + "--x W1");
  expect_refused(2, "l.safetensors:logits: is [24, 4]; [24, 64] of l.safetensors:X is needed",
                 routed + "--backward --d-o logits");
  expect_refused(2, "l.safetensors:X: is [24, 64]; [E, n, d] is needed, with E = 4 of l.safetensors:logits and d = 64",
                 routed + "--w2 X");
  expect_refused(2, "--experts e.gate_proj.weight: '{}' must be there once", routed + "--experts e");
  expect_refused(2, "'h' is no tensor of this run", routed + "--only h");
  expect_refused(2, "o.txt: name the output", "layer l.safetensors --recipe mxfp8 --logits logits --top-k 2 -o o.txt");
  expect_refused(2, "is an input file",
                 "layer l.safetensors --recipe mxfp8 --logits logits --top-k 2 -o l.safetensors");
  expect_refused(2, "none/o.h5", "layer l.safetensors --recipe mxfp8 --logits logits --top-k 2 -o none/o.h5");
  expect_refused(2, "a name is needed, not ''", "layer l.safetensors --recipe mxfp8 --logits logits --top-k 2 -o ''");
  expect_refused(2, "INPUT is a file of named tensors", "layer x.npy --recipe mxfp8 --logits logits --top-k 2");
  expect_refused(2, "is a name, and there is no INPUT file", "layer --recipe mxfp8 --logits logits --top-k 2");
  expect_refused(3, "standard output cannot be written", routed + "> /dev/full");
}

TEST_F(LayerOnFiles, refuses_types_sizes_and_names_by_their_place) {
  const std::string run = "layer l.safetensors bad.safetensors --recipe mxfp8 --logits logits --top-k 2 -o o.h5 ";
  write("bad.safetensors", {make_tensor("f", Format::fp32, {kT, kD}, std::vector<float>(kT * kD)),
                            bf16("short", {kT - 1, kD}, Words((kT - 1) * kD)), bf16("X", {kT, kD}, t.x)});
  expect_refused(2, "bad.safetensors:f: has dtype F32; BF16 is needed; convert it first", run + "--x f");
  expect_refused(2, "bad.safetensors:short: is [23, 64], of 23 tokens; l.safetensors:logits has 24", run + "--x short");
  expect_refused(2, "a tensor 'X' is in l.safetensors:X, bad.safetensors:X; say which", run);
  expect_refused(2, "none of l.safetensors, bad.safetensors has a tensor 'x'; --x names another", run + "--x x");
  Words nan = logits;
  nan[5] = 0x7FC0;
  write("nan.safetensors", {bf16("logits", {kT, kE}, nan)});
  const std::string from = "layer l.safetensors --recipe mxfp8 --top-k 2 --logits nan.safetensors:logits -o o.h5";
  expect_refused(2, "nan.safetensors:logits: ", from);
  EXPECT_EQ(mxcheck(from + " --nan last").code, 0);
}

TEST_F(LayerOnFiles, refuses_routes_that_are_none) {
  ASSERT_EQ(mxcheck("route l.safetensors:logits --top-k 2 --round up --tile 8 -o r.safetensors").code, 0);
  const std::string run = "layer l.safetensors --recipe mxfp8 --routes ";
  EXPECT_EQ(mxcheck(run + "r.safetensors").code, 0);
  SafetensorsFile r = read_safetensors(dir / "r.safetensors");
  const auto with = [&](const std::string& name, std::size_t byte, int value) {
    SafetensorsFile changed = r;
    for (Tensor& tensor : changed.tensors) {
      if (tensor.name == name) tensor.data[byte] = static_cast<std::byte>(value);
    }
    write("bad.safetensors", changed.tensors);
  };
  with("row_token", 0, 200);
  expect_refused(2, "bad.safetensors: routes: row 0 is of token 200; there are 24", run + "bad.safetensors");
  with("offsets", 0, 1);
  expect_refused(2, "bad.safetensors: routes: expert offsets must begin with 0", run + "bad.safetensors");
  write("bad.safetensors", {r.tensors[0]});
  expect_refused(2, "bad.safetensors: has no tensor", run + "bad.safetensors");
  expect_refused(2, "--routes r.npy: FILE.safetensors or FILE.h5", run + "r.npy");
}

// mxcheck layer --against, as a user runs it.

class LayerAgainst : public ToolTest {
 protected:
  const std::string run = "layer l.safetensors --recipe mxfp8 --logits logits --top-k 2 --backward --d-o dO ";
  SafetensorsFile right;

  void SetUp() override {
    const TestLayer t({24, 64, 48, 4}, 2, 7);
    const auto bf16 = [](const std::string& name, std::vector<std::int64_t> shape, const Words& words) {
      return make_tensor(name, Format::bf16, std::move(shape), words);
    };
    write_safetensors(dir / "l.safetensors",
                      {{bf16("X", {24, 64}, t.x), bf16("W1", {4, 64, 96}, t.w1), bf16("W2", {4, 48, 64}, t.w2),
                        bf16("dO", {24, 64}, t.d_o), bf16("logits", {24, 4}, random_words(96, 1, 99))},
                       {}});
    ASSERT_EQ(mxcheck(run + "-o right.safetensors").code, 0);
    right = read_safetensors(dir / "right.safetensors");
  }
  Tensor& tensor(SafetensorsFile& file, const std::string& name) {
    return *std::find_if(file.tensors.begin(), file.tensors.end(), [&](const Tensor& t) { return t.name == name; });
  }
  // The dump with one element of a tensor changed.
  void write_dump(const std::string& name, std::size_t byte) {
    SafetensorsFile f = right;
    tensor(f, name).data[byte] ^= std::byte{1};
    write_safetensors(dir / "dump.safetensors", f);
  }
};

TEST_F(LayerAgainst, a_clean_dump_is_equal) {
  const Answer a = expect_output(run + "--against right.safetensors", 0, {"47 of 47 tensors are equal, bit for bit\n"});
  ASSERT_EQ(mxcheck(run + "-o right.h5").code, 0);
  EXPECT_EQ(mxcheck(run + "--against right.h5").out.substr(8), a.out.substr(17));
}

TEST_F(LayerAgainst, says_where_it_first_differs_and_what_follows) {
  SafetensorsFile f = right;
  Words a = values_in<std::uint16_t>(tensor(f, "A").data);
  a[5] ^= 0x8000;
  tensor(f, "A").data = to_bytes(a);
  write_safetensors(dir / "dump.safetensors", f);
  const Answer answer = expect_output(
      run + "--against dump.safetensors", 1,
      {"first difference: step swiglu, tensor A\n", "1 of 2304 elements differ from the reference, first at (0, 5)\n"});
  const auto line = answer.out.find("\n  reference 0x");
  ASSERT_NE(line, std::string::npos);
  const std::string notation = answer.out.substr(line, answer.out.find('\n', line + 1) - line);
  EXPECT_EQ(std::count(notation.begin(), notation.end(), '='), 3) << notation;
  expect_contains(answer.out, "1 of 2304 elements do not follow from H of the dump; no known cause gives them\n");
  EXPECT_EQ(answer.out.find("\ndH (step"), std::string::npos) << "dH is of H and P, not of A";
}

TEST_F(LayerAgainst, names_a_cause_and_what_follows_from_it) {
  std::string other = run;
  other.replace(other.find("mxfp8"), 5, "mxfp8_floor");
  ASSERT_EQ(mxcheck(other + "-o dump.safetensors --only H,A,O").code, 0);
  const json v = json::parse(mxcheck(run + "--against dump.safetensors --json").out);
  EXPECT_EQ(v["first"], "H");
  EXPECT_EQ(v["equal"], false);
  std::map<std::string, json> by_name;
  for (const json& t : v["tensors"]) by_name[t["tensor"]] = t;
  EXPECT_NE(by_name["H"]["causes"][0].get<std::string>().find("mxfp8_floor"), std::string::npos) << v.dump(1);
  EXPECT_EQ(by_name["A"]["verdict"], "follows");
  EXPECT_EQ(by_name["Y"]["verdict"], "missing");
  EXPECT_NE(by_name["O"]["causes"][0].get<std::string>().find("floor"), std::string::npos) << v.dump(1);
}

TEST_F(LayerAgainst, compares_what_there_is_and_names_the_rest) {
  SafetensorsFile f;
  f.tensors = {tensor(right, "H"), tensor(right, "O"), tensor(right, "dS")};
  f.tensors[0].name = "model.h";
  f.tensors[1].shape.insert(f.tensors[1].shape.begin(), 1);
  f.tensors[2].shape.push_back(1);
  f.tensors.push_back(make_tensor("loss", Format::fp32, {1}, std::vector<float>{1}));
  write_safetensors(dir / "dump.safetensors", f);
  expect_output(run + "--against dump.safetensors --map H=model.h", 0,
                {"3 of 3 tensors are equal", "not in the dump, and not looked at: X, W1",
                 "not of the layer, and not looked at: loss\n"});
  expect_contains(mxcheck(run + "--against dump.safetensors").out, "not looked at: loss, model.h\n");
  EXPECT_EQ(mxcheck(run + "--against dump.safetensors --only O").code, 0);
}

TEST_F(LayerAgainst, says_what_is_of_another_form) {
  SafetensorsFile f = right;
  tensor(f, "H").shape = {96, 48};
  tensor(f, "A").format = Format::fp16;
  write_safetensors(dir / "dump.safetensors", f);
  expect_output(
      run + "--against dump.safetensors", 1,
      {"note      is 96 x 48; 48 x 96 is right", "note      is F16; BF16 is right", "45 of 47 tensors are equal"});
}

TEST_F(LayerAgainst, tells_other_inputs_and_routes) {
  write_dump("X", 0);
  expect_contains(mxcheck(run + "--against dump.safetensors").out, "first difference: step input, tensor X\n");
  SafetensorsFile f = right;
  std::vector<std::int32_t> token = values_in<std::int32_t>(tensor(f, "row_token").data);
  token[0] = 500;
  tensor(f, "row_token").data = to_bytes(token);
  write_safetensors(dir / "dump.safetensors", f);
  expect_output(run + "--against dump.safetensors", 1,
                {"routes: row 0 is of token 500; there are 24; what follows is computed with the reference's"});
}

TEST_F(LayerAgainst, refuses_what_is_no_dump) {
  expect_refused(2, "none.safetensors: ", run + "--against none.safetensors");
  expect_refused(2, "x.npy: a dump is FILE.safetensors", run + "--against x.npy");
  expect_refused(2, "has none of the layer's tensors", run + "--against l.safetensors --only H");
  expect_refused(2, "--map H: NAME=NAME IN THE DUMP", run + "--against right.safetensors --map H");
  expect_refused(2, "has no tensor 'h'", run + "--against right.safetensors --map H=h");
  expect_refused(2, "'h' is no tensor of this run", run + "--against right.safetensors --map h=H");
  expect_refused(2, "--against compares, and -o writes", run + "--against right.safetensors -o o.h5");
  expect_refused(2, "--map is of --against", run + "--map H=H");
  write_file(dir / "bad.h5", "no HDF5");
  expect_refused(2, "bad.h5", run + "--against bad.h5");
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(LayerFlow, draws_the_forward_pass_of_mxfp8) {
  const std::string text = flow_text(layer_recipe_named("mxfp8"));
  const std::string right = R"(forward

  X[gather]  bf16 [T, d]                          W1  bf16 [E, d, 2n]
    [ e4m3 1x32 rceil ]                             [ e4m3 1x32 rceil ]
    |                                               |
    +-----------------( up )------------------------+  sum over d: sm90_bf16+decode
                         |
                         v  H  bf16 [R, 2n]
                            kept: X as bf16; H as bf16

  H  bf16 [R, 2n]
                    ( SwiGLU )
                         |
                         v  A  bf16 [R, n]
)";
  EXPECT_EQ(text.substr(0, right.size()), right);
  EXPECT_TRUE(holds(text, "  H kept  bf16 [R, 2n],   P  fp32 [R, n],   s  fp32 [R]\n")) << text;
  EXPECT_TRUE(holds(text, "v  A'  bf16 [R, n],   dH  bf16 [R, 2n],   dS  fp32 [R]\n")) << text;
}

TEST(LayerFlow, has_no_box_where_nothing_is_quantized) {
  const std::string text = flow_text(layer_recipe_named("bf16"));
  EXPECT_EQ(text.substr(0, text.find("T tokens")).find("[ "), std::string::npos);
}

TEST(LayerFlow, shows_what_is_kept_and_what_is_quantized_again) {
  const std::string text = flow_text(layer_recipe_named("dsv3_pow2"));
  EXPECT_TRUE(holds(text, "kept: X as codes, e4m3 1x128 rceil; H as e5m6 1x128 rceil")) << text;
  EXPECT_TRUE(holds(text, "X kept[gather]  e4m3 1x128 rceil [T, d]")) << text;
  EXPECT_TRUE(holds(text, "[ e4m3 1x128 rceil again ]")) << text;
}

// Every fact of a recipe is in both pictures: none looks the same with another one.
TEST(LayerFlow, a_changed_recipe_changes_both_pictures) {
  const LayerRecipe& base = layer_recipe_named("mxfp8");
  std::vector<LayerRecipe> changed;
  for (const LayerGemmSpec& g : kLayerGemms) {
    const auto i = static_cast<std::size_t>(g.value);
    for (int part = 0; part < 7; ++part) {
      changed.push_back(base);
      GemmRule& rule = changed.back().gemms[i];
      OperandRule& operand = part % 2 == 0 ? rule.a : rule.b;
      if (part < 2) operand.format = Format::e5m2;
      if (part == 2 || part == 3) operand.block = {128, 128};
      if (part == 4 || part == 5) operand.scales = "floor";
      if (part == 6) rule.contract = "exact+decode";
    }
  }
  changed.push_back(base);
  changed.back().kept_h = {Format::e4m3, {1, 32}, "rceil"};
  changed.push_back(base);
  changed.back().keeps_quantized_x = true;
  for (const LayerRecipe& r : changed) {
    EXPECT_NE(flow_text(r), flow_text(base));
    EXPECT_NE(flow_svg(r), flow_svg(base));
  }
}

TEST(LayerFlow, is_ascii_of_at_most_100_columns) {
  LayerRecipe longest = layer_recipe_named("dsv3");
  for (GemmRule& g : longest.gemms) {
    g.a.scales = g.b.scales = "torchao_0_18_floor";
    g.contract = "sm90_fp8+promote128+descending+from_c+a_first+and_more_than_there_is_room_for";
  }
  std::vector<LayerRecipe> all(all_layer_recipes().begin(), all_layer_recipes().end());
  all.push_back(longest);
  for (const LayerRecipe& r : all) {
    const std::string text = flow_text(r);
    for (const std::string_view line : split(text, '\n')) EXPECT_LE(line.size(), 100U) << line;
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << text;
  }
}

TEST(LayerFlow, the_svg_is_whole_and_escaped) {
  LayerRecipe r = layer_recipe_named("dsv3");
  r.name = "a<b>&";
  const std::string svg = flow_svg(r);
  EXPECT_TRUE(svg.starts_with("<?xml")) << svg.substr(0, 100);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_TRUE(holds(svg, "<title>layer recipe a&lt;b&gt;&amp;</title>"));
  EXPECT_TRUE(holds(svg, ">e4m3 128x128 fp32</text>"));
  EXPECT_TRUE(holds(svg, ">sum over tokens: sm90_fp8+promote128</text>"));
  EXPECT_FALSE(holds(svg, "href"));
}

}  // namespace
}  // namespace mxcheck

#include "goldens/layer/recipe_json.h"
#include "goldens/format/reader.h"
#include "goldens/io/sha256.h"
#include "goldens/layer/layer_file.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

std::string refusal(const std::string& text) {
  try {
    layer_recipe_from(text, "r.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
    return e.what();
  }
  return "taken";
}

void expect_refused(const std::string& text, const std::string& why) {
  EXPECT_NE(refusal(text).find(why), std::string::npos) << refusal(text) << "\nexpected: " << why;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LayerRecipeJson, every_built_in_recipe_comes_back_the_same) {
  for (const LayerRecipe& r : all_layer_recipes()) {
    for (const int indent : {2, -1})
      EXPECT_EQ(layer_recipe_from(to_text(layer_recipe_json(r), {.indent = indent}), "r.json"), r) << r.name;
  }
}

TEST(LayerRecipeJson, a_base_keeps_what_is_not_said) {
  const LayerRecipe r = layer_recipe_from(R"({"base": "mxfp8", "name": "mine", "gemms": [
      {"name": "d_w1", "b": {"format": "e5m2"}}, {"name": "down", "contract": "exact+decode"},
      {"name": "up", "a": {"format": "bf16"}, "b": {"format": "bf16"}, "contract": "exact"}], "kept_h": {"format": "e5m6", "block": "1x128", "scales": "rceil"}})",
                                          "r.json");
  LayerRecipe right = layer_recipe_named("mxfp8");
  right.name = "mine", right.meaning = "mxfp8 with changes";
  right.gemms[5].b.format = Format::e5m2;
  right.gemms[1].contract = "exact+decode";
  right.gemms[0] = {OperandRule(), OperandRule(), "exact"};
  right.kept_h = {Format::e5m6, {1, 128}, "rceil"};
  EXPECT_EQ(r, right);
}

TEST(LayerRecipeJson, keeping_codes_of_x_can_be_taken_back) {
  const LayerRecipe r = layer_recipe_from(
      R"({"base": "dsv3", "name": "mine", "keeps_quantized_x": false,
          "gemms": [{"name": "d_w1", "a": {"source": "values"}}]})",
      "r.json");
  EXPECT_FALSE(r.keeps_quantized_x);
  EXPECT_EQ(r.gemm(LayerGemm::d_w1).a.source, OperandSource::values);
}

TEST(LayerRecipeJson, refuses_by_the_place_and_says_what_would_be_right) {
  const std::string good = to_text(layer_recipe_json(layer_recipe_named("mxfp8")));
  expect_refused("[]", "r.json: $: must be an object");
  expect_refused(R"({"base": "mxfp9", "name": "x"})", "$.base: unknown layer recipe 'mxfp9'; known are bf16, mxfp8");
  expect_refused(R"({"base": "mxfp8"})", "$: lacks \"name\"");
  expect_refused(R"({"base": "mxfp8", "name": ""})", "$.name: is empty");
  expect_refused(R"({"name": "x", "gemms": []})", "$.gemms: lacks the GEMM 'up'; all six are needed, or a \"base\"");
  expect_refused(R"({"name": "x"})", "$: lacks \"gemms\"");
  expect_refused(with(good, "\"e4m3\"", "\"e4m4\""), "$.gemms[0].a.format: is 'e4m4'; bf16 (not quantized) or one of");
  expect_refused(with(good, "\"e4m3\"", "8"), "$.gemms[0].a.format: must be a string");
  expect_refused(with(good, "\"e4m3\"", "\"bf16\""), "$.gemms[0].a.block: is for a quantized operand");
  expect_refused(with(good, "\"1x32\"", "\"1*32\""), "$.gemms[0].a.block: is '1*32'; \"ROWSxCOLS\"");
  expect_refused(with(good, "\"1x32\"", "\"1x99999999999999999999\""), "$.gemms[0].a.block: is '1x9999");
  expect_refused(with(good, "\"1x32\"", "\"-1x32\""), "$.gemms[0].a.block: is '-1x32'");
  expect_refused(with(good, "\"1x32\"", "[1, 32]"), "$.gemms[0].a.block: must be a string");
  expect_refused(with(good, "\"rceil\"", "\"rciel\""), "$.gemms[0].a.scales: unknown rule or preset 'rciel'");
  expect_refused(with(good, "\"values\"", "\"again\""), "$.gemms[0].a.source: is 'again'; known are values, requant");
  expect_refused(with(good, "sm90_bf16+decode", "sm91"), "$.gemms[0].contract: ");
  expect_refused(with(good, "\"name\": \"up\"", "\"name\": \"upp\""), "$.gemms[0].name: is 'upp'; the layer's GEMMs");
  expect_refused(with(good, "\"name\": \"down\"", "\"name\": \"up\""), "$.gemms[1].name: is 'up' for the second time");
  expect_refused(with(good, "\"k\": \"d\"", "\"k\": \"n\""), "$.gemms[0].k: is 'n'; the layer has 'd' here");
  expect_refused(with(good, "\"tensor\": \"X\"", "\"tensor\": \"W1\""), "$.gemms[0].a.tensor: is 'W1'");
  expect_refused(with(good, "\"contract\"", "\"contracts\""), "$.gemms[0]: lacks \"contract\"");
  expect_refused(with(good, "\"kept_h\"", "\"keeps\""), "$: has \"keeps\", which is not a known key here; known are");
  expect_refused(with(good, "false", "0"), "$.keeps_quantized_x: must be true or false");
  expect_refused(with(good, "\"name\": \"mxfp8\",", "\"name\": \"mxfp8\", \"name\": \"b\","), "r.json");
}

TEST(LayerRecipeJson, a_rotation_is_true_or_the_size_of_groups_under_random_signs) {
  const auto d_w2 = [](const std::string& a, const std::string& b) {
    return R"({"base": "nvfp4", "name": "x", "gemms": [{"name": "d_w2", "a": {"rotates": )" + a +
           R"(}, "b": {"rotates": )" + b + "}}]}";
  };
  const auto rule = [&](const std::string& a) { return layer_recipe_from(d_w2(a, a), "r.json").gemms[4].a; };
  EXPECT_EQ(rule("true").rotates, 16);
  EXPECT_FALSE(rule("true").random_signs);
  EXPECT_EQ(rule("64").rotates, 64);
  EXPECT_TRUE(rule("64").random_signs);
  for (const char* none : {"false", "0"}) {
    EXPECT_EQ(rule(none).rotates, 0);
    EXPECT_FALSE(rule(none).random_signs);
  }
  expect_refused(d_w2("16", "true"), "GEMM d_w2: the operands are rotated in different groups or signs");
  expect_refused(d_w2("24", "24"), "GEMM d_w2: is rotated in groups of 24: 16, 32, 64 and 128 there are");
  expect_refused(d_w2("129", "129"), "$.gemms[0].a.rotates: ");
  expect_refused(d_w2("-16", "-16"), "$.gemms[0].a.rotates: ");
  expect_refused(d_w2("\"16\"", "16"), "$.gemms[0].a.rotates: ");
  expect_refused(d_w2("16.5", "16"), "$.gemms[0].a.rotates: ");
  const LayerRecipe& quartet2 = layer_recipe_named("quartet2");
  EXPECT_EQ(layer_recipe_from(to_text(layer_recipe_json(quartet2)), "r.json"), quartet2);
  EXPECT_EQ(layer_recipe_attributes(quartet2).at("d_w2.a.rotates"), "128");
  EXPECT_EQ(layer_recipe_attributes(layer_recipe_named("nvfp4")).at("d_w2.a.rotates"), "true");
  const std::string file = R"({"base": "quartet2", "name": "x", "gemms": [{"name": "d_up", "a": {"block": "1x32"}}]})";
  expect_refused(file, "operand dH: scales ms_eden of e2m1 in blocks of 1x32: they are of e2m1 in blocks of 1x16");
}

TEST(LayerRecipeJson, refuses_what_the_layer_cannot_compute) {
  const auto changed = [](const std::string& up) {
    return R"({"base": "dsv3", "name": "x", "gemms": [{"name": "up", )" + up + "}]}";
  };
  expect_refused(changed(R"("a": {"block": "7x33"})"), "r.json: layer recipe 'x', GEMM up");
  expect_refused(changed(R"("a": {"source": "requantized"})"), "operand X: is requantized: only X, dO and dH of");
  expect_refused(R"({"base": "bf16", "name": "x", "keeps_quantized_x": true})",
                 "operand X: is made from values, but of X only the quantized one");
  expect_refused(R"({"base": "dsv3", "name": "x", "kept_h": {"format": "e4m3", "block": "2x128", "scales": "fp32"}})",
                 "H kept: a block of 2x128");
}

// Every prefix is refused. A text with a few bytes changed is refused or taken, and what is taken is a recipe that can
// be and that comes back.
TEST(LayerRecipeJson, survives_damaged_texts) {
  const std::string good = to_text(layer_recipe_json(layer_recipe_named("dsv3_pow2")), {.indent = -1});
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_NE(refusal(good.substr(0, n)), "taken") << n;
  std::mt19937 random(1);
  int taken = 0;
  const std::string bytes = "{}[]\",:0123456789x-+eE\\abfp\x01\xFF";
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (unsigned k = 0; k <= random() % 3; ++k) text[random() % text.size()] = bytes[random() % bytes.size()];
    try {
      const LayerRecipe r = layer_recipe_from(text, "r.json");
      EXPECT_EQ(layer_recipe_from(to_text(layer_recipe_json(r)), "r.json"), r);
      ++taken;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
    }
  }
  EXPECT_GT(taken, 0);
  const std::string deep = std::string(100'000, '[');
  EXPECT_NE(refusal(R"({"name": )" + deep), "taken");
}

TEST(LayerRecipeJson, a_file_is_named_by_its_ending) {
  const TemporaryDirectory dir;
  write_file(dir / "mine.json", R"({"base": "bf16", "name": "mine"})");
  EXPECT_EQ(layer_recipe_at(dir / "mine.json").name, "mine");
  EXPECT_EQ(layer_recipe_at("dsv3"), layer_recipe_named("dsv3"));
  EXPECT_THROW(layer_recipe_at(dir / "none.json"), Error);
  write_file(dir / "big.json", std::string((1 << 20) + 1, ' '));
  EXPECT_THROW(layer_recipe_at(dir / "big.json"), Error);
}

TEST(LayerRecipeJson, attributes_say_each_fact_and_all_of_it) {
  const auto all = layer_recipe_attributes(layer_recipe_named("dsv3_pow2"));
  EXPECT_EQ(all.at("up.a.format"), "e4m3");
  EXPECT_EQ(all.at("up.b.block"), "128x128");
  EXPECT_EQ(all.at("d_w1.a.source"), "requantized");
  EXPECT_EQ(all.at("d_w2.contract"), "sm90_fp8+promote128");
  EXPECT_EQ(all.at("kept_h.format"), "e5m6");
  EXPECT_EQ(all.at("keeps_quantized_x"), "true");
  EXPECT_EQ(layer_recipe_from(all.at("recipe"), "r"), layer_recipe_named("dsv3_pow2"));
  EXPECT_EQ(layer_recipe_attributes(layer_recipe_named("fp8_tensor")).at("up.a.block"), "tensor");
}

LayerData small_layer(const std::string& recipe) {
  const TestLayer t({24, 64, 32, 4}, 2, 7);
  LayerData d;
  d.shape = t.shape, d.recipe = layer_recipe_named(recipe), d.gate_up = t.gate_up;
  d.x = t.x, d.w1 = t.w1, d.w2 = t.w2, d.d_o = t.d_o;
  d.routes = t.routes(), d.has_backward = true;
  compute(d);
  return d;
}

std::vector<std::byte> bytes_of(const LayerTensor& t) { return {t.data.begin(), t.data.end()}; }

GoldenReader reader_of(const std::string& path) {
  const std::string bytes = read_file(path);
  return GoldenReader(path, {sha256(std::as_bytes(std::span(bytes))), bytes.size(), ""});
}

TEST(LayerFile, both_files_hold_every_tensor_of_every_recipe) {
  const TemporaryDirectory dir;
  for (const LayerRecipe& r : all_layer_recipes()) {
    LayerData d = small_layer(r.name);
    write_layer(dir / "l.h5", d, {});
    write_layer(dir / "l.safetensors", d, {});
    const GoldenReader h5 = reader_of(dir / "l.h5");
    EXPECT_EQ(h5.file_kind(), "layer");
    const SafetensorsFile file = read_safetensors(dir / "l.safetensors");
    const std::vector<LayerTensor> all = tensors_of(d);
    ASSERT_EQ(h5.info().datasets.size(), all.size());
    ASSERT_EQ(file.tensors.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(h5.info().datasets[i].name, all[i].name);
      EXPECT_EQ(h5.info().datasets[i].format, all[i].format);
      EXPECT_EQ(h5.read(all[i].name).data, bytes_of(all[i])) << all[i].name;
      const auto same = [&](const Tensor& t) { return t.name == all[i].name; };
      const auto at = std::find_if(file.tensors.begin(), file.tensors.end(), same);
      ASSERT_NE(at, file.tensors.end()) << all[i].name;
      EXPECT_EQ(at->shape, all[i].shape);
      EXPECT_EQ(at->data, bytes_of(all[i]));
    }
  }
}

TEST(LayerFile, attributes_explain_the_file) {
  const TemporaryDirectory dir;
  LayerData d = small_layer("dsv3_pow2");
  write_layer(dir / "l.h5", d, {}, {{"variant", "softmax"}});
  const GoldenReader h5 = reader_of(dir / "l.h5");
  const Attributes& a = h5.info().attributes;
  EXPECT_EQ(layer_recipe_from(attribute(a, "recipe"), "r"), d.recipe);
  EXPECT_EQ(attribute(a, "up.b.block"), "128x128");
  EXPECT_EQ(attribute(a, "down.contract"), "sm90_fp8+promote128");
  EXPECT_EQ(attribute(a, "gate_up"), "halves");
  EXPECT_EQ(attribute(a, "variant"), "softmax");
  EXPECT_EQ(attribute(a, "rows"), std::to_string(d.rows()));
  const DatasetInfo* w1 = h5.info().find("W1");
  EXPECT_EQ(attribute(w1->attributes, "shape"), "4 x 64 x 64");
  EXPECT_EQ(w1->shape, (std::vector<std::int64_t>{256, 64}));
  EXPECT_EQ(w1->role, Role::input);
  EXPECT_EQ(attribute(h5.info().find("kept_h_codes")->attributes, "step"), "keep");
}

TEST(LayerFile, writes_what_is_asked_for_and_the_same_bytes_again) {
  const TemporaryDirectory dir;
  LayerData d = small_layer("mxfp8");
  for (const std::string name : {"a.h5", "b.h5"}) write_layer(dir / name, d, {"dS", "H"});
  EXPECT_EQ(read_file(dir / "a.h5"), read_file(dir / "b.h5"));
  const GoldenReader h5 = reader_of(dir / "a.h5");
  ASSERT_EQ(h5.info().datasets.size(), 2U);
  EXPECT_EQ(h5.info().datasets[0].name, "H");
  EXPECT_EQ(h5.info().datasets[1].name, "dS");
  expect_error(ErrorKind::usage, "'h' is no tensor of this run, which has X, W1, W2, offsets",
               [&] { write_layer(dir / "c.h5", d, {"h"}); });
  EXPECT_THROW(write_layer(dir / "c.h5", d, {}, {}, [] { throw Error(ErrorKind::environment, "x"); }), Error);
  EXPECT_EQ(dir.names().size(), 2U);
}

TEST(LayerFile, the_forward_pass_alone_has_no_gradients) {
  LayerData d = small_layer("bf16");
  d.has_backward = false;
  const std::vector<LayerTensor> all = tensors_of(d);
  EXPECT_EQ(all.back().name, "O");
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const LayerTensor& t) { return t.name.starts_with("d"); }));
}

TEST(LayerFile, each_name_is_of_its_own_tensor) {
  LayerData d = small_layer("dsv3_pow2");
  const std::vector<LayerTensor> all = tensors_of(d);
  const auto is = [&](const std::string& name, const void* data) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const LayerTensor& t) { return t.name == name; });
    ASSERT_NE(at, all.end()) << name;
    EXPECT_EQ(at->data.data(), data) << name;
  };
  is("X", d.x.data()), is("W1", d.w1.data()), is("W2", d.w2.data()), is("dO", d.d_o.data());
  is("offsets", d.routes.offsets.data()), is("token_offsets", d.routes.token_offsets.data());
  is("row_token", d.routes.row_token.data()), is("row_weight", d.routes.row_weight.data());
  is("token_rows", d.routes.token_rows.data());
  const LayerForward& f = d.forward;
  is("H", f.h.data()), is("A", f.a.data()), is("Y", f.y.data()), is("O", f.o.data());
  is("up_a_codes", f.up_a.quantized.codes.data.data()), is("up_b_scales", f.up_b.quantized.scales().data.data());
  is("down_a_codes", f.down_a.quantized.codes.data.data()), is("down_b_codes", f.down_b.quantized.codes.data.data());
  is("kept_h_codes", f.kept.h.quantized.codes.data.data());
  const LayerBackward& b = d.backward;
  is("P", b.p.data()), is("A_again", b.a.data()), is("scaled_A", b.scaled_a.data()), is("dH", b.dh.data());
  is("dS", b.ds.data()), is("dW2", b.dw2.data()), is("dX_rows", b.dx_rows.data()), is("dW1", b.dw1.data());
  is("dX", b.dx.data()), is("d_down_a_codes", b.d_down_a.quantized.codes.data.data());
  is("d_down_b_codes", b.d_down_b.quantized.codes.data.data()),
      is("d_w2_a_codes", b.d_w2_a.quantized.codes.data.data());
  is("d_w2_b_codes", b.d_w2_b.quantized.codes.data.data()), is("d_up_a_codes", b.d_up_a.quantized.codes.data.data());
  is("d_up_b_codes", b.d_up_b.quantized.codes.data.data()), is("d_w1_a_codes", b.d_w1_a.quantized.codes.data.data());
  is("d_w1_b_codes", b.d_w1_b.quantized.codes.data.data());
}

// A tensor written through its name is the layer's own.
TEST(LayerFile, names_are_views_of_the_data) {
  LayerData d = small_layer("mxfp8");
  for (LayerTensor& t : tensors_of(d)) std::fill(t.data.begin(), t.data.end(), std::byte{1});
  EXPECT_EQ(d.forward.h[0], 0x0101);
  EXPECT_EQ(d.backward.d_w1_b.quantized.scales().code(0), 1);
  EXPECT_EQ(d.routes.token_offsets[1], 0x0101010101010101);
}

}  // namespace
}  // namespace mxcheck

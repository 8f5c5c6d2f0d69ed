#include "goldens/layer/recipe_json.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

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
  expect_refused(with(good, "\"kept_h\"", "\"keeps\""), "$: has \"keeps\", which means nothing here; known are");
  expect_refused(with(good, "false", "0"), "$.keeps_quantized_x: must be true or false");
  expect_refused(with(good, "\"name\": \"mxfp8\",", "\"name\": \"mxfp8\", \"name\": \"b\","), "r.json");
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
  const test::TemporaryDirectory dir;
  test::write_file(dir / "mine.json", R"({"base": "bf16", "name": "mine"})");
  EXPECT_EQ(layer_recipe_at(dir / "mine.json").name, "mine");
  EXPECT_EQ(layer_recipe_at("dsv3"), layer_recipe_named("dsv3"));
  EXPECT_THROW(layer_recipe_at(dir / "none.json"), Error);
  test::write_file(dir / "big.json", std::string((1 << 20) + 1, ' '));
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

}  // namespace
}  // namespace mxcheck

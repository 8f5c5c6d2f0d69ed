#include <filesystem>
#include <nlohmann/json.hpp>

#include "reference/layer/layer_recipe.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using LayerTool = test::ToolTest;
using nlohmann::json;

TEST_F(LayerTool, lists_every_recipe) {
  const json rows = json::parse(mxcheck("layer --list --json").out);
  ASSERT_EQ(rows.size(), all_layer_recipes().size());
  const std::string text = mxcheck("layer --list").out;
  for (const LayerRecipe& r : all_layer_recipes()) EXPECT_NE(text.find(r.name + " "), std::string::npos);
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
  EXPECT_NE(text.find("X   e4m3 1x128 rceil again"), std::string::npos) << text;
  EXPECT_NE(text.find("\nH        e5m6 1x128 rceil\n"), std::string::npos) << text;
  EXPECT_NE(mxcheck("layer --recipe fp8_tensor --show").out.find("W1  e4m3 tensor fp32"), std::string::npos);
}

TEST_F(LayerTool, takes_a_recipe_that_it_printed) {
  for (const LayerRecipe& r : all_layer_recipes()) {
    const std::string shown = mxcheck("layer --show --json --recipe " + r.name).out;
    test::write_file(dir / "r.json", shown);
    EXPECT_EQ(mxcheck("layer --show --json --recipe r.json").out, shown);
  }
}

TEST_F(LayerTool, shows_a_recipe_from_a_file) {
  test::write_file(dir / "mine.json", R"({"base": "mxfp8", "name": "mine", "gemms": [
      {"name": "down", "a": {"scales": "floor"}}]})");
  const std::string text = mxcheck("layer --recipe mine.json --show").out;
  EXPECT_EQ(text.rfind("mine: mxfp8 with changes\n", 0), 0U) << text;
  EXPECT_NE(text.find("A   e4m3 1x32 floor"), std::string::npos) << text;
  EXPECT_NE(text.find("\nforward\n"), std::string::npos) << text;
}

TEST_F(LayerTool, takes_the_recipe_of_its_page) {
  const std::string page = test::read_file(MXCHECK_SOURCE_DIR "/docs/layer.md");
  const std::size_t begin = page.find("```json\n") + 8;
  test::write_file(dir / "mine.json", page.substr(begin, page.find("```", begin) - begin));
  const test::Answer a = mxcheck("layer --recipe mine.json --show");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_NE(a.out.find("dH  e5m2 1x32 floor"), std::string::npos) << a.out;
}

TEST_F(LayerTool, refuses_a_recipe_that_cannot_be) {
  test::write_file(dir / "bad.json", R"({"base": "dsv3", "name": "bad", "gemms": [
      {"name": "up", "a": {"block": "7x33"}}]})");
  expect_refused(2, "bad.json: layer recipe 'bad', GEMM up: ", "layer --recipe bad.json --show");
  test::write_file(dir / "bad.json", R"({"base": "dsv3", "name": "bad", "gems": []})");
  expect_refused(2, "bad.json: $: has \"gems\", which means nothing here", "layer --recipe bad.json --show");
  expect_refused(2, "none.json: ", "layer --recipe none.json --show");
  std::filesystem::create_directory(dir / "d.json");
  expect_refused(2, "d.json: not a regular file but a directory", "layer --recipe d.json --show");
}

TEST_F(LayerTool, writes_a_picture) {
  ASSERT_EQ(mxcheck("layer --recipe mxfp8 --show --svg flow.svg").code, 0);
  const std::string svg = test::read_file(dir / "flow.svg");
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  ASSERT_EQ(mxcheck("layer --recipe mxfp8_floor --show --svg flow.svg").code, 0);
  EXPECT_NE(test::read_file(dir / "flow.svg"), svg);
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

}  // namespace
}  // namespace mxcheck

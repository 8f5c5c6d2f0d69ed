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

TEST_F(LayerTool, refuses_what_it_does_not_know) {
  expect_refused(2, "mxfp8_floor", "layer --show --recipe mxfp9");
  expect_refused(2, "--list, or --recipe NAME --show, is needed", "layer --recipe mxfp8");
  expect_refused(2, "--list, or --recipe NAME --show, is needed", "layer");
}

}  // namespace
}  // namespace mxcheck

#include "tools/layer/flow.h"

#include <gtest/gtest.h>

#include "numerics/text.h"

namespace mxcheck {
namespace {

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

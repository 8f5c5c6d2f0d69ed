// The picture of `mxcheck cost --svg`: from how many rows of an expert on each recipe is faster than BF16.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "cost/estimate.h"
#include "pages/chart.h"
#include "tools/cost/cost.h"

namespace mxcheck {
namespace {

constexpr std::array<std::string_view, 2> kDrawnCards{"H200", "B200"};
constexpr std::array<std::string_view, 4> kDrawnRecipes{"mxfp8", "dsv3_pow2", "fp8_tensor", "nvfp4"};
constexpr int kChartWidth = 400;
constexpr int kChartHeight = 320;
constexpr int kLegend = 34;
constexpr double kLeastRows = 8;
constexpr double kMostRows = 16384;
constexpr int kPointsAnOctave = 2;
constexpr double kMostSpeed = 2.5;

// Line colours are of Okabe and Ito's palette, which is told apart without red and green.
constexpr std::string_view kFileStyle =
    ".c0 { color: #d55e00; } .c1 { color: #0072b2; } .c2 { color: #009e73; } .c3 { color: #cc79a7; } .c4 { color: "
    "#e69f00; }\n"
    "svg { --page: #fcfcfb; --ink: #17171a; --soft: #5d5f66; --rule: #dcdce0; } .paper { fill: var(--page); }\n"
    "@media (prefers-color-scheme: dark) { svg { --page: #17181b; --ink: #ececef; --soft: #a5a7ae; --rule: #36383e; } "
    "}\n";

std::string line_class(std::size_t i) { return fmt::format("line c{}", i); }

std::vector<LayerRecipe> drawn_recipes(const CostQuestion& q) {
  std::vector<LayerRecipe> recipes;
  for (const std::string_view name : kDrawnRecipes) recipes.push_back(layer_recipe_named(name));
  const auto is_drawn = [&](const LayerRecipe& r) {
    return std::any_of(recipes.begin(), recipes.end(), [&](const LayerRecipe& d) { return d.name == r.name; });
  };
  if (q.recipes.size() == 1 && q.recipes.front().name != "bf16" && !is_drawn(q.recipes.front()))
    recipes.push_back(q.recipes.front());
  return recipes;
}

// Speed over BF16 at about so many rows of an expert.
std::vector<svg::Point> curve_of(const CostQuestion& q, const LayerRecipe& recipe, const Card& card) {
  std::vector<svg::Point> points;
  EstimateOptions options = q.options;
  options.load = {};
  const LayerRecipe& bf16 = layer_recipe_named("bf16");
  const int octaves = static_cast<int>(std::lround(std::log2(kMostRows / kLeastRows)));
  std::int64_t last = 0;
  for (int i = 0; i <= octaves * kPointsAnOctave; ++i) {
    const double rows = kLeastRows * std::exp2(static_cast<double>(i) / kPointsAnOctave);
    LayerShape at = q.shape;
    at.tokens =
        std::max<std::int64_t>(1, std::llround(rows * static_cast<double>(at.experts) / static_cast<double>(at.top_k)));
    if (at.tokens == last) continue;
    if (!is_possible(at)) break;
    last = at.tokens;
    const double speed = estimate(at, bf16, card, options).us() / estimate(at, recipe, card, options).us();
    points.push_back({product({at.tokens, at.top_k}) / static_cast<double>(at.experts), speed});
  }
  return points;
}

svg::Drawing chart_of(const CostQuestion& q, const std::vector<LayerRecipe>& recipes, const Card& card) {
  svg::Chart chart({.title = fmt::format("{}: speed over BF16", card.name),
                    .x = {.label = "rows of an expert", .low = kLeastRows, .high = kMostRows, .logarithmic = true},
                    .y = {.label = "", .low = 0, .high = kMostSpeed},
                    .width = kChartWidth,
                    .height = kChartHeight});
  chart.level(1, "BF16");
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    if (has_engines(card, recipes[i])) chart.line(curve_of(q, recipes[i], card), line_class(i), recipes[i].name);
  }
  return chart.drawing();
}

}  // namespace

std::string cost_svg(const CostQuestion& q) {
  const std::vector<LayerRecipe> recipes = drawn_recipes(q);
  svg::Drawing d;
  int left = 0;
  for (const std::string_view name : kDrawnCards) {
    d.inset(left, 0, kChartWidth, kChartHeight, chart_of(q, recipes, card_named(name)));
    left += kChartWidth;
  }
  int x = 66;
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    d.line(x, kChartHeight + 12, x + 24, kChartHeight + 12, {.css = line_class(i)});
    d.text(x + 30, kChartHeight + 16, recipes[i].name);
    x += 124;
  }
  const LayerShape& s = q.shape;
  const std::string title =
      fmt::format("Speed of a layer over BF16, forward and backward: d_model {}, d_expert {}, {} experts, top {}",
                  s.d_model, s.d_expert, s.experts, s.top_k);
  return d.file(left, kChartHeight + kLegend, title, std::string(kFileStyle) + std::string(svg::kChartStyle));
}

}  // namespace mxcheck

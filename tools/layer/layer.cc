// mxcheck layer: the recipes of a mixture-of-experts layer, as tables.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "numerics/error.h"
#include "reference/layer/layer_recipe.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct Options {
  std::string recipe;
  bool list = false;
  bool show = false;
  bool json = false;
};

std::string block_text(const OperandRule& rule) { return rule.of_whole_tensor() ? "tensor" : to_text(rule.block); }

// "e4m3 1x32 rceil", "e4m3 1x128 fp32 again", "bf16"
std::string rule_text(const OperandRule& rule) {
  if (!rule.quantized()) return "bf16";
  return fmt::format("{} {} {}{}", spec(rule.format).name, block_text(rule), rule.scales,
                     rule.source == OperandSource::requantized ? " again" : "");
}

Json rule_json(const OperandRule& rule) {
  if (!rule.quantized()) return {{"format", "bf16"}};
  return {{"format", spec(rule.format).name},
          {"block", block_text(rule)},
          {"scales", rule.scales},
          {"source", name_in(kOperandSources, rule.source)}};
}

std::string kept_x_text(const LayerRecipe& r) {
  return r.keeps_quantized_x ? "codes and scales of up's operand, " + rule_text(r.gemm(LayerGemm::up).a) : "bf16";
}

std::string to_text(const LayerRecipe& r) {
  constexpr const char* kRow = "{:<8} {:<24} {:<7} {:<30} {:<30} {:<20} {}\n";
  std::string text = fmt::format("{}: {}\n\n", r.name, r.meaning);
  text += fmt::format(kRow, "GEMM", "D = A B^T", "k", "A", "B", "contract", "D");
  for (const LayerGemmSpec& g : kLayerGemms) {
    const GemmRule& rule = r.gemm(g.value);
    const auto operand = [](std::string_view tensor, const OperandRule& o) {
      return fmt::format("{:<3} {}", tensor, rule_text(o));
    };
    text += fmt::format(kRow, g.name, g.formula, g.k, operand(g.a, rule.a), operand(g.b, rule.b), rule.contract,
                        spec(g.output).name);
  }
  text += fmt::format("\nkept for the backward pass, beside the routing\nX        {}\nH        {}\n", kept_x_text(r),
                      rule_text(r.kept_h));
  const bool again = std::any_of(r.gemms.begin(), r.gemms.end(), [](const GemmRule& g) {
    return g.a.source == OperandSource::requantized || g.b.source == OperandSource::requantized;
  });
  return text +
         (again ? "\nagain: made of the tensor as it was quantized along its rows, not of its BF16 values\n" : "");
}

Json to_json(const LayerRecipe& r) {
  Json json{{"name", r.name}, {"meaning", r.meaning}};
  json["gemms"] = Json::array();
  for (const LayerGemmSpec& g : kLayerGemms) {
    const GemmRule& rule = r.gemm(g.value);
    Json a = rule_json(rule.a), b = rule_json(rule.b);
    a["tensor"] = g.a;
    b["tensor"] = g.b;
    json["gemms"].push_back({{"name", g.name},
                             {"formula", g.formula},
                             {"k", g.k},
                             {"a", std::move(a)},
                             {"b", std::move(b)},
                             {"contract", rule.contract},
                             {"output", spec(g.output).name}});
  }
  json["keeps_quantized_x"] = r.keeps_quantized_x;
  json["kept_h"] = rule_json(r.kept_h);
  return json;
}

int list(bool as_json) {
  Json rows = Json::array();
  std::string text;
  for (const LayerRecipe& r : all_layer_recipes()) {
    rows.push_back({{"name", r.name}, {"meaning", r.meaning}});
    text += fmt::format("{:<18} {}\n", r.name, r.meaning);
  }
  as_json ? print_json(rows) : print(text);
  return 0;
}

int run(const Options& o) {
  if (o.list) return list(o.json);
  if (o.recipe.empty() || !o.show) {
    throw Error(ErrorKind::usage, "--list, or --recipe NAME --show, is needed: a layer is not run from here yet");
  }
  const LayerRecipe& recipe = layer_recipe_named(o.recipe);
  o.json ? print_json(to_json(recipe)) : print(to_text(recipe));
  return 0;
}

}  // namespace

void add_layer(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("layer", "The recipes of a mixture-of-experts layer");
  sub.flag("--list", o->list, "Their names");
  sub.option("--recipe", o->recipe, "Which one").not_empty();
  sub.flag("--show", o->show, "What it is: operands, blocks, scales and contract of each GEMM, and what is kept");
  sub.flag("--json", o->json, "Print JSON");
  sub.footer(
      "docs/layer.md defines the layer.\n\n"
      "Examples:\n"
      "  mxcheck layer --list\n"
      "  mxcheck layer --recipe dsv3_pow2 --show");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck

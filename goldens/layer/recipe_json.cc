#include "goldens/layer/recipe_json.h"

#include "numerics/names.h"

namespace mxcheck {
namespace {

Json rule_json(const OperandRule& rule) {
  if (!rule.quantized()) return {{"format", "bf16"}};
  return {{"format", spec(rule.format).name},
          {"block", block_text(rule)},
          {"scales", rule.scales},
          {"source", name_in(kOperandSources, rule.source)}};
}

Json operand_json(std::string_view tensor, const OperandRule& rule) {
  Json json{{"tensor", tensor}};
  json.update(rule_json(rule));
  return json;
}

void add_rule(std::map<std::string, std::string>& to, const std::string& name, const OperandRule& rule) {
  to[name + ".format"] = spec(rule.format).name;
  if (!rule.quantized()) return;
  to[name + ".block"] = block_text(rule);
  to[name + ".scales"] = rule.scales;
  to[name + ".source"] = name_in(kOperandSources, rule.source);
}

}  // namespace

std::string block_text(const OperandRule& rule) { return rule.of_whole_tensor() ? "tensor" : to_text(rule.block); }

Json layer_recipe_json(const LayerRecipe& r) {
  Json json{{"name", r.name}, {"meaning", r.meaning}};
  json["gemms"] = Json::array();
  for (const LayerGemmSpec& g : kLayerGemms) {
    const GemmRule& rule = r.gemm(g.value);
    json["gemms"].push_back({{"name", g.name},
                             {"formula", g.formula},
                             {"k", g.k},
                             {"a", operand_json(g.a, rule.a)},
                             {"b", operand_json(g.b, rule.b)},
                             {"contract", rule.contract},
                             {"output", spec(g.output).name}});
  }
  json["keeps_quantized_x"] = r.keeps_quantized_x;
  json["kept_h"] = rule_json(r.kept_h);
  return json;
}

std::map<std::string, std::string> layer_recipe_attributes(const LayerRecipe& r) {
  std::map<std::string, std::string> all;
  all["recipe"] = to_text(layer_recipe_json(r), {.indent = -1});
  for (const LayerGemmSpec& g : kLayerGemms) {
    const std::string name(g.name);
    add_rule(all, name + ".a", r.gemm(g.value).a);
    add_rule(all, name + ".b", r.gemm(g.value).b);
    all[name + ".contract"] = r.gemm(g.value).contract;
  }
  all["keeps_quantized_x"] = r.keeps_quantized_x ? "true" : "false";
  add_rule(all, "kept_h", r.kept_h);
  return all;
}

}  // namespace mxcheck

#include "goldens/layer/recipe_json.h"

#include <algorithm>
#include <optional>

#include "goldens/io/byte_source.h"
#include "goldens/json/json.h"
#include "numerics/names.h"
#include "numerics/scale/recipe.h"
#include "numerics/text.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

Json rule_json(const OperandRule& rule) {
  if (!rule.quantized()) return {{"format", "bf16"}};
  Json json{{"format", spec(rule.format).name},
            {"block", block_text(rule)},
            {"scales", rule.scales},
            {"source", name_in(kOperandSources, rule.source)}};
  // Only where they are so: files of recipes without them stay as they were.
  if (rule.rotates != 0) json["rotates"] = rule.random_signs ? Json(rule.rotates) : Json(true);
  if (rule.stochastic) json["stochastic"] = true;
  return json;
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
  if (rule.rotates != 0) to[name + ".rotates"] = rule.random_signs ? std::to_string(rule.rotates) : "true";
  if (rule.stochastic) to[name + ".stochastic"] = "true";
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

// layer_recipe_from.

namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;
constexpr int kMaxDepth = 8;
constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;
constexpr std::int64_t kMostGroup = 128;  // of a rotation

template <class Action>
auto at_key(const JsonObject& o, const char* key, Action action) {
  try {
    return action();
  } catch (const Error& e) {
    o.refuse(key, e.what());
  }
}

// A key whose value the layer fixes: it is there for the reader, and not to be chosen.
void fixed(JsonObject& o, const char* key, std::string_view right) {
  if (!o.has(key)) return;
  const std::string found = o.text(key);
  if (found != right)
    o.refuse(key, "is '" + found + "'; the layer has '" + std::string(right) + "' here, which no recipe changes");
}

BlockShape parse_block(const JsonObject& o, const std::string& text) {
  if (text == "tensor") return {0, 0};
  const std::size_t x = text.find('x');
  const auto extent = [&](std::string_view digits) { return parse_number<std::int64_t>(digits); };
  const auto rows = x == std::string::npos ? std::nullopt : extent(std::string_view(text).substr(0, x));
  const auto cols = x == std::string::npos ? std::nullopt : extent(std::string_view(text).substr(x + 1));
  const auto right = [](const std::optional<std::int64_t>& n) { return n && *n >= 1 && *n <= kMostExtent; };
  if (!right(rows) || !right(cols))
    o.refuse("block", "is '" + text + "'; \"ROWSxCOLS\" of 1 or more each is needed, as \"1x32\", or \"tensor\"");
  return {*rows, *cols};
}

Format parse_format(const JsonObject& o, const std::string& name) {
  const std::optional<Format> format = find_format(name);
  const bool quantized =
      format && std::find(kQuantizedFormats.begin(), kQuantizedFormats.end(), *format) != kQuantizedFormats.end();
  if (!format || (*format != Format::bf16 && !quantized)) {
    o.refuse("format", "is '" + name + "'; bf16 (not quantized) or one of " +
                           join(kQuantizedFormats, ", ", [](Format f) { return spec(f).name; }) + " is needed");
  }
  return *format;
}

OperandSource parse_source(const JsonObject& o, const std::string& name) {
  const auto source = value_in(kOperandSources, name);
  if (!source) o.refuse("source", "is '" + name + "'" + known_names(name, names_in(kOperandSources)));
  return *source;
}

// true: as TransformerEngine rotates; a number: groups of so many, under random signs.
void parse_rotation(JsonObject& o, OperandRule& rule) {
  rule.random_signs = o.required("rotates").get_if<bool>() == nullptr;
  rule.rotates = rule.random_signs   ? static_cast<int>(o.integer("rotates", 0, kMostGroup))
                 : o.flag("rotates") ? kRotationSize
                                     : 0;
  if (rule.rotates == 0) rule.random_signs = false;
}

// `base`: what is not said; none where all has to be said.
OperandRule parse_rule(const Json& json, const std::string& place, const OperandRule* base, std::string_view tensor) {
  JsonObject o(json, place);
  if (!tensor.empty()) fixed(o, "tensor", tensor);
  OperandRule rule = base != nullptr ? *base : OperandRule();
  const bool was_quantized = rule.quantized();
  if (base == nullptr || o.has("format")) rule.format = parse_format(o, o.text("format"));
  if (!rule.quantized()) {
    for (const char* key : {"block", "scales", "source", "rotates", "stochastic"}) {
      if (o.has(key)) o.refuse(key, "is for a quantized operand, and the format is bf16");
    }
    o.finish();
    return {};
  }
  if (!was_quantized || o.has("block")) rule.block = parse_block(o, o.text("block"));
  if (!was_quantized || o.has("scales")) {
    rule.scales = o.text("scales");
    at_key(o, "scales", [&] { check_scales(rule.scales); });
  }
  if (o.has("source")) rule.source = parse_source(o, o.text("source"));
  if (o.has("rotates")) parse_rotation(o, rule);
  if (o.has("stochastic")) rule.stochastic = o.flag("stochastic");
  o.finish();
  return rule;
}

void parse_gemm(const Json& json, const std::string& place, bool has_base, std::set<std::string_view>& seen,
                LayerRecipe& recipe) {
  JsonObject o(json, place);
  const std::string name = o.text("name");
  const auto* g = std::find_if(kLayerGemms.begin(), kLayerGemms.end(), [&](const auto& s) { return s.name == name; });
  if (g == kLayerGemms.end())
    o.refuse("name", "is '" + name + "'; the layer's GEMMs are " + join(names_in(kLayerGemms)));
  if (!seen.insert(g->name).second) o.refuse("name", "is '" + name + "' for the second time");
  fixed(o, "formula", g->formula);
  fixed(o, "k", g->k);
  fixed(o, "output", spec(g->output).name);
  GemmRule& rule = recipe.gemms[static_cast<std::size_t>(g->value)];
  const auto operand = [&](const char* key, std::string_view tensor, OperandRule& to) {
    if (has_base && !o.has(key)) return;
    to = parse_rule(o.required(key), place + "." + key, has_base ? &to : nullptr, tensor);
  };
  operand("a", g->a, rule.a);
  operand("b", g->b, rule.b);
  if (!has_base || o.has("contract")) {
    rule.contract = o.text("contract");
    at_key(o, "contract", [&] { return parse_matmul_contract(rule.contract); });
  }
  o.finish();
}

void parse_gemms(JsonObject& o, bool has_base, LayerRecipe& recipe) {
  if (has_base && !o.has("gemms")) return;
  std::set<std::string_view> seen;
  const Json::Array& gemms = o.list("gemms", kLayerGemmCount);
  for (std::size_t i = 0; i < gemms.size(); ++i)
    parse_gemm(gemms[i], o.place() + ".gemms[" + std::to_string(i) + "]", has_base, seen, recipe);
  for (const LayerGemmSpec& g : kLayerGemms) {
    if (!has_base && !seen.contains(g.name))
      o.refuse("gemms", "lacks the GEMM '" + std::string(g.name) + "'; all six are needed, or a \"base\"");
  }
}

}  // namespace

LayerRecipe layer_recipe_from(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, kMaxDepth, ErrorKind::usage);
  JsonObject o(json, where + ": $");
  LayerRecipe recipe;
  const bool has_base = o.has("base");
  if (has_base) {
    const std::string base = o.text("base");
    recipe = at_key(o, "base", [&] { return layer_recipe_named(base); });
    recipe.meaning = base + " with changes";
  }
  recipe.name = o.text("name");
  if (recipe.name.empty()) o.refuse("name", "is empty");
  recipe.meaning = o.text_or("meaning", recipe.meaning);
  parse_gemms(o, has_base, recipe);
  if (o.has("keeps_quantized_x")) recipe.keeps_quantized_x = o.flag("keeps_quantized_x");
  if (o.has("kept_h"))
    recipe.kept_h = parse_rule(o.required("kept_h"), o.place() + ".kept_h", has_base ? &recipe.kept_h : nullptr, {});
  o.finish();
  try {
    check(recipe);
  } catch (const Error& e) {
    throw Error(e.kind(), where + ": " + e.what());
  }
  return recipe;
}

LayerRecipe read_layer_recipe(const std::string& path) {
  const FileSource file(path);
  if (file.size() > kMostBytes)
    throw Error(ErrorKind::usage, path + ": has " + std::to_string(file.size()) + " bytes; a recipe has at most 1 MiB");
  return layer_recipe_from(file.text(), path);
}

LayerRecipe layer_recipe_at(const std::string& name_or_file) {
  return name_or_file.ends_with(".json") ? read_layer_recipe(name_or_file) : layer_recipe_named(name_or_file);
}

}  // namespace mxcheck

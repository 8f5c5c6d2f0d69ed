// The keys of the kinds swiglu and layer.

#include <algorithm>
#include <array>
#include <set>

#include "goldens/make/suite_parse.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostExperts = 1024;
constexpr std::size_t kMostCodes = 64;  // two datasets each, of 256

InputSpec input_at(JsonObject& o, const char* key) { return parse_input(o.required(key), o.place() + "." + key); }

std::vector<InputSpec> inputs_at(JsonObject& o, const char* key) {
  std::vector<InputSpec> inputs;
  for (const Json& value : o.list(key, kMostExperts))
    inputs.push_back(parse_input(value, o.place() + "." + key + "[" + std::to_string(inputs.size()) + "]"));
  return inputs;
}

GateUp parse_gate_up(JsonObject& o) {
  const std::string order = o.text_or("gate_up", "halves");
  if (order != "halves" && order != "interleaved") o.refuse("gate_up", "must be halves or interleaved");
  return order == "halves" ? GateUp::halves : GateUp::interleaved;
}

void parse_format_and_recipe(JsonObject& o, SwigluCodes& codes) {
  codes.format = format_named(o, "format", o.text("format"), kQuantizedFormats);
  codes.recipe = at_place(o, "recipe", [&] { return recipe_named(o.text("recipe")).name; });
}

SwigluCodes parse_codes(const Json& value, const std::string& place) {
  constexpr std::array<std::string_view, 3> kOf{"A", "scaled_A", "dH"};
  JsonObject o(value, place);
  SwigluCodes codes;
  codes.of = o.text("of");
  if (std::find(kOf.begin(), kOf.end(), codes.of) == kOf.end()) o.refuse("of", "must be A, scaled_A or dH");
  parse_format_and_recipe(o, codes);
  const BlockShape block = at_place(o, "block", [&] { return block_shape_named(o.text("block")); });
  if (block.rows != 1 || block.cols < 1) o.refuse("block", "must be of one row, as 1x32, also of the transpose");
  codes.block = block.cols;
  const std::string along = o.text_or("along", "columns");
  if (along != "columns" && along != "tokens") o.refuse("along", "must be columns or tokens");
  codes.along_tokens = along == "tokens";
  o.finish();
  return codes;
}

void check_closed(const JsonObject& o, const LayerGoldenSpec& layer) {
  std::set<std::int64_t> seen;
  for (const std::int64_t expert : layer.closed) {
    if (!seen.insert(expert).second) o.refuse("closed", "names expert " + std::to_string(expert) + " twice");
  }
  if (seen.size() == layer.gate.size()) o.refuse("closed", "leaves no expert");
}

}  // namespace

void parse_swiglu(JsonObject& o, GoldenSpec& golden) {
  SwigluSpec& spec = golden.swiglu;
  spec.has_h = o.has("h");
  if (spec.has_h == (o.has("gate") || o.has("up"))) o.refuse("h", "or gate and up are needed, and not both");
  if (spec.has_h) {
    spec.h = input_at(o, "h");
  } else {
    spec.gate = input_at(o, "gate"), spec.up = input_at(o, "up");
  }
  spec.p = input_at(o, "p"), spec.weights = input_at(o, "weights");
  golden.gate_up = parse_gate_up(o);
  golden.offsets = parse_offsets(o);
  if (o.has("h_codes")) {
    JsonObject h(o.required("h_codes"), o.place() + ".h_codes");
    parse_format_and_recipe(h, spec.h_codes.emplace());
    h.finish();
  }
  if (!o.has("codes")) return;
  std::set<std::string> names;
  for (const Json& value : o.list("codes", kMostCodes)) {
    const std::string place = o.place() + ".codes[" + std::to_string(spec.codes.size()) + "]";
    spec.codes.push_back(parse_codes(value, place));
    if (!names.insert(name_of(spec.codes.back())).second)
      throw Error(ErrorKind::usage, place + ": " + name_of(spec.codes.back()) + " is there twice");
  }
}

void parse_layer(JsonObject& o, GoldenSpec& golden) {
  LayerGoldenSpec& layer = golden.layer;
  layer.recipe = at_place(o, "recipe", [&] { return &layer_recipe_named(o.text("recipe")); });
  golden.gate_up = parse_gate_up(o);
  layer.x = input_at(o, "x"), layer.d_o = input_at(o, "d_o"), golden.input = input_at(o, "logits");
  layer.gate = inputs_at(o, "gate"), layer.up = inputs_at(o, "up"), layer.down = inputs_at(o, "down");
  if (layer.gate.empty()) o.refuse("gate", "has one expert's input at least");
  for (const auto& [key, inputs] : {std::pair("up", &layer.up), {"down", &layer.down}}) {
    if (inputs->size() != layer.gate.size())
      o.refuse(key, "has inputs of " + std::to_string(inputs->size()) + " experts; gate has " +
                        std::to_string(layer.gate.size()));
  }
  if (o.has("closed")) {
    layer.closed = parse_integers(o, "closed", 0, static_cast<std::int64_t>(layer.gate.size()) - 1);
    check_closed(o, layer);
  }
  parse_layer_router(o, golden.route);
}

}  // namespace mxcheck

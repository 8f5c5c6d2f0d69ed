#include "goldens/make/suite.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "goldens/io/byte_source.h"
#include "goldens/make/builtin_suites.h"
#include "goldens/make/suite_parse.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "numerics/text.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMostText = 1 << 20;
constexpr std::size_t kMostGoldens = 4096;
constexpr std::int64_t kMostScales = 1 << 20;
constexpr int kMaxDepth = 6;
constexpr std::array<std::string_view, 13> kKinds{
    "formats",     "casts",          "scales",         "layout",       "dequantize", "quantize", "route",
    "route_round", "route_metadata", "route_backward", "route_losses", "swiglu",     "layer"};

constexpr auto kTabled = std::span(kAllFormats).first<kAllFormats.size() - 1>();  // FP32 has 2^32 codes

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), fits);
}

std::uint8_t parse_pad_byte(JsonObject& o) {
  return o.has("pad_byte") ? static_cast<std::uint8_t>(o.integer("pad_byte", 0, 255)) : std::uint8_t{0};
}

void parse_quantize(JsonObject& o, GoldenSpec& golden) {
  golden.input = parse_input(o.required("input"), o.place() + ".input");
  golden.format = format_named(o, "format", o.text("format"), kQuantizedFormats);
  golden.block = at_place(o, "block", [&] { return block_shape_named(o.text("block")); });
  golden.recipe = at_place(o, "recipe", [&] { return recipe_named(o.text("recipe")).name; });
  golden.values = o.flag("values");
  golden.offsets = parse_offsets(o);
  golden.pad_byte = parse_pad_byte(o);
  if (!o.has("layouts")) return;
  for (const Json& layout : o.list("layouts", 2)) {
    const std::string name = text_in(layout);
    if (name != "tcgen05" && name != "deepgemm") o.refuse("layouts", "are \"tcgen05\" and \"deepgemm\"");
    (name == "tcgen05" ? golden.tcgen05 : golden.deepgemm) = true;
  }
  const bool fp32 = !recipe_named(golden.recipe).has_e8m0_scales();
  if (fp32 || !spec(golden.format).is_element || (golden.block.rows != 1 && golden.block.cols != 1)) {
    o.refuse("layouts", "are for E8M0 scales of blocks with one row or one column, and not for e5m6");
  }
}

void parse_more(JsonObject& o, GoldenSpec& golden) {
  switch (golden.kind) {
    case GoldenKind::quantize: return parse_quantize(o, golden);
    case GoldenKind::swiglu: return parse_swiglu(o, golden);
    case GoldenKind::layer: return parse_layer(o, golden);
    default: return parse_route(o, golden);
  }
}

GoldenSpec parse_golden(const Json& value, const std::string& place) {
  JsonObject o(value, place);
  GoldenSpec golden;
  golden.name = o.text("name");
  if (!is_name(golden.name)) o.refuse("name", "must be 1 to 64 letters, digits, '_' and '-'");
  golden.description = o.text_or("description", "");
  const std::string kind = o.text("kind");
  const auto* const at = std::find(kKinds.begin(), kKinds.end(), kind);
  if (at == kKinds.end()) {
    o.refuse("kind", "must be " + join(kKinds));
  }
  golden.kind = static_cast<GoldenKind>(at - kKinds.begin());
  switch (golden.kind) {
    case GoldenKind::formats:
      if (o.has("formats")) {
        for (const Json& name : o.list("formats", kAllFormats.size())) {
          golden.formats.push_back(format_named(o, "formats", text_in(name), kTabled));
        }
      } else {
        golden.formats.assign(kTabled.begin(), kTabled.end());
      }
      break;
    case GoldenKind::casts: golden.format = format_named(o, "format", o.text("format"), kTabled); break;
    case GoldenKind::scales:
    case GoldenKind::dequantize: golden.format = format_named(o, "format", o.text("format"), kElementFormats); break;
    case GoldenKind::layout:
      golden.pad_byte = parse_pad_byte(o);
      golden.rows = o.integer("rows", 0, kMostScales);
      golden.cols = o.integer("cols", 0, kMostScales);
      if (golden.rows * golden.cols > kMostScales) o.refuse("rows", "times cols must be at most 1048576");
      break;
    default: parse_more(o, golden);
  }
  o.finish();
  return golden;
}

}  // namespace

std::vector<std::int64_t> parse_offsets(JsonObject& o) {
  std::vector<std::int64_t> offsets;
  if (!o.has("offsets")) return offsets;
  for (const Json& offset : o.list("offsets", kMostNumbers)) {
    const auto row = integer_in(offset, 0, kMostExtent);
    if (!row) o.refuse("offsets", "are integers from 0");
    offsets.push_back(*row);
  }
  if (offsets.empty()) o.refuse("offsets", "are at least two, or left out");
  at_place(o, "offsets", [&] { check_offsets(offsets, offsets.back()); });
  return offsets;
}

std::string_view to_text(GoldenKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

GoldenSuite parse_suite(std::string_view text, const std::string& where) {
  if (text.size() > kMostText) throw Error(ErrorKind::usage, where + ": over 1 MiB of text; a suite is less");
  const Json value = parse_json(text, where, kMaxDepth, ErrorKind::usage);
  JsonObject o(value, where);
  GoldenSuite suite;
  suite.name = o.text("suite");
  if (!is_name(suite.name)) o.refuse("suite", "must be 1 to 64 letters, digits, '_' and '-'");
  suite.description = o.text_or("description", "");
  const Json::Array& goldens = o.list("goldens", kMostGoldens);
  std::set<std::string> names;
  for (std::size_t i = 0; i < goldens.size(); ++i) {
    const std::string place = where + ": goldens[" + std::to_string(i) + "]";
    suite.goldens.push_back(parse_golden(goldens[i], place));
    if (!names.insert(suite.goldens.back().name).second) {
      throw Error(ErrorKind::usage, place + ".name: '" + suite.goldens.back().name + "' is there twice");
    }
  }
  if (suite.goldens.empty()) o.refuse("goldens", "are at least one");
  o.finish();
  return suite;
}

GoldenSuite read_suite(const std::string& path) {
  const FileSource file(path);
  if (file.size() > kMostText) throw Error(ErrorKind::usage, path + ": over 1 MiB of text; a suite is less");
  return parse_suite(file.text(), path);
}

// Where a golden's numbers come from: the "input" of a spec.

namespace {

constexpr std::int64_t kMostElements = 1 << 20;  // of synthetic inputs

std::optional<Range> parse_range(JsonObject& o, const char* key) {
  if (!o.has(key)) return std::nullopt;
  const Json::Array& list = o.list(key, 2);
  if (list.size() == 2) {
    const auto first = integer_in(list[0], 0, kMostExtent);
    const auto end = integer_in(list[1], 0, kMostExtent);
    if (first && end && *first <= *end) return Range{*first, *end};
  }
  o.refuse(key, "must be [FIRST, END], END not included and not before FIRST");
}

void parse_plants(JsonObject& o, Format dtype, std::vector<Planted>& plants) {
  if (!o.has("plant")) return;
  for (const Json& plant : o.list("plant", kMostNumbers)) {
    const auto* parts = plant.get_if<Json::Array>();
    if (parts == nullptr || parts->size() != 3) o.refuse("plant", "each is [row, column, \"BITS\"]");
    const auto row = integer_in((*parts)[0], 0, kMostExtent);
    const auto col = integer_in((*parts)[1], 0, kMostExtent);
    if (!row || !col) o.refuse("plant", "rows and columns are integers from 0");
    plants.push_back({*row, *col, parse_bits(o, "plant", (*parts)[2], dtype)});
  }
}

constexpr std::array kWide{Format::bf16, Format::fp16, Format::fp32};
constexpr std::array kLogits{Format::bf16, Format::fp32};

void parse_synthetic(JsonObject& o, InputSpec& input) {
  if (o.has("ties")) {
    input.synthetic = SyntheticLogits::ties;
    input.dtype = format_named(o, "ties", o.text("ties"), kLogits);
    input.rows = o.integer("rows", 0, kMostElements);
    input.cols = o.integer("cols", 1, kMostElements);
  } else {
    input.synthetic = SyntheticLogits::loads;
    input.dtype = format_named(o, "dtype", o.text("dtype"), kLogits);
    input.loads = parse_integers(o, "loads", 0, kMostElements);
    if (input.loads.empty()) o.refuse("loads", "are at least one");
    for (const std::int64_t load : input.loads) input.rows += load;
    input.cols = static_cast<std::int64_t>(input.loads.size());
  }
  if (input.rows > kMostElements / input.cols) {
    o.refuse(input.synthetic == SyntheticLogits::ties ? "rows" : "loads",
             "call for over " + std::to_string(kMostElements) + " elements");
  }
}

constexpr std::array kHalf{Format::bf16, Format::fp16};

void parse_size(JsonObject& o, InputSpec& input) {
  input.rows = o.integer("rows", 1, kMostElements);
  input.cols = o.integer("cols", 1, kMostElements);
  if (input.rows > kMostElements / input.cols)
    o.refuse("rows", "call for over " + std::to_string(kMostElements) + " elements");
}

void parse_made_up(JsonObject& o, InputSpec& input) {
  constexpr std::int64_t kMostExponent = 100;
  input.dtype = format_named(o, "dtype", o.text("dtype"), kWide);
  parse_size(o, input);
  if (o.has("normal")) {
    input.normal = static_cast<std::uint32_t>(o.integer("normal", 0, std::numeric_limits<std::uint32_t>::max()));
    if (o.has("exponent")) input.exponent = static_cast<int>(o.integer("exponent", -kMostExponent, kMostExponent));
    return;
  }
  input.cycle = true;
  for (const Json& bits : o.list("cycle", kMostNumbers))
    input.bits.push_back(parse_bits(o, "cycle", bits, input.dtype));
  if (input.bits.empty()) o.refuse("cycle", "has one number at least");
}

void parse_bits_in_full(JsonObject& o, InputSpec& input) {
  input.dtype = format_named(o, "dtype", o.text("dtype"), kWide);
  input.rows = o.integer("rows", 0, kMostNumbers);
  input.cols = o.integer("cols", 0, kMostNumbers);
  for (const Json& bits : o.list("bits", kMostNumbers)) input.bits.push_back(parse_bits(o, "bits", bits, input.dtype));
  if (input.rows * input.cols != static_cast<std::int64_t>(input.bits.size())) {
    o.refuse("bits", "holds " + std::to_string(input.bits.size()) + " elements; rows times cols are " +
                         std::to_string(input.rows * input.cols));
  }
}

}  // namespace

Format format_named(const JsonObject& o, const std::string& key, const std::string& name, std::span<const Format> of) {
  const std::optional<Format> format = find_format(name);
  if (format && std::find(of.begin(), of.end(), *format) != of.end()) return *format;
  o.refuse(key, "'" + name + "' is none of " + join(of, ", ", [](Format f) { return spec(f).name; }));
}

std::uint32_t parse_bits(const JsonObject& o, const std::string& key, const Json& value, Format dtype) {
  const auto* text = value.get_if<std::string>();
  const auto bits = text != nullptr && text->size() <= 8 ? parse_number<std::uint32_t>(*text, 16) : std::nullopt;
  if (bits && (spec(dtype).bits == 32 || *bits >> spec(dtype).bits == 0)) return *bits;
  o.refuse(key, "bits are strings of at most " + std::to_string(spec(dtype).bits / 4) + " hexadecimal digits");
}

std::vector<std::int64_t> parse_integers(JsonObject& o, const char* key, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> numbers;
  for (const Json& value : o.list(key, kMostNumbers)) {
    const auto number = integer_in(value, low, high);
    if (!number) o.refuse(key, "are integers from " + std::to_string(low) + " to " + std::to_string(high));
    numbers.push_back(*number);
  }
  return numbers;
}

InputSpec parse_input(const Json& value, const std::string& place) {
  JsonObject o(value, place);
  InputSpec input;
  int sources = 0;
  for (const char* source : {"real", "file", "bits", "patterns", "ties", "loads", "cycle", "normal"})
    sources += o.has(source) ? 1 : 0;
  if (sources != 1) {
    throw Error(ErrorKind::usage,
                place + ": takes exactly one of real, file, bits, patterns, ties, loads, cycle, normal");
  }
  if (o.has("real")) {
    input.real = o.text("real");
  } else if (o.has("file")) {
    input.file = o.text("file");
    if (o.has("index")) input.index = o.integer("index", 0, kMostExtent);
    if (o.has("dtype")) input.file_dtype = spec(format_named(o, "dtype", o.text("dtype"), kHalf)).name;
  } else if (o.has("patterns")) {
    input.dtype = format_named(o, "patterns", o.text("patterns"), kHalf);
    input.patterns = spec(input.dtype).name;
    input.rows = input.cols = 256;
  } else if (o.has("ties") || o.has("loads")) {
    parse_synthetic(o, input);
  } else if (o.has("cycle") || o.has("normal")) {
    parse_made_up(o, input);
  } else {
    parse_bits_in_full(o, input);
  }
  if (input.file.empty()) {
    input.row_range = parse_range(o, "rows_of");
    input.col_range = parse_range(o, "cols_of");
    parse_plants(o, input.dtype, input.plants);
  }
  o.finish();
  return input;
}

// The keys of the kinds swiglu and layer.

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

// The keys of the kinds that are about routers.

namespace {

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

float parse_float(const JsonObject& o, const char* key, const Json& value) {
  return std::bit_cast<float>(parse_bits(o, key, value, Format::fp32));
}

const RouterVariant* variant_named(const JsonObject& o, const char* key, const std::string& name) {
  return at_place(o, key, [&] { return &router_variant_named(name); });
}

void parse_variants(JsonObject& o, RouteSpec& route) {
  if (!o.has("variants")) {
    for (const RouterVariant& variant : all_router_variants()) route.variants.push_back(&variant);
    return;
  }
  for (const Json& name : o.list("variants", all_router_variants().size())) {
    const RouterVariant* variant = variant_named(o, "variants", text_in(name));
    if (std::find(route.variants.begin(), route.variants.end(), variant) != route.variants.end()) {
      o.refuse("variants", "'" + std::string(variant->name) + "' is there twice");
    }
    route.variants.push_back(variant);
  }
  if (route.variants.empty()) o.refuse("variants", "are at least one, or left out");
}

void parse_router(JsonObject& o, RouteSpec& route) {
  Router& router = route.router;
  router.top_k = o.integer("top_k", 1, kMostRows);
  if (o.has("groups") || o.has("groups_kept")) {
    router.groups = o.integer("groups", 1, kMostRows);
    router.groups_kept = o.integer("groups_kept", 1, kMostRows);
  }
  const std::string nan = o.text_or("nan", "refuse");
  if (nan != "refuse" && nan != "last") o.refuse("nan", "must be refuse or last");
  router.nan = nan == "last" ? NanLogits::last : NanLogits::refuse;
  if (o.has("scale")) router.scale = parse_float(o, "scale", o.required("scale"));
  if (!o.has("bias")) return;
  for (const Json& bits : o.list("bias", kMostNumbers)) route.bias.push_back(parse_float(o, "bias", bits));
  if (route.bias.empty()) o.refuse("bias", "has one number an expert, or is left out");
}

void parse_rounding(JsonObject& o, RouteSpec& route) {
  if (o.has("rules")) {
    for (const Json& name : o.list("rules", all_token_rounding_rules().size())) {
      const std::string text = text_in(name);
      const TokenRoundingRule rule = at_place(o, "rules", [&] { return token_rounding_rule_named(text); });
      if (std::find(route.rules.begin(), route.rules.end(), rule) != route.rules.end()) {
        o.refuse("rules", "'" + text + "' is there twice");
      }
      route.rules.push_back(rule);
    }
    if (route.rules.empty()) o.refuse("rules", "are at least one, or left out");
  } else {
    for (const TokenRoundingRuleSpec& known : all_token_rounding_rules()) route.rules.push_back(known.rule);
  }
  TokenRounding& token_rounding = route.token_rounding;
  token_rounding.tile = o.integer("tile", 1, kMostRows);
  if (std::any_of(route.rules.begin(), route.rules.end(), takes_capacity)) {
    token_rounding.capacity = o.integer("capacity", 0, kMostRows);
  }
  const std::string weights = o.text_or("weights", "renorm");
  if (weights != "renorm" && weights != "raw") o.refuse("weights", "must be renorm or raw");
  token_rounding.renormalize = weights == "renorm";
  if (std::find(route.rules.begin(), route.rules.end(), TokenRoundingRule::sr_f) == route.rules.end()) return;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  token_rounding.seed = static_cast<std::uint64_t>(o.integer("seed", 0, kMost));
  token_rounding.layer = static_cast<std::uint32_t>(o.integer("layer", 0, std::numeric_limits<std::uint32_t>::max()));
  token_rounding.step = static_cast<std::uint64_t>(o.integer("step", 0, kMost));
}

void parse_metadata(JsonObject& o, RouteSpec& route) {
  route.experts = o.integer("experts", 1, kMostRows);
  route.token_rounding.tile = o.integer("tile", 1, kMostRows);
  for (const std::int64_t expert : parse_integers(o, "slots", -1, route.experts - 1)) {
    route.slots.push_back(static_cast<std::int32_t>(expert));
  }
  if (o.has("width") == o.has("token_offsets")) o.refuse("width", "or token_offsets is needed, and not both");
  if (o.has("width")) {
    route.width = o.integer("width", 1, kMostRows);
  } else {
    route.token_offsets = parse_integers(o, "token_offsets", 0, kMostRows);
    if (route.token_offsets.empty()) o.refuse("token_offsets", "are at least one: 0");
  }
}

}  // namespace

void parse_route(JsonObject& o, GoldenSpec& golden) {
  RouteSpec& route = golden.route;
  if (golden.kind == GoldenKind::route_metadata) return parse_metadata(o, route);
  golden.input = parse_input(o.required("input"), o.place() + ".input");
  parse_router(o, route);
  if (golden.kind == GoldenKind::route || golden.kind == GoldenKind::route_backward) return parse_variants(o, route);
  route.variants.push_back(variant_named(o, "variant", o.text("variant")));
  if (golden.kind == GoldenKind::route_round) return parse_rounding(o, route);
  route.coefficient = parse_float(o, "coefficient", o.required("coefficient"));
  if (!std::isfinite(route.coefficient)) o.refuse("coefficient", "must be finite");
}

void parse_layer_router(JsonObject& o, RouteSpec& route) {
  parse_router(o, route);
  route.variants.push_back(variant_named(o, "variant", o.text("variant")));
  if (!o.has("rules")) return;
  parse_rounding(o, route);
  if (route.rules.size() != 1) o.refuse("rules", "of a layer are one, or left out");
}

const std::vector<GoldenSuite>& builtin_suites() {
  static const std::vector<GoldenSuite> suites = [] {
    std::vector<GoldenSuite> all;
    for (const BuiltinText& b : builtin_texts()) all.push_back(parse_suite(b.text, b.name));
    return all;
  }();
  return suites;
}

const GoldenSuite& builtin_suite(std::string_view name) {
  for (const GoldenSuite& suite : builtin_suites()) {
    if (suite.name == name) return suite;
  }
  const std::string names = join(builtin_suites(), ", ", [](const GoldenSuite& suite) { return suite.name; });
  throw Error(ErrorKind::usage,
              "no suite '" + std::string(name) + "'; there are " + names + ", or give the path of a SPEC.json");
}

}  // namespace mxcheck

#include "goldens/make/suite.h"

#include <algorithm>
#include <array>
#include <utility>

#include "goldens/io/byte_source.h"
#include "goldens/make/suite_parse.h"
#include "numerics/error.h"
#include "numerics/text.h"

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
  if (fp32 || golden.format == Format::e5m6 || (golden.block.rows != 1 && golden.block.cols != 1)) {
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

}  // namespace mxcheck

#include "goldens/suite.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "goldens/byte_source.h"
#include "goldens/strict_json.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostText = 1 << 20;
constexpr std::size_t kMostGoldens = 4096;
constexpr std::size_t kMostNumbers = 65'536;
constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;
constexpr std::int64_t kMostScales = 1 << 20;
constexpr int kMaxDepth = 6;
constexpr std::array<std::string_view, 6> kKinds{"formats", "casts", "scales", "layout", "dequantize", "quantize"};

// What a block's elements can be; reference/quantize.h takes the same.
constexpr std::array kElements{Format::e4m3, Format::e5m2,   Format::e2m1, Format::e2m3,
                               Format::e3m2, Format::mxint8, Format::e5m6};

constexpr auto kTabled = std::span(kAllFormats).first<kAllFormats.size() - 1>();  // FP32 has 2^32 codes

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), fits);
}

// What another library refuses is said with the place in the spec.
template <class Action>
auto at_place(const JsonObject& o, const char* key, Action action) {
  try {
    return action();
  } catch (const Error& e) {
    o.refuse(key, e.what());
  }
}

Format format_named(const JsonObject& o, const std::string& key, const std::string& name, std::span<const Format> of) {
  const std::optional<Format> format = format_by_name(name);
  if (format && std::find(of.begin(), of.end(), *format) != of.end()) return *format;
  std::string names;
  for (const Format f : of) names += (names.empty() ? "" : ", ") + std::string(spec(f).name);
  o.refuse(key, "'" + name + "' is none of " + names);
}

std::uint32_t parse_bits(const JsonObject& o, const std::string& key, const json& value, Format dtype) {
  std::uint32_t bits = 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    const bool fits = text.size() <= 8 && (spec(dtype).bits == 32 || bits >> spec(dtype).bits == 0);
    if (error == std::errc() && end == text.data() + text.size() && fits) return bits;
  }
  o.refuse(key, "bits are strings of at most " + std::to_string(spec(dtype).bits / 4) + " hexadecimal digits");
}

std::optional<Range> parse_range(JsonObject& o, const char* key) {
  if (!o.has(key)) return std::nullopt;
  const json& list = o.list(key, 2);
  if (list.size() == 2) {
    const auto first = integer_in(list[0], 0, kMostExtent);
    const auto end = integer_in(list[1], 0, kMostExtent);
    if (first && end && *first <= *end) return Range{*first, *end};
  }
  o.refuse(key, "must be [FIRST, END], END not included and not before FIRST");
}

void parse_plants(JsonObject& o, Format dtype, std::vector<Planted>& plants) {
  if (!o.has("plant")) return;
  for (const json& plant : o.list("plant", kMostNumbers)) {
    if (!plant.is_array() || plant.size() != 3) o.refuse("plant", "each is [row, column, \"BITS\"]");
    const auto row = integer_in(plant[0], 0, kMostExtent);
    const auto col = integer_in(plant[1], 0, kMostExtent);
    if (!row || !col) o.refuse("plant", "rows and columns are integers from 0");
    plants.push_back({*row, *col, parse_bits(o, "plant", plant[2], dtype)});
  }
}

InputSpec parse_input(const json& value, const std::string& place) {
  JsonObject o(value, place);
  InputSpec input;
  int sources = 0;
  for (const char* source : {"real", "file", "bits", "patterns"}) sources += o.has(source) ? 1 : 0;
  if (sources != 1) throw Error(ErrorKind::usage, place + ": takes exactly one of real, file, bits, patterns");
  constexpr std::array kWide{Format::bf16, Format::fp16, Format::fp32};
  constexpr std::array kHalf{Format::bf16, Format::fp16};
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
  } else {
    input.dtype = format_named(o, "dtype", o.text("dtype"), kWide);
    input.rows = o.integer("rows", 0, kMostNumbers);
    input.cols = o.integer("cols", 0, kMostNumbers);
    for (const json& bits : o.list("bits", kMostNumbers))
      input.bits.push_back(parse_bits(o, "bits", bits, input.dtype));
    if (input.rows * input.cols != static_cast<std::int64_t>(input.bits.size())) {
      o.refuse("bits", "holds " + std::to_string(input.bits.size()) + " elements; rows times cols are " +
                           std::to_string(input.rows * input.cols));
    }
  }
  if (input.file.empty()) {
    input.row_range = parse_range(o, "rows_of");
    input.col_range = parse_range(o, "cols_of");
    parse_plants(o, input.dtype, input.plants);
  }
  o.finish();
  return input;
}

std::uint8_t parse_pad_byte(JsonObject& o) {
  return o.has("pad_byte") ? static_cast<std::uint8_t>(o.integer("pad_byte", 0, 255)) : std::uint8_t{0};
}

void parse_quantize(JsonObject& o, GoldenSpec& golden) {
  golden.input = parse_input(o.required("input"), o.place() + ".input");
  golden.format = format_named(o, "format", o.text("format"), kElements);
  golden.block = at_place(o, "block", [&] { return block_shape_by_name(o.text("block")); });
  golden.recipe = at_place(o, "recipe", [&] { return recipe_by_name(o.text("recipe")).name; });
  golden.values = o.flag("values");
  if (o.has("offsets")) {
    for (const json& offset : o.list("offsets", kMostNumbers)) {
      const auto row = integer_in(offset, 0, kMostExtent);
      if (!row) o.refuse("offsets", "are integers from 0");
      golden.offsets.push_back(*row);
    }
    if (golden.offsets.empty()) o.refuse("offsets", "are at least two, or left out");
    at_place(o, "offsets", [&] { check_offsets(golden.offsets, golden.offsets.back()); });
  }
  golden.pad_byte = parse_pad_byte(o);
  if (!o.has("layouts")) return;
  for (const json& layout : o.list("layouts", 2)) {
    const std::string name = layout.is_string() ? layout.get<std::string>() : "";
    if (name != "tcgen05" && name != "deepgemm") o.refuse("layouts", "are \"tcgen05\" and \"deepgemm\"");
    (name == "tcgen05" ? golden.tcgen05 : golden.deepgemm) = true;
  }
  const bool fp32 = recipe_by_name(golden.recipe).rule == ScaleRule::fp32;
  if (fp32 || golden.format == Format::e5m6 || (golden.block.rows != 1 && golden.block.cols != 1)) {
    o.refuse("layouts", "are for E8M0 scales of blocks with one row or one column, and not for e5m6");
  }
}

GoldenSpec parse_golden(const json& value, const std::string& place) {
  JsonObject o(value, place);
  GoldenSpec golden;
  golden.name = o.text("name");
  if (!is_name(golden.name)) o.refuse("name", "must be 1 to 64 letters, digits, '_' and '-'");
  golden.description = o.text_or("description", "");
  const std::string kind = o.text("kind");
  const auto* const at = std::find(kKinds.begin(), kKinds.end(), kind);
  if (at == kKinds.end()) o.refuse("kind", "must be formats, casts, scales, layout, dequantize or quantize");
  golden.kind = static_cast<GoldenKind>(at - kKinds.begin());
  switch (golden.kind) {
    case GoldenKind::formats:
      if (o.has("formats")) {
        for (const json& name : o.list("formats", kAllFormats.size())) {
          golden.formats.push_back(
              format_named(o, "formats", name.is_string() ? name.get<std::string>() : "", kTabled));
        }
      } else {
        golden.formats.assign(kTabled.begin(), kTabled.end());
      }
      break;
    case GoldenKind::casts: golden.format = format_named(o, "format", o.text("format"), kTabled); break;
    case GoldenKind::scales:
    case GoldenKind::dequantize:
      golden.format = format_named(o, "format", o.text("format"), std::span(kElements).first(kElements.size() - 1));
      break;
    case GoldenKind::layout:
      golden.pad_byte = parse_pad_byte(o);
      golden.rows = o.integer("rows", 0, kMostScales);
      golden.cols = o.integer("cols", 0, kMostScales);
      if (golden.rows * golden.cols > kMostScales) o.refuse("rows", "times cols must be at most 1048576");
      break;
    case GoldenKind::quantize: parse_quantize(o, golden); break;
  }
  o.finish();
  return golden;
}

}  // namespace

std::string_view kind_name(GoldenKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

GoldenSuite parse_suite(std::string_view text, const std::string& where) {
  if (text.size() > kMostText) throw Error(ErrorKind::usage, where + ": over 1 MiB of text; a suite is less");
  const json value = parse_strict_json(text, where, kMaxDepth, ErrorKind::usage);
  JsonObject o(value, where);
  GoldenSuite suite;
  suite.name = o.text("suite");
  if (!is_name(suite.name)) o.refuse("suite", "must be 1 to 64 letters, digits, '_' and '-'");
  suite.description = o.text_or("description", "");
  const json& goldens = o.list("goldens", kMostGoldens);
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
  std::string text(file.size(), ' ');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return parse_suite(text, path);
}

}  // namespace mxcheck

// Where a golden's numbers come from: the "input" of a spec.

#include <algorithm>
#include <array>
#include <limits>

#include "goldens/make/suite_parse.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
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

}  // namespace mxcheck

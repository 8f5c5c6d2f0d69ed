#include "properties/core/case.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "properties/core/case_text.h"
#include "properties/core/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 36;

Plant parse_plant(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::size_t colon = text.find(':');
  if (comma == std::string_view::npos || colon == std::string_view::npos || colon < comma) {
    fail_field("plant", text, "ROW,COL:HEXBITS");
  }
  return {number_field<std::int64_t>("plant", text.substr(0, comma)),
          number_field<std::int64_t>("plant", text.substr(comma + 1, colon - comma - 1)),
          number_field<std::uint32_t>("plant", text.substr(colon + 1), 16)};
}

Data parse_data(std::string_view text) {
  const auto found = std::find(std::begin(kDataNames), std::end(kDataNames), text);
  if (found == std::end(kDataNames)) fail_field("data", text, "a distribution (normal, boundaries, codes, ...)");
  return static_cast<Data>(found - std::begin(kDataNames));
}

// The fields that every operation has. False: none of them.
bool set_common_field(Case& c, std::string_view field, std::string_view value) {
  if (field == "op") {  // has been read
  } else if (field == "x" || field == "d") {
    c.variant.dtype = format_field(field, value);
  } else if (field == "rows") {
    c.rows = number_field<std::int64_t>(field, value);
  } else if (field == "cols") {
    c.cols = number_field<std::int64_t>(field, value);
  } else if (field == "stride") {
    c.stride = number_field<std::int64_t>(field, value);
  } else if (field == "experts") {
    if (value.empty()) fail_field(field, value, "a list of row offsets, 0 first");
    for (std::string_view part : split(value, ',')) c.experts.push_back(number_field<std::int64_t>(field, part));
  } else if (field == "gather") {
    c.gather = number_field<std::int64_t>(field, value);
  } else if (field == "data") {
    c.data = parse_data(value);
  } else if (field == "seed") {
    c.seed = number_field<std::uint64_t>(field, value);
  } else if (field == "plant") {
    c.plants.push_back(parse_plant(value));
  } else if (field == "threads") {
    c.threads = number_field<int>(field, value);
  } else if (field == "misaligned") {
    c.misaligned = parse_misalignment(value);
  } else {
    return false;
  }
  return true;
}

void check_plants(const Case& c) {
  for (const Plant& p : c.plants) {
    if (p.bits >> (spec(c.variant.dtype).bits - 1) > 1) {
      throw Error(ErrorKind::usage, "case field plant has more bits than x=" + std::string(spec(c.variant.dtype).name));
    }
    if (p.row < 0 || p.row >= c.rows || p.col < 0 || p.col >= c.cols) {
      throw Error(ErrorKind::usage, "case field plant lies outside the matrix");
    }
  }
}

void check_case(const Case& c) {
  const std::int64_t pitch = std::max(c.cols, c.stride);
  if (c.rows < 0 || pitch < 0 || c.cols < 0 || c.rows > kMostElements || pitch > kMostElements ||
      (pitch != 0 && c.rows > kMostElements / pitch)) {
    throw Error(ErrorKind::usage, "a case of " + std::to_string(c.rows) + " x " + std::to_string(c.cols) +
                                      " elements; at most 2^36 are possible");
  }
  if (c.stride != 0 && c.stride < c.cols) throw Error(ErrorKind::usage, "case field stride is less than cols");
  if (c.gather < 0 || c.gather > kMostElements || (c.gather != 0 && pitch != 0 && c.gather > kMostElements / pitch)) {
    throw Error(ErrorKind::usage, "case field gather is the rows of x that rows are taken from: 1 to 2^36 elements");
  }
  if (c.threads < 0) throw Error(ErrorKind::usage, "case field threads is negative; 0 is the library's choice");
  if (c.plants.size() > 8) throw Error(ErrorKind::usage, "case field plant occurs more than 8 times");
  const Operation& operation = operation_named(c.variant.operation);
  operation.check(c);
  if (!c.experts.empty()) check_offsets(c.experts, operation.experts_end(c));
  check_plants(c);
}

std::pair<std::string_view, std::string_view> field_and_value(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) fail_field(part, "", "of the form FIELD=VALUE");
  return {part.substr(0, equals), part.substr(equals + 1)};
}

Case fields_of(std::string_view text) {
  Case c;
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  for (std::string_view part : split(text, ' ')) {
    if (!part.empty()) fields.push_back(field_and_value(part));
  }
  for (const auto& [field, value] : fields) {
    if (field == "op") c.variant.operation = value;
  }
  if (c.variant.operation.empty()) throw Error(ErrorKind::usage, "a case without op=; the gate prints whole cases");
  const Operation& operation = operation_named(c.variant.operation);
  for (const auto& [field, value] : fields) {
    if (!operation.set_field(c, field, value) && !set_common_field(c, field, value))
      fail_field(field, value, "a field of op=" + c.variant.operation + "; the gate prints whole cases");
  }
  return c;
}

}  // namespace

std::string to_text(const Variant& v) { return operation_named(v.operation).variant_text(v); }

std::string to_text(const Case& c) {
  const Operation& operation = operation_named(c.variant.operation);
  std::string text = fmt::format("{} rows={} cols={}{}", to_text(c.variant), c.rows, c.cols, operation.shape_text(c));
  if (c.stride != 0) text += fmt::format(" stride={}", c.stride);
  if (!c.experts.empty()) {
    text += " experts=" + join(c.experts, ",", [](std::int64_t offset) { return std::to_string(offset); });
  }
  if (c.gather != 0) text += fmt::format(" gather={}", c.gather);
  text += fmt::format(" data={} seed={}", to_text(c.data), c.seed);
  for (const Plant& p : c.plants) text += fmt::format(" plant={},{}:{:x}", p.row, p.col, p.bits);
  text += operation.option_text(c);
  if (c.threads != 0) text += fmt::format(" threads={}", c.threads);
  if (c.misaligned.any()) text += " misaligned=" + to_text(c.misaligned);
  return text;
}

Case parse_case(std::string_view text) {
  Case c = fields_of(text);
  check_case(c);
  return c;
}

Variant parse_variant(std::string_view text) {
  Variant v = fields_of(text).variant;
  if (to_text(v) != text) throw Error(ErrorKind::usage, "'" + std::string(text) + "' is no variant");
  return v;
}

}  // namespace mxcheck

#include "properties/core/case.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/text.h"
#include "properties/core/call.h"
#include "properties/core/case_text.h"
#include "properties/core/limits.h"
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
  } else if (field == "col_stride") {
    c.col_stride = number_field<std::int64_t>(field, value);
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
    if (std::uint64_t{p.bits} >> (spec(c.variant.dtype).bits - 1) > 1) {
      throw Error(ErrorKind::usage, "case field plant has more bits than x=" + std::string(spec(c.variant.dtype).name));
    }
    if (p.row < 0 || p.row >= c.rows || p.col < 0 || p.col >= c.cols) {
      throw Error(ErrorKind::usage, "case field plant lies outside the matrix");
    }
  }
}

// Rows lie apart, or columns do: no element is in two places.
void check_col_stride(const Case& c, const Operation& operation) {
  if (c.col_stride == 0) return;
  if (!operation.may_have_col_stride())
    throw Error(ErrorKind::usage,
                "case field col_stride is for an x that may have one, not for op=" + c.variant.operation);
  if (c.stride < 1 || c.col_stride < 1 || c.col_stride > kMostElements)
    throw Error(ErrorKind::usage, "case field col_stride is 1 to 2^36 elements, beside a stride of at least 1");
  const auto apart = [](std::int64_t outer, std::int64_t count, std::int64_t inner) {
    return count <= 1 || (outer - 1) / inner >= count - 1;
  };
  if (!apart(c.stride, c.cols, c.col_stride) && !apart(c.col_stride, c.rows_of_x(), c.stride))
    throw Error(ErrorKind::usage, "case fields stride and col_stride put two elements in one place");
  const auto most = static_cast<double>(kMostElements);
  const double rows = static_cast<double>(c.rows_of_x()) * static_cast<double>(c.stride);
  if (rows + static_cast<double>(c.cols) * static_cast<double>(c.col_stride) > most)
    throw Error(ErrorKind::usage, "case fields stride and col_stride span more than 2^36 elements");
}

void check_case(const Case& c) {
  const std::int64_t pitch = std::max(c.cols, c.stride);
  if (c.rows < 0 || pitch < 0 || c.cols < 0 || c.rows > kMostElements || pitch > kMostElements ||
      (pitch != 0 && c.rows > kMostElements / pitch)) {
    throw Error(ErrorKind::usage, "a case of " + std::to_string(c.rows) + " x " + std::to_string(c.cols) +
                                      " elements; at most 2^36 are possible");
  }
  if (c.stride != 0 && c.stride < c.cols && c.col_stride == 0)
    throw Error(ErrorKind::usage, "case field stride is less than cols");
  if (c.gather < 0 || c.gather > kMostElements || (c.gather != 0 && pitch != 0 && c.gather > kMostElements / pitch)) {
    throw Error(ErrorKind::usage, "case field gather is the rows of x that rows are taken from: 1 to 2^36 elements");
  }
  if (c.threads < 0) throw Error(ErrorKind::usage, "case field threads is negative; 0 is the library's choice");
  if (c.plants.size() > 8) throw Error(ErrorKind::usage, "case field plant occurs more than 8 times");
  const Operation& operation = operation_named(c.variant.operation);
  operation.check(c);
  check_col_stride(c, operation);
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

std::int64_t Case::gap() const {
  const std::int64_t gap = col_stride == 0 ? stride - cols
                           : is_turned()   ? col_stride - std::max<std::int64_t>(1, rows_of_x())
                                           : stride - col_stride * cols;
  return std::max<std::int64_t>(0, gap);
}

void Case::set_col_stride(std::int64_t step, std::int64_t gap) {
  if (step == 0) {
    stride = 1, col_stride = std::max<std::int64_t>(1, rows_of_x()) + gap;
  } else {
    stride = std::max<std::int64_t>(2, step * cols + gap), col_stride = step;
  }
}

void Case::fit_strides(const Case& was) {
  if (stride == 0) return;
  if (col_stride == 0) {
    stride = cols + was.gap();
  } else {
    set_col_stride(was.is_turned() ? 0 : col_stride, was.gap());
  }
}

std::string to_text(const Variant& v) { return operation_named(v.operation).variant_text(v); }

std::string to_text(const Case& c) {
  const Operation& operation = operation_named(c.variant.operation);
  std::string text = fmt::format("{} rows={} cols={}{}", to_text(c.variant), c.rows, c.cols, operation.shape_text(c));
  if (c.stride != 0) text += fmt::format(" stride={}", c.stride);
  if (c.col_stride != 0) text += fmt::format(" col_stride={}", c.col_stride);
  if (!c.experts.empty()) {
    text += " experts=" + join(c.experts, ",", [](std::int64_t offset) { return std::to_string(offset); });
  }
  if (c.gather != 0) text += fmt::format(" gather={}", c.gather);
  text += fmt::format(" data={} seed={}", to_text(c.data), c.seed);
  const int digits = spec(c.variant.dtype).bits > 16 ? 8 : (spec(c.variant.dtype).bits + 3) / 4;  // every bit of a word
  for (const Plant& p : c.plants) text += fmt::format(" plant={},{}:{:0{}x}", p.row, p.col, p.bits, digits);
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

bool offers(std::span<const Variant> variants, const Variant& wanted) {
  return std::find(variants.begin(), variants.end(), wanted) != variants.end();
}

namespace {

constexpr int kMost = 63;

std::string list_of(const std::array<std::uint8_t, 4>& bytes) {
  return join(bytes, ",", [](std::uint8_t byte) { return std::to_string(byte); });
}

std::array<std::uint8_t, 4> parse_list(std::string_view whole, std::string_view text) {
  constexpr std::string_view kRight =
      "the bytes past a multiple of 64 of four inputs and four outputs: 3,0,0,0/5,0,0,0";
  std::array<std::uint8_t, 4> bytes{};
  const auto parts = split(text, ',');
  if (parts.size() != bytes.size()) fail_field("misaligned", whole, kRight);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = number_field<std::uint8_t>("misaligned", parts[i]);
    if (bytes[i] > kMost) fail_field("misaligned", whole, kRight);
  }
  return bytes;
}

}  // namespace

std::string to_text(const Misalignment& m) { return list_of(m.inputs) + "/" + list_of(m.outputs); }

Misalignment parse_misalignment(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view inputs = text.substr(0, slash);
  const std::string_view outputs = slash == std::string_view::npos ? std::string_view{} : text.substr(slash + 1);
  return {parse_list(text, inputs), parse_list(text, outputs)};
}

}  // namespace mxcheck

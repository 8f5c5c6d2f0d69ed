#include "properties/core/case.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <sstream>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/operations/router/case.h"

namespace mxcheck {
namespace {

[[noreturn]] void fail(std::string_view field, std::string_view value, std::string_view right) {
  throw Error(ErrorKind::usage,
              "case field " + std::string(field) + "=" + std::string(value) + " is not " + std::string(right));
}

template <class Integer>
Integer parse_integer(std::string_view field, std::string_view text, int base = 10) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) fail(field, text, "a number in range");
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

Plant parse_plant(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::size_t colon = text.find(':');
  if (comma == std::string_view::npos || colon == std::string_view::npos || colon < comma) {
    fail("plant", text, "ROW,COL:HEXBITS");
  }
  return {parse_integer<std::int64_t>("plant", text.substr(0, comma)),
          parse_integer<std::int64_t>("plant", text.substr(comma + 1, colon - comma - 1)),
          parse_integer<std::uint32_t>("plant", text.substr(colon + 1), 16)};
}

Data parse_data(std::string_view text) {
  const auto found = std::find(std::begin(kDataNames), std::end(kDataNames), text);
  if (found == std::end(kDataNames)) fail("data", text, "a distribution (normal, boundaries, codes, ...)");
  return static_cast<Data>(found - std::begin(kDataNames));
}

Format parse_format(std::string_view field, std::string_view text) {
  const auto format = find_format(text);
  if (!format) fail(field, text, "a format");
  return *format;
}

constexpr std::string_view kScaleWords[] = {"none", "e8m0", "fp32"};
constexpr std::string_view kGroupWords[] = {"none", "rows", "depth"};

int parse_word(std::string_view field, std::string_view text, std::span<const std::string_view> words) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end())
    fail(field, text, "one of " + std::string(words[0]) + ", " + std::string(words[1]) + ", " + std::string(words[2]));
  return static_cast<int>(found - words.begin());
}

float parse_alpha(std::string_view field, std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail(field, text, "a number");
  return value;
}

std::string block_text(BlockShape block) { return block == BlockShape{0, 0} ? "none" : to_text(block); }

void set_field(Case& c, std::string_view field, std::string_view value) {
  Variant& v = c.variant;
  if (field == "op") {
    v.operation = value;
  } else if (field == "format") {
    v.format = parse_format(field, value);
  } else if (field == "recipe") {
    v.recipe = recipe_named(value).name;
  } else if (field == "block") {
    v.block = value == "none" ? BlockShape{0, 0} : block_shape_named(value);
  } else if (field == "layout") {
    if (value != "compact" && value != "tcgen05") fail(field, value, "compact or tcgen05");
    v.layout = value == "tcgen05" ? 1 : 0;
  } else if (field == "x" || field == "d") {
    v.wide = parse_format(field, value);
  } else if (field == "pad") {
    c.pad = parse_integer<std::uint8_t>(field, value);
  } else if (field == "rows") {
    c.rows = parse_integer<std::int64_t>(field, value);
  } else if (field == "cols") {
    c.cols = parse_integer<std::int64_t>(field, value);
  } else if (field == "stride") {
    c.stride = parse_integer<std::int64_t>(field, value);
  } else if (field == "experts") {
    if (value.empty()) fail(field, value, "a list of row offsets, 0 first");
    for (std::string_view part : split(value, ',')) c.experts.push_back(parse_integer<std::int64_t>(field, part));
  } else if (field == "format_b") {
    v.format_b = parse_format(field, value);
  } else if (field == "block_b") {
    v.block_b = value == "none" ? BlockShape{0, 0} : block_shape_named(value);
  } else if (field == "scales") {
    v.scales = parse_word(field, value, kScaleWords);
  } else if (set_route_field(c, field, value)) {
    return;
  } else if (field == "groups") {
    v.groups = parse_word(field, value, kGroupWords);
  } else if (field == "depth") {
    c.depth = parse_integer<std::int64_t>(field, value);
  } else if (field == "adds") {
    c.adds = parse_integer<int>(field, value) != 0;
  } else if (field == "alpha") {
    c.alpha = parse_alpha(field, value);
  } else if (field == "gather") {
    c.gather = parse_integer<std::int64_t>(field, value);
  } else if (field == "data") {
    c.data = parse_data(value);
  } else if (field == "seed") {
    c.seed = parse_integer<std::uint64_t>(field, value);
  } else if (field == "plant") {
    c.plants.push_back(parse_plant(value));
  } else if (field == "threads") {
    c.threads = parse_integer<int>(field, value);
  } else {
    fail(field, value, "a field of a case (op, format, recipe, block, layout, pad, x, rows, cols, ...)");
  }
}

void check_product(const Case& c) {
  constexpr std::int64_t kMost = std::int64_t{1} << 36;
  const auto too_large = [](std::int64_t a, std::int64_t b) { return b != 0 && a > kMost / b; };
  if (c.depth < 0 || too_large(c.rows, c.depth) || too_large(c.cols, c.depth)) {
    throw Error(ErrorKind::usage, "a product of " + std::to_string(c.rows) + " x " + std::to_string(c.cols) + " x " +
                                      std::to_string(c.depth) + "; operands of at most 2^36 codes are possible");
  }
  if ((c.variant.groups != 0) == c.experts.empty()) {
    throw Error(ErrorKind::usage, "case field experts goes with groups=rows and groups=depth");
  }
  if (!c.plants.empty() || c.stride != 0) throw Error(ErrorKind::usage, "a product has neither plants nor a stride");
}

void check_extent(const Case& c) {
  constexpr std::int64_t kMost = std::int64_t{1} << 36;
  const std::int64_t pitch = std::max(c.cols, c.stride);
  if (c.rows < 0 || pitch < 0 || c.cols < 0 || c.rows > kMost || pitch > kMost ||
      (pitch != 0 && c.rows > kMost / pitch)) {
    throw Error(ErrorKind::usage, "a case of " + std::to_string(c.rows) + " x " + std::to_string(c.cols) +
                                      " elements; at most 2^36 are possible");
  }
  if (c.stride != 0 && c.stride < c.cols) throw Error(ErrorKind::usage, "case field stride is less than cols");
  if (c.gather < 0 || c.gather > kMost || (c.gather != 0 && pitch != 0 && c.gather > kMost / pitch)) {
    throw Error(ErrorKind::usage, "case field gather is the rows of x that rows are taken from: 1 to 2^36 elements");
  }
  if (c.threads < 0) throw Error(ErrorKind::usage, "case field threads is negative; 0 is the library's choice");
  if (c.plants.size() > 8) throw Error(ErrorKind::usage, "case field plant occurs more than 8 times");
  if (is_matmul(c.variant.operation)) check_product(c);
  if (is_route(c.variant.operation)) check_route(c);
  if (!c.experts.empty()) check_offsets(c.experts, experts_end(c));
  for (const Plant& p : c.plants) {
    if (p.bits >> (spec(c.variant.wide).bits - 1) > 1) {
      throw Error(ErrorKind::usage, "case field plant has more bits than x=" + std::string(spec(c.variant.wide).name));
    }
    if (p.row < 0 || p.row >= c.rows || p.col < 0 || p.col >= c.cols) {
      throw Error(ErrorKind::usage, "case field plant lies outside the matrix");
    }
  }
}

}  // namespace

bool reads_x(const Variant& v) {
  return v.operation == "quantize" || v.operation == "quantize_dual" || v.operation == "cast";
}

bool is_matmul(std::string_view operation) { return operation.starts_with("matmul:"); }

std::string_view contract_text(std::string_view operation) {
  return operation.substr(std::string_view("matmul:").size());
}

std::int64_t experts_end(const Case& c) {
  return is_matmul(c.variant.operation) && c.variant.groups == 2 ? c.depth : c.rows;
}

std::string to_text(const Variant& v) {
  if (is_route(v.operation)) return route_text(v);
  std::ostringstream out;
  if (is_matmul(v.operation)) {
    out << "op=" << v.operation << " format=" << spec(v.format).name << " format_b=" << spec(v.format_b).name
        << " block=" << block_text(v.block) << " block_b=" << block_text(v.block_b)
        << " scales=" << kScaleWords[v.scales] << " groups=" << kGroupWords[v.groups] << " d=" << spec(v.wide).name;
    return out.str();
  }
  out << "op=" << v.operation << " format=" << spec(v.format).name << " recipe=" << v.recipe
      << " block=" << to_text(v.block) << " layout=" << (v.layout == 0 ? "compact" : "tcgen05")
      << " x=" << spec(v.wide).name;
  return out.str();
}

std::string to_text(const Case& c) {
  std::ostringstream out;
  out << to_text(c.variant) << " rows=" << c.rows << " cols=" << c.cols;
  if (is_route(c.variant.operation)) out << route_fields(c);
  if (is_matmul(c.variant.operation)) out << " depth=" << c.depth;
  if (c.stride != 0) out << " stride=" << c.stride;
  if (!c.experts.empty()) {
    out << " experts=";
    for (std::size_t i = 0; i < c.experts.size(); ++i) out << (i == 0 ? "" : ",") << c.experts[i];
  }
  if (c.gather != 0) out << " gather=" << c.gather;
  out << " data=" << kDataNames[static_cast<std::size_t>(c.data)] << " seed=" << c.seed;
  for (const Plant& p : c.plants) {
    out << " plant=" << p.row << ',' << p.col << ':' << std::hex << p.bits << std::dec;
  }
  if (c.adds) out << " adds=1";
  if (c.alpha != 1) out << fmt::format(" alpha={}", c.alpha);
  if (c.variant.layout != 0 || c.pad != 0) out << " pad=" << int{c.pad};
  if (c.threads != 0) out << " threads=" << c.threads;
  return out.str();
}

namespace {

Case fields_of(std::string_view text) {
  Case c;
  if (const std::size_t op = text.find("op=matmul:"); op != std::string_view::npos) c.variant.block = {0, 0};
  if (text.find("op=route") != std::string_view::npos) c.variant.block = {0, 0}, c.variant.recipe.clear();
  for (std::string_view part : split(text, ' ')) {
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) fail(part, "", "of the form FIELD=VALUE");
    set_field(c, part.substr(0, equals), part.substr(equals + 1));
  }
  if (c.variant.operation.empty()) throw Error(ErrorKind::usage, "a case without op=; the gate prints whole cases");
  return c;
}

}  // namespace

Case parse_case(std::string_view text) {
  Case c = fields_of(text);
  check_extent(c);
  return c;
}

Variant parse_variant(std::string_view text) {
  Variant v = fields_of(text).variant;
  if (to_text(v) != text) throw Error(ErrorKind::usage, "'" + std::string(text) + "' is no variant");
  return v;
}

namespace {

std::vector<std::string> classes_of_product(const Case& c) {
  const Variant& v = c.variant;
  std::vector<std::string> classes{
      v.operation,
      "d " + std::string(spec(v.wide).name),
      "formats " + std::string(spec(v.format).name) + " " + std::string(spec(v.format_b).name),
      "blocks " + block_text(v.block) + " " + block_text(v.block_b),
      "scales " + std::string(kScaleWords[v.scales]),
      "groups " + std::string(kGroupWords[v.groups]),
      "data " + std::string(kDataNames[static_cast<std::size_t>(c.data)])};
  if (c.elements() == 0) classes.emplace_back("shape empty");
  if (c.depth == 0) classes.emplace_back("shape without depth");
  if (c.elements() != 0) {
    const bool tail = c.rows % 128 != 0 || c.cols % 128 != 0;
    classes.emplace_back(tail ? "shape with a cut tile" : "shape of whole tiles of 128");
  }
  if (c.elements() > 1'000'000) classes.emplace_back("shape over a million outputs");
  if (c.gather != 0) classes.emplace_back("gathered rows");
  if (c.adds) classes.emplace_back("adds C");
  if (c.alpha != 1) classes.emplace_back("alpha");
  if (!c.experts.empty() && std::adjacent_find(c.experts.begin(), c.experts.end()) != c.experts.end()) {
    classes.emplace_back("empty groups");
  }
  return classes;
}

}  // namespace

std::vector<std::string> classes_of(const Case& c) {
  const Variant& v = c.variant;
  if (is_matmul(v.operation)) return classes_of_product(c);
  if (is_route(v.operation)) return classes_of_route(c);
  const bool has_x = reads_x(v);  // the others have no x to distribute
  std::vector<std::string> classes{v.operation,
                                   "x " + std::string(spec(v.wide).name),
                                   "format " + std::string(spec(v.format).name),
                                   "recipe " + v.recipe,
                                   "block " + to_text(v.block),
                                   v.layout == 0 ? "scales compact" : "scales tcgen05",
                                   "data " + (has_x ? std::string(kDataNames[static_cast<std::size_t>(c.data)])
                                                    : std::string("random codes and scale bytes"))};
  const std::int64_t block_rows = v.block.rows == 0 ? std::max<std::int64_t>(1, c.rows) : v.block.rows;
  const std::int64_t block_cols = v.block.cols == 0 ? std::max<std::int64_t>(1, c.cols) : v.block.cols;
  const bool tail = c.rows % block_rows != 0 || c.cols % block_cols != 0;
  if (c.elements() == 0) classes.emplace_back("shape empty");
  if (c.elements() != 0) classes.emplace_back(tail ? "shape with a cut block" : "shape of whole blocks");
  if (c.rows == 1 || c.cols == 1) classes.emplace_back("shape one row or column");
  if (c.elements() > 1'000'000) classes.emplace_back("shape over a million elements");
  if (c.stride > c.cols) classes.emplace_back("row stride");
  if (c.gather != 0) classes.emplace_back("gathered rows");
  if (!c.experts.empty()) {
    classes.emplace_back("experts");
    if (std::adjacent_find(c.experts.begin(), c.experts.end()) != c.experts.end()) {
      classes.emplace_back("experts without rows");
    }
  }
  return classes;
}

}  // namespace mxcheck

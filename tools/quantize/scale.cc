// mxcheck scale: the scale that each rule gives a block with a given largest magnitude.

#include <fmt/format.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include "goldens/format/quantized_file.h"
#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/names.h"
#include "numerics/scale/recipe.h"
#include "tools/common/output.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct ScaleOptions {
  std::string rule;
  std::string format = "e4m3";
  std::vector<std::string> amax;
  bool list = false;
  bool json = false;
};

[[noreturn]] void scale_refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::usage, "AMAX '" + text + "' " + why);
}

bool is_bits(const std::string& text) {
  if (text.size() < 3 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X')) return false;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (std::isxdigit(static_cast<unsigned char>(text[i])) == 0) return false;
  }
  return true;
}

// 0x and hexadecimal digits alone are the bits of an FP32; anything else is a number, rounded once to FP32.
float parse_amax(const std::string& text) {
  float value = 0;
  if (is_bits(text)) {
    constexpr std::size_t kMostDigits = 10;  // with the 0x
    if (text.size() > kMostDigits) scale_refuse(text, "has more than the 8 hexadecimal digits of an FP32");
    value = std::bit_cast<float>(static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 16)));
  } else {
    char* end = nullptr;
    const bool starts_well = !text.empty() && std::isspace(static_cast<unsigned char>(text[0])) == 0;
    value = starts_well ? std::strtof(text.c_str(), &end) : 0;
    if (!starts_well || end != text.c_str() + text.size()) {
      scale_refuse(text,
                   "is not a number; write a decimal (448), a hexfloat (0x1.cp+8), FP32 bits (0x43e00000), inf or nan");
    }
    const bool named = text.find_first_of("iI") != std::string::npos;
    if (std::isinf(value) && !named) scale_refuse(text, "is beyond FP32's largest value; write inf for an infinity");
  }
  if (!std::isnan(value) && std::signbit(value)) scale_refuse(text, "is negative; amax is the largest magnitude");
  return value;
}

// One line of the answer: the byte of an E8M0 rule, or the float of an FP32 rule.
struct Row {
  std::string amax;
  float value = 0;
  const Recipe* recipe = nullptr;
  std::optional<std::uint8_t> byte;
  float scale = 0;
};

Row make_row(const Recipe& recipe, Format format, const std::string& text, float amax) {
  Row row{text, amax, &recipe, std::nullopt, 0};
  if (recipe.rule == ScaleRule::fp32) {
    const bool nan = std::isnan(amax);
    row.scale = block_scale(recipe, format, {nan ? 0 : amax, nan}).scale;
  } else {
    row.byte = scale_byte_for_amax(recipe, format, amax);
    row.scale = static_cast<float>(decode(Format::e8m0, *row.byte));
  }
  return row;
}

std::string bits_of(float value) { return hex(std::bit_cast<std::uint32_t>(value), 32); }

void print_table(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:<14} {:<10} {:<18} {:<20} {:>4} {:<4} {}\n", "amax", "bits", "hexfloat", "rule",
                                 "byte", "hex", "scale");
  for (const Row& row : rows) {
    text += fmt::format(
        "{:<14} {:<10} {:<18} {:<20} {:>4} {:<4} {}\n", row.amax, bits_of(row.value), hexfloat(row.value),
        row.recipe->name, row.byte ? std::to_string(*row.byte) : "-", row.byte ? hex(*row.byte, 8) : "-",
        row.byte ? hexfloat(row.scale)
                 : fmt::format("{} = {} ({})", hexfloat(row.scale), decimal(row.scale), bits_of(row.scale)));
  }
  print(text);
}

void print_rows_as_json(const std::vector<Row>& rows, Format format) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json item{{"amax", row.amax},
              {"bits", bits_of(row.value)},
              {"hexfloat", hexfloat(row.value)},
              {"value", json_number(row.value)},
              {"rule", row.recipe->name}};
    item["byte"] = row.byte ? Json(*row.byte) : Json();
    item["scale"] = json_number(row.scale);
    item["scale_bits"] = bits_of(row.scale);
    list.push_back(std::move(item));
  }
  print_json({{"format", spec(format).name}, {"rows", std::move(list)}});
}

int list_recipes(bool json) {
  Json list = Json::array();
  std::string text;
  for (const Recipe& r : all_recipes()) {
    list.push_back(Json{{"rule", r.name}, {"checked_against", r.checked_against}});
    text += fmt::format("{:<20} {}\n", r.name, r.checked_against.empty() ? "a rule of its own" : r.checked_against);
  }
  json ? print_json({{"rules", std::move(list)}}) : print(text);
  return 0;
}

int scale_run(const ScaleOptions& options) {
  if (options.list) return list_recipes(options.json);
  if (options.amax.empty()) throw Error(ErrorKind::usage, "AMAX is required; --list lists the rules and presets");
  const Format format = element_format_named(options.format);
  std::vector<Recipe> recipes;
  if (options.rule.empty()) {
    recipes.assign(all_recipes().begin(), all_recipes().end());
  } else {
    recipes.push_back(recipe_named(options.rule));
  }
  std::vector<Row> rows;
  for (const std::string& text : options.amax) {
    const float amax = parse_amax(text);
    for (const Recipe& recipe : recipes) rows.push_back(make_row(recipe, format, text, amax));
  }
  options.json ? print_rows_as_json(rows, format) : print_table(rows);
  return 0;
}

}  // namespace

void add_scale(Command& app) {
  auto options = std::make_shared<ScaleOptions>();
  Command sub = app.subcommand("scale", "The scale of a block with a given largest magnitude, by rule");
  sub.option("AMAX", options->amax, "Largest magnitude of a block: decimal, hexfloat, 0xBITS of an FP32, inf or nan");
  sub.flag("--list", options->list, "List the rules and presets, and the library and version each was checked against");
  sub.option("--rule,--preset,--recipe", options->rule,
             "A rule or preset (rceil, floor, te, ...); without it, all of them")
      .completes(names_in(all_recipes()));
  sub.option("--format", options->format, "Format of the elements")
      .completes(names_of(kQuantizedFormats))
      .shows_default();
  sub.flag("--json", options->json, "Print JSON; NaN and infinities are strings");
  sub.footer(
      "The scale byte is an E8M0 code: the scale is 2^(byte - 127), and 255 is NaN. Rules with FP32 scales (fp32\n"
      "and NAME_fp32) have no byte and print the float. A decimal that is no float is rounded once, to the nearest;\n"
      "bits and hexfloat say which float was used. 0x and up to 8 hexadecimal digits are FP32 bits.\n\n"
      "Examples:\n"
      "  mxcheck scale --list\n"
      "  mxcheck scale --rule rceil 448 448.0001 0x1.cp+8 0x43e00001\n"
      "  mxcheck scale 0x04600001              where the rules disagree: one ulp above 448 * 2^-127\n"
      "  mxcheck scale --format e5m2 --json inf nan 0");
  sub.runs([options] { return scale_run(*options); });
}

}  // namespace mxcheck

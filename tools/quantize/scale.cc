// mxcheck scale: the scale that each rule gives a block with a given largest magnitude.

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include "goldens/format/quantized_file.h"
#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/names.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/two_level.h"
#include "reference/common/matrix.h"
#include "reference/quantize/quantize.h"
#include "tools/common/output.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct ScaleOptions {
  std::string rule;
  std::string format;
  std::vector<std::string> amax;
  std::string tensor_amax;  // recipes of two levels alone
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
  std::optional<std::uint32_t> code;  // two levels: of an element that is the block's amax
};

Row make_row(const Recipe& recipe, Format format, const std::string& text, float amax, OuterScale outer) {
  Row row{text, amax, &recipe, std::nullopt, 0, std::nullopt};
  if (recipe.has_two_levels()) {
    const bool nan = std::isnan(amax);
    const BlockScale scale = block_scale(recipe, format, {nan ? 0 : amax, nan}, outer);
    row.byte = scale.byte;
    row.scale = scale.scale;
    row.code = encode_element(recipe, format, scale, amax);
  } else if (recipe.rule == ScaleRule::fp32) {
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
  const int wide = rows.front().code ? 24 : 20;
  std::string text = fmt::format("{:<14} {:<10} {:<18} {:<{}} {:>4} {:<4} {}{}\n", "amax", "bits", "hexfloat", "rule",
                                 wide, "byte", "hex", rows.front().code ? "code " : "", "scale");
  for (const Row& row : rows) {
    text += fmt::format("{:<14} {:<10} {:<18} {:<{}} {:>4} {:<4} {}{}\n", row.amax, bits_of(row.value),
                        hexfloat(row.value), row.recipe->name, wide, row.byte ? std::to_string(*row.byte) : "-",
                        row.byte ? hex(*row.byte, 8) : "-", row.code ? fmt::format("{:<4} ", hex(*row.code, 4)) : "",
                        row.byte
                            ? hexfloat(row.scale)
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
    if (row.code) item["code"] = *row.code;
    item["scale"] = json_number(row.scale);
    item["scale_bits"] = bits_of(row.scale);
    list.push_back(std::move(item));
  }
  print_json({{"format", spec(format).name}, {"rows", std::move(list)}});
}

// Examples on which recipes of two levels differ: a tensor of two blocks of 16, of which the second is looked at.
struct LevelsExample {
  std::string_view name;
  float first;   // the first block's elements
  float second;  // the second's
};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::array<LevelsExample, 7> kLevelsExamples{{{"zeros", 1, 0},
                                                        {"-0", 1, -0.0F},
                                                        {"2^-22", 1, 0x1p-22F},
                                                        {"2^-15", 1, 0x1p-15F},
                                                        {"NaN", 1, kNan},
                                                        {"Inf", 1, kInfinity},
                                                        {"all zero", 0, 0}}};

// The second block's scale byte, and the code of its elements: "38:7".
std::string answer_to(const LevelsExample& example, const Recipe& recipe) {
  std::vector<float> x(16, example.first);
  x.resize(32, example.second);
  const MatrixView view{Format::fp32, std::as_bytes(std::span(x)).data(), 1, 32, 32};
  const QuantizedTensor q = quantize(view, Format::e2m1, {1, 16}, recipe, {}, 1);
  return fmt::format("{:02x}:{:x}", q.scales().code(1), q.codes.code(16));
}

std::string name_and_source(const Recipe& r) {
  return fmt::format("{:<24} {}\n", r.name, r.checked_against.empty() ? "a rule of its own" : r.checked_against);
}

int list_recipes(bool json) {
  Json list = Json::array();
  std::string names;
  for (const Recipe& r : all_recipes()) {
    list.push_back(Json{{"rule", r.name}, {"checked_against", r.checked_against}});
    names += name_and_source(r);
  }
  names += "\nTwo levels of scales, for E2M1:\n";
  std::string table = fmt::format("{:<24}", "");
  for (const LevelsExample& example : kLevelsExamples) table += fmt::format(" {:>8}", example.name);
  for (const Recipe& r : two_level_recipes()) {
    Json answers = Json::object();
    table += fmt::format("\n{:<24}", r.name);
    for (const LevelsExample& example : kLevelsExamples) {
      const std::string answer = answer_to(example, r);
      answers[example.name] = answer;
      table += fmt::format(" {:>8}", answer);
    }
    Json row{{"rule", r.name}, {"checked_against", r.checked_against}};
    row["examples"] = std::move(answers);
    list.push_back(std::move(row));
    names += name_and_source(r);
  }
  json ? print_json({{"rules", std::move(list)}})
       : print(names +
               "\nWhere these differ: a tensor of one block of ones and one of this value (\"all zero\": two of "
               "zeros). An\n"
               "answer is the second block's E4M3 scale byte and the code of its elements.\n" +
               table + "\n");
  return 0;
}

int scale_run(const ScaleOptions& options) {
  if (options.list) return list_recipes(options.json);
  if (options.amax.empty()) throw Error(ErrorKind::usage, "AMAX is required; --list lists the rules and presets");
  const bool nested = !options.tensor_amax.empty();
  const Format format = element_format_named(!options.format.empty() ? options.format : nested ? "e2m1" : "e4m3");
  const auto all = nested ? two_level_recipes() : all_recipes();
  std::vector<Recipe> recipes(all.begin(), all.end());
  if (!options.rule.empty()) recipes = {any_recipe_named(options.rule)};
  if (recipes.front().has_two_levels() != nested) {
    throw Error(ErrorKind::usage,
                nested ? "--tensor-amax is of recipes with two levels of scales; " + recipes.front().name + " has one"
                       : "recipe " + recipes.front().name +
                             " has two levels of scales: --tensor-amax, the tensor's largest "
                             "magnitude, is needed");
  }
  const float tensor_amax = nested ? parse_amax(options.tensor_amax) : 0;
  std::vector<Row> rows;
  for (const std::string& text : options.amax) {
    const float amax = parse_amax(text);
    for (const Recipe& recipe : recipes) {
      const OuterScale outer = outer_scale(recipe.two_level, largest_value(format), tensor_amax);
      rows.push_back(make_row(recipe, format, text, amax, outer));
    }
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
      .completes(recipe_names());
  sub.option("--tensor-amax", options->tensor_amax,
             "Two levels of scales (nvfp4, nvfp4_te, ...): the largest magnitude of the tensor that the block is in");
  sub.option("--format", options->format, "Format of the elements (default: e4m3, and e2m1 with --tensor-amax)")
      .completes(names_of(kQuantizedFormats));
  sub.flag("--json", options->json, "Print JSON; NaN and infinities are strings");
  sub.footer(
      "The scale byte is an E8M0 code: the scale is 2^(byte - 127), and 255 is NaN. Rules with FP32 scales (fp32\n"
      "and NAME_fp32) have no byte and print the float. A decimal that is no float is rounded once, to the nearest;\n"
      "bits and hexfloat say which float was used. 0x and up to 8 hexadecimal digits are FP32 bits.\n\n"
      "Examples:\n"
      "  mxcheck scale --list\n"
      "  mxcheck scale --rule rceil 448 448.0001 0x1.cp+8 0x43e00001\n"
      "  mxcheck scale 0x04600001              where the rules disagree: one ulp above 448 * 2^-127\n"
      "  mxcheck scale --format e5m2 --json inf nan 0\n"
      "  mxcheck scale --tensor-amax 1 0.5 0x1p-22      NVFP4: the E4M3 scale, and the code of an element of AMAX");
  sub.runs([options] { return scale_run(*options); });
}

}  // namespace mxcheck

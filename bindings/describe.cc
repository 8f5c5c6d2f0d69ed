// Names, formats, recipes and contracts as text.

#include <cmath>
#include <span>
#include <string>

#include "bindings/formats.h"
#include "bindings/guard.h"
#include "bindings/mxcheck_c.h"
#include "mxcheck_version.h"
#include "numerics/accumulate/contract.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"
#include "reference/common/matrix.h"
#include "reference/matmul/matmul.h"
#include "reference/quantize/scale_layout.h"
#include "reference/router/token_rounding.h"

namespace mxcheck::c {
namespace {

template <class Table>
std::string lines_of(const Table& table) {
  std::string text;
  for (const std::string& name : names_in(table)) text += name + '\n';
  return text;
}

std::string names(std::string_view of) {
  if (of == "formats") return lines_of(kFormatSpecs);
  if (of == "recipes") return lines_of(all_recipes());
  if (of == "blocks") return lines_of(kBlockShapes);
  if (of == "layouts") return lines_of(kScaleLayouts);
  if (of == "roundings") return lines_of(kElementRoundings);
  if (of == "overflows") return lines_of(kOverflows);
  if (of == "contracts") return lines_of(all_contracts());
  if (of == "routers") return lines_of(all_router_variants());
  if (of == "rules") return lines_of(all_token_rounding_rules());
  refuse("'" + std::string(of) +
         "' has no names: formats, recipes, blocks, layouts, roundings, overflows, contracts, routers, rules have");
}

std::string line(std::string_view key, const std::string& value) { return std::string(key) + '=' + value + '\n'; }

std::string format_lines(Format format) {
  const FormatSpec& f = spec(format);
  std::string text = line("name", std::string(f.name)) + line("dtype", std::string(f.dtype_name)) +
                     line("bits", std::to_string(f.bits)) + line("exponent_bits", std::to_string(f.exponent_bits)) +
                     line("mantissa_bits", std::to_string(f.mantissa_bits)) + line("bias", std::to_string(f.bias)) +
                     line("max", hexfloat(decode(format, f.max_code))) + line("max_code", std::to_string(f.max_code));
  if (std::isnan(decode(format, f.nan_code))) text += line("nan_code", std::to_string(f.nan_code));
  if (f.encoding == Encoding::ieee) text += line("inf_code", std::to_string(f.max_code + 1));
  return text;
}

std::string formats_line(std::string_view key, std::span<const Format> formats) {
  return line(key, join(formats, " ", [](Format f) { return std::string(spec(f).name); }));
}

std::string contract_lines(const MatmulContract& c) {
  const Format output = c.sum->arithmetic == Arithmetic::fused ? c.sum->step.output.c : Format::fp32;
  return line("name", to_text(c)) + line("sum", std::string(c.sum->name)) + formats_line("operands", c.sum->operands) +
         formats_line("scales", c.sum->scales) + line("scale_terms", std::to_string(c.sum->scale_terms)) +
         line("promotion", std::to_string(c.promotion)) + line("output", std::string(spec(output).name)) +
         line("evidence", std::string(to_text(c.sum->evidence))) + line("note", std::string(c.sum->note));
}

}  // namespace

}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

const char* mxcheck_c_signatures(void) {
#define MXCHECK_C(name, arguments) #name " " #arguments "\n"
  return
#include "bindings/functions.inc"
      ;
#undef MXCHECK_C
}

int32_t mxcheck_c_version(char* text, int64_t capacity, int64_t* size) {
  return guarded([&] { give_text(kVersion, text, capacity, size); });
}

int32_t mxcheck_c_error(char* text, int64_t capacity, int64_t* size) {
  return guarded([&] { give_text(last_error(), text, capacity, size); });
}

int32_t mxcheck_c_names(const char* of, char* text, int64_t capacity, int64_t* size) {
  return guarded([&] { give_text(names(text_of(of, "of")), text, capacity, size); });
}

int32_t mxcheck_c_describe(const char* what, const char* name, char* text, int64_t capacity, int64_t* size) {
  return guarded([&] {
    const std::string_view kind = text_of(what, "what");
    const std::string_view of = text_of(name, "name");
    if (kind == "format") return give_text(format_lines(format_of(of)), text, capacity, size);
    if (kind == "contract") return give_text(contract_lines(parse_matmul_contract(of)), text, capacity, size);
    if (kind != "recipe") refuse("'" + std::string(kind) + "' cannot be described: format, recipe and contract can");
    std::string lines;
    for (const auto& [key, value] : describe(recipe_named(of))) lines += line(key, value);
    give_text(lines, text, capacity, size);
  });
}

// Names, formats, recipes and contracts as text.

#include "bindings/at_speed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bindings/guard.h"
#include "bindings/mxcheck_c.h"
#include "mxcheck_version.h"
#include "numerics/accumulate/contract.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"
#include "reference/common/matrix.h"
#include "reference/matmul/matmul.h"
#include "reference/quantize/scale_layout.h"
#include "reference/quantize/word_order.h"
#include "reference/router/token_rounding.h"

namespace mxcheck::c {
namespace {

// The rows of kAllFormats: integers and FP64 are only stored.
constexpr auto kNumberFormats = std::span(kFormatSpecs).first<kAllFormats.size()>();

template <class Table>
std::string lines_of(const Table& table) {
  std::string text;
  for (const std::string& name : names_in(table)) text += name + '\n';
  return text;
}

std::string names(std::string_view of) {
  if (of == "formats") return lines_of(kNumberFormats);
  if (of == "recipes") return lines_of(all_recipes());
  if (of == "two_level_recipes") return lines_of(two_level_recipes());
  if (of == "word_orders") return lines_of(word_orders());
  if (of == "word_outputs") return lines_of(kWordOutputs);
  if (of == "blocks") return lines_of(kBlockShapes);
  if (of == "layouts") return lines_of(kScaleLayouts);
  if (of == "roundings") return lines_of(kElementRoundings);
  if (of == "overflows") return lines_of(kOverflows);
  if (of == "contracts") return lines_of(all_contracts());
  if (of == "routers") return lines_of(all_router_variants());
  if (of == "rules") return lines_of(all_token_rounding_rules());
  refuse("'" + std::string(of) +
         "' has no names: formats, recipes, two_level_recipes, blocks, layouts, roundings, overflows, contracts, "
         "routers, rules, word_orders, word_outputs have");
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
    for (const auto& [key, value] : describe(any_recipe_named(of))) lines += line(key, value);
    give_text(lines, text, capacity, size);
  });
}

namespace mxcheck::c {
namespace {

template <class Wanted>
Format named(std::string_view name, const char* what, const Wanted& wanted) {
  const auto found = find_format(name);
  if (found && wanted(spec(*found))) return *found;
  std::vector<std::string> known;
  for (const FormatSpec& f : kNumberFormats) {
    if (wanted(f)) known.emplace_back(f.name);
  }
  refuse("unknown " + std::string(what) + " '" + std::string(name) + "'" + known_names(name, known));
}

}  // namespace

Format format_of(std::string_view name) {
  return named(name, "format", [](const FormatSpec&) { return true; });
}
Format value_format_of(std::string_view name) {
  return named(name, "type of values", [](const FormatSpec& f) { return f.is_value; });
}
Format element_of(std::string_view name) {
  return named(name, "format of quantized blocks", [](const FormatSpec& f) { return f.is_quantized; });
}

BlockShape block_of(std::string_view text) {
  for (const Named<BlockShape>& known : kBlockShapes) {
    if (known.name == text) return known.value;
  }
  const std::size_t cross = std::min(text.find('x'), text.size());
  const auto rows = parse_number<std::int64_t>(text.substr(0, cross));
  const auto cols = parse_number<std::int64_t>(text.substr(std::min(cross + 1, text.size())));
  if (!rows || !cols || *rows < 1 || *cols < 1) {
    refuse("unknown block shape '" + std::string(text) +
           "'; ROWSxCOLS of 1 or more each is needed, as 1x16, or one of " + join(names_in(kBlockShapes)));
  }
  return {*rows, *cols};
}

// Casts and scales, element by element.

namespace {

template <class Word>
Word word_at(const void* from, std::int64_t i) {
  Word word;
  std::memcpy(&word, static_cast<const std::byte*>(from) + i * static_cast<std::int64_t>(sizeof word), sizeof word);
  return word;
}

// words: of stochastic rounding, else null.
void cast(const char* from, const void* values, std::int64_t count, const char* format, Rounding rounding,
          const char* overflow_name, const std::uint32_t* words, void* codes) {
  check_count(count, "count");
  check_pointer(values, count, "values");
  check_pointer(codes, count, "codes");
  const Format to = format_of(text_of(format, "to"));
  if (to == Format::fp32) refuse("a cast to fp32 is none: the formats of 16 bits and fewer are offered");
  const Overflow overflow = entry_named(kOverflows, "overflow", text_of(overflow_name, "overflow")).value;
  const Format source = value_format_of(text_of(from, "from"));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits =
        source == Format::fp32 ? word_at<std::uint32_t>(values, i) : word_at<std::uint16_t>(values, i);
    const std::uint32_t code =
        encode(to, decode(source, bits), rounding, overflow, words == nullptr ? 0 : word_at<std::uint32_t>(words, i));
    if (spec(to).bits <= 8) {
      static_cast<std::uint8_t*>(codes)[i] = static_cast<std::uint8_t>(code);
    } else {
      const auto wide = static_cast<std::uint16_t>(code);
      std::memcpy(static_cast<std::uint8_t*>(codes) + i * 2, &wide, 2);
    }
  }
}

void scales(const Recipe& recipe, Format format, const float* amax, std::int64_t count, std::uint8_t* bytes,
            float* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isnan(amax[i]) && std::signbit(amax[i])) {
      refuse("amax[" + std::to_string(i) + "] is negative: it is the largest magnitude of a block");
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const bool nan = std::isnan(amax[i]);
    if (!recipe.has_e8m0_scales()) {
      values[i] = block_scale(recipe, format, {nan ? 0 : amax[i], nan}).scale;
      continue;
    }
    const std::uint8_t byte = scale_byte_for_amax(recipe, format, amax[i]);
    if (bytes != nullptr) bytes[i] = byte;
    if (values != nullptr) values[i] = static_cast<float>(decode(Format::e8m0, byte));
  }
}

}  // namespace
}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

int32_t mxcheck_c_cast(const char* from, const void* values, int64_t count, const char* to, const char* rounding,
                       const char* overflow, void* codes) {
  return guarded([&] {
    const Rounding how = entry_named(kElementRoundings, "rounding", text_of(rounding, "rounding")).value;
    cast(from, values, count, to, how, overflow, nullptr, codes);
  });
}

int32_t mxcheck_c_cast_stochastic(const char* from, const void* values, int64_t count, const char* to,
                                  const char* overflow, const uint32_t* words, void* codes) {
  return guarded([&] {
    check_pointer(words, count, "words");
    cast(from, values, count, to, Rounding::stochastic, overflow, words, codes);
  });
}

int32_t mxcheck_c_decode(const char* format, const void* codes, int64_t count, double* values) {
  return guarded([&] {
    check_count(count, "count");
    check_pointer(codes, count, "codes");
    check_pointer(values, count, "values");
    const Format of = format_of(text_of(format, "format"));
    const int bits = spec(of).bits;
    std::vector<double> decoded(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t code = bits <= 8    ? word_at<std::uint8_t>(codes, i)
                                 : bits <= 16 ? word_at<std::uint16_t>(codes, i)
                                              : word_at<std::uint32_t>(codes, i);
      if (bits < 32 && code >> bits != 0) {
        throw Error(ErrorKind::input, "codes[" + std::to_string(i) + "] is " + std::to_string(code) + ": " +
                                          std::string(spec(of).name) + " has " + std::to_string(bits) + " bits");
      }
      decoded[static_cast<std::size_t>(i)] = decode(of, code);
    }
    std::memcpy(values, decoded.data(), decoded.size() * sizeof(double));
  });
}

int32_t mxcheck_c_scale(const char* recipe, const char* format, const float* amax, int64_t count, uint8_t* bytes,
                        float* values) {
  return guarded([&] {
    check_count(count, "count");
    check_pointer(amax, count, "amax");
    const Recipe of = recipe_named(text_of(recipe, "recipe"));
    if (!of.has_e8m0_scales()) check_pointer(values, count, "scales");
    scales(of, element_of(text_of(format, "format")), amax, count, bytes, values);
  });
}

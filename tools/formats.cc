// mxcheck formats: what each number format is, and its whole code table.

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"
#include "tools/common/output.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct Options {
  std::string name;
  bool json = false;
};

// The codes of one format that have names. Nothing where the format has none.
struct Landmarks {
  double max = 0;
  double min_normal = 0;
  std::optional<double> min_subnormal;
  std::optional<std::uint32_t> inf;
  std::optional<std::uint32_t> nan;
};

Landmarks landmarks(Format format) {
  const FormatSpec& f = spec(format);
  Landmarks marks;
  marks.max = decode(format, f.max_code);
  if (f.encoding == Encoding::power_of_two) {
    marks.min_normal = decode(format, 0);
  } else {
    marks.min_normal = decode(format, std::uint32_t{1} << f.mantissa_bits);
    marks.min_subnormal = decode(format, 1);
  }
  if (f.encoding == Encoding::fixed_point) marks.min_normal = 1;  // its one integer bit
  if (f.encoding == Encoding::ieee) marks.inf = f.max_code + 1;
  if (std::isnan(decode(format, f.nan_code))) marks.nan = f.nan_code;
  return marks;
}

std::string layout(const FormatSpec& f) {
  if (f.encoding == Encoding::power_of_two) return "0-8-0";
  if (f.encoding == Encoding::fixed_point) return "s1.6";
  return fmt::format("1-{}-{}", f.exponent_bits, f.mantissa_bits);
}

int list_formats(bool json) {
  Json rows = Json::array();
  std::string text = fmt::format("{:<7} {:<16} {:>4} {:<7} {:>4} {:>23} {:>23} {:>23} {:>10} {:>10}\n", "name", "dtype",
                                 "bits", "s-e-m", "bias", "max", "min normal", "min subnormal", "inf", "nan");
  for (const Format format : kAllFormats) {
    const FormatSpec& f = spec(format);
    const Landmarks m = landmarks(format);
    const auto code = [&](std::optional<std::uint32_t> c) { return c ? hex(*c, f.bits) : std::string("-"); };
    text += fmt::format("{:<7} {:<16} {:>4} {:<7} {:>4} {:>23} {:>23} {:>23} {:>10} {:>10}\n", f.name, f.dtype_name,
                        f.bits, layout(f), f.bias, decimal(m.max), decimal(m.min_normal),
                        m.min_subnormal ? decimal(*m.min_subnormal) : "-", code(m.inf), code(m.nan));
    Json row{{"name", f.name},
             {"dtype", f.dtype_name},
             {"bits", f.bits},
             {"layout", layout(f)},
             {"bias", f.bias},
             {"max", json_number(m.max)},
             {"min_normal", json_number(m.min_normal)}};
    row["min_subnormal"] = m.min_subnormal ? json_number(*m.min_subnormal) : Json();
    row["inf"] = m.inf ? Json(code(m.inf)) : Json();
    row["nan"] = m.nan ? Json(code(m.nan)) : Json();
    rows.push_back(std::move(row));
  }
  json ? print_json(rows) : print(text);
  return 0;
}

// The code's bits cut at its fields: 0.1111.110 for 448 in E4M3.
std::string fields(const FormatSpec& f, std::uint32_t code) {
  const std::string bits = fmt::format("{:0{}b}", code, f.bits);
  if (f.encoding == Encoding::power_of_two) return bits;
  const std::size_t middle = f.encoding == Encoding::fixed_point ? 1 : static_cast<std::size_t>(f.exponent_bits);
  return bits.substr(0, 1) + "." + bits.substr(1, middle) + "." + bits.substr(1 + middle);
}

int print_codes(Format format, bool json) {
  const FormatSpec& f = spec(format);
  if (f.bits > 16) {
    throw Error(ErrorKind::usage, std::string(f.name) +
                                      " has 2^32 codes, too many for a table; name a format of at most "
                                      "16 bits");
  }
  Json codes = Json::array();
  std::string text = fmt::format("{:<8} {:<20} {:<20} {}\n", "code", "fields", "hexfloat", "decimal");
  for (std::uint32_t code = 0; code < std::uint32_t{1} << f.bits; ++code) {
    const double value = decode(format, code);
    if (json) {
      Json row;
      row["code"] = hex(code, f.bits);
      row["fields"] = fields(f, code);
      row["hexfloat"] = hexfloat(value);
      row["value"] = json_number(value);
      codes.push_back(std::move(row));
    } else {
      text +=
          fmt::format("{:<8} {:<20} {:<20} {}\n", hex(code, f.bits), fields(f, code), hexfloat(value), decimal(value));
    }
  }
  if (!json) {
    print(text);
    return 0;
  }
  Json all;
  all["format"] = f.name;
  all["dtype"] = f.dtype_name;
  all["codes"] = std::move(codes);
  print_json(all);
  return 0;
}

int run(const Options& options) {
  if (options.name.empty()) return list_formats(options.json);
  const std::optional<Format> format = find_format(options.name);
  if (format) return print_codes(*format, options.json);
  throw Error(ErrorKind::usage,
              "unknown format '" + options.name + "'" + known_names(options.name, names_of(kAllFormats)));
}

}  // namespace

void add_formats(Command& app) {
  auto options = std::make_shared<Options>();
  Command sub = app.subcommand("formats", "Number formats, and the code table of one");
  sub.option("NAME", options->name, "A format's name (e4m3) or dtype name (float8_e4m3fn); without it, all of them")
      .completes(names_of(kAllFormats));
  sub.flag("--json", options->json, "Print JSON; NaN and infinities are strings");
  sub.footer(
      "Examples:\n"
      "  mxcheck formats            one line a format: width, bias, range, special codes\n"
      "  mxcheck formats e4m3       256 lines: code, sign.exponent.mantissa, hexfloat, decimal\n"
      "  mxcheck formats bf16       65536 lines");
  sub.runs([options] { return run(*options); });
}

}  // namespace mxcheck

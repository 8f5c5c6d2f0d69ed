#include "bindings/formats.h"

#include <string>

#include "bindings/guard.h"

namespace mxcheck::c {
namespace {

template <class Wanted>
Format named(std::string_view name, const char* what, const Wanted& wanted) {
  std::string all;
  for (const Format format : kAllFormats) {
    const FormatSpec& f = spec(format);
    if (!wanted(f)) continue;
    if (f.name == name || f.dtype_name == name) return format;
    all += (all.empty() ? "" : ", ") + std::string(f.name);
  }
  refuse("there is no " + std::string(what) + " '" + std::string(name) + "': " + all + " are");
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

}  // namespace mxcheck::c

#include "bindings/formats.h"

#include <string>
#include <vector>

#include "bindings/guard.h"
#include "numerics/names.h"

namespace mxcheck::c {
namespace {

template <class Wanted>
Format named(std::string_view name, const char* what, const Wanted& wanted) {
  const auto found = find_format(name);
  if (found && wanted(spec(*found))) return *found;
  std::vector<std::string> known;
  for (const FormatSpec& f : kFormatSpecs) {
    if (wanted(f)) known.emplace_back(f.name);
  }
  refuse("unknown " + std::string(what) + " '" + std::string(name) + "'; known are " + join(known));
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

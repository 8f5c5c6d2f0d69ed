#include "bindings/formats.h"

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/guard.h"
#include "numerics/names.h"
#include "numerics/text.h"

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

}  // namespace mxcheck::c

#include "goldens/format/golden.h"

#include <algorithm>

#include "numerics/error.h"

namespace mxcheck {
const std::string& attribute(const Attributes& attributes, std::string_view key) {
  static const std::string none;
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == key; });
  return found == attributes.end() ? none : found->second;
}

const DatasetInfo* GoldenInfo::find(std::string_view name) const {
  const auto found = std::find_if(datasets.begin(), datasets.end(), [&](const auto& d) { return d.name == name; });
  return found == datasets.end() ? nullptr : &*found;
}

Format format_of_attribute(const std::string& name) {
  for (const Format format : kAllFormats) {
    if (spec(format).dtype_name == name) return format;
  }
  throw Error(ErrorKind::golden, "'" + name + "' is no number format; formats are named as in float8_e4m3fn, bfloat16");
}

}  // namespace mxcheck

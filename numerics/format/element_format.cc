#include "numerics/format/element_format.h"

#include <algorithm>

#include "numerics/error.h"

namespace mxcheck {

const std::vector<Format>& element_formats() {
  static const std::vector<Format> formats{Format::e4m3, Format::e5m2,   Format::e2m1, Format::e2m3,
                                           Format::e3m2, Format::mxint8, Format::e5m6};
  return formats;
}

Format element_format_by_name(const std::string& name) {
  const std::vector<Format>& known = element_formats();
  const auto format = format_by_name(name);
  if (format && std::find(known.begin(), known.end(), *format) != known.end()) return *format;
  std::string names;
  for (const Format f : known) names += (names.empty() ? "" : ", ") + std::string(spec(f).name);
  throw Error(ErrorKind::usage, (format ? "'" + name + "' is not a format of block elements; these are "
                                        : "unknown format '" + name + "'; known are ") +
                                    names);
}

}  // namespace mxcheck

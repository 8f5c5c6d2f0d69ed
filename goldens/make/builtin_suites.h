#pragma once
// Private to goldens/: the texts of goldens/suites/*.json, as they travel inside the library.

#include <span>
#include <string_view>

namespace mxcheck {

struct BuiltinText {
  const char* name;  // "formats"
  std::string_view text;
};

std::span<const BuiltinText> builtin_texts();

}  // namespace mxcheck

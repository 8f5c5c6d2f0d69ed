#include "goldens/builtin_suites.h"

#include "goldens/suite.h"
#include "numerics/error.h"

namespace mxcheck {

const std::vector<Suite>& builtin_suites() {
  static const std::vector<Suite> suites = [] {
    std::vector<Suite> all;
    for (const BuiltinText& b : builtin_texts()) all.push_back(parse_suite(b.text, b.name));
    return all;
  }();
  return suites;
}

const Suite& builtin_suite(std::string_view name) {
  std::string names;
  for (const Suite& suite : builtin_suites()) {
    if (suite.name == name) return suite;
    names += (names.empty() ? "" : ", ") + suite.name;
  }
  throw Error(ErrorKind::usage,
              "no suite '" + std::string(name) + "'; there are " + names + ", or give the path of a SPEC.json");
}

}  // namespace mxcheck

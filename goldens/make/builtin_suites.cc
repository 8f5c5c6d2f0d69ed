#include "goldens/make/builtin_suites.h"

#include "goldens/make/suite.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {

const std::vector<GoldenSuite>& builtin_suites() {
  static const std::vector<GoldenSuite> suites = [] {
    std::vector<GoldenSuite> all;
    for (const BuiltinText& b : builtin_texts()) all.push_back(parse_suite(b.text, b.name));
    return all;
  }();
  return suites;
}

const GoldenSuite& builtin_suite(std::string_view name) {
  for (const GoldenSuite& suite : builtin_suites()) {
    if (suite.name == name) return suite;
  }
  const std::string names = join(builtin_suites(), ", ", [](const GoldenSuite& suite) { return suite.name; });
  throw Error(ErrorKind::usage,
              "no suite '" + std::string(name) + "'; there are " + names + ", or give the path of a SPEC.json");
}

}  // namespace mxcheck

#pragma once
// The sources of this repository, for rules to be run on.

#include <filesystem>
#include <string>
#include <vector>

#include "tests/repository/source_rules.h"

namespace mxcheck::repository {

const std::filesystem::path& root();

// The bytes of a file; a failure of the test when there is none.
std::string contents(const std::filesystem::path& path);

struct Source {
  std::string path;  // relative to the root
  std::string text;
};

// Every C and C++ file of the tree's folders.
const std::vector<Source>& sources();

// A line for each finding of the rule, which is called with each source; empty where there are none.
template <class Rule>
std::string report(Rule rule) {
  std::string lines;
  for (const Source& source : sources()) {
    for (const Finding& finding : rule(source)) {
      lines += source.path + ":" + std::to_string(finding.line) + ": " + finding.what + "\n";
    }
  }
  return lines;
}

}  // namespace mxcheck::repository

#pragma once
// Who may include whom, as two tables, and functions of a path and a text that read them, so that the rules can be
// tested on planted violations. docs/design.md draws the arrows.

#include <string_view>
#include <vector>

#include "tests/repository/source_rules.h"

namespace mxcheck::repository {

struct Arrow {
  std::string_view from;             // prefix of a source's path; the longest that fits counts
  std::vector<std::string_view> to;  // prefixes of what it may include
  // A source in a folder of `from` (kernels/cpu/a.cc) may include that folder (kernels/cpu/) and not its neighbours.
  bool own_folder = false;
};

// Between the folders of the tree. A folder that is not listed may include anything.
const std::vector<Arrow>& folder_arrows();
// Between the groups of properties/; includes of other folders are not checked.
const std::vector<Arrow>& property_arrows();

// Includes that the arrows do not allow. path is relative to the repository's root.
std::vector<Finding> forbidden_includes(std::string_view path, std::string_view text);        // folder_arrows()
std::vector<Finding> forbidden_group_includes(std::string_view path, std::string_view text);  // property_arrows()

}  // namespace mxcheck::repository

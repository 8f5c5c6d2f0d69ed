#pragma once
// Rules by which each header stands alone. They read text: no header is compiled for them. Public headers are compiled
// alone besides (consumer/CMakeLists.txt).
//
// Does not know the project's own names: a header that uses one of our types without its include is found by the
// compiler, since a source includes its own header first.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/repository/source_rules.h"

namespace mxcheck::repository {

// A source whose folder has a header of the same stem (`headers`: the paths of all headers) includes it first.
// Not checked in kernels/sm90, whose sources cannot change without new records of GPU runs.
std::vector<Finding> own_header_first(std::string_view path, std::string_view text,
                                      std::span<const std::string> headers);

// The texts of headers by their path.
using HeaderTexts = std::map<std::string, std::string, std::less<>>;

// Names std::x in a header for which neither it nor a header of ours that it includes has the standard header, and
// names that the table of header_rules.cc lacks. One finding a name: the first line that has it.
std::vector<Finding> missing_std_includes(std::string_view text, const HeaderTexts& headers);

}  // namespace mxcheck::repository

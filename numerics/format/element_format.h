#pragma once
// The formats that quantize can write, by name.

#include <string>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck {

// The formats that a block's elements can have, in the order of the documentation.
const std::vector<Format>& element_formats();

// Error{usage} listing the element formats for any other name.
Format element_format_by_name(const std::string& name);

}  // namespace mxcheck

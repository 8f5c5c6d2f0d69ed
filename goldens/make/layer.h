#pragma once
// Private to goldens/: the golden kinds about layers (docs/layer.md), computed in memory.

#include <string>

#include "goldens/make/suite.h"
#include "goldens/make/tables.h"

namespace mxcheck {

// input_directory: where relative files of the spec are.
Table make_swiglu(const GoldenSpec& golden, const std::string& input_directory, int threads);
Table make_layer(const GoldenSpec& golden, const std::string& input_directory, int threads);

}  // namespace mxcheck

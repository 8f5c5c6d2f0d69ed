#pragma once
// Private to goldens/: the golden kinds that are computed in memory: formats, casts, scales, layout, dequantize.

#include <vector>

#include "goldens/format/golden.h"
#include "goldens/make/suite.h"

namespace mxcheck {

struct Table {
  GoldenInfo info;
  std::vector<std::vector<std::byte>> data;  // of each dataset
};

Table make_table(const GoldenSpec& golden);

// Attributes that goldens of every kind begin with: kind, name, description.
Attributes common_attributes(const GoldenSpec& golden);

}  // namespace mxcheck

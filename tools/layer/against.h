#pragma once
// A dump compared with the layer that was computed: the answer of `mxcheck layer --against`.

#include "goldens/layer/layer_data.h"
#include "tools/layer/layer_options.h"
#include "tools/layer/routing.h"

namespace mxcheck {

struct Comparison {
  std::string text;
  int exit_code = 0;  // 0 where all that the dump has is equal, else 1
};
Comparison compare_with_dump(const LayerOptions& o, LayerData& layer, const LayerRouting& routing);

}  // namespace mxcheck

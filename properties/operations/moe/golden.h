#pragma once
// Goldens about whole layers: the kind layer of properties/goldens/suite.h.

#include <cstdint>
#include <vector>

#include "properties/goldens/input.h"
#include "properties/goldens/kind.h"
#include "properties/operations/router/golden.h"
#include "reference/layer/layer.h"

namespace mxcheck {

struct LayerGolden {
  const LayerRecipe* recipe = nullptr;
  InputSpec x, d_o;
  std::vector<InputSpec> gate, up, down;  // an expert each
  std::vector<std::int64_t> closed;
  GateUp gate_up = GateUp::halves;
  RouteGolden route;
};

std::vector<const GoldenKind*> layer_golden_kinds();

}  // namespace mxcheck

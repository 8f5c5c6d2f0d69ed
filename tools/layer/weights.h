#pragma once
// W1 and W2 as a layer's checkpoint holds them: one tensor each, in either order of its columns, or three tensors an
// expert.

#include "tools/layer/input.h"

namespace mxcheck {

struct LayerWeights {
  std::vector<std::uint16_t> w1;  // [E, d, 2n], as gate_up says
  std::vector<std::uint16_t> w2;  // [E, n, d]
  std::int64_t inner = 0;         // n
};

// Error{input} for sizes that do not agree with `experts` and `width`, which come from `routes_from` and `x_from`.
LayerWeights read_weights(const LayerFiles& files, std::int64_t experts, std::int64_t width,
                          const std::string& routes_from, const std::string& x_from);

}  // namespace mxcheck

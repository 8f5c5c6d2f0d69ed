#pragma once
// The outputs of a recipe's passes, against the reference on the host, on parts of the layer that it can compute alone.
//
//   const LayerCheck check(shape, MXCHECK_HALVES, routes, memory);
//   const CheckResult found = check.compare(recipe, 3);   // after both its passes, before those of another recipe
//
// Compared are outputs and what is kept, bit for bit. Other intermediates are in a workspace that is used again, and
// show in what follows from them: A' in dW2, dH in dW1, dX~ in dX, Y in O, P and A in dS.

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/sublayer.h"

namespace mxcheck::bench {

struct CheckResult {
  bool equal = true;
  std::string text;  // what was compared, and what differs
};

class LayerCheck {
 public:
  // Downloads the inputs.
  LayerCheck(const MoeShape& shape, mxcheck_gate_up gate_up, const LayerRoutes& routes, const LayerMemory& memory);

  // All of this many experts, the busiest and the idlest first, and 32 tokens; the whole layer where that is all
  // experts.
  [[nodiscard]] CheckResult compare(RecipeOnDevice& recipe, std::int64_t experts) const;

 private:
  HostLayer layer_;
};

}  // namespace mxcheck::bench

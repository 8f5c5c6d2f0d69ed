#pragma once
// Measured times of whole layers, to stand beside estimates: docs/performance.md's. tests/cost compares these rows with
// the page.
//
//   for (const MeasuredLayer& m : measured_layers()) ...

#include <span>
#include <string_view>

#include "cost/estimate.h"

namespace mxcheck {

struct MeasuredLayer {
  std::string_view recipe;
  std::string_view card;
  LayerShape shape;
  double forward_us = 0;
  double backward_us = 0;
  std::string_view source;  // a page and its section
};

std::span<const MeasuredLayer> measured_layers();

}  // namespace mxcheck

#pragma once
// What a recipe takes, beside what it loses: the speed that its runs were recorded at, and the memory that follows from
// the recipe alone.
//
// Errors: none.

#include <limits>

#include "trainer/compare/arm.h"

namespace mxcheck {

// Bits are those of an element's code and its share of the scale of its block; 16 where it is BF16.
struct RecipeCost {
  // Tokens of a run's own steps over their seconds, mean over the runs: of as many at once as there were, with their
  // observations and without evaluations. NaN where no run has any seconds.
  double tokens_a_second = std::numeric_limits<double>::quiet_NaN();
  double x_bits = 16;  // of the operands of the GEMM `up`
  double w1_bits = 16;
  double kept_x_bits = 16;  // of what is kept of the forward pass for the backward one
  double kept_h_bits = 16;
  int optimizer_bytes = 12;  // a parameter: the weight in FP32 and AdamW's two moments
};

RecipeCost cost_of(const Arm& arm);

}  // namespace mxcheck

#pragma once
// Observations of an arm's mixture-of-experts layers by its runs: routes that agree with BF16's, how evenly experts are
// loaded, and how much quantization saturates and flushes. Means over the arm's runs, at the steps that were observed.
//
// Errors: none. What no run observed is absent.

#include <string>
#include <vector>

#include "trainer/compare/trajectory.h"

namespace mxcheck {

// Shares of an operand's elements, over all layers: set to the largest number, and non-zero ones that became zero.
struct OperandShares {
  std::string operand;  // "up.a", ...
  StepCurve saturated;
  StepCurve flushed;
};

struct ObservedArm {
  // Share of routes that the run's own recipe and BF16 choose alike, on the validation set with the same weights.
  StepCurve equal_routes;                     // at every evaluation, over all layers
  std::vector<double> equal_routes_by_layer;  // at the last
  // Entropy of the loads over log(experts): 1 is even, 0 is all rows to one expert. Mean over the layers.
  StepCurve load_entropy;
  std::vector<std::vector<double>> loads;  // at the last observation, by layer: shares of rows, the largest first
  std::vector<OperandShares> operands;     // by name
};

ObservedArm observed_of(const Arm& arm);

}  // namespace mxcheck

#pragma once
// A candidate's tensors against a golden of the kind layer: in the order of the steps, each also against what the
// candidate's own earlier tensors give, so that one fault is told once (properties/diagnosis/layer/verdict.h).

#include <string>
#include <vector>

#include "properties/diagnosis/golden_verdict.h"

namespace mxcheck {

// only: names of outputs, which the golden has; empty means all. Tensors that the candidate lacks are made again from
// those that it has. Error{golden} for a golden whose attributes and datasets are no layer's.
GoldenVerdict judge_layer_golden(const GoldenTensors& golden, const CandidateTensor& candidate,
                                 const std::vector<std::string>& only);

}  // namespace mxcheck

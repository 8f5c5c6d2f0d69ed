#pragma once
// The faults of SwiGLU, its gradient and their codes, for goldens of the kind swiglu: the causes of a layer's
// steps, and those of quantized blocks.

#include <vector>

#include "properties/diagnosis/cause.h"
#include "properties/diagnosis/golden_verdict.h"

namespace mxcheck {

// The hypotheses refer to golden, which must outlive them. None for other kinds. Codes are also held against the
// candidate's own scales and values. Error{golden} for attributes or datasets that no such golden has.
std::vector<Hypothesis> swiglu_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset,
                                          const CandidateTensor& candidate);

}  // namespace mxcheck

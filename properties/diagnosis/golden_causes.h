#pragma once
// The hypotheses that fit a golden's kind and dataset.

#include <vector>

#include "properties/diagnosis/cause.h"
#include "properties/diagnosis/golden_problem.h"
#include "properties/diagnosis/golden_verdict.h"

namespace mxcheck {

// The problem that a quantize golden states, without the candidate's own scales.
GoldenProblem problem_of(const GoldenTensors& golden);

// For goldens that are tables (formats, casts, scales, layout, dequantize): the dataset taken for another of the same
// golden, and what goes wrong with lists, casts and decoding. The hypotheses refer to golden and scratch, which must
// outlive them.
std::vector<Hypothesis> table_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset,
                                         GoldenProblem& scratch);

}  // namespace mxcheck

#pragma once
// The hypotheses that fit a golden's kind and dataset.

#include <vector>

#include "properties/diagnosis/cause.h"
#include "properties/diagnosis/golden_problem.h"
#include "properties/diagnosis/golden_verdict.h"

namespace mxcheck {

// The problem that a quantize golden states, without the candidate's own scales.
BlocksProblem problem_of(const GoldenTensors& golden);

// For goldens of other kinds than quantize and layer: rows of the kind's operation, the dataset taken for another of
// the same golden, and lists shifted or never written. They refer to golden and candidate, which must outlive them.
Table golden_table(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate);

}  // namespace mxcheck

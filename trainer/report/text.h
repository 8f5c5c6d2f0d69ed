#pragma once
// A comparison as text: verdicts, noise and power, trajectory, observations, runs, and how it was decided. The same
// comparison gives the same text.
//
// Errors: none.

#include <string>

#include "trainer/compare/comparison.h"

namespace mxcheck {

std::string comparison_text(const ParityComparison& comparison);

}  // namespace mxcheck

#pragma once
// The forest plot of a comparison: a row an arm, its interval and its pairs against the margins. What is beyond the
// axis is an arrow at its end with the mean as a number.
//
// Errors: none.

#include <string>

#include "trainer/compare/comparison.h"

namespace mxcheck {

std::string forest_svg(const ParityComparison& comparison);

}  // namespace mxcheck

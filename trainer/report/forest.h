#pragma once
// The forest plot of a comparison, a group a branch point: for each arm a line of text, and under it its interval and
// its pairs against the margins. Drawn as SVG whose places are shares of the width, so that it is as wide as the page,
// a phone's too, with text of one size. What is beyond the axis is an arrow at its end.
//
// Errors: none.

#include <string>

#include "trainer/compare/comparison.h"

namespace mxcheck {

std::string forest_html(const ParityComparison& comparison);

}  // namespace mxcheck

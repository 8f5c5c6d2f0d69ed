#pragma once
// A comparison as one HTML page that needs nothing else: no network, no script; charts are inline SVG, and colours
// follow the reader's light or dark setting. It is well-formed XML too.
//
// Errors: none.

#include <string>

#include "trainer/compare/comparison.h"

namespace mxcheck {

std::string comparison_html(const ParityComparison& comparison);

}  // namespace mxcheck

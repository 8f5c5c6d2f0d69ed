#pragma once
// The steps of every pass as a picture, one bar a step where it begins and ends, all passes of a shape on one scale:
// forward on the left, backward on the right, a recipe a row. Nothing is loaded from elsewhere.

#include <string>

#include "benchmarks/sm90/moe/report.h"

namespace mxcheck::bench {

std::string time_line_svg(const MoeResults& results);

}  // namespace mxcheck::bench

#pragma once
// A comparison as text, as JSON and as a page. The same comparison gives the same bytes.
//
// Errors: none.

#include <string>
#include <string_view>

#include "trainer/compare/comparison.h"

namespace mxcheck {

// Verdicts, noise and power, trajectory, observations, runs, and how it was decided.
std::string comparison_text(const ParityComparison& comparison);

// Every number of it, for machines. What is no finite number is null. Shares and relative differences are plain
// numbers: 0.001 is 0.1 %.
std::string comparison_json(const ParityComparison& comparison);
inline constexpr std::string_view kComparisonSchema = "mxcheck loss parity comparison 1";

// One HTML page that needs nothing else: no network, no script; charts are inline SVG, and colours follow the reader's
// light or dark setting. It is well-formed XML too.
std::string comparison_html(const ParityComparison& comparison);

}  // namespace mxcheck

#pragma once
// A comparison as JSON, every number of it, for machines. What is no finite number is null. Shares and relative
// differences are plain numbers: 0.001 is 0.1 %.
//
// Errors: none.

#include <string>
#include <string_view>

#include "trainer/compare/comparison.h"

namespace mxcheck {

inline constexpr std::string_view kComparisonSchema = "mxcheck loss parity comparison 1";

std::string comparison_json(const ParityComparison& comparison);

}  // namespace mxcheck

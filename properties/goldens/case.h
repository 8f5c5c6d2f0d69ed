#pragma once
// The kind `case`: any case of the gate (properties/core/case.h) as a golden, with the inputs that the gate draws and
// the reference's outputs. So every operation has goldens: products, dispatch and combine, whole layers.
//
//   "case"   the case's text, as a report prints it; "STATEMENT: CASE" is taken too. Not with fields that say how a
//   call
//            is made (stride, col_stride, threads, misaligned), and not larger than kMostCaseWork.
//
// In: the call's inputs, by the names that reports use, with '_' for what no dataset's name may hold; offsets are
// int64, indices int32, other things their bits. Out: the call's outputs. Attributes: `case`, and its fields one by
// one. Dataset attribute `open`: "FIRST:END ...", bytes of an output that may hold anything; no verdict looks at them.
//
// Errors: Error{usage} for a text that is no case of an operation, or too large; of a golden's own, Error{golden}.

#include <cstdint>
#include <string>

#include "properties/core/case.h"
#include "properties/goldens/kind.h"

namespace mxcheck {

// Bounds of a golden, in multiplications or elements of the reference (Operation::work): of all of it, and of each
// matrix, which takes half a gigabyte at most, in FP32.
inline constexpr std::int64_t kMostCaseWork = std::int64_t{1} << 33;
inline constexpr std::int64_t kMostCaseMatrix = std::int64_t{1} << 27;

Case golden_case(const std::string& text);

const GoldenKind& case_golden_kind();

}  // namespace mxcheck

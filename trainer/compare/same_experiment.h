#pragma once
// Runs that are compared must share everything but seed, recipe, token rounding, the type of the moments, and the
// weight that starts one ulp up. Engine, machine and version may differ: a step is defined to the bit.
//
// Errors: Error{input}, naming the files, the field and both values.

#include <span>

#include "trainer/compare/arm.h"

namespace mxcheck {

// A run by itself: it finished with as many steps as it was to have and at least three evaluations, or diverged.
void check_whole(const NamedRun& run);

void check_same_experiment(std::span<const NamedRun> runs);

}  // namespace mxcheck

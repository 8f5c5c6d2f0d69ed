#pragma once
// Every recipe on one tensor, which is read in panels and as many times as the medians need (two or three): memory does
// not grow with the tensor, but for blocks as high as the matrix.

#include <vector>

#include "tools/common/matrix_input.h"
#include "tools/common/progress.h"
#include "tools/recipes/recipes.h"

namespace mxcheck {

// The report, its lines in the order of `all`. Threads (0: the machine's) change nothing but the time.
// Errors: those of reading, of study() and of PanelQuantizer, with the tensor's location; Error{input} for a file that
// changes meanwhile.
TensorReport study_tensor(const MatrixInput& input, const std::vector<Combination>& all, int threads,
                          Progress& progress);

}  // namespace mxcheck

#pragma once
// Named values that all ranks of a run must share, compared before the first step.

#include <string>
#include <utility>
#include <vector>

#include "kernels/parallel/mesh.h"

namespace mxcheck {

using SharedValues = std::vector<std::pair<std::string, std::string>>;

// ParallelError{disagreement} that names the first value in which ranks differ, the ranks that differ from most others,
// and both values.
void require_agreement(mxcheck_kernels::parallel::Mesh& mesh, const SharedValues& mine);

}  // namespace mxcheck

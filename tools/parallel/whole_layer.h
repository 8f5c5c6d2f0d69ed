#pragma once
// The layer that the ranks compute together, in one call of each pass with all tokens and all experts.

#include <array>
#include <vector>

#include "kernels/parallel/expert_parallel.h"
#include "tools/parallel/parallel.h"

namespace mxcheck {

// Digests of the rows that each rank has: O, dX, dS of its tokens, dW1, dW2 of its experts.
std::vector<std::array<RowDigest, 5>> whole_layer_digests(const ParallelOptions& o,
                                                          const mxcheck_kernels::parallel::Placement& placement,
                                                          mxcheck_kernels::parallel::Device& device,
                                                          const mxcheck_kernels::parallel::Libraries& libraries);

// Rows of W1 or of a gradient as rows of a digest: `each` of every expert.
std::vector<std::int64_t> expert_rows(const std::vector<std::int64_t>& experts, std::int64_t each);
std::vector<std::int64_t> number_range(std::int64_t first, std::int64_t last);

}  // namespace mxcheck

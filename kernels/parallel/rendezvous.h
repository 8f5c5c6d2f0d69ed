#pragma once
// The first meeting of the ranks: all come to rank 0, which tells each where the others are; then each pair connects.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/parallel/mesh.h"
#include "kernels/parallel/sockets.h"

namespace mxcheck_kernels::parallel {

// One connection a rank, none to this one itself.
std::vector<Socket> meet(const RankPlace& place, const MeshOptions& options);

// "rank 3", "ranks 1, 2 and 5"
std::string ranks_text(const std::vector<int>& ranks);
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace mxcheck_kernels::parallel

#pragma once
// Tensors of a layer over ranks, as pure functions of the seed and an element's place in the whole layer: a rank makes
// those of its tokens and its experts alone.

#include <cstdint>
#include <vector>

#include "kernels/parallel/placement.h"
#include "tools/parallel/parallel.h"

namespace mxcheck {

// X and dO of tokens first to last, [last - first, width] in BF16.
std::vector<std::uint16_t> parallel_x(const ParallelOptions& o, std::int64_t first, std::int64_t last);
std::vector<std::uint16_t> parallel_d_o(const ParallelOptions& o, std::int64_t first, std::int64_t last);
// W1 and W2 of these experts, one below the other.
std::vector<std::uint16_t> parallel_w1(const ParallelOptions& o, const std::vector<std::int64_t>& experts);
std::vector<std::uint16_t> parallel_w2(const ParallelOptions& o, const std::vector<std::int64_t>& experts);

// Routes of tokens first to last: the top k of random logits. --load random: all experts alike; skewed: expert e as
// 1 / (1 + e); one: every token to the first k.
mxcheck_kernels::parallel::HomeSlots parallel_slots(const ParallelOptions& o, std::int64_t first, std::int64_t last);

}  // namespace mxcheck

#pragma once
// Extents of a case: within an operation's limits, smaller while shrinking, and what must follow when they change.

#include <cstdint>
#include <span>
#include <vector>

#include "properties/core/operation.h"

namespace mxcheck {

// The next multiple at or above the extent, or the last one within the limit (0: none).
std::int64_t to_multiple(std::int64_t extent, std::int64_t multiple, std::int64_t limit);

// The case with its extents brought to the operation's multiples and limits; experts, plants and stride follow.
Case within_limits(Case c, const OperationInfo& limits);
bool is_within_limits(const Case& c, const OperationInfo& limits);

// Offsets brought to the end that they must have; plants that stay where they are if they can, else move to the edge.
void fit_experts(Case& c);
void fit_plants(Case& c);

// Extents to try in place of one at which a case fails: 1, then the next multiple below of every power of two, the
// largest power first. Whatever the threshold from which on it fails, it is found in a logarithmic number of steps.
std::vector<std::int64_t> smaller_extents(std::int64_t extent);

// The source row of each row of a gathered matrix. With fewer source rows than rows some repeat, as tokens do that go
// to several experts.
std::vector<std::int32_t> draw_index(std::uint64_t seed, std::int64_t rows, std::int64_t source_rows);

// Elements of a drawn case, about.
inline constexpr std::int64_t kMostDrawnElements = 50'000;

}  // namespace mxcheck

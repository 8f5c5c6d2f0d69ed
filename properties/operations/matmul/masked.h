#pragma once
// Masked groups of a GEMM's case (kernels/candidate_matmul.h): experts * capacity rows, of which group e has the first
// counts[e] from e * capacity on. Rows of D past a count are no part of the answer.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/domain/domain.h"
#include "properties/core/operation.h"
#include "properties/core/rng.h"
#include "properties/core/simpler.h"

namespace mxcheck {

// The kind of a case by the rows that its groups have: the first of these that holds.
enum class Masked : std::uint8_t { none_has_rows, all_full, one_row_each, some_empty, some_full, any };
inline constexpr int kMaskedKinds = 6;
const std::vector<std::string>& masked_labels();
Masked kind_of_counts(const std::vector<std::int64_t>& counts, std::int64_t capacity);

// So many counts of this kind; empty where there can be none.
std::optional<std::vector<std::int64_t>> draw_counts(Masked kind, std::int64_t groups, std::int64_t capacity,
                                                     Draw& draw);

// A third of the capacity, nothing, one row and all of it, in turn.
std::vector<std::int64_t> usual_counts(std::int64_t groups, std::int64_t capacity);

// Error{usage} for a case that no call could pose.
void check_masked(const Case& c);
// After rows have changed: a multiple of the groups, and counts that are no larger than the capacity.
void fit_counts(Case& c);
// The case with fewer groups, a smaller capacity and smaller counts.
void simpler_groups(const Case& c, SimplerCases& simpler);

// The bytes of D, rows of so many, that may hold anything.
std::vector<std::pair<std::uint64_t, std::uint64_t>> open_rows(const Case& c, std::uint64_t row_bytes);

std::vector<InvalidCall> invalid_counts();

}  // namespace mxcheck

#pragma once
// Helpers shared by the statements about routers.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/check.h"
#include "properties/operations/router/operation.h"

namespace mxcheck {

// The families (equality.cc, laws.cc, row_laws.cc, refusals.cc).
std::vector<Statement> route_equality_statements();
std::vector<Statement> route_law_statements();
std::vector<Statement> route_row_law_statements();
std::vector<Statement> route_refusal_statements();

// A finding without a tensor to compare with: the sentence says what is broken.
Finding broken(std::string summary);

// A statement about drawn cases; what it applies to and its corners are the caller's.
Statement route_law(std::string_view name, std::string_view sentence,
                    std::optional<Finding> (*check)(CheckContext&, const Case&));

// Rounds to tiles.
bool has_tiles(const Variant& v);

// Corner cases of each route_round variant on every run: every count of tokens around two tiles, ties, too few tokens.
std::vector<Case> rounding_corners(const Variant& v, Suite suite);

}  // namespace mxcheck

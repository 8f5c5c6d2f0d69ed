#pragma once
// Offsets of groups of rows (experts), by kind: which of them are empty, and where they end.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/rng.h"

namespace mxcheck {

enum class Groups : std::uint8_t {
  any,          // rows in all of them, or in all but some that stand alone
  whole_units,  // every end at a multiple of the unit
  one_has_all,
  first_empty,
  last_empty,
  empty_in_a_row,  // two or more after one another
  none_has_rows,
  one_row_each,  // at most
};
inline constexpr int kGroupKinds = 8;
const std::vector<std::string>& group_kind_labels();

// The first of none_has_rows, one_has_all, one_row_each, empty_in_a_row, first_empty, last_empty, whole_units that it
// is.
Groups kind_of_groups(const std::vector<std::int64_t>& offsets, std::int64_t unit);

// count groups of that kind that end at `end`; empty where there can be none.
std::optional<std::vector<std::int64_t>> draw_groups(Groups kind, std::int64_t count, std::int64_t end,
                                                     std::int64_t unit, Draw& draw);

}  // namespace mxcheck

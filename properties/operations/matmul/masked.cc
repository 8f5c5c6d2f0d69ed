#include "properties/operations/matmul/masked.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "kernels/candidate_matmul.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/operations/matmul/fields.h"

namespace mxcheck {

const std::vector<std::string>& masked_labels() {
  static const std::vector<std::string> labels{"none has rows",  "all are full",  "one row each",
                                               "some are empty", "some are full", "any"};
  return labels;
}

Masked kind_of_counts(const std::vector<std::int64_t>& counts, std::int64_t capacity) {
  const auto all = [&](std::int64_t n) { return std::ranges::all_of(counts, [n](std::int64_t c) { return c == n; }); };
  const auto some = [&](std::int64_t n) { return std::ranges::find(counts, n) != counts.end(); };
  if (all(0)) return Masked::none_has_rows;
  if (all(capacity)) return Masked::all_full;
  if (all(1)) return Masked::one_row_each;
  return some(0) ? Masked::some_empty : some(capacity) ? Masked::some_full : Masked::any;
}

std::optional<std::vector<std::int64_t>> draw_counts(Masked kind, std::int64_t groups, std::int64_t capacity,
                                                     Draw& draw) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(groups));
  for (std::int64_t& n : counts) {
    // Tiles end at multiples of 64.
    const std::int64_t beside = 64 * draw.between(0, capacity / 64) + draw.between(-1, 1);
    n = std::clamp<std::int64_t>(draw.chance(40) ? beside : draw.between(0, capacity), 0, capacity);
    if (kind == Masked::none_has_rows) n = 0;
    if (kind == Masked::all_full) n = capacity;
    if (kind == Masked::one_row_each) n = std::min<std::int64_t>(1, capacity);
    if (kind == Masked::some_full || kind == Masked::any) n = std::max<std::int64_t>(1, n);
    if (kind == Masked::any) n = std::min(n, capacity - 1);
  }
  std::int64_t& one = counts[draw.below(counts.size())];
  std::int64_t& other = counts[draw.below(counts.size())];
  if (kind == Masked::some_empty) other = std::max<std::int64_t>(1, other), one = 0;
  if (kind == Masked::some_full) other = std::max<std::int64_t>(1, capacity / 2), one = capacity;
  const auto fits = [capacity](std::int64_t n) { return n >= 0 && n <= capacity; };
  if (!std::ranges::all_of(counts, fits) || kind_of_counts(counts, capacity) != kind) return std::nullopt;
  return counts;
}

std::vector<std::int64_t> usual_counts(std::int64_t groups, std::int64_t capacity) {
  std::vector<std::int64_t> counts;
  for (std::int64_t e = 0; e < groups; ++e) {
    const std::int64_t all[] = {(capacity + 2) / 3, 0, std::min<std::int64_t>(1, capacity), capacity};
    counts.push_back(all[e % 4]);
  }
  return counts;
}

void check_masked(const Case& c) {
  const std::vector<std::int64_t>& counts = matmul_case(c).counts;
  if (is_masked(c.variant) != !counts.empty())
    throw Error(ErrorKind::usage, "case field counts goes with groups=masked: the rows of each group");
  if (counts.empty()) return;
  if (c.gather != 0) throw Error(ErrorKind::usage, "masked groups have no row index: case field gather is 0");
  const auto groups = static_cast<std::int64_t>(counts.size());
  if (c.rows % groups != 0) {
    throw Error(ErrorKind::usage,
                fmt::format("{} masked groups of {} rows in all: rows is a multiple of their number", groups, c.rows));
  }
  for (const std::int64_t n : counts) {
    if (n < 0 || n > c.rows / groups) {
      throw Error(ErrorKind::usage, fmt::format("case field counts has {}: 0 to the groups' capacity, {}, is possible",
                                                n, c.rows / groups));
    }
  }
}

void fit_counts(Case& c) {
  if (!is_masked(std::as_const(c).variant) || matmul_case(std::as_const(c)).counts.empty()) return;
  const std::int64_t capacity = capacity_in(c);
  c.rows = capacity * groups_in(c);
  for (std::int64_t& n : matmul_case(c).counts) n = std::min(n, capacity);
}

void simpler_groups(const Case& c, SimplerCases& simpler) {
  if (!is_masked(c.variant)) return;
  const std::int64_t capacity = capacity_in(c);
  const std::vector<std::int64_t>& counts = matmul_case(c).counts;
  const auto with = [&](std::vector<std::int64_t> fewer, std::int64_t each) {
    simpler.with([&](Case& n) {
      n.rows = static_cast<std::int64_t>(fewer.size()) * each;
      for (std::int64_t& count : fewer) count = std::min(count, each);
      matmul_case(n).counts = fewer;
    });
  };
  if (counts.size() > 1) {
    with({counts.begin(), counts.begin() + 1}, capacity);
    with({counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>((counts.size() + 1) / 2)}, capacity);
    with({counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2), counts.end()}, capacity);
    with({counts.begin(), counts.end() - 1}, capacity);
    with({counts.begin() + 1, counts.end()}, capacity);
  }
  for (const std::int64_t less : {capacity / 2, std::ranges::max(counts), capacity - 1}) {
    if (less > 0 && less < capacity) with(counts, less);
  }
  for (std::size_t e = 0; e < counts.size() && e < 8; ++e) {
    for (const std::int64_t less : {std::int64_t{0}, std::int64_t{1}, counts[e] / 2}) {
      if (less < counts[e]) simpler.with([&](Case& n) { matmul_case(n).counts[e] = less; });
    }
  }
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> open_rows(const Case& c, std::uint64_t row_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> open;
  const std::int64_t capacity = capacity_in(c);
  std::int64_t first = 0;
  for (const std::int64_t n : matmul_case(c).counts) {
    if (n < capacity)
      open.emplace_back(static_cast<std::uint64_t>(first + n) * row_bytes,
                        static_cast<std::uint64_t>(first + capacity) * row_bytes);
    first += capacity;
  }
  return open;
}

namespace {

// Changes a count of masked groups to count(capacity).
InvalidCall one_count(const char* how, std::int64_t (*count)(std::int64_t capacity)) {
  return {how, [=](Call& call) {
            const auto p = read<mxcheck_matmul_policy>(call.policy);
            if (p.grouping != MXCHECK_MASKED) return false;
            const auto list =
                std::find_if(call.inputs.begin(), call.inputs.end(), [](const CallTensor& t) { return t.is_counts; });
            if (list == call.inputs.end() || list->bytes == 0) return false;
            return change_one(call, *list, count(p.policy.rows / list->shape[0]));
          }};
}

}  // namespace

std::vector<InvalidCall> invalid_counts() {
  return {
      one_count("a count is the capacity and one more", [](std::int64_t capacity) { return capacity + 1; }),
      one_count("a count is negative", [](std::int64_t) { return std::int64_t{-1}; }),
      {"there is a row index, which masked groups have not",
       [](Call& c) {
         return read<mxcheck_matmul_policy>(c.policy).grouping == MXCHECK_MASKED && unwanted_row_index().make(c);
       }},
  };
}

}  // namespace mxcheck

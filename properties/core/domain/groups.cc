#include "properties/core/domain/groups.h"

#include <algorithm>

namespace mxcheck {
namespace {

// `end` in `count` parts: each has `least`, the rest is cut at random places.
std::vector<std::int64_t> random_sizes(std::int64_t count, std::int64_t end, std::int64_t least, Draw& draw) {
  std::vector<std::int64_t> cuts{0, end - count * least};
  for (std::int64_t i = 1; i < count; ++i) cuts.push_back(draw.between(0, end - count * least));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 1; i < cuts.size(); ++i) sizes.push_back(cuts[i] - cuts[i - 1] + least);
  return sizes;
}

std::vector<std::int64_t> with_empty_at(std::vector<std::int64_t> sizes, std::size_t at) {
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at), 0);
  return sizes;
}

std::optional<std::vector<std::int64_t>> draw_sizes(Groups kind, std::int64_t count, std::int64_t end,
                                                    std::int64_t unit, Draw& draw) {
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::int64_t> sizes(n);
  switch (kind) {
    case Groups::none_has_rows: return end == 0 ? std::optional(sizes) : std::nullopt;
    case Groups::one_has_all: sizes[draw.below(n)] = end; return sizes;
    case Groups::one_row_each: {
      if (end > count) return std::nullopt;
      std::fill(sizes.begin(), sizes.begin() + end, 1);
      for (std::size_t i = n - 1; i > 0; --i) std::swap(sizes[i], sizes[draw.below(i + 1)]);
      return sizes;
    }
    case Groups::empty_in_a_row: {
      if (count < 4 || end < 3) return std::nullopt;
      const std::int64_t filled = std::min(draw.between(2, count - 2), end - 1);
      sizes = random_sizes(filled, end, 1, draw);
      const std::size_t at = draw.below(sizes.size() + 1);
      while (sizes.size() < n) sizes = with_empty_at(std::move(sizes), at);
      return sizes;
    }
    case Groups::first_empty:
    case Groups::last_empty:
      if (count < 3 || end < count) return std::nullopt;
      sizes = random_sizes(count - 1, end, 1, draw);
      return with_empty_at(std::move(sizes), kind == Groups::first_empty ? 0 : n - 1);
    case Groups::whole_units:
      if (end % unit != 0 || end / unit < count) return std::nullopt;
      sizes = random_sizes(count, end / unit, 1, draw);
      for (std::int64_t& size : sizes) size *= unit;
      return sizes;
    case Groups::any:
      if (end < count) return std::nullopt;
      sizes = random_sizes(count, end, 1, draw);
      // A group without rows between two that have some.
      if (count >= 5 && draw.chance(50)) {
        const std::size_t at = 1 + draw.below(n - 2);
        sizes[at + 1] += sizes[at], sizes[at] = 0;
      }
      return sizes;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& group_kind_labels() {
  static const std::vector<std::string> labels{"of any size",   "ends at whole units", "one has all rows",
                                               "first empty",   "last empty",          "several empty",
                                               "none has rows", "at most one row"};
  return labels;
}

Groups kind_of_groups(const std::vector<std::int64_t>& offsets, std::int64_t unit) {
  const std::int64_t end = offsets.back();
  if (end == 0) return Groups::none_has_rows;
  std::int64_t largest = 0;
  bool in_a_row = false;
  bool whole = true;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    const std::int64_t size = offsets[i] - offsets[i - 1];
    largest = std::max(largest, size);
    in_a_row = in_a_row || (size == 0 && i > 1 && offsets[i - 1] == offsets[i - 2]);
    whole = whole && offsets[i] % unit == 0;
  }
  if (largest == end) return Groups::one_has_all;
  if (largest == 1) return Groups::one_row_each;
  if (in_a_row) return Groups::empty_in_a_row;
  if (offsets[1] == 0) return Groups::first_empty;
  if (offsets[offsets.size() - 2] == end) return Groups::last_empty;
  return whole ? Groups::whole_units : Groups::any;
}

std::optional<std::vector<std::int64_t>> draw_groups(Groups kind, std::int64_t count, std::int64_t end,
                                                     std::int64_t unit, Draw& draw) {
  const auto sizes = draw_sizes(kind, count, end, unit, draw);
  if (!sizes) return std::nullopt;
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t size : *sizes) offsets.push_back(offsets.back() + size);
  return offsets;
}

}  // namespace mxcheck

#include "properties/core/limits.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace mxcheck {

std::int64_t to_multiple(std::int64_t extent, std::int64_t multiple, std::int64_t limit) {
  extent = (extent + multiple - 1) / multiple * multiple;
  return limit > 0 ? std::min(extent, limit / multiple * multiple) : extent;
}

void fit_experts(Case& c) {
  if (c.experts.empty()) return;
  const std::int64_t end = operation_named(c.variant.operation).experts_end(c);
  for (std::int64_t& offset : c.experts) offset = std::min(offset, end);
  c.experts.back() = end;
}

void fit_plants(Case& c) {
  if (c.elements() == 0) c.plants.clear();
  for (Plant& p : c.plants) p.row = std::min(p.row, c.rows - 1), p.col = std::min(p.col, c.cols - 1);
}

Case within_limits(Case c, const OperationInfo& limits) {
  const std::int64_t gap = std::max<std::int64_t>(0, c.stride - c.cols);
  c.rows = to_multiple(c.rows, limits.rows_multiple, limits.max_rows);
  c.cols = to_multiple(c.cols, limits.cols_multiple, limits.max_cols);
  operation_named(c.variant.operation).fit(c);
  if (c.stride != 0) c.stride = c.cols + gap;
  fit_experts(c);
  fit_plants(c);
  return c;
}

bool is_within_limits(const Case& c, const OperationInfo& limits) {
  return c.rows % limits.rows_multiple == 0 && c.cols % limits.cols_multiple == 0 &&
         (limits.max_rows <= 0 || c.rows <= limits.max_rows) && (limits.max_cols <= 0 || c.cols <= limits.max_cols);
}

std::vector<std::int64_t> smaller_extents(std::int64_t extent) {
  std::vector<std::int64_t> smaller;
  if (extent > 1) smaller.push_back(1);
  // What fails at a remainder, and not at the multiples between: half and a quarter of the multiples away. Large cases
  // take too long to try that as well.
  const std::int64_t half = extent < 3 || extent > kMostDrawnElements
                                ? 0
                                : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(extent - 1)) / 2);
  for (const std::int64_t by : {half * 2, half}) {
    if (by > 0 && extent - by > 1) smaller.push_back(extent - by);
  }
  for (int k = 62; k >= 0; --k) {
    const std::int64_t below = extent < 1 ? 0 : (extent - 1) >> k << k;
    if (below > 1 && std::find(smaller.begin(), smaller.end(), below) == smaller.end()) smaller.push_back(below);
  }
  return smaller;
}

std::vector<std::int32_t> draw_index(std::uint64_t seed, std::int64_t rows, std::int64_t source_rows) {
  std::vector<std::int32_t> index(static_cast<std::size_t>(rows));
  std::vector<std::int32_t> all(static_cast<std::size_t>(source_rows));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::size_t left = all.size() - i % all.size();  // a fresh permutation each time all have been used
    const std::size_t taken = static_cast<std::size_t>(random_word(seed ^ 0x6A7E, i) % left);
    index[i] = all[taken];
    std::swap(all[taken], all[left - 1]);
  }
  return index;
}

}  // namespace mxcheck

#include "tools/common/panels.h"

#include <algorithm>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/core/rng.h"

namespace mxcheck {

std::vector<PanelRange> panels(const std::vector<std::int64_t>& starts, std::int64_t row_bytes) {
  const std::int64_t most = std::max<std::int64_t>(1, kPanelBytes / std::max<std::int64_t>(1, row_bytes));
  std::vector<PanelRange> all;
  for (std::size_t at = 0; at + 1 < starts.size(); at = all.back().end) {
    std::size_t end = at + 1;
    while (end + 1 < starts.size() && starts[end + 1] - starts[at] <= most) ++end;
    all.push_back({at, end});
  }
  return all;
}

std::vector<std::int64_t> offsets_within(std::span<const std::int64_t> offsets, std::int64_t first, std::int64_t rows) {
  if (offsets.empty()) return {};
  std::vector<std::int64_t> within{0};
  for (const std::int64_t offset : offsets) {
    if (offset > first && offset < first + rows) within.push_back(offset - first);
  }
  within.push_back(rows);
  return within;
}

bool is_checked(std::size_t row_of_blocks) { return mix64(row_of_blocks) % 64 == 0; }

void refuse_difference(std::int64_t begin, std::int64_t end) {
  throw Error(
      ErrorKind::internal,
      fmt::format("the SIMD library and the reference differ in rows {} to {}: this is a fault of mxcheck, or of "
                  "the processor; nothing is written",
                  begin, end - 1));
}

}  // namespace mxcheck

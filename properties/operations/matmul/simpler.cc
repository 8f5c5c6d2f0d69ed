#include <algorithm>
#include <utility>

#include "properties/core/limits.h"
#include "properties/operations/matmul/operation.h"

namespace mxcheck {

std::vector<Case> simpler_matmuls(const Case& c, const Finding&) {
  std::vector<Case> simpler;
  const std::int64_t depth = matmul_case(c).depth;
  const std::int64_t whole = matmul_of(c.variant).groups == MXCHECK_DEPTH ? depth : c.rows;
  const auto with = [&](const auto& change) {
    Case n = c;
    change(n);
    fit_experts(n);
    if (n != c) simpler.push_back(std::move(n));
  };
  if (c.experts.size() > 2) with([&](Case& n) { n.experts = {0, whole}; });
  for (const std::int64_t less : {depth / 256 * 128, depth / 2, std::int64_t{128}, std::int64_t{32}}) {
    if (less > 0 && less < depth) with([&](Case& n) { matmul_case(n).depth = less; });
  }
  for (const std::int64_t less : smaller_extents(depth)) with([&](Case& n) { matmul_case(n).depth = less; });
  if (matmul_case(c).adds) with([](Case& n) { matmul_case(n).adds = false; });
  if (matmul_case(c).alpha != 1) with([](Case& n) { matmul_case(n).alpha = 1; });
  if (!c.experts.empty()) {
    for (const std::int64_t end : {std::int64_t{0}, std::int64_t{1}, whole / 2, whole / 256 * 128}) {
      if (end <= whole && c.experts.size() > 3) with([&](Case& n) { n.experts = {0, end, whole}; });
    }
    if (c.experts.size() > 2) with([](Case& n) { n.experts.erase(n.experts.begin() + 1); });
    if (c.experts.size() > 2) with([](Case& n) { n.experts.erase(n.experts.end() - 2); });
  }
  if (c.threads != 0) with([](Case& n) { n.threads = 0; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned = {}; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned.inputs = {}; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned.outputs = {}; });
  if (c.gather != 0) with([](Case& n) { n.gather = 0; });
  if (c.gather > c.rows) with([](Case& n) { n.gather = std::max<std::int64_t>(1, n.rows); });
  for (const std::int64_t rows : smaller_extents(c.rows)) with([&](Case& n) { n.rows = rows; });
  for (const std::int64_t cols : smaller_extents(c.cols)) with([&](Case& n) { n.cols = cols; });
  if (c.data != Data::zeros && c.data != Data::codes) with([](Case& n) { n.data = Data::codes; });
  if (c.data != Data::zeros) with([](Case& n) { n.data = Data::zeros; });
  if (c.seed > 1) with([](Case& n) { n.seed = 1; });
  return simpler;
}

}  // namespace mxcheck

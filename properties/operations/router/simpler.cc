// What a case of a router must satisfy, and simpler cases in place of a failing one.

#include <algorithm>

#include "properties/core/limits.h"
#include "properties/operations/router/operation.h"

namespace mxcheck {

void fit_route(Case& c) {
  route_case(c).tile = std::max<std::int64_t>(1, route_case(c).tile);
  c.cols = std::max<std::int64_t>(1, c.cols);
  if (c.variant.operation == "route_metadata") return;
  std::int64_t most = c.cols;
  if (route_of(c.variant).limited) {
    route_case(c).groups = std::clamp<std::int64_t>(route_case(c).groups, 1, c.cols);
    while (c.cols % route_case(c).groups != 0) --route_case(c).groups;
    route_case(c).groups_kept = std::clamp<std::int64_t>(route_case(c).groups_kept, 1, route_case(c).groups);
    most = route_case(c).groups_kept * (c.cols / route_case(c).groups);
  }
  route_case(c).top_k = std::clamp<std::int64_t>(route_case(c).top_k, 1, most);
}

Case route_corner(const Variant& v, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Data data,
                  std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = tokens, c.cols = experts, route_case(c).top_k = top_k, c.data = data, c.seed = seed;
  if (route_of(v).limited) route_case(c).groups = 4, route_case(c).groups_kept = 2;
  fit_route(c);
  return c;
}

std::vector<Case> simpler_routes(const Case& c, const Finding& finding) {
  std::vector<Case> simpler;
  const auto with = [&](auto change) {
    Case n = c;
    change(n);
    fit_route(n);
    std::erase_if(n.plants, [&](const Plant& p) { return p.row >= n.rows || p.col >= n.cols; });
    if (n.stride != 0) n.stride = n.cols + (c.stride - c.cols);
    if (n != c) simpler.push_back(std::move(n));
  };
  // 1, halves, one less: whatever the threshold, it is found in few steps.
  const auto shrink = [&](std::int64_t value, std::int64_t least, auto set) {
    if (value <= least) return;
    for (const std::int64_t n : {least, value / 8, value / 4, value / 2, value - value / 4, value - 1}) {
      if (n >= least && n < value) with([&](Case& to) { set(to, n); });
    }
  };
  if (c.data != Data::zeros && !finding.relevant.empty() && reads_logits(c.variant)) {
    with([&](Case& n) {  // the token alone, its logits planted
      n.data = Data::zeros, n.plants = finding.relevant, n.rows = 1, n.stride = 0, n.threads = 0;
      for (Plant& p : n.plants) p.row = 0;
    });
    with([&](Case& n) { n.data = Data::zeros, n.plants = finding.relevant; });
  }
  shrink(c.rows, 1, [](Case& n, std::int64_t to) { n.rows = to; });
  shrink(c.cols, 1, [](Case& n, std::int64_t to) { n.cols = to; });
  if (route_case(c).top_k != 0)
    shrink(route_case(c).top_k, 1, [](Case& n, std::int64_t to) { route_case(n).top_k = to; });
  if (route_case(c).top_k == 0) with([](Case& n) { route_case(n).top_k = 1; });
  shrink(route_case(c).tile, 1, [](Case& n, std::int64_t to) { route_case(n).tile = to; });
  shrink(route_case(c).capacity, 0, [](Case& n, std::int64_t to) { route_case(n).capacity = to; });
  shrink(route_case(c).groups, 1, [](Case& n, std::int64_t to) { route_case(n).groups = to; });
  shrink(route_case(c).groups_kept, 1, [](Case& n, std::int64_t to) { route_case(n).groups_kept = to; });
  if (c.stride != 0) with([](Case& n) { n.stride = 0; });
  if (c.threads != 0) with([](Case& n) { n.threads = 0; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned = {}; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned.inputs = {}; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned.outputs = {}; });
  if (route_case(c).scale != 1) with([](Case& n) { route_case(n).scale = 1; });
  if (route_case(c).step != 0) with([](Case& n) { route_case(n).step = 0; });
  if (route_case(c).layer != 0) with([](Case& n) { route_case(n).layer = 0; });
  if (route_case(c).drops != 0) with([](Case& n) { route_case(n).drops = 0; });
  if (c.data != Data::zeros && c.data != Data::codes) with([](Case& n) { n.data = Data::codes; });
  if (c.data != Data::zeros) with([](Case& n) { n.data = Data::zeros; });
  for (std::size_t i = 0; i < c.plants.size(); ++i) {
    with([&](Case& n) { n.plants.erase(n.plants.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}}) {
    if (c.seed > seed) with([&](Case& n) { n.seed = seed; });
  }
  return simpler;
}

}  // namespace mxcheck

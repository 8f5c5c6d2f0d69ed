#pragma once
// Routers' operations, all that can be asked of them, and cases of route and route_round on which faults show: ties,
// specials and every load.

#include <cstdint>
#include <utility>
#include <vector>

#include "properties/operations/router/operation.h"

namespace mxcheck::test {

inline constexpr const char* kRouteOperations[] = {"route", "route_round", "route_metadata", "route_backward"};

inline const std::vector<Variant>& all_route_variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> variants;
    for (const char* operation : kRouteOperations) {
      for (Variant& v : askable_routes(operation)) variants.push_back(std::move(v));
    }
    return variants;
  }();
  return all;
}

inline std::vector<Case> cases_of(const char* operation) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const Variant& v : askable_routes(operation)) {
    for (const Data data : {Data::codes, Data::specials, Data::slots}) {
      if (++seed % 3 != 0) continue;
      Case c = route_corner(v, 23, 12, 1 + static_cast<std::int64_t>(seed % 4), data, seed);
      route_case(c).tile = 4, route_case(c).scale = 2.5F;
      route_case(c).capacity = static_cast<std::int64_t>(seed % 7);
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace mxcheck::test

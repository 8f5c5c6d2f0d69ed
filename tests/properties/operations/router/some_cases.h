#pragma once
// Routers' operations, all that can be asked of them, and cases of route and route_round on which faults show: ties,
// specials and every load.

#include <cstdint>
#include <utility>
#include <vector>

#include "properties/operations/router/operation.h"

namespace mxcheck::test {

inline constexpr const char* kRouteOperations[] = {"route",          "route_round",        "route_metadata",
                                                   "route_backward", "route_balance_loss", "route_z_loss"};

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

// Some of each operation's, of sizes from none on.
inline std::vector<Case> some_routes() {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const char* operation : kRouteOperations) {
    const std::vector<Variant> all = askable_routes(operation);
    const std::size_t step = all.size() > 200 ? 7 : 1;
    for (std::size_t i = 0; i < all.size(); i += step) {
      Case c =
          route_corner(all[i], 0 + static_cast<std::int64_t>(seed % 40), 8, 1 + static_cast<std::int64_t>(seed % 3),
                       seed % 2 == 0 ? Data::specials : Data::normal, seed);
      if (c.variant.operation == "route_metadata") route_case(c).top_k = static_cast<std::int64_t>(seed % 2);
      route_case(c).tile = 1 + static_cast<std::int64_t>(seed % 9);
      route_case(c).capacity = static_cast<std::int64_t>(seed % 11);
      if (c.variant.operation == "route_balance_loss") route_case(c).loads = static_cast<Loads>(seed % 4);
      if (reads_logits(c.variant) && seed % 5 == 0) c.stride = 11;
      if (seed % 3 == 0 && !is_loss(c.variant)) route_case(c).drops = 20;
      cases.push_back(c), ++seed;
    }
  }
  return cases;
}

// Losses with every kind of logits, loads and coefficient.
inline std::vector<Case> some_losses(const char* operation) {
  std::vector<Case> cases;
  for (const Variant& v : askable_routes(operation)) {
    for (const Data data : {Data::normal, Data::codes, Data::specials, Data::wide, Data::bits}) {
      for (const Loads loads : {Loads::equal, Loads::one, Loads::drawn, Loads::large}) {
        if (v.operation != "route_balance_loss" && loads != Loads::equal) break;
        for (const std::int64_t tokens : {0, 1, 60}) {
          Case c = route_corner(v, tokens, tokens == 1 ? 1 : 11, 0, data, cases.size());
          route_case(c).scale = tokens == 1 ? -3.0F : 0.01F;
          route_case(c).loads = loads;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
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

#pragma once
// Routes to measure with: token choice of random logits, by the reference on the host.
//
//   const LayerRoutes routes = draw_moe_routes(shape, RouteLoad::skewed, 7);
//   busiest_expert(routes)   // its rows over the mean of all

#include <cstdint>
#include <string>
#include <string_view>

#include "benchmarks/sm90/moe/shape.h"
#include "numerics/names.h"
#include "reference/layer/routes.h"

namespace mxcheck::bench {

enum class RouteLoad : std::uint8_t {
  uniform,  // every expert is as likely
  skewed,   // the logits of each expert are raised by 0 to 1.5 of their standard deviation
};
inline constexpr std::array<Named<RouteLoad>, 2> kRouteLoads{
    {{"uniform", RouteLoad::uniform}, {"skewed", RouteLoad::skewed}}};

// Rows sorted by expert, tokens ascending within one; slots best first. The same for the same arguments.
LayerRoutes draw_moe_routes(const MoeShape& shape, RouteLoad load, std::uint64_t seed);

double busiest_expert(const LayerRoutes& routes);

}  // namespace mxcheck::bench

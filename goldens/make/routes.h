#pragma once
// Private to goldens/: the golden kinds about routers, computed in memory: route, route_round, route_metadata,
// route_backward, route_losses.

#include <string>

#include "goldens/make/suite.h"
#include "goldens/make/tables.h"

namespace mxcheck {

bool is_about_routers(GoldenKind kind);

// How a golden's router is set: top_k, groups, groups_kept, nan, scale, and the variant where it has one alone.
Attributes router_attributes(const GoldenSpec& golden);

// input_directory: where relative files of the spec are.
Table make_routes(const GoldenSpec& golden, const std::string& input_directory, int threads);

}  // namespace mxcheck

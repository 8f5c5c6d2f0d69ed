#pragma once
// The part of case.cc that is about routers.

#include <string>
#include <string_view>
#include <vector>

#include "properties/core/case.h"

namespace mxcheck {

// False: no field of a router alone. Error{usage} for a value that cannot be.
bool set_route_field(Case& c, std::string_view field, std::string_view value);

// Error{usage} for a case that no call could pose.
void check_route(const Case& c);

std::string route_text(const Variant& v);
std::string route_fields(const Case& c);  // " k=4 tile=32 ..."
std::vector<std::string> classes_of_route(const Case& c);

}  // namespace mxcheck

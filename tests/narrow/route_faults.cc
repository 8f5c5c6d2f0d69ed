// Faults of routers.

#include <cmath>

#include "tests/narrow/faults.h"

namespace narrow {
namespace {

bool rounds_to_tiles(const View& v) {
  const std::string_view rule = v.route().rule;
  return rule != "none" && rule != "expert-choice" && !rule.starts_with("capacity");
}

constexpr Fault kFaults[] = {
    {"counts_of_the_300th_expert", "route_metadata", [](const View& v) { spoil(v.out(0), 0, 299); }},
    {"experts_beyond_the_8th_are_one", "route_metadata",
     [](const View& v) {
       auto* counts = View::values<std::int32_t>(v.out(0));
       for (std::int64_t e = 9; e < v.p().cols; ++e) counts[8] += counts[e], counts[e] = 0;
     }},
    {"tiles_above_128_in_metadata", "route_metadata",
     [](const View& v) {
       if (v.route().tile > 128) spoil_last(v.out(1));
     }},
    {"tiles_above_128_in_rounding", "route_round",
     [](const View& v) {
       if (rounds_to_tiles(v) && v.route().tile > 128) spoil_last(v.out(1));
     }},
    {"sigmoid_of_the_last_token_beyond_1024", "route",
     [](const View& v) {
       if (std::string_view(v.p().recipe).find("sigmoid") != std::string_view::npos && v.p().rows > 1024)
         spoil_last(v.out(1));
     }},
    {"a_scale_of_0_is_none", "route", nullptr,
     [](View&, mxcheck_route_policy& p) {
       if (p.scale == 0) p.scale = 1;
     }},
    {"a_negative_scale_loses_its_sign", "route", nullptr,
     [](View&, mxcheck_route_policy& p) { p.scale = std::fabs(p.scale); }},
    {"a_seed_of_48_bits", "route_round", nullptr, [](View&, mxcheck_route_policy& p) { p.seed &= 0xFFFF'FFFF'FFFF; }},
};

}  // namespace

std::span<const Fault> route_faults() { return kFaults; }

}  // namespace narrow

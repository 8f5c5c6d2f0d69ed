#pragma once
// The fields of the routers' operations (kernels/candidate_route.h). Rows are tokens, cols experts, k the experts of a
// token (0 in route_metadata: token_offsets):
//
//   op=route_round variant=softmax-topk x=bf16 nan=last bias=1 limited=1 rule=nr-f weights=renorm rows=300 cols=16 k=4
//   groups=8 kept=2 tile=32 data=slots seed=7;  optional: stride=20 capacity=9 scale=2.5 step=3 layer=1 drops=10
//   plant=...

#include <cstdint>
#include <string>
#include <string_view>

#include "properties/core/case.h"

namespace mxcheck {

struct RouteVariant {
  std::string router;  // the variant's name: "softmax-topk", ...; none for route_metadata
  bool nan_last = false;
  bool bias = false;
  bool limited = false;     // group-limited choice
  std::string rule;         // of route_round
  bool renormalize = true;  // of route_round
  friend bool operator==(const RouteVariant&, const RouteVariant&) = default;
};
struct RouteCase {
  std::int64_t top_k = 0;
  std::int64_t groups = 0;  // group-limited choice
  std::int64_t groups_kept = 0;
  std::int64_t tile = 1;
  std::int64_t capacity = 0;
  float scale = 1;
  std::uint64_t step = 0;  // with the case's seed
  std::uint32_t layer = 0;
  int drops = 0;  // route_metadata, route_backward: percent of the routes that are -1
  friend bool operator==(const RouteCase&, const RouteCase&) = default;
};

inline const RouteVariant& route_of(const Variant& v) { return v.own.get<RouteVariant>(); }
inline RouteVariant& route_of(Variant& v) { return v.own.edit<RouteVariant>(); }
inline const RouteCase& route_case(const Case& c) { return c.own.get<RouteCase>(); }
inline RouteCase& route_case(Case& c) { return c.own.edit<RouteCase>(); }

inline bool is_route(const Variant& v) {
  return v.operation == "route" || v.operation == "route_round" || v.operation == "route_metadata" ||
         v.operation == "route_backward";
}
// All but route_metadata.
inline bool reads_logits(const Variant& v) { return is_route(v) && v.operation != "route_metadata"; }

}  // namespace mxcheck

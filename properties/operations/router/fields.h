#pragma once
// The fields of the routers' operations (kernels/candidate_route.h). Rows are tokens, cols experts, k the experts of a
// token (0 in route_metadata: token_offsets):
//
//   op=route_round variant=softmax-topk x=bf16 nan=last bias=1 limited=1 rule=nr-f weights=renorm rows=300 cols=16 k=4
//   groups=8 kept=2 tile=32 data=slots seed=7;  optional: stride=20 capacity=9 scale=2.5 step=3 layer=1 drops=10
//   masked=50 plant=...
//
//   op=route_balance_loss x=fp32 rows=300 cols=16 loads=drawn scale=0.01 data=normal seed=7;  optional: stride=20
//   plant=...  (scale is the coefficient)

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "properties/core/case.h"

namespace mxcheck {

struct RouteVariant {
  std::string router;  // the variant's name: "softmax-topk", ...; none for route_metadata and the losses
  bool nan_last = false;
  bool bias = false;
  bool limited = false;     // group-limited choice
  std::string rule;         // of route_round
  bool renormalize = true;  // of route_round
  friend bool operator==(const RouteVariant&, const RouteVariant&) = default;
};
// The counts of route_balance_loss.
enum class Loads : std::uint8_t {
  equal,  // of all experts
  one,    // one expert has all
  drawn,  // of a quarter of the experts none
  large,  // their sum is beyond int32
};
struct RouteCase {
  std::int64_t top_k = 0;
  std::int64_t groups = 0;  // group-limited choice
  std::int64_t groups_kept = 0;
  std::int64_t tile = 1;
  std::int64_t capacity = 0;
  float scale = 1;         // of the losses: the coefficient
  std::uint64_t step = 0;  // with the case's seed
  std::uint32_t layer = 0;
  int drops = 0;   // route_metadata, route_backward: percent of the routes that are -1
  int ragged = 0;  // route_metadata, tokens of any number of slots: at most so many, 0 for kMostRaggedSlots
  int masked = 0;  // route, route_round: percent of the experts whose bias is -Inf
  Loads loads = Loads::equal;
  friend bool operator==(const RouteCase&, const RouteCase&) = default;
};

inline const RouteVariant& route_of(const Variant& v) { return v.own.get<RouteVariant>(); }
inline RouteVariant& route_of(Variant& v) { return v.own.edit<RouteVariant>(); }
inline constexpr std::int64_t kMostRaggedSlots = 7;  // of a token
inline const RouteCase& route_case(const Case& c) { return c.own.get<RouteCase>(); }
inline RouteCase& route_case(Case& c) { return c.own.edit<RouteCase>(); }
inline std::int64_t most_ragged_slots(const Case& c) {
  return route_case(c).ragged == 0 ? kMostRaggedSlots : route_case(c).ragged;
}

// One of the operations, and which of the fields above are its own.
struct RouteKind {
  std::string_view name;
  // Drawn as often as so many variants of others: there are thousands of variants of routers, which must not crowd out
  // the rest.
  std::size_t weight;
  bool reads_logits;  // scale; and but for the losses variant, nan
  bool chooses;       // bias, groups; else the routes are given, with drops
  bool rounds;        // rule, weights, capacity, seed, step, layer
  bool has_gradient;  // its last output has the logits' type
  bool is_loss = false;
  [[nodiscard]] constexpr bool has_router() const { return reads_logits && !is_loss; }
};
inline constexpr RouteKind kRoute{"route", 40, true, true, false, false};
inline constexpr RouteKind kRouteRound{"route_round", 80, true, true, true, false};
inline constexpr RouteKind kRouteMetadata{"route_metadata", 20, false, false, false, false};
inline constexpr RouteKind kRouteBackward{"route_backward", 20, true, false, false, true};
inline constexpr RouteKind kBalanceLoss{"route_balance_loss", 10, true, false, false, true, true};
inline constexpr RouteKind kZLoss{"route_z_loss", 10, true, false, false, true, true};
inline constexpr const RouteKind* kRouteKinds[] = {&kRoute,         &kRouteRound,  &kRouteMetadata,
                                                   &kRouteBackward, &kBalanceLoss, &kZLoss};

// None for the name of another operation. Whatever claim it is held to.
inline const RouteKind* find_route_kind(std::string_view operation) {
  for (const RouteKind* kind : kRouteKinds) {
    if (is_operation(operation, kind->name)) return kind;
  }
  return nullptr;
}
inline const RouteKind& kind_of(const Variant& v) { return *find_route_kind(v.operation); }
inline bool reads_logits(const Variant& v) {
  const RouteKind* kind = find_route_kind(v.operation);
  return kind != nullptr && kind->reads_logits;
}
inline bool is_loss(const Variant& v) {
  const RouteKind* kind = find_route_kind(v.operation);
  return kind != nullptr && kind->is_loss;
}

}  // namespace mxcheck

// The variants of routers, and the cases that no call can express.

#include <cmath>

#include "numerics/error.h"
#include "properties/operations/router/operation.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // rows and slots, which are int32
constexpr std::int64_t kMostTile = std::int64_t{1} << 20;

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of a router: ") + what);
}

bool has_rule(const Variant& v) { return v.operation == "route_round"; }

void check_metadata(const Case& c) {
  const RouteCase& own = route_case(c);
  require(c.plants.empty() && c.stride == 0, "route_metadata has neither plants nor a stride");
  require(own.top_k >= 0 && c.cols >= 1, "k is 0 or more, and there is an expert");
  // A ragged token has at most 7 slots (expand.cc).
  const std::int64_t width = own.top_k == 0 ? 7 : own.top_k;
  require(c.rows <= kMostRows / width && c.cols <= kMostRows / own.tile, "more slots or rows than int32 can count");
}

}  // namespace

std::vector<Variant> askable_routes(const std::string& operation) {
  std::vector<Variant> all;
  Variant v{operation};
  if (operation == "route_metadata") return {v};
  const bool chooses = operation != "route_backward";
  const bool rounds = operation == "route_round";
  const auto add_rules = [&] {
    if (!rounds) return all.push_back(v);
    for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
      route_of(v).rule = rule.name;
      for (const bool renormalize : {true, false}) {
        route_of(v).renormalize = renormalize;
        if (renormalize || rule.rule != TokenRoundingRule::none) all.push_back(v);  // whose weights are token choice's
      }
    }
  };
  for (const RouterVariant& router : all_router_variants()) {
    route_of(v).router = router.name;
    for (const Format dtype : {Format::bf16, Format::fp32}) {
      v.dtype = dtype;
      for (const bool last : {false, true}) {
        route_of(v).nan_last = last;
        for (const int options : {0, 1, 2, 3}) {
          if (!chooses && options != 0) continue;
          route_of(v).bias = (options & 1) != 0, route_of(v).limited = (options & 2) != 0;
          add_rules();
        }
      }
    }
  }
  return all;
}

void check_route(const Case& c) {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  require(c.experts.empty() && c.gather == 0, "there are no expert offsets and no gathered rows");
  require(c.variant.dtype == Format::fp32 || c.variant.dtype == Format::bf16, "logits are fp32 or bf16");
  require(own.tile >= 1 && own.tile <= kMostTile && own.capacity >= 0 && own.drops >= 0 && own.drops <= 100,
          "tile is at least 1 and at most 2^20, capacity at least 0, drops a percentage");
  require(std::isfinite(own.scale), "scale is a number");
  if (c.variant.operation == "route_metadata") return check_metadata(c);
  require(!v.router.empty(), "variant is missing");
  require(has_rule(c.variant) == !v.rule.empty(), "rule goes with route_round");
  require(own.top_k >= 1 && own.top_k <= c.cols, "k is 1 to the number of experts");
  require(v.limited ? own.groups >= 1 && c.cols % own.groups == 0 && own.groups_kept >= 1 &&
                          own.groups_kept <= own.groups && own.top_k <= own.groups_kept * (c.cols / own.groups)
                    : own.groups == 0 && own.groups_kept == 0,
          "groups and kept go with limited=1; groups divide the experts, and those kept hold k of them");
  require(c.cols <= kMostRows / own.tile && (c.rows == 0 || own.top_k <= kMostRows / c.rows) &&
              (c.rows == 0 || c.cols <= kMostRows / c.rows),
          "more rows than int32 can count");
}

bool is_route_option(const Case& c) {
  return route_case(c).scale != 1 || c.stride > c.cols || route_case(c).top_k > 16;
}

}  // namespace mxcheck

#include "properties/operations/router/layers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "properties/core/domain/domain.h"
#include "properties/operations/router/fields.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostTokens = 4096;  // of a step of training on one device
constexpr std::int64_t kShare = 16;         // of the suite's most logits: there are hundreds of these cases
constexpr std::int64_t kMostGroups = 32;

// The operation's gradient has neither bias nor groups.
bool is_own_router(const Variant& v, const LayerRouter& router) {
  if (route_of(v).router != router.variant) return false;
  return v.operation == "route_backward" ||
         (route_of(v).bias == router.bias && route_of(v).limited == (router.groups > 1));
}

// Groups that divide the layer's experts, and kept ones that hold its active ones.
void draw_groups_of(const ProductionLayer& layer, RouteCase& c, Draw& draw) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t g = 1; g <= std::min(kMostGroups, layer.experts); ++g) {
    if (layer.experts % g == 0) divisors.push_back(g);
  }
  c.groups = draw.pick(divisors);
  const std::int64_t size = layer.experts / c.groups;
  c.groups_kept = draw.between((layer.active + size - 1) / size, c.groups);
}

}  // namespace

RouteLayers::RouteLayers(const OperationInfo& limits, bool own_router) : limits_(limits) {
  for (const ProductionLayer& layer : production_layers()) {
    if (layer.experts % limits.cols_multiple != 0 || (limits.max_cols > 0 && layer.experts > limits.max_cols)) continue;
    uses_.push_back({&layer, fmt::format("{} of {} experts", layer.active, layer.experts), false});
    if (own_router && layer.router) uses_.push_back({&layer, "its own router, " + layer.router->variant, true});
  }
}

bool RouteLayers::is(const Use& use, const Case& c) const {
  const RouteCase& own = route_case(c);
  if (c.rows < 1 || c.cols != use.layer->experts || own.top_k != use.layer->active) return false;
  if (!use.own_router) return true;
  const LayerRouter& router = *use.layer->router;
  const bool grouped =
      !route_of(c.variant).limited || (own.groups == router.groups && own.groups_kept == router.groups_kept);
  return is_own_router(c.variant, router) && grouped && own.scale == router.scale;
}

std::optional<Case> RouteLayers::at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const {
  const ProductionLayer& layer = *use.layer;
  if (use.own_router && !is_own_router(drawn.variant, *layer.router)) return std::nullopt;
  const std::int64_t multiple = limits_.rows_multiple;
  std::int64_t high = std::max(multiple, std::min(kMostTokens, most / kShare / layer.experts));
  if (limits_.max_rows > 0) high = std::min(high, limits_.max_rows);
  const auto tokens = draw_extent(1, high, multiple, 32, draw);
  if (!tokens) return std::nullopt;
  const std::int64_t gap = std::max<std::int64_t>(0, drawn.stride - drawn.cols);
  drawn.rows = *tokens, drawn.cols = layer.experts;
  drawn.stride = gap == 0 ? 0 : drawn.cols + gap;
  RouteCase& own = route_case(drawn);
  own.top_k = layer.active;
  if (route_of(std::as_const(drawn).variant).limited) draw_groups_of(layer, own, draw);
  if (!use.own_router) return drawn;
  own.scale = layer.router->scale;
  if (own.groups != 0) own.groups = layer.router->groups, own.groups_kept = layer.router->groups_kept;
  return drawn;
}

}  // namespace mxcheck

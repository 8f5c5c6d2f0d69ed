// The keys of the kinds that are about routers.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "goldens/make/suite_parse.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

float parse_float(const JsonObject& o, const char* key, const Json& value) {
  return std::bit_cast<float>(parse_bits(o, key, value, Format::fp32));
}

const RouterVariant* variant_named(const JsonObject& o, const char* key, const std::string& name) {
  return at_place(o, key, [&] { return &router_variant_named(name); });
}

void parse_variants(JsonObject& o, RouteSpec& route) {
  if (!o.has("variants")) {
    for (const RouterVariant& variant : all_router_variants()) route.variants.push_back(&variant);
    return;
  }
  for (const Json& name : o.list("variants", all_router_variants().size())) {
    const RouterVariant* variant = variant_named(o, "variants", text_in(name));
    if (std::find(route.variants.begin(), route.variants.end(), variant) != route.variants.end()) {
      o.refuse("variants", "'" + std::string(variant->name) + "' is there twice");
    }
    route.variants.push_back(variant);
  }
  if (route.variants.empty()) o.refuse("variants", "are at least one, or left out");
}

void parse_router(JsonObject& o, RouteSpec& route) {
  Router& router = route.router;
  router.top_k = o.integer("top_k", 1, kMostRows);
  if (o.has("groups") || o.has("groups_kept")) {
    router.groups = o.integer("groups", 1, kMostRows);
    router.groups_kept = o.integer("groups_kept", 1, kMostRows);
  }
  const std::string nan = o.text_or("nan", "refuse");
  if (nan != "refuse" && nan != "last") o.refuse("nan", "must be refuse or last");
  router.nan = nan == "last" ? NanLogits::last : NanLogits::refuse;
  if (o.has("scale")) router.scale = parse_float(o, "scale", o.required("scale"));
  if (!o.has("bias")) return;
  for (const Json& bits : o.list("bias", kMostNumbers)) route.bias.push_back(parse_float(o, "bias", bits));
  if (route.bias.empty()) o.refuse("bias", "has one number an expert, or is left out");
}

void parse_rounding(JsonObject& o, RouteSpec& route) {
  if (o.has("rules")) {
    for (const Json& name : o.list("rules", all_token_rounding_rules().size())) {
      const std::string text = text_in(name);
      const TokenRoundingRule rule = at_place(o, "rules", [&] { return token_rounding_rule_named(text); });
      if (std::find(route.rules.begin(), route.rules.end(), rule) != route.rules.end()) {
        o.refuse("rules", "'" + text + "' is there twice");
      }
      route.rules.push_back(rule);
    }
    if (route.rules.empty()) o.refuse("rules", "are at least one, or left out");
  } else {
    for (const TokenRoundingRuleSpec& known : all_token_rounding_rules()) route.rules.push_back(known.rule);
  }
  TokenRounding& token_rounding = route.token_rounding;
  token_rounding.tile = o.integer("tile", 1, kMostRows);
  if (std::any_of(route.rules.begin(), route.rules.end(), takes_capacity)) {
    token_rounding.capacity = o.integer("capacity", 0, kMostRows);
  }
  const std::string weights = o.text_or("weights", "renorm");
  if (weights != "renorm" && weights != "raw") o.refuse("weights", "must be renorm or raw");
  token_rounding.renormalize = weights == "renorm";
  if (std::find(route.rules.begin(), route.rules.end(), TokenRoundingRule::sr_f) == route.rules.end()) return;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  token_rounding.seed = static_cast<std::uint64_t>(o.integer("seed", 0, kMost));
  token_rounding.layer = static_cast<std::uint32_t>(o.integer("layer", 0, std::numeric_limits<std::uint32_t>::max()));
  token_rounding.step = static_cast<std::uint64_t>(o.integer("step", 0, kMost));
}

void parse_metadata(JsonObject& o, RouteSpec& route) {
  route.experts = o.integer("experts", 1, kMostRows);
  route.token_rounding.tile = o.integer("tile", 1, kMostRows);
  for (const std::int64_t expert : parse_integers(o, "slots", -1, route.experts - 1)) {
    route.slots.push_back(static_cast<std::int32_t>(expert));
  }
  if (o.has("width") == o.has("token_offsets")) o.refuse("width", "or token_offsets is needed, and not both");
  if (o.has("width")) {
    route.width = o.integer("width", 1, kMostRows);
  } else {
    route.token_offsets = parse_integers(o, "token_offsets", 0, kMostRows);
    if (route.token_offsets.empty()) o.refuse("token_offsets", "are at least one: 0");
  }
}

}  // namespace

void parse_route(JsonObject& o, GoldenSpec& golden) {
  RouteSpec& route = golden.route;
  if (golden.kind == GoldenKind::route_metadata) return parse_metadata(o, route);
  golden.input = parse_input(o.required("input"), o.place() + ".input");
  parse_router(o, route);
  if (golden.kind == GoldenKind::route || golden.kind == GoldenKind::route_backward) return parse_variants(o, route);
  route.variants.push_back(variant_named(o, "variant", o.text("variant")));
  if (golden.kind == GoldenKind::route_round) return parse_rounding(o, route);
  route.coefficient = parse_float(o, "coefficient", o.required("coefficient"));
  if (!std::isfinite(route.coefficient)) o.refuse("coefficient", "must be finite");
}

void parse_layer_router(JsonObject& o, RouteSpec& route) {
  parse_router(o, route);
  route.variants.push_back(variant_named(o, "variant", o.text("variant")));
  if (!o.has("rules")) return;
  parse_rounding(o, route);
  if (route.rules.size() != 1) o.refuse("rules", "of a layer are one, or left out");
}

}  // namespace mxcheck

#include "properties/operations/router/golden.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/router/loss.h"
#include "reference/router/metadata.h"

namespace mxcheck {
namespace {

std::string underscored(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

std::string hex(float value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[std::bit_cast<std::uint32_t>(value) >> shift & 15];
  return text;
}

class RoutesMaker {
 public:
  RoutesMaker(const GoldenSpec& golden, const MakeOptions& options)
      : route_(golden.get<RouteGolden>()), options_(options), threads_(options.threads), table_(golden) {}

  MadeGolden route();
  MadeGolden route_round();
  MadeGolden route_metadata();
  MadeGolden route_backward();
  MadeGolden route_losses();

 private:
  void attribute(const std::string& key, std::string value) { table_.attribute(key, std::move(value)); }

  template <class T>
  void add(Role role, const std::string& name, std::vector<std::int64_t> shape, std::span<T> values,
           const std::string& meaning) {
    if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
      table_.add(role, name, Format::fp32, std::move(shape), values, {{"meaning", meaning}});
    } else {
      table_.integers(role, name, std::move(shape), values, {{"meaning", meaning}});
    }
  }
  template <class T>
  void list(Role role, const std::string& name, std::span<T> values, const std::string& meaning) {
    add(role, name, vector_of(values.size()), values, meaning);
  }

  void read_logits(bool one_variant) {
    const InputRows input = open_input(route_.input, options_.input_directory);
    const std::string where = route_.input.file.empty() ? "input" : route_.input.file;
    const auto width = static_cast<std::size_t>(input.dtype == Format::fp32 ? 4 : 2);
    logits_.resize(checked_bytes(std::vector<std::int64_t>{input.rows, input.cols}, width, where));
    input.reader->read(logits_);
    view_ = {input.dtype, logits_.data(), input.rows, input.cols, input.cols};
    attribute("source", input.source);
    attribute("source_dtype", std::string(spec(input.dtype).dtype_name));
    attribute("tokens", std::to_string(input.rows));
    attribute("experts", std::to_string(input.cols));
    for (auto& [key, value] : router_attributes(route_, one_variant)) attribute(key, std::move(value));
    table_.add(Role::input, "logits", input.dtype, {input.rows, input.cols}, logits_,
               {{"meaning", "bits of the router's logits, a row a token"}});
    if (!route_.bias.empty()) {
      list(Role::input, "bias", std::span(route_.bias), "added to the key of each expert, for choosing alone");
    }
  }

  [[nodiscard]] Router router_of(const RouterVariant& variant) const {
    Router router = route_.router;
    router.variant = &variant;
    router.bias = route_.bias;
    return router;
  }
  [[nodiscard]] std::vector<std::int64_t> by_route() const { return {view_.rows, route_.router.top_k}; }

  const RouteGolden& route_;
  const MakeOptions& options_;
  int threads_;
  std::vector<std::byte> logits_;
  MatrixView view_;
  GoldenBuilder table_;
};

MadeGolden RoutesMaker::route() {
  read_logits(false);
  for (const RouterVariant* variant : route_.variants) {
    const Routes routes = mxcheck::route(router_of(*variant), view_, threads_);
    const std::string name = underscored(variant->name);
    const std::string by(variant->name);
    add(Role::output, "experts_" + name, by_route(), std::span(routes.experts), "best first, by " + by);
    add(Role::output, "weights_" + name, by_route(), std::span(routes.weights), "of those experts, by " + by);
  }
  return table_.take();
}

MadeGolden RoutesMaker::route_round() {
  read_logits(true);
  const Router router = router_of(*route_.variants[0]);
  TokenRounding token_rounding = route_.token_rounding;
  attribute("tile", std::to_string(token_rounding.tile));
  attribute("capacity", std::to_string(token_rounding.capacity));
  attribute("weights", token_rounding.renormalize ? "renorm" : "raw");
  attribute("seed", std::to_string(token_rounding.seed));
  attribute("layer", std::to_string(token_rounding.layer));
  attribute("step", std::to_string(token_rounding.step));
  for (const TokenRoundingRule rule : route_.rules) {
    token_rounding.rule = rule;
    const RoundedTokens a = round_tokens(router, token_rounding, view_, threads_);
    if (rule == route_.rules[0]) {
      list(Role::output, "chosen", std::span(a.chosen), "tokens that chose each expert, before any rule");
    }
    const std::string name(to_text(rule)), end = "_" + underscored(name);
    const auto rows = static_cast<std::size_t>(a.offsets.back());
    list(Role::output, "offsets" + end, std::span(a.offsets), "first row of each expert, then all rows, by " + name);
    list(Role::output, "row_token" + end, std::span(a.row_token).first(rows), "ascending within an expert");
    list(Role::output, "row_weight" + end, std::span(a.row_weight).first(rows), "of the token for the expert");
    list(Role::output, "token_offsets" + end, std::span(a.token_offsets), "first entry of token_rows of each token");
    list(Role::output, "token_rows" + end, std::span(a.token_rows).first(rows), "by token, its experts ascending");
  }
  return table_.take();
}

MadeGolden RoutesMaker::route_metadata() {
  const RouteMetadata m = mxcheck::route_metadata(route_.slots, route_.width, route_.token_offsets, route_.experts,
                                                  route_.token_rounding.tile);
  attribute("experts", std::to_string(route_.experts));
  attribute("width", std::to_string(route_.width));
  attribute("tile", std::to_string(route_.token_rounding.tile));
  list(Role::input, "slot_experts", std::span(route_.slots), "token after token; -1: dropped");
  if (!route_.token_offsets.empty()) {
    list(Role::input, "token_offsets", std::span(route_.token_offsets), "first slot of each token, then all slots");
  }
  const auto rows = static_cast<std::size_t>(m.offsets.back());
  const std::string padding = "; -1: padding";
  list(Role::output, "counts", std::span(m.counts), "routes of each expert");
  list(Role::output, "offsets", std::span(m.offsets), "first row of each expert, a multiple of the tile; then all");
  list(Role::output, "row_slot", std::span(m.row_slot).first(rows), "the slot that the row is of" + padding);
  list(Role::output, "row_token", std::span(m.row_token).first(rows), "its token" + padding);
  list(Role::output, "row_expert", std::span(m.row_expert).first(rows), "its expert" + padding);
  list(Role::output, "slot_row", std::span(m.slot_row), "the row of each slot; -1: dropped");
  return table_.take();
}

MadeGolden RoutesMaker::route_backward() {
  read_logits(false);
  const std::vector<float> gradient = synthetic_gradient(view_.rows * route_.router.top_k);
  add(Role::input, "gradient", by_route(), std::span(gradient), "of the loss by the weights");
  for (const RouterVariant* variant : route_.variants) {
    const Router router = router_of(*variant);
    const Routes routes = mxcheck::route(router, view_, threads_);
    const std::string name = underscored(variant->name);
    add(Role::input, "experts_" + name, by_route(), std::span(routes.experts),
        "whose weights the gradient is of, by " + std::string(variant->name));
    const std::vector<float> out =
        mxcheck::route_backward(router, view_, routes.experts, gradient, route_.router.top_k, threads_);
    add(Role::output, "logits_gradient_" + name, {view_.rows, view_.cols}, std::span(out), "of the loss by the logits");
  }
  return table_.take();
}

MadeGolden RoutesMaker::route_losses() {
  read_logits(true);
  const Routes routes = mxcheck::route(router_of(*route_.variants[0]), view_, threads_);
  std::vector<std::int32_t> counts(static_cast<std::size_t>(view_.cols));
  for (const std::int32_t expert : routes.experts) ++counts[static_cast<std::size_t>(expert)];
  attribute("coefficient", hex(route_.coefficient));
  list(Role::input, "counts", std::span(counts), "routes of each expert");
  const auto both = [&](const std::string& name, const RouterLoss& loss) {
    list(Role::output, name + "_loss", std::span(&loss.value, 1), "one number");
    add(Role::output, name + "_gradient", {view_.rows, view_.cols}, std::span(loss.gradient), "by the logits");
  };
  both("balance", load_balancing_loss(view_, counts, route_.coefficient, threads_));
  both("z", router_z_loss(view_, route_.coefficient, threads_));
  return table_.take();
}

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

float parse_float(const JsonObject& o, const char* key, const Json& value) {
  return std::bit_cast<float>(parse_bits(o, key, value, Format::fp32));
}

const RouterVariant* variant_named(const JsonObject& o, const char* key, const std::string& name) {
  return at_place(o, key, [&] { return &router_variant_named(name); });
}

void parse_variants(JsonObject& o, RouteGolden& route) {
  if (!o.has("variants")) {
    for (const RouterVariant& variant : all_router_variants()) route.variants.push_back(&variant);
    return;
  }
  for (const Json& name : o.list("variants", all_router_variants().size())) {
    const RouterVariant* variant = variant_named(o, "variants", text_in(name));
    if (std::find(route.variants.begin(), route.variants.end(), variant) != route.variants.end()) {
      o.refuse("variants", "'" + std::string(variant->name) + "' is a duplicate");
    }
    route.variants.push_back(variant);
  }
  if (route.variants.empty()) o.refuse("variants", "are at least one, or left out");
}

void parse_router(JsonObject& o, RouteGolden& route) {
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

void parse_rounding(JsonObject& o, RouteGolden& route) {
  if (o.has("rules")) {
    for (const Json& name : o.list("rules", all_token_rounding_rules().size())) {
      const std::string text = text_in(name);
      const TokenRoundingRule rule = at_place(o, "rules", [&] { return token_rounding_rule_named(text); });
      if (std::find(route.rules.begin(), route.rules.end(), rule) != route.rules.end()) {
        o.refuse("rules", "'" + text + "' is a duplicate");
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

void parse_metadata(JsonObject& o, RouteGolden& route) {
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

RouteGolden parse_input_and_router(JsonObject& o) {
  RouteGolden route;
  route.input = parse_input(o.required("input"), o.place() + ".input");
  parse_router(o, route);
  return route;
}

std::any parse_choice(JsonObject& o) {
  RouteGolden route = parse_input_and_router(o);
  parse_variants(o, route);
  return route;
}

std::any parse_round(JsonObject& o) {
  RouteGolden route = parse_input_and_router(o);
  route.variants.push_back(variant_named(o, "variant", o.text("variant")));
  parse_rounding(o, route);
  return route;
}

std::any parse_losses(JsonObject& o) {
  RouteGolden route = parse_input_and_router(o);
  route.variants.push_back(variant_named(o, "variant", o.text("variant")));
  route.coefficient = parse_float(o, "coefficient", o.required("coefficient"));
  if (!std::isfinite(route.coefficient)) o.refuse("coefficient", "must be finite");
  return route;
}

std::any parse_rows(JsonObject& o) {
  RouteGolden route;
  parse_metadata(o, route);
  return route;
}

GoldenKind::Make made_by(MadeGolden (RoutesMaker::*make)()) {
  return [make](const GoldenSpec& golden, const MakeOptions& options) {
    RoutesMaker maker(golden, options);
    return (maker.*make)();
  };
}

GoldenKind::Rows by_golden(Table (*rows)(const GoldenTensors&, const DatasetInfo&)) {
  return [rows](const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor&) {
    return rows(golden, dataset);
  };
}

}  // namespace

std::vector<const GoldenKind*> router_golden_kinds() {
  static const GoldenKind kRoute("route", parse_choice, made_by(&RoutesMaker::route), by_golden(rows_of_choice));
  static const GoldenKind kRound("route_round", parse_round, made_by(&RoutesMaker::route_round),
                                 by_golden(rows_of_rounding));
  static const GoldenKind kMetadata("route_metadata", parse_rows, made_by(&RoutesMaker::route_metadata));
  static const GoldenKind kBackward("route_backward", parse_choice, made_by(&RoutesMaker::route_backward));
  static const GoldenKind kLosses("route_losses", parse_losses, made_by(&RoutesMaker::route_losses),
                                  by_golden(rows_of_losses));
  return {&kRoute, &kRound, &kMetadata, &kBackward, &kLosses};
}

void parse_layer_router(JsonObject& o, RouteGolden& route) {
  parse_router(o, route);
  route.variants.push_back(variant_named(o, "variant", o.text("variant")));
  if (!o.has("rules")) return;
  parse_rounding(o, route);
  if (route.rules.size() != 1) o.refuse("rules", "of a layer are one, or left out");
}

Attributes router_attributes(const RouteGolden& route, bool one_variant) {
  const Router& router = route.router;
  Attributes a{{"top_k", std::to_string(router.top_k)},
               {"groups", std::to_string(router.groups)},
               {"groups_kept", std::to_string(router.groups_kept)},
               {"nan", router.nan == NanLogits::last ? "last" : "refuse"},
               {"scale", hex(router.scale)}};
  if (one_variant) a.emplace_back("variant", route.variants[0]->name);
  return a;
}

}  // namespace mxcheck

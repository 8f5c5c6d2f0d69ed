#include "properties/operations/router/case.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "numerics/error.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // rows and slots, which are int32
constexpr std::int64_t kMostTile = std::int64_t{1} << 20;

[[noreturn]] void fail(std::string_view field, std::string_view value, std::string_view right) {
  throw Error(ErrorKind::usage, fmt::format("case field {}={} is not {}", field, value, right));
}

template <class Number>
Number number(std::string_view field, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail(field, text, "a number in range");
  return value;
}

bool one_of(std::string_view field, std::string_view value, std::string_view no, std::string_view yes) {
  if (value != no && value != yes) fail(field, value, fmt::format("{} or {}", no, yes));
  return value == yes;
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of a router: ") + what);
}

bool has_rule(const Variant& v) { return v.operation == "route_round"; }
bool has_tile(const Variant& v) { return v.operation == "route_round" || v.operation == "route_metadata"; }

void check_metadata(const Case& c) {
  require(c.plants.empty() && c.stride == 0, "route_metadata has neither plants nor a stride");
  require(c.top_k >= 0 && c.cols >= 1, "k is 0 or more, and there is an expert");
  // A ragged token has at most 7 slots (expand_route.cc).
  const std::int64_t width = c.top_k == 0 ? 7 : c.top_k;
  require(c.rows <= kMostRows / width && c.cols <= kMostRows / c.tile, "more slots or rows than int32 can count");
}

}  // namespace

bool is_route(std::string_view operation) {
  return operation == "route" || operation == "route_round" || operation == "route_metadata" ||
         operation == "route_backward";
}

bool reads_logits(const Variant& v) { return is_route(v.operation) && v.operation != "route_metadata"; }

bool set_route_field(Case& c, std::string_view field, std::string_view value) {
  Variant& v = c.variant;
  if (field == "variant") {
    v.recipe = router_variant_named(value).name;
  } else if (field == "nan") {
    v.nan_last = one_of(field, value, "refuse", "last");
  } else if (field == "bias") {
    v.bias = one_of(field, value, "0", "1");
  } else if (field == "limited") {
    v.limited = one_of(field, value, "0", "1");
  } else if (field == "rule") {
    (void)token_rounding_rule_named(value);
    v.rule = value;
  } else if (field == "weights") {
    v.renormalize = one_of(field, value, "raw", "renorm");
  } else if (field == "k") {
    c.top_k = number<std::int64_t>(field, value);
  } else if (field == "groups" && !value.empty() && value[0] >= '0' && value[0] <= '9') {
    c.groups = number<std::int64_t>(field, value);
  } else if (field == "kept") {
    c.groups_kept = number<std::int64_t>(field, value);
  } else if (field == "tile") {
    c.tile = number<std::int64_t>(field, value);
  } else if (field == "capacity") {
    c.capacity = number<std::int64_t>(field, value);
  } else if (field == "scale") {
    c.scale = number<float>(field, value);
  } else if (field == "step") {
    c.step = number<std::uint64_t>(field, value);
  } else if (field == "layer") {
    c.layer = number<std::uint32_t>(field, value);
  } else if (field == "drops") {
    c.drops = number<int>(field, value);
  } else {
    return false;
  }
  return true;
}

void check_route(const Case& c) {
  const Variant& v = c.variant;
  require(c.experts.empty() && c.gather == 0, "there are no expert offsets and no gathered rows");
  require(v.wide == Format::fp32 || v.wide == Format::bf16, "logits are fp32 or bf16");
  require(c.tile >= 1 && c.tile <= kMostTile && c.capacity >= 0 && c.drops >= 0 && c.drops <= 100,
          "tile is at least 1 and at most 2^20, capacity at least 0, drops a percentage");
  require(std::isfinite(c.scale), "scale is a number");
  if (v.operation == "route_metadata") return check_metadata(c);
  require(!v.recipe.empty(), "variant is missing");
  require(has_rule(v) == !v.rule.empty(), "rule goes with route_round");
  require(c.top_k >= 1 && c.top_k <= c.cols, "k is 1 to the number of experts");
  require(v.limited ? c.groups >= 1 && c.cols % c.groups == 0 && c.groups_kept >= 1 && c.groups_kept <= c.groups &&
                          c.top_k <= c.groups_kept * (c.cols / c.groups)
                    : c.groups == 0 && c.groups_kept == 0,
          "groups and kept go with limited=1; groups divide the experts, and those kept hold k of them");
  require(c.cols <= kMostRows / c.tile && (c.rows == 0 || c.top_k <= kMostRows / c.rows) &&
              (c.rows == 0 || c.cols <= kMostRows / c.rows),
          "more rows than int32 can count");
}

std::string route_text(const Variant& v) {
  std::string text = "op=" + v.operation;
  if (v.operation == "route_metadata") return text;
  text += fmt::format(" variant={} x={} nan={}", v.recipe, spec(v.wide).name, v.nan_last ? "last" : "refuse");
  if (v.operation != "route_backward") text += fmt::format(" bias={:d} limited={:d}", v.bias, v.limited);
  if (has_rule(v)) text += fmt::format(" rule={} weights={}", v.rule, v.renormalize ? "renorm" : "raw");
  return text;
}

std::string route_fields(const Case& c) {
  std::string text = fmt::format(" k={}", c.top_k);
  if (c.groups != 0 || c.groups_kept != 0) text += fmt::format(" groups={} kept={}", c.groups, c.groups_kept);
  if (c.tile != 1) text += fmt::format(" tile={}", c.tile);
  if (c.capacity != 0) text += fmt::format(" capacity={}", c.capacity);
  if (c.scale != 1) text += fmt::format(" scale={}", c.scale);
  if (c.step != 0) text += fmt::format(" step={}", c.step);
  if (c.layer != 0) text += fmt::format(" layer={}", c.layer);
  if (c.drops != 0) text += fmt::format(" drops={}", c.drops);
  return text;
}

std::vector<std::string> classes_of_route(const Case& c) {
  const Variant& v = c.variant;
  std::vector<std::string> classes{v.operation, "data " + std::string(kDataNames[static_cast<std::size_t>(c.data)])};
  const auto add_if = [&](bool holds, const char* name) {
    if (holds) classes.emplace_back(name);
  };
  if (reads_logits(v)) {
    classes.push_back("x " + std::string(spec(v.wide).name));
    classes.push_back("variant " + v.recipe);
    classes.emplace_back(v.nan_last ? "nan last" : "nan refuse");
    if (has_rule(v)) classes.push_back("rule " + v.rule);
    if (has_rule(v)) classes.emplace_back(v.renormalize ? "weights renorm" : "weights raw");
  }
  add_if(v.bias, "bias");
  add_if(v.limited, "group-limited");
  add_if(c.rows == 0, "shape empty");
  add_if(c.top_k == c.cols, "shape every expert chosen");
  add_if(c.top_k == 1, "shape one expert a token");
  add_if(v.operation == "route_metadata" && c.top_k == 0, "shape ragged tokens");
  add_if(has_tile(v) && c.tile > 1 && c.rows % c.tile != 0, "shape with a cut tile");
  add_if(c.elements() > 1'000'000, "shape over a million elements");
  add_if(c.stride > c.cols, "row stride");
  add_if(c.scale != 1, "scale");
  add_if(c.drops != 0, "dropped routes");
  return classes;
}

}  // namespace mxcheck

#include "tools/route/router_options.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "tools/common/text.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();  // rows are counted in int32

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

void add_variant_options(Command& sub, RouterOptions& o) {
  sub.option("--variant", o.variant, "What the weights are; route --list names them").shows_default();
  sub.option("--top-k", o.top_k, "Experts of a token").between(1, kMostCount);
  sub.option("--bias", o.bias, "A vector of F32, added to each expert's key for choosing alone").not_empty();
  const auto groups =
      sub.option("--groups", o.groups, "Group-limited choice: runs of experts of equal length").between(1, kMostCount);
  sub.option("--groups-kept", o.groups_kept, "Groups whose experts can be chosen").between(1, kMostCount).needs(groups);
  sub.option("--nan", o.nan, "A NaN is refused, or comes last").one_of({"refuse", "last"}).shows_default();
  sub.option("--scale", o.scale, "Multiplies every weight").finite_fp32().shows_default();
}

void add_rule_options(Command& sub, RouterOptions& o) {
  const std::string group = "Rows (what becomes of token choice)";
  sub.option("--round", o.round, "Rule; route --list names them").shows_default().in_group(group);
  sub.option("--tile", o.tile, "Rows that a rule rounds to, and that padding is counted and --padded made for")
      .between(1, kMostCount)
      .shows_default()
      .in_group(group);
  const auto capacity = sub.option("--capacity", o.capacity,
                                   "Tokens an expert takes at most; 0: all that chose it, but of expert-choice none")
                            .between(0, kMostCount)
                            .in_group(group);
  sub.option(
         "--capacity-factor", o.capacity_factor,
         "The same as a multiple of tokens * top_k / experts: the decimal as written, exactly; the product is rounded "
         "up for expert-choice, down for the others")
      .not_empty()
      .excludes(capacity)
      .in_group(group);
  sub.option("--weights", o.weights, "After a rule: over the sum of a token's kept scores, or the scores")
      .one_of({"renorm", "raw"})
      .in_group(group);
  sub.option("--seed", o.seed, "Of sr-f (0)").counter().in_group(group);
  sub.option("--layer", o.layer, "Of sr-f (0)").counter().in_group(group);
  sub.option("--step", o.step, "Of sr-f (0)").counter().in_group(group);
}

}  // namespace

// That it fits the router's logits is checked here too: the reference's messages would be given the logits' place.
std::vector<float> bias_at(const std::string& location, const Router& router, std::int64_t experts) {
  if (location.empty()) return {};
  const Tensor t = read_tensor(location);
  if (t.dtype != Dtype::f32 || t.shape.size() != 1) {
    throw Error(ErrorKind::input, location + ": a bias is one vector of F32, a number an expert");
  }
  std::vector<float> bias = values_in<float>(t.data);
  if (bias.empty()) throw Error(ErrorKind::input, location + ": is empty; a bias has a number an expert");
  Router biased = router;
  biased.bias = bias;
  in_place(location, [&] { check_bias(biased, experts); });
  for (std::size_t e = 0; router.variant->packed && e < bias.size(); ++e) {
    if (std::isfinite(bias[e])) continue;
    throw Error(ErrorKind::input,
                fmt::format("{}: {} in the bias of expert {}: packed order takes finite numbers alone", location,
                            std::isnan(bias[e]) ? "NaN" : "Inf", e));
  }
  return bias;
}

// All of the rule but the capacity, which may depend on the number of tokens.
TokenRounding token_rounding_of(const RouterOptions& o) {
  TokenRounding a;
  a.rule = token_rounding_rule_named(o.round);
  a.tile = o.tile;
  const bool none = a.rule == TokenRoundingRule::none;
  if (none && !o.weights.empty()) refuse("--weights: of --round none they are the variant's");
  a.renormalize = o.weights != "raw";
  const bool random = a.rule == TokenRoundingRule::sr_f;
  if (!random && (o.seed || o.layer || o.step)) refuse("--seed, --layer and --step are for --round sr-f");
  a.seed = o.seed.value_or(0), a.layer = o.layer.value_or(0), a.step = o.step.value_or(0);
  const bool given = o.capacity || !o.capacity_factor.empty();
  if (given && !takes_capacity(a.rule)) {
    refuse("--capacity and --capacity-factor are for --round expert-choice, capacity-order and capacity-score");
  }
  if (!given && takes_capacity(a.rule)) refuse("--round " + o.round + " needs --capacity or --capacity-factor");
  return a;
}

void set_capacity(const RouterOptions& o, TokenRounding& a, const MatrixView& logits) {
  if (o.capacity) a.capacity = *o.capacity;
  if (o.capacity_factor.empty() || logits.cols == 0) return;
  a.capacity = capacity_from_factor(a.rule, o.capacity_factor, logits.rows, *o.top_k, logits.cols);
  if (a.capacity == 0 && logits.rows > 0) {  // which the capacity rules would take for no limit at all
    refuse("capacity factor '" + o.capacity_factor + "': leaves no token for an expert");
  }
}

Router router_of(const RouterOptions& o) {
  if (!o.top_k) refuse("--top-k is needed");
  Router router;
  router.variant = &router_variant_named(o.variant);
  router.top_k = *o.top_k;
  router.groups = o.groups, router.groups_kept = o.groups_kept;
  router.nan = o.nan == "last" ? NanLogits::last : NanLogits::refuse;
  router.scale = o.scale;
  return router;
}

void add_router_options(Command& sub, RouterOptions& o) {
  add_variant_options(sub, o);
  add_rule_options(sub, o);
}

}  // namespace mxcheck

#include "properties/operations/router/operation.h"

#include <algorithm>
#include <utility>

#include "kernels/candidate_route.h"
#include "properties/core/case_text.h"
#include "properties/core/invalid_call.h"
#include "properties/operations/router/problem.h"
#include "properties/operations/router/statements.h"

namespace mxcheck {
namespace {

constexpr std::string_view kNan[] = {"refuse", "last"};
constexpr std::string_view kFlag[] = {"0", "1"};
constexpr std::string_view kWeights[] = {"raw", "renorm"};

class RouteOperation final : public Operation {
 public:
  // weight: how much it counts in drawing. There are thousands of variants of routers, which must not crowd out the
  // rest: each of these operations is drawn as often as so many variants of others.
  RouteOperation(std::string_view name, std::size_t weight) : name_(name), weight_(weight) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return askable_routes(operation);
  }
  [[nodiscard]] Policy question(const Variant& v) const override;
  [[nodiscard]] Policy policy(const Case& c) const override;
  [[nodiscard]] std::string variant_text(const Variant& v) const override;
  [[nodiscard]] std::string shape_text(const Case& c) const override;
  bool set_field(Case& c, std::string_view field, std::string_view value) const override;
  void check(const Case& c) const override { check_route(c); }

  [[nodiscard]] std::optional<std::size_t> fixed_weight() const override { return weight_; }
  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return route_domain(request);
  }
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const override {
    return simpler_routes(c, finding);
  }
  void fit(Case& c) const override { fit_route(c); }

  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<RouteProblem>(c);
  }
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    return std::make_unique<RouteProblem>(call);
  }
  [[nodiscard]] bool any_nan_is_equal(std::string_view) const override { return true; }

  [[nodiscard]] bool is_option(const Case& c) const override { return is_route_option(c); }
  [[nodiscard]] Case without_options(Case c) const override {
    c.stride = 0;
    route_case(c).scale = 1;
    route_case(c).top_k = std::min<std::int64_t>(16, route_case(c).top_k);
    return c;
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override;
  [[nodiscard]] bool has_invalid_calls(const Case& c) const override {
    return Operation::has_invalid_calls(c) && (reads_logits(c.variant) || !RouteProblem(c).routes.empty());
  }
  [[nodiscard]] bool has_offsets_of_experts() const override { return false; }  // they are of tokens
  [[nodiscard]] bool may_have_row_stride() const override { return name_ != "route_metadata"; }
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite suite) const override;

 private:
  [[nodiscard]] bool has_rule() const { return name_ == "route_round"; }
  [[nodiscard]] bool has_tile() const { return name_ == "route_round" || name_ == "route_metadata"; }
  std::string_view name_;
  std::size_t weight_;
};

Policy RouteOperation::question(const Variant& v) const {
  Case c;
  c.variant = v;
  route_case(c).groups = route_of(v).limited ? 1 : 0;
  route_case(c).tile = 0;
  return policy(c);
}

Policy RouteOperation::policy(const Case& c) const {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  mxcheck_route_policy p{};
  p.policy.recipe = v.router.c_str();
  p.policy.rows = c.rows, p.policy.cols = c.cols, p.policy.threads = c.threads;
  p.top_k = own.top_k, p.groups = own.groups, p.groups_kept = own.groups_kept;
  p.nan = v.nan_last ? MXCHECK_NAN_LAST : MXCHECK_NAN_REFUSE;
  p.bias = v.bias ? 1 : 0;
  p.scale = own.scale;
  p.renormalize = v.renormalize ? 1 : 0;
  p.rule = v.rule.c_str();
  if (has_tile()) p.tile = own.tile;
  // Of a question all four are 0, as those of a case without them.
  if (has_rule()) p.capacity = own.capacity, p.seed = c.seed, p.step = own.step, p.layer = own.layer;
  return pack(p, {offsetof(mxcheck_route_policy, rule)});
}

std::string RouteOperation::variant_text(const Variant& variant) const {
  const RouteVariant& v = route_of(variant);
  std::string text = "op=" + variant.operation;
  if (!reads_logits(variant)) return text;
  text += fmt::format(" variant={} x={} nan={}", v.router, spec(variant.dtype).name, kNan[v.nan_last ? 1 : 0]);
  if (name_ != "route_backward") text += fmt::format(" bias={:d} limited={:d}", v.bias, v.limited);
  if (has_rule()) text += fmt::format(" rule={} weights={}", v.rule, kWeights[v.renormalize ? 1 : 0]);
  return text;
}

std::string RouteOperation::shape_text(const Case& c) const {
  const RouteCase& own = route_case(c);
  std::string text = fmt::format(" k={}", own.top_k);
  if (own.groups != 0 || own.groups_kept != 0) text += fmt::format(" groups={} kept={}", own.groups, own.groups_kept);
  if (own.tile != 1) text += fmt::format(" tile={}", own.tile);
  if (own.capacity != 0) text += fmt::format(" capacity={}", own.capacity);
  if (own.scale != 1) text += fmt::format(" scale={}", own.scale);
  if (own.step != 0) text += fmt::format(" step={}", own.step);
  if (own.layer != 0) text += fmt::format(" layer={}", own.layer);
  if (own.drops != 0) text += fmt::format(" drops={}", own.drops);
  return text;
}

bool RouteOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  RouteVariant& v = route_of(c.variant);
  RouteCase& own = route_case(c);
  if (field == "variant") {
    v.router = router_variant_named(value).name;
  } else if (field == "nan") {
    v.nan_last = word_field(field, value, kNan) != 0;
  } else if (field == "bias") {
    v.bias = word_field(field, value, kFlag) != 0;
  } else if (field == "limited") {
    v.limited = word_field(field, value, kFlag) != 0;
  } else if (field == "rule") {
    (void)token_rounding_rule_named(value);
    v.rule = value;
  } else if (field == "weights") {
    v.renormalize = word_field(field, value, kWeights) != 0;
  } else if (field == "k") {
    own.top_k = number_field<std::int64_t>(field, value);
  } else if (field == "groups") {
    own.groups = number_field<std::int64_t>(field, value);
  } else if (field == "kept") {
    own.groups_kept = number_field<std::int64_t>(field, value);
  } else if (field == "tile") {
    own.tile = number_field<std::int64_t>(field, value);
  } else if (field == "capacity") {
    own.capacity = number_field<std::int64_t>(field, value);
  } else if (field == "scale") {
    own.scale = number_field<float>(field, value);
  } else if (field == "step") {
    own.step = number_field<std::uint64_t>(field, value);
  } else if (field == "layer") {
    own.layer = number_field<std::uint32_t>(field, value);
  } else if (field == "drops") {
    own.drops = number_field<int>(field, value);
  } else {
    return false;
  }
  return true;
}

std::vector<InvalidCall> RouteOperation::invalid_calls() const {
  std::vector<InvalidCall> all{disagreeing_cols(), huge_cols(), unknown_layout(), negative_layout()};
  if (name_ != "route_metadata") all.push_back(unknown_recipe());
  for (InvalidCall& invalid : invalid_routes()) all.push_back(std::move(invalid));
  return all;
}

std::vector<Case> RouteOperation::large_cases(const Variant& v, Suite suite) const {
  const RouteVariant& own = route_of(v);
  const bool usual = v.dtype == Format::bf16 && own.router == "softmax-topk" && !own.bias && !own.limited &&
                     !own.nan_last && (own.rule.empty() || own.rule == "nr-s");
  if (suite == Suite::quick && !usual && reads_logits(v)) return {};
  Case c = route_corner(v, 1031, 64, 6, Data::normal, 5);
  if (has_tile()) route_case(c).tile = 32;
  return {c};
}

}  // namespace

OperationModule router_module() {
  static const RouteOperation kRoute("route", 40);
  static const RouteOperation kRound("route_round", 80);
  static const RouteOperation kMetadata("route_metadata", 20);
  static const RouteOperation kBackward("route_backward", 20);
  OperationModule module{{&kRoute, &kRound, &kMetadata, &kBackward}, route_equality_statements()};
  for (const auto& family : {route_law_statements(), route_row_law_statements(), route_refusal_statements()})
    module.statements.insert(module.statements.end(), family.begin(), family.end());
  return module;
}

}  // namespace mxcheck

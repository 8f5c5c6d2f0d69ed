#include "properties/operations/router/operation.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/candidate_route.h"
#include "numerics/format/codec.h"
#include "properties/core/case_text.h"
#include "properties/core/check.h"
#include "properties/core/claims.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

constexpr std::string_view kNan[] = {"refuse", "last"};
constexpr std::string_view kFlag[] = {"0", "1"};
constexpr std::string_view kWeights[] = {"raw", "renorm"};
constexpr std::string_view kLoads[] = {"equal", "one", "drawn", "large"};

// Parts that all share.
class RouteOperation : public Operation {
 public:
  explicit RouteOperation(const RouteKind& kind) : kind_(kind) {}

  [[nodiscard]] std::string_view name() const override { return kind_.name; }
  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return askable_routes(operation);
  }
  [[nodiscard]] std::vector<std::string_view> claims() const override {
    if (kind_.name != kRoute.name) return {};
    return {kAnyOrder, kAsAccurateAsExact};
  }
  [[nodiscard]] Policy question(const Variant& v) const override;
  [[nodiscard]] Policy policy(const Case& c) const override;
  [[nodiscard]] std::optional<IdentifiedAs> identified_as(const Variant& v) const override {
    const RouteVariant& own = route_of(v);
    if (own.bias || own.limited) return std::nullopt;
    return IdentifiedAs{v.operation + " " + own.router, rank_of_type(v.dtype) * 2 + (own.nan_last ? 0 : 1)};
  }
  [[nodiscard]] std::string variant_text(const Variant& v) const override;
  [[nodiscard]] std::string shape_text(const Case& c) const override;
  bool set_field(Case& c, std::string_view field, std::string_view value) const override;
  void check(const Case& c) const override { check_route(c); }

  [[nodiscard]] std::optional<std::size_t> fixed_weight() const override { return kind_.weight; }
  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return route_domain(request);
  }
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const override {
    return simpler_routes(c, finding);
  }
  void fit(Case& c) const override { fit_route(c); }

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
    return Operation::has_invalid_calls(c) && (kind_.reads_logits || make_problem(c)->call().inputs[0].bytes != 0);
  }
  [[nodiscard]] bool has_offsets_of_experts() const override { return false; }  // they are of tokens
  [[nodiscard]] bool may_have_row_stride() const override { return kind_.reads_logits; }
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite suite) const override;

 private:
  [[nodiscard]] bool has_tile() const { return kind_.rounds || !kind_.reads_logits; }
  const RouteKind& kind_;
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
  // All of these are 0 in a question, as they are in a case without them.
  if (kind_.rounds) p.capacity = own.capacity, p.seed = c.seed, p.step = own.step, p.layer = own.layer;
  return pack(p, {offsetof(mxcheck_route_policy, rule)});
}

std::string RouteOperation::variant_text(const Variant& variant) const {
  const RouteVariant& v = route_of(variant);
  std::string text = "op=" + variant.operation;
  if (kind_.is_loss) text += fmt::format(" x={}", spec(variant.dtype).name);
  if (!kind_.has_router()) return text;
  text += fmt::format(" variant={} x={} nan={}", v.router, spec(variant.dtype).name, kNan[v.nan_last ? 1 : 0]);
  if (kind_.chooses) text += fmt::format(" bias={:d} limited={:d}", v.bias, v.limited);
  if (kind_.rounds) text += fmt::format(" rule={} weights={}", v.rule, kWeights[v.renormalize ? 1 : 0]);
  return text;
}

std::string RouteOperation::shape_text(const Case& c) const {
  const RouteCase& own = route_case(c);
  std::string text = kind_.is_loss ? "" : fmt::format(" k={}", own.top_k);
  if (own.groups != 0 || own.groups_kept != 0) text += fmt::format(" groups={} kept={}", own.groups, own.groups_kept);
  if (own.tile != 1) text += fmt::format(" tile={}", own.tile);
  if (own.capacity != 0) text += fmt::format(" capacity={}", own.capacity);
  if (own.scale != 1) text += fmt::format(" scale={}", own.scale);
  if (own.step != 0) text += fmt::format(" step={}", own.step);
  if (own.layer != 0) text += fmt::format(" layer={}", own.layer);
  if (own.drops != 0) text += fmt::format(" drops={}", own.drops);
  if (own.ragged != 0) text += fmt::format(" ragged={}", own.ragged);
  if (own.masked != 0) text += fmt::format(" masked={}", own.masked);
  if (own.loads != Loads::equal) text += fmt::format(" loads={}", kLoads[static_cast<std::size_t>(own.loads)]);
  return text;
}

bool RouteOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  RouteVariant& v = route_of(c.variant);
  RouteCase& own = route_case(c);
  const FieldText f{field, value};
  const auto set_rule = [&] {
    (void)token_rounding_rule_named(value);
    v.rule = value;
  };
  return f.read("variant", [&] { v.router = router_variant_named(value).name; }) || f.word("nan", v.nan_last, kNan) ||
         f.word("bias", v.bias, kFlag) || f.word("limited", v.limited, kFlag) || f.read("rule", set_rule) ||
         f.word("weights", v.renormalize, kWeights) || f.number("k", own.top_k) || f.number("groups", own.groups) ||
         f.number("kept", own.groups_kept) || f.number("tile", own.tile) || f.number("capacity", own.capacity) ||
         f.number("scale", own.scale) || f.number("step", own.step) || f.number("layer", own.layer) ||
         f.number("drops", own.drops) || f.number("ragged", own.ragged) || f.number("masked", own.masked) ||
         f.word("loads", own.loads, kLoads);
}

std::vector<InvalidCall> RouteOperation::invalid_calls() const {
  std::vector<InvalidCall> all = disagreeing_extents({unknown_layout(), negative_layout()});
  if (kind_.has_router()) all.push_back(unknown_recipe());
  for (InvalidCall& invalid : invalid_routes()) all.push_back(std::move(invalid));
  return all;
}

std::vector<Case> RouteOperation::large_cases(const Variant& v, Suite suite) const {
  const RouteVariant& own = route_of(v);
  const bool usual = v.dtype == Format::bf16 && (own.router == "softmax-topk" || kind_.is_loss) && !own.bias &&
                     !own.limited && !own.nan_last && (own.rule.empty() || own.rule == "nr-s");
  if (suite == Suite::quick && !usual && kind_.reads_logits) return {};
  Case c = route_corner(v, 1031, 64, 6, Data::normal, 5);
  if (has_tile()) route_case(c).tile = 32;
  return {c};
}

}  // namespace

OperationModule router_module() {
  static const OperationOf<ChoiceProblem, RouteOperation> kChoice(kRoute);
  static const OperationOf<RoundingProblem, RouteOperation> kRounding(kRouteRound);
  static const OperationOf<MetadataProblem, RouteOperation> kMetadata(kRouteMetadata);
  static const OperationOf<GradientProblem, RouteOperation> kGradient(kRouteBackward);
  static const OperationOf<LossProblem, RouteOperation> kBalance(kBalanceLoss);
  static const OperationOf<LossProblem, RouteOperation> kZ(kZLoss);
  OperationModule module{{&kChoice, &kRounding, &kMetadata, &kGradient, &kBalance, &kZ}, route_equality_statements()};
  for (const auto& family :
       {route_law_statements(), route_row_law_statements(), route_loss_law_statements(), route_refusal_statements()})
    module.statements.insert(module.statements.end(), family.begin(), family.end());
  return module;
}

// The calls that a router must refuse: those with NaN under the policy "refuse", and invalid ones.

namespace {

using P = mxcheck_route_policy;

const RouteKind& kind_of(const Call& c) { return *find_route_kind(c.operation); }
bool chooses(const Call& c) { return kind_of(c).chooses; }
bool has_router(const Call& c) { return kind_of(c).has_router(); }
bool has_top_k(const Call& c) { return !kind_of(c).is_loss; }
bool counts_routes(const Call& c) { return c.operation == kBalanceLoss.name; }
bool rounds(const Call& c) { return kind_of(c).rounds; }
bool places_slots(const Call& c) { return !kind_of(c).reads_logits; }
bool has_tile(const Call& c) {
  return places_slots(c) || (rounds(c) && rounds_to_tiles(token_rounding_rule_named(read<P>(c.policy).rule)));
}
bool operation_has_capacity(const Call& c) {
  return rounds(c) && takes_capacity(token_rounding_rule_named(read<P>(c.policy).rule));
}
bool is_limited(const Call& c) { return chooses(c) && read<P>(c.policy).groups != 0; }

// A policy changed where `applies`.
template <class Change>
InvalidCall where(bool (*applies)(const Call&), const char* how, Change change) {
  return {how, [=](Call& call) {
            if (!applies(call)) return false;
            edit<P>(call.policy, change);
            return true;
          }};
}

// The experts of routes, among the inputs of route_backward and route_metadata; the counts of route_balance_loss.
bool with_one_index(Call& c, std::int32_t value) {
  for (CallTensor& input : c.inputs) {
    if (input.is_index && input.bytes != 0) return change_one(c, input, value);
  }
  return false;
}

bool with_token_offset(Call& c, std::size_t at, std::int64_t value) {
  for (CallTensor& input : c.inputs) {
    if (input.is_offsets) return change_value(c, input, at, value);
  }
  return false;
}

// The number of slots, where tokens have offsets.
std::int64_t slots_of(const Call& c) { return c.inputs[0].shape[0]; }
std::size_t last_offset(const Call& c) { return static_cast<std::size_t>(read<P>(c.policy).policy.rows); }

std::vector<InvalidCall> invalid_policies() {
  std::vector<InvalidCall> all{
      where(has_router, "top_k is 0", [](P& p) { p.top_k = 0; }),
      {"top_k is above the number of experts",
       [](Call& c) {
         if (!has_router(c)) return false;
         const std::int64_t too_many = c.inputs[0].shape[1] + 1;
         edit<P>(c.policy, [&](P& p) { p.top_k = too_many; });
         for (CallTensor& t : c.outputs) {
           if (is_operation(c.operation, kRoute.name)) t.shape[1] = too_many;
         }
         return true;
       }},
      where(has_router, "top_k is 2^63 - 1", [](P& p) { p.top_k = INT64_MAX; }),
      where([](const Call& c) { return has_top_k(c) && read<P>(c.policy).policy.rows > 0; }, "top_k is 2^32 more",
            [](P& p) { p.top_k += std::int64_t{1} << 32; }),
      where(has_top_k, "top_k is negative", [](P& p) { p.top_k = -1; }),
      where(has_tile, "the tile is 0", [](P& p) { p.tile = 0; }),
      where(has_tile, "the tile is negative", [](P& p) { p.tile = -8; }),
      where(places_slots, "the tile is 2^63 - 1", [](P& p) { p.tile = INT64_MAX; }),
      where(operation_has_capacity, "the capacity is negative", [](P& p) { p.capacity = -1; }),
      {"the rule is unknown",
       [](Call& c) {
         if (!rounds(c)) return false;
         const std::string wrong = "z" + std::string(read<P>(c.policy).rule).substr(1);
         edit<P>(c.policy, [&](P& p) { p.rule = wrong.c_str(); });
         return true;
       }},
      where(has_router, "what happens to NaN is unknown", [](P& p) { p.nan = 7; }),
      where(has_router, "what happens to NaN is negative", [](P& p) { p.nan = -1; }),
      {"bias is 2",
       [](Call& c) {
         if (!chooses(c) || read<P>(c.policy).bias == 0) return false;  // it is there
         edit<P>(c.policy, [](P& p) { p.bias = 2; });
         return true;
       }},
      where(rounds, "renormalize is 2", [](P& p) { p.renormalize = 2; }),
      invalid_policy<P>("a router has a format", [](P& p) { return p.policy.format = "e4m3", true; }),
      invalid_policy<P>("a router has blocks",
                        [](P& p) { return p.policy.block_rows = 1, p.policy.block_cols = 32, true; }),
      invalid_policy<P>("a router has scales in tiles", [](P& p) { return p.policy.layout = MXCHECK_TCGEN05, true; }),
      where(is_limited, "the groups do not divide the experts", [](P& p) { p.groups = p.policy.cols + 1; }),
      where(is_limited, "no group is kept", [](P& p) { p.groups_kept = 0; }),
      where(is_limited, "more groups are kept than there are", [](P& p) { p.groups_kept = p.groups + 1; }),
      where(chooses, "the number of groups is negative", [](P& p) { p.groups = -1; }),
      where([](const Call& c) { return chooses(c) && read<P>(c.policy).groups == 0; },
            "groups are kept and there are none", [](P& p) { p.groups_kept = 1; }),
      where([](const Call& c) { return is_limited(c) && read<P>(c.policy).top_k >= 2; },
            "top_k is above the experts of the groups kept", [](P& p) { p.groups = p.policy.cols, p.groups_kept = 1; }),
  };
  std::ranges::find(all, std::string_view("top_k is 2^32 more"), &InvalidCall::how)->wraps = true;
  return all;
}

std::vector<InvalidCall> invalid_tensors_of_routers() {
  return {
      {"a bias is promised and missing",
       [](Call& c) {
         if (!chooses(c) || read<P>(c.policy).bias != 0) return false;
         edit<P>(c.policy, [](P& p) { p.bias = 1; });
         return true;
       }},
      {"a bias is there that was not promised",
       [](Call& c) {
         if (!chooses(c) || read<P>(c.policy).bias == 0) return false;
         edit<P>(c.policy, [](P& p) { p.bias = 0; });
         return true;
       }},
      {"experts are int64",
       [](Call& c) {
         for (CallTensor& t : c.outputs) {
           if (t.is_index) return t.is_index = false, t.is_offsets = true;
         }
         return false;
       }},
      {"weights are BF16",
       [](Call& c) {
         for (CallTensor& t : c.outputs) {
           if (t.is_index || t.is_offsets || kind_of(c).has_gradient) continue;
           t.dtype = Format::bf16;
           return true;
         }
         return false;
       }},
      {"the gradient has another type than the logits",
       [](Call& c) {
         if (!kind_of(c).has_gradient) return false;
         Format& dtype = c.outputs.back().dtype;
         dtype = dtype == Format::bf16 ? Format::fp32 : Format::bf16;
         return true;
       }},
      {"the loss is BF16", [](Call& c) { return kind_of(c).is_loss && (c.outputs[0].dtype = Format::bf16, true); }},
      {"a route's expert is -2", [](Call& c) { return !counts_routes(c) && with_one_index(c, -2); }},
      {"a route's expert is the number of experts",
       [](Call& c) {
         return !counts_routes(c) && with_one_index(c, static_cast<std::int32_t>(read<P>(c.policy).policy.cols));
       }},
      {"an expert's count is -1", [](Call& c) { return counts_routes(c) && with_one_index(c, -1); }},
      {"no expert has a route",
       [](Call& c) {
         if (!counts_routes(c) || read<P>(c.policy).policy.rows == 0) return false;
         CallTensor& counts = c.inputs.back();
         counts.data = c.own(std::vector<std::byte>(counts.bytes));
         return true;
       }},
  };
}

std::vector<InvalidCall> invalid_token_offsets() {
  return {
      {"token_offsets are missing",
       [](Call& c) {
         if (!places_slots(c) || read<P>(c.policy).top_k != 0) return false;
         c.inputs.pop_back();
         return true;
       }},
      {"token_offsets descend", [](Call& c) { return slots_of(c) > 0 && with_token_offset(c, 1, slots_of(c) + 1); }},
      {"token_offsets do not start at 0", [](Call& c) { return slots_of(c) > 0 && with_token_offset(c, 0, 1); }},
      {"token_offsets are negative", [](Call& c) { return with_token_offset(c, 0, -1); }},
      {"token_offsets end after the last slot",
       [](Call& c) { return with_token_offset(c, last_offset(c), slots_of(c) + 1); }},
      {"token_offsets end before the last slot",
       [](Call& c) { return slots_of(c) > 0 && with_token_offset(c, last_offset(c), slots_of(c) - 1); }},
  };
}

// A logit that is refused, planted at a place that the seed decides.
std::optional<Finding> refuses_nan(CheckContext& context, const Case& c) {
  const bool finite = is_loss(c.variant) || router_variant_named(route_of(c.variant).router).packed;
  if (c.elements() == 0 || (route_of(c.variant).nan_last && !finite)) return not_applicable(context);
  const FormatSpec& logit = spec(c.variant.dtype);
  const std::uint32_t sign = static_cast<std::uint32_t>(c.seed & 1) << (logit.bits - 1);
  const std::uint32_t infinity = logit.max_code + 1;
  const bool plants_infinity = finite && (c.seed & 2) != 0;
  const std::uint32_t bits =
      sign | (plants_infinity ? infinity : infinity + 1 + static_cast<std::uint32_t>(c.seed >> 8) % 64);
  const auto first = static_cast<std::int64_t>((c.seed >> 4) % static_cast<std::uint64_t>(c.elements()));
  Case with_nan = c;
  with_nan.plants = {{first / c.cols, first % c.cols, bits}};
  // The first of several is to be named: another in the last place.
  const std::int64_t last = c.elements() - 1;
  if (first < last && (c.seed & 4) != 0) with_nan.plants.push_back({last / c.cols, last % c.cols, bits});
  const std::unique_ptr<Problem> p = make_problem(with_nan);
  const OperationInfo* limits = context.process.operation(c.variant.operation);
  if (limits == nullptr || !is_within_limits(c, *limits)) return not_applicable(context);
  const Outcome outcome = context.process.run(p->call());
  const bool returned = outcome.kind == OutcomeKind::returned;
  const bool refused = returned && outcome.status != MXCHECK_OK && outcome.outputs_untouched && !outcome.out_of_bounds;
  // A report of the device ends with its place (worker_lane.cc); records keep none.
  const bool named = outcome.message.find("(index ") == std::string::npos ||
                     outcome.message.find(fmt::format("(index {},", first)) != std::string::npos;
  if (refused && outcome.status == MXCHECK_UNSUPPORTED && is_route_option(c)) {
    context.not_offered = true;
    return std::nullopt;
  }
  if (refused && outcome.status == MXCHECK_INVALID && !outcome.message.empty() && named) return std::nullopt;
  Finding finding;
  finding.kind = returned ? FindingKind::refused : FindingKind::fault;
  finding.summary = fmt::format("logit ({}, {}) is {}, which is to be refused, and the candidate ", first / c.cols,
                                first % c.cols, plants_infinity ? "infinite" : "NaN");
  if (!returned) {
    finding.summary += "did not return";
  } else if (outcome.status == MXCHECK_OK) {
    finding.summary += "returned MXCHECK_OK";
  } else if (!outcome.outputs_untouched || outcome.out_of_bounds) {
    finding.summary += "refused but wrote " + outcome.out_of_bounds.value_or("to an output");
  } else if (outcome.status != MXCHECK_INVALID) {
    finding.summary += "refused with status " + status_text(outcome.status);
  } else {
    finding.summary += fmt::format("named another place than element {}: \"{}\"", first, outcome.message);
  }
  return finding;
}

}  // namespace

std::vector<InvalidCall> invalid_routes() {
  std::vector<InvalidCall> all = invalid_policies();
  for (const auto& family : {invalid_tensors_of_routers(), invalid_token_offsets()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

std::vector<Statement> route_refusal_statements() {
  Statement s;
  s.name = "a_nan_logit_is_refused_and_nothing_is_written";
  s.sentence =
      "where NaN is to be refused, one NaN among the logits (in packed order and by losses an infinity too) is, with "
      "MXCHECK_INVALID, its place where only the device sees it, and no output byte changed";
  s.source = "docs/router.md; kernels/candidate_route.h";
  s.applies = [](const Variant& v, std::span<const Variant>) {
    return reads_logits(v) && (!route_of(v).nan_last || router_variant_named(route_of(v).router).packed);
  };
  s.data = {Data::normal, Data::codes, Data::slots};
  s.experts = 0;
  s.check = refuses_nan;
  return {s};
}

}  // namespace mxcheck

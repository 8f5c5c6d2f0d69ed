// What a router must refuse: NaN under the policy "refuse", and invalid calls.

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/candidate_route.h"
#include "numerics/format/codec.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/operations/router/problem.h"
#include "properties/operations/router/statements.h"

namespace mxcheck {
namespace {

using P = mxcheck_route_policy;

bool chooses(const Call& c) { return c.operation == "route" || c.operation == "route_round"; }
bool has_top_k(const Call& c) { return chooses(c) || c.operation == "route_backward"; }
bool has_tile(const Call& c) {
  const bool rounds =
      c.operation == "route_round" && rounds_to_tiles(token_rounding_rule_named(read<P>(c.policy).rule));
  return rounds || c.operation == "route_metadata";
}
bool has_capacity(const Call& c) {
  const std::string_view rule = read<P>(c.policy).rule;
  return c.operation == "route_round" && (rule.starts_with("capacity") || rule == "expert-choice");
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

// The experts of routes, among the inputs of route_backward and route_metadata.
bool with_last_expert(Call& c, std::int32_t expert) {
  for (CallTensor& input : c.inputs) {
    if (input.is_index && input.bytes != 0)
      return change_value(c, input, input.bytes / sizeof(std::int32_t) - 1, expert);
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
      where(has_top_k, "top_k is 0", [](P& p) { p.top_k = 0; }),
      {"top_k is above the number of experts",
       [](Call& c) {
         if (!has_top_k(c)) return false;
         const std::int64_t too_many = c.inputs[0].shape[1] + 1;
         edit<P>(c.policy, [&](P& p) { p.top_k = too_many; });
         for (CallTensor& t : c.outputs) {
           if (c.operation == "route") t.shape[1] = too_many;
         }
         return true;
       }},
      where(has_top_k, "top_k is 2^63 - 1", [](P& p) { p.top_k = INT64_MAX; }),
      invalid_policy<P>("top_k is negative", [](P& p) { return p.top_k = -1, true; }),
      where(has_tile, "the tile is 0", [](P& p) { p.tile = 0; }),
      where(has_tile, "the tile is negative", [](P& p) { p.tile = -8; }),
      where([](const Call& c) { return c.operation == "route_metadata"; }, "the tile is 2^63 - 1",
            [](P& p) { p.tile = INT64_MAX; }),
      where(has_capacity, "the capacity is negative", [](P& p) { p.capacity = -1; }),
      {"the rule is unknown",
       [](Call& c) {
         if (c.operation != "route_round") return false;
         const std::string wrong = "z" + std::string(read<P>(c.policy).rule).substr(1);
         edit<P>(c.policy, [&](P& p) { p.rule = wrong.c_str(); });
         return true;
       }},
      where(has_top_k, "what happens to NaN is unknown", [](P& p) { p.nan = 7; }),
      where(has_top_k, "what happens to NaN is negative", [](P& p) { p.nan = -1; }),
      {"bias is 2",
       [](Call& c) {
         if (!chooses(c) || read<P>(c.policy).bias == 0) return false;  // it is there
         edit<P>(c.policy, [](P& p) { p.bias = 2; });
         return true;
       }},
      where([](const Call& c) { return c.operation == "route_round"; }, "renormalize is 2",
            [](P& p) { p.renormalize = 2; }),
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
           if (t.is_index || t.is_offsets || c.operation == "route_backward") continue;
           t.dtype = Format::bf16;
           return true;
         }
         return false;
       }},
      {"the gradient has another type than the logits",
       [](Call& c) {
         if (c.operation != "route_backward") return false;
         c.outputs[0].dtype = c.outputs[0].dtype == Format::bf16 ? Format::fp32 : Format::bf16;
         return true;
       }},
      {"the last route's expert is -2", [](Call& c) { return with_last_expert(c, -2); }},
      {"the last route's expert is the number of experts",
       [](Call& c) { return with_last_expert(c, static_cast<std::int32_t>(read<P>(c.policy).policy.cols)); }},
  };
}

std::vector<InvalidCall> invalid_token_offsets() {
  return {
      {"token_offsets are missing",
       [](Call& c) {
         if (c.operation != "route_metadata" || read<P>(c.policy).top_k != 0) return false;
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
  const bool packed = router_variant_named(route_of(c.variant).router).packed;
  if (c.elements() == 0 || (route_of(c.variant).nan_last && !packed)) return nothing_claimed(context);
  const FormatSpec& logit = spec(c.variant.dtype);
  const std::uint32_t sign = static_cast<std::uint32_t>(c.seed & 1) << (logit.bits - 1);
  const std::uint32_t infinity = logit.max_code + 1;
  const bool plants_infinity = packed && (c.seed & 2) != 0;
  const std::uint32_t bits =
      sign | (plants_infinity ? infinity : infinity + 1 + static_cast<std::uint32_t>(c.seed >> 8) % 64);
  const auto first = static_cast<std::int64_t>((c.seed >> 4) % static_cast<std::uint64_t>(c.elements()));
  Case with_nan = c;
  with_nan.plants = {{first / c.cols, first % c.cols, bits}};
  // The first of several is to be named: another in the last place.
  const std::int64_t last = c.elements() - 1;
  if (first < last && (c.seed & 4) != 0) with_nan.plants.push_back({last / c.cols, last % c.cols, bits});
  const RouteProblem p(with_nan);
  const OperationInfo* limits = context.process.operation(c.variant.operation);
  if (limits == nullptr || !is_within_limits(c, *limits)) return nothing_claimed(context);
  const Outcome outcome = context.process.run(p.call());
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
    finding.summary += fmt::format("refused with status {}", outcome.status);
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
      "where NaN is to be refused, one NaN among the logits (in packed order an infinity too) is, with "
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

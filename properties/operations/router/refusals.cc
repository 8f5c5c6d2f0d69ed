// What a router must refuse: NaN where it does, and calls that make no sense.

#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "kernels/candidate_route.h"
#include "numerics/format/codec.h"
#include "properties/operations/router/problem.h"
#include "properties/statements/common.h"
#include "properties/statements/invalid_call.h"

namespace mxcheck {
namespace {

bool chooses(const Call& c) { return c.operation == "route" || c.operation == "route_round"; }
bool has_top_k(const Call& c) { return chooses(c) || c.operation == "route_backward"; }

// An input's integers with one of them changed.
template <class T>
bool with_value(CallTensor& input, std::size_t at, T value) {
  static thread_local std::vector<T> values;
  values.resize(input.bytes / sizeof(T));
  if (at >= values.size()) return false;
  std::memcpy(values.data(), input.data, input.bytes);
  values[at] = value;
  input.data = reinterpret_cast<const std::byte*>(values.data());
  return true;
}

// The experts of routes, among the inputs of route_backward and route_metadata.
bool with_last_expert(Call& c, std::int32_t expert) {
  for (CallTensor& input : c.inputs) {
    if (input.is_index && input.bytes != 0) return with_value(input, input.bytes / sizeof(std::int32_t) - 1, expert);
  }
  return false;
}

bool with_token_offset(Call& c, std::size_t at, std::int64_t value) {
  for (CallTensor& input : c.inputs) {
    if (input.is_offsets) return with_value(input, at, value);
  }
  return false;
}

// The number of slots, where tokens have offsets.
std::int64_t slots_of(const Call& c) { return c.inputs[0].shape[0]; }

const std::array kSpoiledRoutes{
    Spoiled{"top_k is 0",
            [](Call& c) {
              c.policy.top_k = 0;
              return has_top_k(c);
            }},
    Spoiled{"top_k is above the number of experts",
            [](Call& c) {
              c.policy.top_k = c.policy.cols + 1;
              for (CallTensor& t : c.outputs) {
                if (c.operation == "route") t.shape[1] = c.policy.top_k;
              }
              return has_top_k(c);
            }},
    Spoiled{"top_k is negative",
            [](Call& c) {
              c.policy.top_k = -1;
              return true;
            }},
    Spoiled{"the tile is 0",
            [](Call& c) {
              c.policy.tile = 0;
              const bool rounds =
                  c.operation == "route_round" && rounds_to_tiles(token_rounding_rule_named(c.policy.rule));
              return rounds || c.operation == "route_metadata";
            }},
    Spoiled{"the tile is negative",
            [](Call& c) {
              c.policy.tile = -8;
              const bool rounds =
                  c.operation == "route_round" && rounds_to_tiles(token_rounding_rule_named(c.policy.rule));
              return rounds || c.operation == "route_metadata";
            }},
    Spoiled{"the capacity is negative",
            [](Call& c) {
              const bool limits = std::string_view(c.policy.rule).starts_with("capacity") ||
                                  std::string_view(c.policy.rule) == "expert-choice";
              c.policy.capacity = -1;
              return c.operation == "route_round" && limits;
            }},
    Spoiled{"the rule is unknown",
            [](Call& c) {
              c.policy.rule[0] = 'z';
              return c.operation == "route_round";
            }},
    Spoiled{"what happens to NaN is unknown",
            [](Call& c) {
              c.policy.nan = 7;
              return has_top_k(c);
            }},
    Spoiled{"the groups do not divide the experts",
            [](Call& c) {
              if (c.policy.groups == 0) return false;
              c.policy.groups = c.policy.cols + 1;
              return chooses(c);
            }},
    Spoiled{"no group is kept",
            [](Call& c) {
              if (c.policy.groups == 0) return false;
              c.policy.groups_kept = 0;
              return chooses(c);
            }},
    Spoiled{"more groups are kept than there are",
            [](Call& c) {
              if (c.policy.groups == 0) return false;
              c.policy.groups_kept = c.policy.groups + 1;
              return chooses(c);
            }},
    Spoiled{"the number of groups is negative",
            [](Call& c) {
              c.policy.groups = -1;
              return chooses(c);
            }},
    Spoiled{"a bias is promised and missing",
            [](Call& c) {
              if (c.policy.bias != 0) return false;
              c.policy.bias = 1;
              return chooses(c);
            }},
    Spoiled{"a bias is there that was not promised",
            [](Call& c) {
              if (c.policy.bias == 0) return false;
              c.policy.bias = 0;
              return chooses(c);
            }},
    Spoiled{"the bias is one expert short",
            [](Call& c) {
              if (c.policy.bias == 0 || !chooses(c)) return false;
              --c.inputs[1].shape[0];
              return true;
            }},
    Spoiled{"experts are int64",
            [](Call& c) {
              for (CallTensor& t : c.outputs) {
                if (t.is_index) {
                  t.is_index = false, t.is_offsets = true;
                  return true;
                }
              }
              return false;
            }},
    Spoiled{"weights are BF16",
            [](Call& c) {
              for (CallTensor& t : c.outputs) {
                if (t.is_index || t.is_offsets || c.operation == "route_backward") continue;
                t.dtype = Format::bf16;
                return true;
              }
              return false;
            }},
    Spoiled{"the gradient has another type than the logits",
            [](Call& c) {
              if (c.operation != "route_backward") return false;
              c.outputs[0].dtype = c.outputs[0].dtype == Format::bf16 ? Format::fp32 : Format::bf16;
              return true;
            }},
    Spoiled{"the rows have one place less than the capacity",
            [](Call& c) {
              if (c.operation != "route_round" && c.operation != "route_metadata") return false;
              --c.outputs[2].shape[0];
              return c.outputs[2].shape[0] >= 0;
            }},
    Spoiled{"the last route's expert is -2", [](Call& c) { return with_last_expert(c, -2); }},
    Spoiled{"the last route's expert is the number of experts",
            [](Call& c) { return with_last_expert(c, static_cast<std::int32_t>(c.policy.cols)); }},
    Spoiled{"token_offsets are missing",
            [](Call& c) {
              if (c.operation != "route_metadata" || c.policy.top_k != 0) return false;
              c.inputs.pop_back();
              return true;
            }},
    Spoiled{"token_offsets descend",
            [](Call& c) { return slots_of(c) > 0 && with_token_offset(c, 1, slots_of(c) + 1); }},
    Spoiled{"token_offsets do not start at 0", [](Call& c) { return slots_of(c) > 0 && with_token_offset(c, 0, 1); }},
    Spoiled{"token_offsets are negative", [](Call& c) { return with_token_offset(c, 0, -1); }},
    Spoiled{"token_offsets end after the last slot",
            [](Call& c) { return with_token_offset(c, static_cast<std::size_t>(c.policy.rows), slots_of(c) + 1); }},
    Spoiled{"token_offsets end before the last slot",
            [](Call& c) {
              return slots_of(c) > 0 && with_token_offset(c, static_cast<std::size_t>(c.policy.rows), slots_of(c) - 1);
            }},
};

// A logit that is refused, planted at a place that the seed tells.
std::optional<Finding> refuses_nan(CheckContext& context, const Case& c) {
  const bool packed = router_variant_named(c.variant.recipe).packed;
  if (c.elements() == 0 || (c.variant.nan_last && !packed)) return nothing_claimed(context);
  const FormatSpec& wide = spec(c.variant.wide);
  const std::uint32_t sign = static_cast<std::uint32_t>(c.seed & 1) << (wide.bits - 1);
  const std::uint32_t infinity = wide.max_code + 1;
  const bool plants_infinity = packed && (c.seed & 2) != 0;
  const std::uint32_t bits =
      sign | (plants_infinity ? infinity : infinity + 1 + static_cast<std::uint32_t>(c.seed >> 8) % 64);
  const auto first = static_cast<std::int64_t>((c.seed >> 4) % static_cast<std::uint64_t>(c.elements()));
  Case spoiled = c;
  spoiled.plants = {{first / c.cols, first % c.cols, bits}};
  // The first of several is to be named: another in the last place.
  const std::int64_t last = c.elements() - 1;
  if (first < last && (c.seed & 4) != 0) spoiled.plants.push_back({last / c.cols, last % c.cols, bits});
  const Problem p = make_problem(spoiled);
  const OperationInfo* limits = context.process.operation(c.variant.operation);
  if (limits == nullptr || !is_within_limits(c, *limits)) return nothing_claimed(context);
  const Outcome outcome = context.process.run(p.call());
  const bool returned = outcome.kind == OutcomeKind::returned;
  const bool refused = returned && outcome.status != MXCHECK_OK && outcome.outputs_untouched && !outcome.trespass;
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
  } else if (!outcome.outputs_untouched || outcome.trespass) {
    finding.summary += "refused but wrote to " + outcome.trespass.value_or("an output");
  } else if (outcome.status != MXCHECK_INVALID) {
    finding.summary += fmt::format("refused with status {}", outcome.status);
  } else {
    finding.summary += fmt::format("named another place than element {}: \"{}\"", first, outcome.message);
  }
  return finding;
}

}  // namespace

std::span<const Spoiled> spoiled_routes() { return kSpoiledRoutes; }

std::vector<Statement> route_refusal_statements() {
  Statement s;
  s.name = "a_nan_logit_is_refused_and_nothing_is_written";
  s.sentence =
      "where NaN is to be refused, one NaN among the logits (in packed order an infinity too) is, with "
      "MXCHECK_INVALID, "
      "its place where only the device sees it, and no output byte changed";
  s.source = "docs/router.md; kernels/candidate_route.h";
  s.applies = [](const Variant& v, std::span<const Variant>) {
    return reads_logits(v) && (!v.nan_last || router_variant_named(v.recipe).packed);
  };
  s.data = {Data::normal, Data::codes, Data::slots};
  s.experts = 0;
  s.check = refuses_nan;
  return {s};
}

}  // namespace mxcheck

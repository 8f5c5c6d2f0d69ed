// Which other variant, rule or common fault would give exactly the observed bytes.

#include <algorithm>
#include <exception>

#include "properties/operations/router/faults.h"
#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::vector<std::byte>>;

// Any NaN is as good as another.
Bytes comparable(const RouteProblem& p, Bytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (p.outputs[i].integer_bits == 0) make_nans_equal(bytes[i], p.outputs[i].format);
  }
  return bytes;
}

Bytes with_faults(const RouteProblem& p, const RouterFaults& faults) {
  const RouteCase& own = route_case(p.c);
  const std::string& operation = p.c.variant.operation;
  if (operation == "route") return bytes_of(model_routes(p.router(), p.input.view(), faults));
  if (operation == "route_round") return bytes_of(model_rows(p.router(), p.token_rounding(), p.input.view(), faults));
  if (operation == "route_metadata" && faults.descending)
    return bytes_of(metadata_descending(p.routes, own.top_k, p.token_offsets, p.c.cols, own.tile));
  return {};
}

}  // namespace

std::vector<std::string> routes_that_match(const Problem& problem, std::span<const std::vector<std::byte>> observed) {
  const auto& p = dynamic_cast<const RouteProblem&>(problem);
  std::vector<std::string> names;
  const Bytes seen = comparable(p, {observed.begin(), observed.end()});
  const auto try_bytes = [&](const std::string& name, const auto& make) {
    try {
      Bytes bytes = make();
      if (bytes.size() == seen.size() && comparable(p, std::move(bytes)) == seen) names.push_back(name);
    } catch (const std::exception&) {  // what another variant or rule does not take
    }
  };
  const auto try_case = [&](const std::string& name, const auto& change) {
    RouteProblem other = p;
    change(other.c);
    if (other.c == p.c) return;
    try_bytes(name, [&] {
      Bytes bytes;
      for (ExpectedTensor& t : other.answer()) bytes.push_back(std::move(t.bytes));
      return bytes;
    });
  };
  if (reads_logits(p.c.variant)) {
    for (const RouterVariant& v : all_router_variants()) {
      try_case("variant " + std::string(v.name), [&](Case& c) { route_of(c.variant).router = v.name; });
    }
    try_case("no bias", [](Case& c) { route_of(c.variant).bias = false; });
    try_case("groups that limit nothing", [](Case& c) { route_case(c).groups = route_case(c).groups_kept = 0; });
    if (p.c.variant.operation == "route_backward") try_case("a scale of 1", [](Case& c) { route_case(c).scale = 1; });
  }
  if (p.c.variant.operation == "route_round") {
    for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
      try_case("rule " + std::string(rule.name), [&](Case& c) { route_of(c.variant).rule = rule.name; });
    }
    try_case("raw scores for weights", [](Case& c) { route_of(c.variant).renormalize = false; });
    try_case("weights over the kept experts", [](Case& c) { route_of(c.variant).renormalize = true; });
    try_case("a seed of 0", [](Case& c) { c.seed = 0; });
    try_case("a step of 0", [](Case& c) { route_case(c).step = 0; });
    try_case("a step of 32 bits", [](Case& c) { route_case(c).step &= 0xFFFFFFFF; });
    try_case("a layer of 0", [](Case& c) { route_case(c).layer = 0; });
  }
  for (const RouterFault& fault : all_router_faults()) {
    RouterFaults one;
    one.*fault.on = true;
    try_bytes(std::string(fault.text), [&] { return with_faults(p, one); });
  }
  return names;
}

}  // namespace mxcheck

// Which other variant, rule or common slip would give exactly the observed bytes.

#include <algorithm>
#include <exception>

#include "properties/operations/router/faults.h"
#include "properties/operations/router/problem.h"
#include "properties/records/record.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::vector<std::byte>>;

// Any NaN is as good as another.
Bytes comparable(const Problem& p, Bytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (p.outputs[i].integer_bits == 0) make_nans_equal(bytes[i], p.outputs[i].format);
  }
  return bytes;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes with_slips(const Problem& p, const RouteSlips& slips) {
  const Case& c = p.c;
  if (c.variant.operation == "route") {
    const Routes r = model_routes(router_of(p), p.input.view, slips);
    return {bytes_of(r.experts), bytes_of(r.weights)};
  }
  if (c.variant.operation == "route_round") {
    const RoundedTokens a = model_rows(router_of(p), token_rounding_of(c), p.input.view, slips);
    return {bytes_of(a.chosen),     bytes_of(a.offsets),       bytes_of(a.row_token),
            bytes_of(a.row_weight), bytes_of(a.token_offsets), bytes_of(a.token_rows)};
  }
  if (c.variant.operation == "route_metadata" && slips.descending) {
    const RouteMetadata m = metadata_descending(p.routes, c.top_k, p.token_offsets, c.cols, c.tile);
    return {bytes_of(m.counts),    bytes_of(m.offsets),    bytes_of(m.row_slot),
            bytes_of(m.row_token), bytes_of(m.row_expert), bytes_of(m.slot_row)};
  }
  return {};
}

}  // namespace

std::vector<std::string> routes_that_match(const Problem& p, std::span<const std::vector<std::byte>> observed) {
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
    Problem other = p;
    change(other.c);
    if (other.c == p.c) return;
    try_bytes(name, [&] {
      Bytes bytes;
      for (ExpectedTensor& t : route_answer(other)) bytes.push_back(std::move(t.bytes));
      return bytes;
    });
  };
  if (reads_logits(p.c.variant)) {
    for (const RouterVariant& v : all_router_variants()) {
      try_case("variant " + std::string(v.name), [&](Case& c) { c.variant.recipe = v.name; });
    }
    try_case("no bias", [](Case& c) { c.variant.bias = false; });
    try_case("groups that limit nothing", [](Case& c) { c.groups = c.groups_kept = 0; });
    if (p.c.variant.operation == "route_backward") try_case("a scale of 1", [](Case& c) { c.scale = 1; });
  }
  if (p.c.variant.operation == "route_round") {
    for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
      try_case("rule " + std::string(rule.name), [&](Case& c) { c.variant.rule = rule.name; });
    }
    try_case("raw scores for weights", [](Case& c) { c.variant.renormalize = false; });
    try_case("weights over the kept experts", [](Case& c) { c.variant.renormalize = true; });
    try_case("a seed of 0", [](Case& c) { c.seed = 0; });
    try_case("a step of 0", [](Case& c) { c.step = 0; });
    try_case("a step of 32 bits", [](Case& c) { c.step &= 0xFFFFFFFF; });
    try_case("a layer of 0", [](Case& c) { c.layer = 0; });
  }
  for (const RouteSlip& slip : all_route_slips()) {
    RouteSlips one;
    one.*slip.on = true;
    try_bytes(std::string(slip.text), [&] { return with_slips(p, one); });
  }
  return names;
}

}  // namespace mxcheck

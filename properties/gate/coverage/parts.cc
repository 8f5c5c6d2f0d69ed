#include "properties/gate/coverage/parts.h"

#include "numerics/error.h"
#include "properties/core/operation.h"
#include "properties/gate/coverage/tuple_state.h"

namespace mxcheck {

void Part::count(const Case& c, CaseFate fate) {
  covering->count(c, fate);
  if (triples) triples->count(c, fate);
  if (layers) layers->count(c, fate);
}

CoverageReport Part::report() const {
  CoverageReport all = covering->report();
  if (triples) triples->report(all);
  if (layers) layers->report(all);
  return all;
}

std::vector<Part> parts_of(const Statement& s, const std::vector<Variant>& variants, Suite suite, bool covers_pairs,
                           const CandidateRunner& process) {
  std::vector<Part> parts;
  if (s.data.empty()) return parts;
  for (const Variant& v : variants) {
    if (parts.empty() || parts.back().operation() != v.operation) parts.emplace_back();
    parts.back().variants.push_back(v);
  }
  for (Part& part : parts) {
    part.domain = operation_named(part.operation()).domain({s, part.variants, process});
    const std::int64_t most = covers_pairs ? part.domain->most_work(suite) : part.domain->small_work();
    part.covering = std::make_unique<Covering>(part.operation(), *part.domain, covers_pairs, most);
    if (!covers_pairs) continue;
    if (suite != Suite::quick) part.triples = std::make_unique<TripleCovering>(*part.domain, *part.covering);
    part.layers = std::make_unique<LayerCovering>(*part.domain, part.variants, most);
  }
  return parts;
}

PartStates states_of(const Part& part) {
  PartStates states{part.operation(), states_text(part.covering->states()), "", ""};
  if (part.triples) states.triples = states_text(part.triples->states());
  if (part.layers) states.layers = states_text(part.layers->states());
  return states;
}

void add_states(Part& part, const PartStates& states, const CoverageReport& counts) {
  if ((!part.triples && !states.triples.empty()) || (!part.layers && !states.layers.empty()))
    throw Error(ErrorKind::input, "what was met of " + part.operation() + " is of another suite");
  part.covering->add_states(states_from(states.covering), counts);
  if (part.triples) part.triples->add_states(states_from(states.triples));
  if (part.layers) part.layers->add_states(states_from(states.layers), counts.layers);
}

}  // namespace mxcheck

#include "properties/gate/coverage/parts.h"

#include <algorithm>
#include <utility>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/operation.h"
#include "properties/gate/coverage/coverage.h"

namespace mxcheck {

void Part::count(const Case& c, CaseFate fate) {
  is_met = true;
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
    const std::int64_t usual = covers_pairs ? part.domain->usual_work(suite) : most;
    part.covering = std::make_unique<Covering>(part.operation(), *part.domain, covers_pairs, usual, most);
    if (!covers_pairs) continue;
    if (suite != Suite::quick) part.triples = std::make_unique<TripleCovering>(*part.domain, *part.covering);
    part.layers = std::make_unique<LayerCovering>(*part.domain, part.variants, usual, most);
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
    throw Error(ErrorKind::input, "the coverage of " + part.operation() + " is of another suite");
  part.covering->add_states(states_from(states.covering), counts);
  if (part.triples) part.triples->add_states(states_from(states.triples));
  if (part.layers) part.layers->add_states(states_from(states.layers), counts.layers);
}

namespace {

constexpr char kFirst = '?';  // of 64 characters without digits
constexpr std::size_t kMostStates = std::size_t{1} << 24;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::input, "the coverage of a domain: " + what);
}

}  // namespace

std::string states_text(const std::vector<std::uint8_t>& states) {
  std::string text;
  for (std::size_t from = 0; from < states.size();) {
    std::size_t to = from + 1;
    while (to < states.size() && states[to] == states[from]) ++to;
    text += static_cast<char>(kFirst + states[from]);
    if (to - from > 1) text += std::to_string(to - from);
    from = to;
  }
  return text;
}

std::vector<std::uint8_t> states_from(std::string_view text) {
  std::vector<std::uint8_t> states;
  for (std::size_t at = 0; at < text.size();) {
    const int state = text[at++] - kFirst;
    if (state < 0 || state > 63) refuse("a character that is no state");
    const std::size_t digits = std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
    const auto times = digits == 0 ? 1 : parse_number<std::size_t>(text.substr(at, digits)).value_or(0);
    if (times == 0 || times > kMostStates - states.size()) refuse("a number of states that cannot be");
    states.insert(states.end(), times, static_cast<std::uint8_t>(state));
    at += digits;
  }
  return states;
}

void add_to(std::vector<std::uint8_t>& states, const std::vector<std::uint8_t>& others) {
  if (states.size() != others.size())
    refuse(std::to_string(others.size()) + " states where this mxcheck has " + std::to_string(states.size()));
  for (std::size_t i = 0; i < states.size(); ++i) states[i] |= others[i];
}

void add_to(AxisCount& axis, const AxisCount& others) {
  for (const BinCount& other : others.bins) {
    const auto bin =
        std::find_if(axis.bins.begin(), axis.bins.end(), [&](const BinCount& b) { return b.label == other.label; });
    if (bin == axis.bins.end()) refuse("no bin '" + other.label + "' of " + axis.name);
    bin->checked += other.checked, bin->refused += other.refused, bin->not_applicable += other.not_applicable;
  }
}

}  // namespace mxcheck

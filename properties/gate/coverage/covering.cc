#include "properties/gate/coverage/covering.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/operation.h"
#include "properties/gate/coverage/layer_covering.h"
#include "properties/gate/coverage/parts.h"
#include "properties/gate/coverage/triple_covering.h"
#include "properties/gate/coverage/tuple_state.h"

namespace mxcheck {
namespace {

constexpr int kBinsToTry = 3;  // of an axis, the best first

// The work that a case may have, the least first: what is too large for the usual one has a case hardly larger than it
// must be.
std::vector<std::int64_t> works_of(std::int64_t usual, std::int64_t most) {
  std::vector<std::int64_t> works;
  for (; usual < most; usual *= 2) works.push_back(usual);
  works.push_back(most);
  return works;
}

}  // namespace

Covering::Covering(std::string operation, const Domain& domain, bool pairs, std::int64_t usual, std::int64_t most)
    : operation_(std::move(operation)), domain_(domain), pairs_(pairs), usual_(usual), most_(most) {
  const auto& axes = domain.axes();
  base_.resize(axes.size() * axes.size());
  std::size_t next = 0;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (std::size_t b = a; b < axes.size(); ++b) {
      base_[a * axes.size() + b] = next;
      next += axes[a].bins.size() * (a == b ? 1 : axes[b].bins.size());
    }
    AxisCount count{axes[a].name, {}};
    for (const Bin& bin : axes[a].bins) count.bins.push_back({bin.label});
    counts_.push_back(std::move(count));
  }
  states_.resize(next);
}

std::size_t Covering::index_of(std::size_t a, int bin_a, std::size_t b, int bin_b) const {
  if (a > b) std::swap(a, b), std::swap(bin_a, bin_b);
  const std::size_t base = base_[a * domain_.axes().size() + b];
  if (a == b) return base + static_cast<std::size_t>(bin_a);
  return base + static_cast<std::size_t>(bin_a) * domain_.axes()[b].bins.size() + static_cast<std::size_t>(bin_b);
}

void Covering::mark(const Case& c, std::uint8_t bit) {
  const Bins bins = domain_.bins_of(c);
  for (std::size_t a = 0; a < bins.size(); ++a) {
    if (bins[a] == kAnyBin) continue;
    for (std::size_t b = a; b < bins.size(); ++b) {
      if (bins[b] != kAnyBin) states_[index_of(a, bins[a], b, bins[b])] |= bit;
    }
  }
}

// Single bins first; then pairs in random order, so that no axis has all its pairs in cases of one kind.
std::vector<Covering::Tuple> Covering::all_tuples(Draw& draw) const {
  const auto& axes = domain_.axes();
  std::vector<Tuple> tuples;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (int i = 0; i < static_cast<int>(axes[a].bins.size()); ++i) tuples.push_back({a, a, i, i});
  }
  const std::size_t singles = tuples.size();
  for (std::size_t a = 0; pairs_ && a < axes.size(); ++a) {
    for (std::size_t b = a + 1; b < axes.size(); ++b) {
      for (int i = 0; i < static_cast<int>(axes[a].bins.size()); ++i) {
        for (int j = 0; j < static_cast<int>(axes[b].bins.size()); ++j) tuples.push_back({a, b, i, j});
      }
    }
  }
  for (std::size_t i = tuples.size(); i > singles + 1; --i)
    std::swap(tuples[i - 1], tuples[singles + draw.below(i - singles)]);
  return tuples;
}

bool Covering::is_refused(std::size_t axis, int bin) const {
  const std::uint8_t state = states_[index_of(axis, bin, axis, bin)];
  return (state & kChecked) == 0 && (state & kRefused) != 0;
}

bool Covering::is_excluded(std::size_t a, int bin_a, std::size_t b, int bin_b) const {
  return is_excluded(a, bin_a) || is_excluded(b, bin_b) || states_[index_of(a, bin_a, b, bin_b)] == kExcluded;
}
bool Covering::is_excluded(std::size_t axis, int bin) const {
  return states_[index_of(axis, bin, axis, bin)] == kExcluded;
}

// Open tuples that the bin closes beside those that are wanted already.
int Covering::gain(const Bins& wanted, std::size_t axis, int bin, bool pairs) const {
  if (pairs && is_refused(axis, bin)) return 0;
  int open = 0;
  for (std::size_t other = 0; other < wanted.size(); ++other) {
    if (other == axis) {
      open += states_[index_of(axis, bin, axis, bin)] == 0 ? 1 : 0;
    } else if (pairs && wanted[other] != kAnyBin) {
      open += states_[index_of(axis, bin, other, wanted[other])] == 0 ? 1 : 0;
    }
  }
  return open;
}

// The case with more bins fixed, axis after axis in random order, as long as each closes something.
Case Covering::extend(Bins wanted, Case c, bool pairs, Draw& draw) const {
  const auto& axes = domain_.axes();
  std::vector<std::size_t> order(axes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
  for (const std::size_t axis : order) {
    if (wanted[axis] != kAnyBin) continue;
    std::vector<std::pair<int, int>> best;  // minus what it closes, bin: of equals the first, which is the smallest
    for (int bin = 0; bin < static_cast<int>(axes[axis].bins.size()); ++bin) {
      if (const int closes = gain(wanted, axis, bin, pairs); closes > 0) best.emplace_back(-closes, bin);
    }
    std::sort(best.begin(), best.end());
    if (best.size() > kBinsToTry) best.resize(kBinsToTry);
    for (const auto& [closes, bin] : best) {
      wanted[axis] = bin;
      if (std::optional<Case> more = domain_.make(wanted, usual_, draw)) {
        c = std::move(*more);
        break;
      }
      wanted[axis] = kAnyBin;
    }
  }
  return c;
}

std::optional<Case> Covering::make(const Bins& wanted, bool pairs, Draw& draw) const {
  for (const std::int64_t work : works_of(usual_, most_)) {
    for (int tries = 0; tries < 3; ++tries) {
      std::optional<Case> c = domain_.make(wanted, work, draw);
      if (c && work == usual_) return extend(wanted, *std::move(c), pairs, draw);
      if (c) return c;  // small cases meet the others at less cost
    }
  }
  return std::nullopt;
}

std::vector<Case> Covering::cases(bool pairs, Draw& draw) {
  std::vector<Case> cases;
  for (const Tuple& t : all_tuples(draw)) {
    std::uint8_t& state = states_[index_of(t.a, t.bin_a, t.b, t.bin_b)];
    if ((t.a == t.b) == pairs || state != 0) continue;
    if (is_refused(t.a, t.bin_a) || is_refused(t.b, t.bin_b)) {
      state |= kLeftOut;
      continue;
    }
    // A pair with an excluded bin can never be met.
    const bool excluded =
        ((states_[index_of(t.a, t.bin_a, t.a, t.bin_a)] | states_[index_of(t.b, t.bin_b, t.b, t.bin_b)]) & kExcluded) !=
        0;
    Bins wanted(domain_.axes().size(), kAnyBin);
    wanted[t.a] = t.bin_a, wanted[t.b] = t.bin_b;
    std::optional<Case> made;
    if (!excluded) made = make(wanted, pairs, draw);
    if (!made) {
      state |= kExcluded;
      continue;
    }
    mark(*made, kPlanned);
    cases.push_back(*std::move(made));
  }
  return cases;
}

void Covering::count(const Case& c, CaseFate fate) {
  mark(c, bit_of(fate));
  const Bins bins = domain_.bins_of(c);
  for (std::size_t a = 0; a < bins.size(); ++a) {
    if (bins[a] == kAnyBin) continue;
    count_of(counts_[a].bins[static_cast<std::size_t>(bins[a])], fate) += 1;
  }
}

std::vector<Case> Covering::again(bool pairs, Draw& draw) const {
  std::vector<Case> cases;
  const auto is_checked = [&](std::size_t axis, int bin) {
    return (states_[index_of(axis, bin, axis, bin)] & kChecked) != 0;
  };
  for (const Tuple& t : all_tuples(draw)) {
    const std::uint8_t state = states_[index_of(t.a, t.bin_a, t.b, t.bin_b)];
    if ((t.a == t.b) == pairs || (state & kChecked) != 0 || (state & kRefused) == 0) continue;
    if (pairs && !(is_checked(t.a, t.bin_a) && is_checked(t.b, t.bin_b))) continue;
    Bins wanted = domain_.plain();
    wanted[t.a] = t.bin_a, wanted[t.b] = t.bin_b;
    for (const std::int64_t work : works_of(usual_, most_)) {
      if (std::optional<Case> c = domain_.make(wanted, work, draw)) {
        cases.push_back(*std::move(c));
        break;
      }
    }
  }
  return cases;
}

std::vector<std::uint8_t> Covering::states() const {
  if (pairs_) return states_;
  std::vector<std::uint8_t> singles;
  for (std::size_t a = 0; a < counts_.size(); ++a) {
    const auto from = states_.begin() + static_cast<std::ptrdiff_t>(index_of(a, 0, a, 0));
    singles.insert(singles.end(), from, from + static_cast<std::ptrdiff_t>(counts_[a].bins.size()));
  }
  return singles;
}

void Covering::add_states(const std::vector<std::uint8_t>& states, const CoverageReport& counts) {
  std::vector<std::uint8_t> mine = this->states();
  add_to(mine, states);
  if (pairs_) {
    states_ = std::move(mine);
  } else {
    std::size_t at = 0;
    for (std::size_t a = 0; a < counts_.size(); ++a) {
      for (std::size_t bin = 0; bin < counts_[a].bins.size(); ++bin)
        states_[index_of(a, static_cast<int>(bin), a, static_cast<int>(bin))] = mine[at++];
    }
  }
  if (counts.axes.size() != counts_.size())
    throw Error(ErrorKind::input, "the coverage of " + operation_ + " has other axes");
  for (std::size_t a = 0; a < counts_.size(); ++a) add_to(counts_[a], counts.axes[a]);
}

std::string Covering::text_of(const Tuple& t) const {
  const auto one = [&](std::size_t axis, int bin) {
    return fmt::format("{} {}", domain_.axes()[axis].name,
                       domain_.axes()[axis].bins[static_cast<std::size_t>(bin)].label);
  };
  return t.a == t.b ? one(t.a, t.bin_a) : fmt::format("{} with {}", one(t.a, t.bin_a), one(t.b, t.bin_b));
}

std::vector<std::string> Covering::without_case() const {
  const auto& axes = domain_.axes();
  std::vector<std::string> lines;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (int i = 0; i < static_cast<int>(axes[a].bins.size()); ++i) {
      for (std::size_t b = a + 1; b < axes.size(); ++b) {
        std::vector<std::string> others;
        for (int j = 0; j < static_cast<int>(axes[b].bins.size()); ++j) {
          if (is_excluded(a, i) || is_excluded(b, j) || !is_excluded(a, i, b, j)) continue;
          Bins wanted(axes.size(), kAnyBin);
          wanted[a] = i, wanted[b] = j;
          if (domain_.has_variant_in(wanted)) others.push_back(axes[b].bins[static_cast<std::size_t>(j)].label);
        }
        if (!others.empty()) lines.push_back(text_of({a, a, i, i}) + " with " + axes[b].name + " " + join(others));
      }
    }
  }
  return lines;
}

CoverageReport Covering::report() const {
  CoverageReport report{operation_, counts_};
  for (std::size_t a = 0; a < counts_.size(); ++a) {  // bins that no case can be in: an odd address of a wide element
    std::vector<BinCount> possible;
    for (std::size_t i = 0; i < counts_[a].bins.size(); ++i) {
      const std::uint8_t state = states_[index_of(a, static_cast<int>(i), a, static_cast<int>(i))];
      if (state != kExcluded) possible.push_back(counts_[a].bins[i]);
    }
    report.axes[a].bins = std::move(possible);
  }
  Draw order(1);
  for (const Tuple& t : all_tuples(order)) {
    const std::uint8_t state = states_[index_of(t.a, t.bin_a, t.b, t.bin_b)];
    if (is_missed(state) && report.missed.size() < kMostMissed) report.missed.push_back(text_of(t));
    if (t.a != t.b) add(report.pairs, state);
  }
  if (pairs_) report.without_case = without_case();
  return report;
}

LayerCovering::LayerCovering(const Domain& domain, std::span<const Variant> variants, std::int64_t usual,
                             std::int64_t most)
    : domain_(domain), usual_(usual), most_(most) {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string name = domain.family_of(variants[i]);
    auto family = std::find_if(families_.begin(), families_.end(), [&](const Family& f) { return f.name == name; });
    if (family == families_.end()) family = families_.insert(family, {name, {}});
    family->variants.push_back(i);
  }
  states_.resize(domain.layer_uses().size() * families_.size());
  layers_.name = "layers";
  for (const LayerUse& use : domain.layer_uses()) {
    if (layers_.bins.empty() || layers_.bins.back().label != use.layer) layers_.bins.push_back({use.layer});
  }
}

// A use may be one of some variants of a family alone: a router with bias.
std::optional<Case> LayerCovering::make(std::size_t use, const Family& family, bool plain, Draw& draw) const {
  const std::size_t start = draw.below(family.variants.size());
  for (const std::int64_t work : works_of(usual_, most_)) {
    for (std::size_t i = 0; i < family.variants.size(); ++i) {
      const std::size_t variant = family.variants[(start + i) % family.variants.size()];
      if (auto c = domain_.make_layer(use, variant, plain, work, draw)) return c;
    }
  }
  return std::nullopt;
}

std::vector<Case> LayerCovering::cases(Draw& draw) {
  std::vector<Case> cases;
  for (std::size_t use = 0; use < domain_.layer_uses().size(); ++use) {
    for (std::size_t f = 0; f < families_.size(); ++f) {
      if ((state(use, f) & kPlanned) != 0) continue;  // two layers of the same width
      std::optional<Case> c = make(use, families_[f], false, draw);
      if (!c) {
        state(use, f) |= kExcluded;
        continue;
      }
      mark(*c, kPlanned);
      cases.push_back(*std::move(c));
    }
  }
  return cases;
}

std::vector<Case> LayerCovering::again(Draw& draw) const {
  std::vector<Case> cases;
  for (std::size_t use = 0; use < domain_.layer_uses().size(); ++use) {
    for (std::size_t f = 0; f < families_.size(); ++f) {
      if ((state(use, f) & kChecked) != 0 || (state(use, f) & kRefused) == 0) continue;
      if (auto c = make(use, families_[f], true, draw)) cases.push_back(*std::move(c));
    }
  }
  return cases;
}

void LayerCovering::mark(const Case& c, std::uint8_t bit) {
  const std::string name = domain_.family_of(c.variant);
  const auto family = std::find_if(families_.begin(), families_.end(), [&](const Family& f) { return f.name == name; });
  if (family == families_.end()) return;
  for (std::size_t use = 0; use < domain_.layer_uses().size(); ++use) {
    if (domain_.is_of_layer(use, c)) state(use, static_cast<std::size_t>(family - families_.begin())) |= bit;
  }
}

void LayerCovering::count(const Case& c, CaseFate fate) {
  mark(c, bit_of(fate));
  std::size_t layer = 0;
  std::size_t counted = layers_.bins.size();
  for (std::size_t use = 0; use < domain_.layer_uses().size(); ++use) {
    if (use > 0 && domain_.layer_uses()[use].layer != domain_.layer_uses()[use - 1].layer) ++layer;
    if (counted == layer || !domain_.is_of_layer(use, c)) continue;
    count_of(layers_.bins[layer], fate) += 1;
    counted = layer;
  }
}

void LayerCovering::add_states(const std::vector<std::uint8_t>& states, const AxisCount& layers) {
  add_to(states_, states);
  add_to(layers_, layers);
}

void LayerCovering::report(CoverageReport& into) const {
  into.layers = layers_;
  for (std::size_t use = 0; use < domain_.layer_uses().size(); ++use) {
    for (std::size_t f = 0; f < families_.size(); ++f) {
      add(into.layer_uses, state(use, f));
      if (!is_missed(state(use, f)) || into.missed.size() >= kMostMissed) continue;
      const LayerUse& one = domain_.layer_uses()[use];
      into.missed.push_back(fmt::format("layer {}, {}{}{}", one.layer, one.use,
                                        families_[f].name.empty() ? "" : " with ", families_[f].name));
    }
  }
}

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

constexpr std::size_t kTripleCoveringBinsToTry = 3;  // of an axis, the best first

}  // namespace

TripleCovering::TripleCovering(const Domain& domain, const Covering& single) : domain_(domain), single_(single) {
  for (const std::vector<std::size_t>& set : domain.interacting()) {
    extended_.insert(extended_.end(), set.begin(), set.end());
    for (std::size_t a = 0; a < set.size(); ++a) {
      for (std::size_t b = a + 1; b < set.size(); ++b) {
        for (std::size_t c = b + 1; c < set.size(); ++c) add_axes({set[a], set[b], set[c]});
      }
    }
  }
  std::sort(extended_.begin(), extended_.end());
  extended_.erase(std::unique(extended_.begin(), extended_.end()), extended_.end());
}

void TripleCovering::add_axes(const Three& axes) {
  const bool known = std::any_of(sets_.begin(), sets_.end(), [&](const Axes& s) { return s.axes == axes; });
  if (known) return;
  std::size_t triples = 1;
  for (const std::size_t axis : axes) triples *= domain_.axes()[axis].bins.size();
  sets_.push_back({axes, states_.size()});
  states_.resize(states_.size() + triples);
}

void TripleCovering::add_states(const std::vector<std::uint8_t>& states) { add_to(states_, states); }

void TripleCovering::count(const Case& c, CaseFate fate) { mark(c, bit_of(fate)); }

std::size_t TripleCovering::index_of(const Axes& of, const std::array<int, 3>& bins) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < 3; ++i)
    at = at * domain_.axes()[of.axes[i]].bins.size() + static_cast<std::size_t>(bins[i]);
  return of.base + at;
}

std::vector<TripleCovering::Triple> TripleCovering::all_triples() const {
  std::vector<Triple> triples;
  for (const Axes& of : sets_) {
    const auto bins = [&](std::size_t i) { return static_cast<int>(domain_.axes()[of.axes[i]].bins.size()); };
    for (int i = 0; i < bins(0); ++i) {
      for (int j = 0; j < bins(1); ++j) {
        for (int k = 0; k < bins(2); ++k) triples.push_back({&of, {i, j, k}});
      }
    }
  }
  return triples;
}

std::vector<TripleCovering::Triple> TripleCovering::shuffled(Draw& draw) const {
  std::vector<Triple> triples = all_triples();
  for (std::size_t i = triples.size(); i > 1; --i) std::swap(triples[i - 1], triples[draw.below(i)]);
  return triples;
}

Bins TripleCovering::wanted(const Triple& t, Bins beside) const {
  for (std::size_t i = 0; i < 3; ++i) beside[t.of->axes[i]] = t.bins[i];
  return beside;
}

bool TripleCovering::is_refused(const Triple& t) const {
  bool refused = false;
  for (std::size_t i = 0; i < 3; ++i) refused = refused || single_.is_refused(t.of->axes[i], t.bins[i]);
  return refused;
}

// Without trying: one of its bins or pairs is.
bool TripleCovering::is_excluded(const Triple& t) const {
  const auto pair = [&](std::size_t i, std::size_t j) {
    return single_.is_excluded(t.of->axes[i], t.bins[i], t.of->axes[j], t.bins[j]);
  };
  return pair(0, 1) || pair(0, 2) || pair(1, 2);
}

std::optional<Case> TripleCovering::make(const Bins& wanted, Draw& draw) const {
  return domain_.make(wanted, domain_.most_work_of_triples(), draw);
}

// Open triples that the bin closes with two that are wanted already.
int TripleCovering::gain(const Bins& wanted, std::size_t axis, int bin) const {
  int open = 0;
  for (const Axes& of : sets_) {
    const auto at = std::find(of.axes.begin(), of.axes.end(), axis);
    if (at == of.axes.end()) continue;
    std::array<int, 3> bins{wanted[of.axes[0]], wanted[of.axes[1]], wanted[of.axes[2]]};
    bins[static_cast<std::size_t>(at - of.axes.begin())] = bin;
    if (std::find(bins.begin(), bins.end(), kAnyBin) == bins.end()) open += states_[index_of(of, bins)] == 0 ? 1 : 0;
  }
  return open;
}

Case TripleCovering::extend(Bins wanted, Case c, Draw& draw) const {
  for (const std::size_t axis : extended_) {
    if (wanted[axis] != kAnyBin) continue;
    std::vector<std::pair<int, int>> best;  // minus what it closes, bin
    for (int bin = 0; bin < static_cast<int>(domain_.axes()[axis].bins.size()); ++bin) {
      if (single_.is_refused(axis, bin)) continue;
      if (const int closes = gain(wanted, axis, bin); closes > 0) best.emplace_back(-closes, bin);
    }
    std::sort(best.begin(), best.end());
    if (best.size() > kTripleCoveringBinsToTry) best.resize(kTripleCoveringBinsToTry);
    for (const auto& [closes, bin] : best) {
      wanted[axis] = bin;
      if (std::optional<Case> more = make(wanted, draw)) {
        c = *std::move(more);
        break;
      }
      wanted[axis] = kAnyBin;
    }
  }
  return c;
}

std::vector<Case> TripleCovering::cases(Draw& draw) {
  std::vector<Case> cases;
  for (const Triple& t : shuffled(draw)) {
    std::uint8_t& state = states_[index_of(*t.of, t.bins)];
    if (state != 0) continue;
    const bool excluded = is_excluded(t);
    if (!excluded && is_refused(t)) {
      state |= kLeftOut;
      continue;
    }
    const Bins bins = wanted(t, Bins(domain_.axes().size(), kAnyBin));
    std::optional<Case> c;
    for (int tries = 0; tries < 3 && !c && !excluded; ++tries) c = make(bins, draw);
    if (!c) {
      state |= kExcluded;
      continue;
    }
    cases.push_back(extend(bins, *std::move(c), draw));
    mark(cases.back(), kPlanned);
  }
  return cases;
}

std::vector<Case> TripleCovering::again(Draw& draw) const {
  std::vector<Case> cases;
  for (const Triple& t : shuffled(draw)) {
    const std::uint8_t state = states_[index_of(*t.of, t.bins)];
    if ((state & kChecked) != 0 || (state & kRefused) == 0 || is_refused(t)) continue;
    if (auto c = make(wanted(t, domain_.plain()), draw)) cases.push_back(*std::move(c));
  }
  return cases;
}

void TripleCovering::mark(const Case& c, std::uint8_t bit) {
  if (sets_.empty()) return;
  const Bins bins = domain_.bins_of(c);
  for (const Axes& of : sets_) {
    const std::array<int, 3> at{bins[of.axes[0]], bins[of.axes[1]], bins[of.axes[2]]};
    if (std::find(at.begin(), at.end(), kAnyBin) == at.end()) states_[index_of(of, at)] |= bit;
  }
}

std::string TripleCovering::text_of(const Triple& t) const {
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) {
    const Axis& axis = domain_.axes()[t.of->axes[i]];
    text +=
        fmt::format("{}{} {}", i == 0 ? "" : " with ", axis.name, axis.bins[static_cast<std::size_t>(t.bins[i])].label);
  }
  return text;
}

void TripleCovering::report(CoverageReport& into) const {
  for (const Triple& t : all_triples()) {
    const std::uint8_t state = states_[index_of(*t.of, t.bins)];
    add(into.triples, state);
    if (is_missed(state) && into.missed.size() < kMostMissed) into.missed.push_back(text_of(t));
  }
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

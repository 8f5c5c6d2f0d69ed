#include "properties/gate/coverage/parts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "properties/gate/coverage/coverage.h"
#include "properties/gate/coverage/covering.h"

namespace mxcheck {

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
    const auto closes = [&](int bin) { return single_.is_refused(axis, bin) ? 0 : gain(wanted, axis, bin); };
    fix_best_bin(wanted, axis, domain_.axes()[axis].bins.size(), c, closes,
                 [&](const Bins& more) { return make(more, draw); });
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

}  // namespace mxcheck

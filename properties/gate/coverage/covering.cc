#include "properties/gate/coverage/covering.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/gate/coverage/coverage.h"

namespace mxcheck {

std::vector<std::int64_t> works_of(std::int64_t usual, std::int64_t most) {
  std::vector<std::int64_t> works;
  for (; usual < most; usual *= 2) works.push_back(usual);
  works.push_back(most);
  return works;
}

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
    const auto closes = [&](int bin) { return gain(wanted, axis, bin, pairs); };
    fix_best_bin(wanted, axis, axes[axis].bins.size(), c, closes,
                 [&](const Bins& more) { return domain_.make(more, usual_, draw); });
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

}  // namespace mxcheck

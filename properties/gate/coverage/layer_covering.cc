#include "properties/gate/coverage/parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "properties/gate/coverage/coverage.h"
#include "properties/gate/coverage/covering.h"

namespace mxcheck {

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

}  // namespace mxcheck

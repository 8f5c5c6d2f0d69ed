#pragma once
// Cases at the dimensions of production's layers (properties/core/layers/layers.h): every use that the domain has of
// them (a width, a product, a router), with every family of variants.
//
// No axis of the domain: its pairs with the others would be many, and a new layer would change every case that is drawn
// for a seed. These come after all others, from a draw of their own.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/core/domain/domain.h"
#include "properties/gate/coverage/coverage.h"

namespace mxcheck {

class LayerCovering {
 public:
  // variants: the domain's. Work: as Covering's.
  LayerCovering(const Domain& domain, std::span<const Variant> variants, std::int64_t usual, std::int64_t most);

  [[nodiscard]] std::vector<Case> cases(Draw& draw);
  // Cases without options, for the uses of layers that only refused cases have met.
  [[nodiscard]] std::vector<Case> again(Draw& draw) const;
  void count(const Case& c, CaseFate fate);
  void report(CoverageReport& into) const;
  // The same as Covering's.
  [[nodiscard]] const std::vector<std::uint8_t>& states() const { return states_; }
  void add_states(const std::vector<std::uint8_t>& states, const AxisCount& layers);

 private:
  struct Family {
    std::string name;
    std::vector<std::size_t> variants;  // numbers
  };
  [[nodiscard]] std::optional<Case> make(std::size_t use, const Family& family, bool plain, Draw& draw) const;
  void mark(const Case& c, std::uint8_t bit);
  [[nodiscard]] std::uint8_t& state(std::size_t use, std::size_t family) {
    return states_[use * families_.size() + family];
  }
  [[nodiscard]] std::uint8_t state(std::size_t use, std::size_t family) const {
    return states_[use * families_.size() + family];
  }

  const Domain& domain_;
  std::int64_t usual_, most_;
  std::vector<Family> families_;
  std::vector<std::uint8_t> states_;
  AxisCount layers_;  // cases of each layer
};

}  // namespace mxcheck

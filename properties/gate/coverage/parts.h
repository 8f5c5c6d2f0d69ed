#pragma once
// The domains that a statement is to cover, one for each operation that it is about, and the coverage of them.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/core/domain/domain.h"
#include "properties/core/statement.h"
#include "properties/gate/coverage/coverage.h"
#include "properties/gate/coverage/covering.h"

namespace mxcheck {

// Cases that meet every triple of bins of the axes of a domain that interact, as Covering does for pairs: greedy, in
// the manner of AETG. Of the full suite, after the random cases: thousands of cases, each small.
class TripleCovering {
 public:
  // single: what is known of bins and pairs, whose cases have run before cases() is called.
  TripleCovering(const Domain& domain, const Covering& single);

  [[nodiscard]] std::vector<Case> cases(Draw& draw);
  // For what only refused cases have met: cases that ask for no option beside.
  [[nodiscard]] std::vector<Case> again(Draw& draw) const;
  void count(const Case& c, CaseFate fate);
  void report(CoverageReport& into) const;
  // The same as Covering's.
  [[nodiscard]] const std::vector<std::uint8_t>& states() const { return states_; }
  void add_states(const std::vector<std::uint8_t>& states);

 private:
  using Three = std::array<std::size_t, 3>;
  struct Axes {
    Three axes;        // ascending
    std::size_t base;  // of their states
  };
  struct Triple {
    const Axes* of;
    std::array<int, 3> bins;
  };
  void add_axes(const Three& axes);
  [[nodiscard]] std::size_t index_of(const Axes& of, const std::array<int, 3>& bins) const;
  [[nodiscard]] std::vector<Triple> all_triples() const;
  [[nodiscard]] std::vector<Triple> shuffled(Draw& draw) const;
  [[nodiscard]] Bins wanted(const Triple& t, Bins beside) const;
  [[nodiscard]] bool is_refused(const Triple& t) const;
  [[nodiscard]] bool is_excluded(const Triple& t) const;
  [[nodiscard]] std::optional<Case> make(const Bins& wanted, Draw& draw) const;
  [[nodiscard]] int gain(const Bins& wanted, std::size_t axis, int bin) const;
  [[nodiscard]] Case extend(Bins wanted, Case c, Draw& draw) const;
  void mark(const Case& c, std::uint8_t bit);
  [[nodiscard]] std::string text_of(const Triple& t) const;

  const Domain& domain_;
  const Covering& single_;
  std::vector<Axes> sets_;
  std::vector<std::size_t> extended_;  // the axes of all sets
  std::vector<std::uint8_t> states_;
};

// Cases at the dimensions of production's layers (properties/core/layers/layers.h): every use that the domain has of
// them (a width, a product, a router), with every family of variants.
//
// No axis of the domain: its pairs with the others would be many, and a new layer would change every case that is drawn
// for a seed. These come after all others, from a draw of their own.
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

// The variants of one operation, and their domain.
struct Part {
  std::vector<Variant> variants;
  std::unique_ptr<Domain> domain;
  std::unique_ptr<Covering> covering;
  std::unique_ptr<TripleCovering> triples;  // of the full suite and beyond
  std::unique_ptr<LayerCovering> layers;
  bool is_met = false;  // by a case that was counted

  [[nodiscard]] const std::string& operation() const { return variants.front().operation; }
  void count(const Case& c, CaseFate fate);
  [[nodiscard]] CoverageReport report() const;
};

// variants: those that the statement applies to. None for a statement without drawn cases.
std::vector<Part> parts_of(const Statement& s, const std::vector<Variant>& variants, Suite suite, bool covers_pairs,
                           const CandidateRunner& process);

// The coverage of a part as text, to be added to the same part of that statement on another machine.
struct PartStates {
  std::string operation;
  std::string covering, triples, layers;
};
PartStates states_of(const Part& part);
// counts: of that part. Error{input} where it is of another domain.
void add_states(Part& part, const PartStates& states, const CoverageReport& counts);

}  // namespace mxcheck

#pragma once
// Cases that meet every triple of bins of the axes of a domain that interact, as Covering does for pairs: greedy, in
// the manner of AETG. Of the full suite, after the random cases: thousands of cases, each small.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/domain/domain.h"
#include "properties/gate/coverage/coverage.h"
#include "properties/gate/coverage/covering.h"

namespace mxcheck {

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

}  // namespace mxcheck

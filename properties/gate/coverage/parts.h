#pragma once
// The domains that a statement is to cover, one for each operation that it is about, and the coverage of them.

#include <memory>
#include <string>
#include <vector>

#include "properties/core/statement.h"
#include "properties/gate/coverage/covering.h"
#include "properties/gate/coverage/layer_covering.h"
#include "properties/gate/coverage/triple_covering.h"

namespace mxcheck {

// The variants of one operation, and their domain.
struct Part {
  std::vector<Variant> variants;
  std::unique_ptr<Domain> domain;
  std::unique_ptr<Covering> covering;
  std::unique_ptr<TripleCovering> triples;  // of the full suite and beyond
  std::unique_ptr<LayerCovering> layers;

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

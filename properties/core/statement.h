#pragma once
// A statement is a sentence about a candidate that must hold for every case, and the check that tries a case.
//
// Each is exact but one (RunTally): bytes are equal or they are not, and an output is in its interval or not. The name
// is the sentence; the same text is the JUnit case, the filter of --only and the heading of the report.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/domain/domain.h"
#include "properties/core/finding.h"

namespace mxcheck {

class ReferencePrefetcher;

// Adds up the cases of a statement whose verdict is of all of them together. The statement's check finds it in
// CheckContext::tally and adds the case to it.
class RunTally {
 public:
  RunTally() = default;
  RunTally(const RunTally&) = delete;
  RunTally& operator=(const RunTally&) = delete;
  virtual ~RunTally() = default;

  struct Conclusion {
    std::optional<Finding> finding;  // that the statement does not hold, ...
    Case example;                    // ... and the case that shows it most
    std::string undecided;           // in place of a finding: why nothing can be said; empty: it holds
    std::string note;                // of one that holds: what was met
  };
  // Once all cases have run.
  [[nodiscard]] virtual Conclusion conclusion() const = 0;
};

struct CheckContext {
  CandidateRunner& process;
  std::span<const Variant> variants;  // everything the candidate supports
  CandidateRunner* cpu = nullptr;     // CUDA candidates: the in-tree CPU library, where there is one
  bool thorough = false;              // also find out which rows of definitions and slips explain the bytes
  const std::vector<std::string>* causes = nullptr;  // thorough: of the rows with these names; none: of all
  bool not_offered = false;      // set by a check when the candidate does not offer the case's options
  bool not_applicable = false;   // set by a check when the statement says nothing about this case
  std::string not_checked = {};  // set by a check that could not be made here: why
  // May have the answer to the case. Owned here: a check that throws out of its list of cases leaves nothing behind.
  std::shared_ptr<ReferencePrefetcher> ahead = {};
  std::shared_ptr<RunTally> tally = {};  // of a run of a statement that has one; a single case has none
};

struct Statement {
  std::string_view name;
  std::string_view sentence;
  std::string_view source;  // the clause it comes from
  std::function<bool(const Variant&, std::span<const Variant>)> applies;
  std::vector<Data> data;  // distributions, drawn uniformly; repeat to make one likelier; none: corners only
  int experts = 30;        // percent of the cases with expert offsets
  bool strides = true;     // draw row strides
  std::function<std::optional<Finding>(CheckContext&, const Case&)> check;
  // Enumerated cases that every run makes first, for one variant: boundaries before random.
  std::function<std::vector<Case>(const Variant&, Suite)> corners = {};
  int cases_per_variant = 0;  // random cases are at least this times the variants
  // The check is that outputs are Problem::answer(): drawn cases meet each pair of bins of two axes of the operation's
  // domain, and a soak repeats such cases (properties/gate/gate.h). False: they meet each bin.
  bool covers_pairs = false;
  // False: outputs may differ from Problem::answer(), and a soak, which compares with it, leaves the statement out.
  bool repeats_bits = true;
  enum class Device : std::uint8_t { any, host, cuda } device = Device::any;  // of the candidates that it is about
  bool of_the_interface = false;  // about the C interface itself, which an adapter, not the candidate, speaks
  bool recorded = true;           // false: replay, without the device, would take too long
  // Corners of all variants together that the statement applies to: what need not be made for each of them.
  std::function<std::vector<Case>(std::span<const Variant>, Suite)> shared_corners = {};
  // Its verdict is of all cases together: one run's tally. All cases then belong to one shard.
  std::function<std::shared_ptr<RunTally>()> tally = {};
  // Draw column strides too, where the candidate takes them. Laws do not: their tensors are made of other tensors.
  bool col_strides = false;
};

// All statements, in the order in which the gate runs them: those of the operations, in the registry's order, then
// those about every operation's conduct.
const std::vector<Statement>& all_statements();

bool offers(std::span<const Variant> variants, const Variant& wanted);

// How an operation behaves, whatever it computes: within its buffers, the same every time, and clear in its refusals.
std::vector<Statement> conduct_statements();

}  // namespace mxcheck

#pragma once
// One statement against one candidate: its corners, the cases that cover its domain, random ones, triples of bins, the
// layers of production; the smallest case that fails; the coverage of the domain.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/finding.h"
#include "properties/core/operation.h"
#include "properties/core/rng.h"
#include "properties/gate/coverage/parts.h"
#include "properties/gate/gate.h"
#include "properties/process/candidate_process.h"
#include "properties/records/record.h"

namespace mxcheck {

// RapidCheck drives the search for a counterexample and its shrinking, over descriptors.

struct SearchLimits {
  int cases = 200;
  int shrink_tries = 400;
  std::chrono::seconds shrink_time{60};
};

struct SearchResult {
  int cases = 0;                // checked, shrinking not counted
  std::optional<Case> minimal;  // set when a counterexample was found
  std::optional<Case> original;
  std::optional<Finding> finding;  // what the minimal case failed with
  int shrink_tries = 0;
  bool shrink_budget_spent = false;
  std::string gave_up;  // RapidCheck's words when it could not draw enough cases
};

using CheckCase = std::function<std::optional<Finding>(const Case&)>;
using SimplerCases = std::function<std::vector<Case>(const Case&, const Finding&)>;
using DrawCase = std::function<Case(Draw&)>;

// simpler: what to try in place of a failing case (Operation::simpler). Exceptions from check end the search and are
// passed on.
SearchResult search(const std::string& name, std::uint64_t seed, const SearchLimits& limits, const DrawCase& draw,
                    const CheckCase& check, const SimplerCases& simpler);

class StatementRun {
 public:
  // cpu, recording, history: may be null; dealing: null for a whole run. All but the statement's name is borrowed.
  StatementRun(const Statement& s, const GateOptions& options, CandidateRunner& process, CandidateRunner* cpu,
               const std::vector<Variant>& offered, RecordingRunner* recording = nullptr, History* history = nullptr,
               const Dealing* dealing = nullptr);

  StatementResult& result() { return result_; }

  void run();
  // One given case, shrunk if it fails and shrinking is asked for.
  void check_one(const Case& c, bool shrink = true);
  // Makes the calls of `p`, after which a case fails; whether the statement of `p` holds is not asked.
  void call_before(const Preceding& p);
  // A drawn case; where the candidate refuses its options, the same without them too: a size that comes with options
  // alone would not be checked.
  void check_drawn(const Case& c);
  // The verdict of a single case: silence is not consent.
  void judge_one();

 private:
  // The work of the largest case that is compared with all rows of the tables of definitions to begin with.
  static constexpr std::int64_t kMostWorkToName = std::int64_t{1} << 23;

  void run_corners();
  void run_covering();
  void run_random();
  void run_triples();
  void run_layers();
  void judge();
  // The verdict of all cases together.
  void conclude(const RunTally& tally);
  // True if this shard has the corners and covering cases of the operation, or this one case.
  [[nodiscard]] bool owns_operation(const std::string& operation) const;
  [[nodiscard]] bool owns_case(const Case& c) const;
  [[nodiscard]] bool covers_pairs() const { return result_.statement->covers_pairs && options_.cases == 0; }
  [[nodiscard]] Draw draw_of(const char* purpose, const Part& part) const;
  void check_all(const std::vector<Case>& cases);

  // The first could not: operands of the others would be drawn for nothing.
  [[nodiscard]] bool none_can_be_checked() const { return !not_checked_.empty() && result_.cases == 0; }
  [[nodiscard]] bool stop() const { return options_.interrupted != nullptr && options_.interrupted->load(); }
  [[nodiscard]] bool is_over() const {
    return stop() || none_can_be_checked() || (result_.counterexample && !looks_on_);
  }
  [[nodiscard]] const OperationInfo& limits_of(const Variant& v) const;
  [[nodiscard]] SimplerCases simpler() const;
  std::optional<Finding> check_uncounted(const Case& c);
  std::optional<Finding> check(const Case& c);
  void count(const Case& c, CaseFate fate);
  void keep_if_slow(const Case& c, double seconds);
  // A mismatch that was compared with tables of definitions: with all their rows, or with those that have these names.
  std::optional<Finding> explained(const Case& c, const std::vector<std::string>* among);
  [[nodiscard]] std::vector<Case> cases_like(const Case& original, const Case& minimal) const;
  // only: a failing case of other kinds of differences is no evidence; empty: every one is.
  void name_causes(const Case& original, const Case& minimal, Finding& finding,
                   const std::set<DifferenceKind>& only = {});
  // True if a cause of the finding gives every bit of this case too; its rules become those that both share.
  bool is_explained_by(Finding& known, const Case& c);
  void compare_cases_like(const Case& original, const Case& minimal, Causes& causes,
                          const std::vector<std::string>& names, const std::function<bool(const Case&)>& add);
  // is_like: true if a smaller case may have failed by the same fault. names: of what explains the case; none: not
  // known.
  SearchResult shrunk(const Case& c, const std::function<bool(const Finding&, const Case&)>& is_like,
                      const std::vector<std::string>& names, const SearchLimits& limits);
  // After a failure: other kinds of differences in cases like it, or, where no value differs so far, in all that
  // follow.
  void look_for_others(Counterexample& example);
  void add_other(Counterexample& example, const Case& c, const Finding& finding);
  void look_for_state(Counterexample& example);
  // repeated: the smallest case has failed a second time.
  void look_on_other_gpus(Counterexample& example, bool repeated);
  void keep(const SearchResult& found, const Case& original, const Finding& first);

  const GateOptions& options_;
  CheckContext context_;
  RecordingRunner* recording_;
  History* history_;
  const Dealing* dealing_;
  std::vector<Variant> variants_;
  std::map<std::string, std::size_t> numbers_;  // of variants by their text, in result_.by_variant
  std::vector<Part> parts_;
  bool looks_on_ = false;    // for a value that differs, after a failure by NaN or signs of zeros alone
  std::string not_checked_;  // why the first case that could not be checked was not
  StatementResult result_;
};

// The variants that a candidate can be asked for, and how often each is drawn.

// Every variant that the candidate says it supports: all of each known operation, and of each contract of matmul, is
// asked for. Those of one operation follow one another, in the registry's order.
std::vector<Variant> offered_variants(CandidateProcess& process);

// Draws variants: each operation by its Operation::fixed_weight, where it has one, in place of the number of its
// variants. Made once for many draws: a candidate may offer thousands.
class VariantWeights {
 public:
  // Variants of one operation follow one another, in the registry's order; the span is borrowed.
  explicit VariantWeights(std::span<const Variant> variants);
  // How many draws the variants are worth together.
  [[nodiscard]] std::size_t total() const { return total_; }
  // One of them by its weight; there must be one.
  [[nodiscard]] const Variant& draw(Draw& draw) const;

 private:
  struct Part {
    std::span<const Variant> variants;
    std::size_t weight;
    bool fixed;
  };
  std::vector<Part> parts_;
  std::size_t total_ = 0;
};

}  // namespace mxcheck

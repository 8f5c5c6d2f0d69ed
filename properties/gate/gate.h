#pragma once
// The gate: every statement, every variant the candidate supports, enumerated corners first, then random cases, and for
// a failure the smallest case that still fails.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/finding.h"
#include "properties/core/operation.h"
#include "properties/core/phases.h"
#include "properties/core/statement.h"
#include "properties/gate/coverage/coverage.h"
#include "properties/gate/coverage/parts.h"
#include "properties/gate/dealing.h"
#include "properties/gate/preceding.h"
#include "properties/process/candidate_process.h"
#include "properties/records/record.h"

namespace mxcheck {

struct GateOptions {
  std::string tool;            // the executable with the __worker entry
  std::string library;         // path of the candidate
  std::string gpu_model = "";  // path of the GPU model's library; empty: beside the tool, as find_gpu_model looks
  Suite suite = Suite::quick;
  std::vector<std::string> claims;  // as CandidateProcess takes them
  std::string only = "*";           // glob over statement names
  std::uint64_t seed = 0;
  int cases = 0;  // random cases a statement; 0: the suite's
  TimeLimits time_limit;
  bool fail_fast = false;
  double soak_minutes = 0;  // of run_soak
  // Statements side by side, each with a process of the candidate; 0: as the machine has cores, and for a GPU four.
  int jobs = 0;
  bool timings = false;            // measure GateReport::timings
  bool record = false;             // keep what every call returned: GateReport::record
  Shard shard;                     // of run_gate
  std::vector<std::string> after;  // of reproduce: what the process is called with before, as parse_preceding takes it
  const std::atomic<bool>* interrupted = nullptr;
  std::function<void(const struct GateReport& begun)> begun;  // once the candidate is known, before anything is checked
  std::function<void(const Statement&, const Case&)> checked;  // each case but those of shrinking, from any thread
  std::function<void(const Statement&)> ended;  // of run_gate, as soon as a statement has; the watch is told in order
};

// A fault of another kind in the same statement: the smallest case of it.
struct OtherFault {
  DifferenceKind kind{};
  Case minimal;
  Finding finding;
};

struct Counterexample {
  Case minimal;
  Case original;
  Finding finding;
  int shrink_tries = 0;
  bool shrink_budget_spent = false;
  std::optional<Reproduction> reproduction;  // none: interrupted, or a fault that was repeated at once
  std::string gpu = {};                      // the UUID of one on which it fails, where it does on some alone
  std::vector<OtherFault> others;
};

enum class Verdict { held, failed, not_offered, inconclusive };

// The cases of one variant: counts of checked and refused ones, and of those that the statement says nothing about.
struct VariantCount {
  std::size_t variant = 0;  // of GateReport::variants
  std::int64_t checked = 0;
  std::int64_t refused = 0;
  std::int64_t not_applicable = 0;
};

struct SlowCase {
  double seconds = 0;  // of the calls and of the reference's answer
  Case c;
};
inline constexpr std::size_t kSlowCases = 3;

struct StatementResult {
  const Statement* statement = nullptr;
  Verdict verdict = Verdict::held;
  std::string reason;  // of inconclusive and not_offered; what one that holds has to say of all its cases
  std::int64_t variants = 0;
  std::int64_t cases = 0;                                // checked and claimed
  std::int64_t not_applicable = 0;                       // drawn, but the statement says nothing about them
  std::int64_t options_not_offered = 0;                  // experts or strides that the candidate does not offer
  std::optional<std::set<std::string>> refused_options;  // that each of these cases has, by their fields: "experts"
  std::vector<CoverageReport> coverage;                  // of each operation that it is about
  std::vector<PartStates> states;                        // of a shard: the same, to be merged
  std::vector<VariantCount> by_variant;  // each that it applies to, in the order of GateReport::variants
  std::vector<SlowCase> slowest;         // the first is the slowest
  double seconds = 0;
  std::int64_t cost = 0;      // of its cases together: cost_of
  std::int64_t calls = 0;     // of a soak: those whose outputs were compared
  std::int64_t failures = 0;  // among them
  std::optional<Counterexample> counterexample;
};

// The result of a soak (run_soak).
struct SoakCount {
  double minutes = 0;         // asked for
  std::int64_t calls = 0;     // whose outputs were compared
  std::int64_t failures = 0;  // among them, and calls that crashed or hung
  double seconds = 0;         // of calling and comparing
};

// Where the time of a run went (properties/report/report.h).
struct GateTimings {
  struct OfStatement {
    const Statement* statement = nullptr;
    PhaseTimes::Seconds seconds;
    std::int64_t cost = 0;  // cost_of its cases together
  };
  int jobs = 1;
  int gpus = 1;       // that the jobs' processes are spread over
  PhaseTimes phases;  // of the jobs' threads; their CPU has that of the candidate's processes
  std::vector<OfStatement> statements;
};

// The machine during a run: wall time, CPU time of the run and of everything else, cores.
struct MachineUse {
  double wall = 0;       // seconds
  double own_cpu = 0;    // of the gate and the candidate's processes
  double other_cpu = 0;  // of everything else
  int cores = 1;
};

// The place that readers of a failure are pointed to.
struct SourcePlace {
  std::string file;  // empty: not known
  int line = 0;      // 0: not known
};

struct GateReport {
  CandidateInfo candidate;
  std::string suite;
  std::uint64_t seed = 0;
  std::string arguments;  // of the gate, with which this run is made again; of a shard: those of the whole run
  int random_cases = 0;   // a statement, where they were asked for; 0: the suite's
  std::vector<std::pair<std::string, std::string>> machine;  // build_and_machine of where it ran
  std::vector<Variant> variants;
  std::vector<StatementResult> statements;
  std::size_t planned = 0;  // statements of run_gate: options.begun knows it, before there are results
  SourcePlace source;       // of the candidate
  Shard shard;
  std::vector<int> missing_shards;  // of a merged run
  bool one_case = false;            // of reproduce
  bool selective = false;           // --only left statements out
  bool interrupted = false;
  std::vector<const Statement*> not_begun;  // of an interrupted run: the selected statements that no job had come to
  FirstCallCount first_calls;               // of candidates behind an adapter
  std::vector<std::string> ends;            // how processes of the candidate ended that did not end in order
  double seconds = 0;
  std::optional<Record> record;  // of run_gate, if requested
  std::optional<SoakCount> soak;
  std::optional<GateTimings> timings;  // of run_gate, if requested
  MachineUse use;                      // of run_gate
  std::string unwritten;  // why a file that was asked for (a record, JUnit) could not be written; empty: none failed
};

// Called as each statement begins and ends.
using StatementWatch = std::function<void(const StatementResult& statement, bool finished)>;

// Error{usage} for a library that is no candidate or an --only that selects nothing.
GateReport run_gate(const GateOptions& options, const StatementWatch& watch);

// A statement of the caller's own, run as the gate runs its own.
StatementResult run_statement(const Statement& statement, const GateOptions& options);

// One case of one statement, as printed by a report: "STATEMENT: CASE", in a fresh process that was called with what
// options.after says.
GateReport reproduce(const GateOptions& options, std::string_view statement_and_case);

// verification of a run: 0 all held; 6 a fault; 1 a counterexample; 3 a file that was asked for could not be written;
// 4 inconclusive, interrupted, or nothing was run.
int exit_code(const GateReport& report);

// The statements that a run is about, and the beginning of its report.

// The statements that --only selects. Error{usage} where it selects none.
std::vector<const Statement*> statements_named(const std::string& only);
// Keeps the statements among them that are about the candidate's device. Error{usage} where there are none.
void keep_those_about(const CandidateInfo& candidate, const std::string& only,
                      std::vector<const Statement*>& statements);
bool is_about(const Statement& s, const CandidateInfo& candidate);

// Processes of the candidate, side by side. A record has the calls in the order of the statements: one.
int jobs_of(const GateOptions& options, const CandidateInfo& candidate);

// The candidate and what it offers; options.begun is told.
GateReport begin_report(const GateOptions& options, CandidateProcess& process, std::size_t planned = 0);

// The verdict of a statement whose cases have all run without a counterexample.

// Why a statement has no verdict of its own in a shard: read by whoever merges shards.
inline constexpr std::string_view kNoCaseOfShard = "no case of it falls to this shard";

// Leaves the options that both have; none: no case was refused.
void keep_common(std::optional<std::set<std::string>>& options, const std::optional<std::set<std::string>>& others);

// not_checked: why the first case that could not be checked was not, or empty; never: why no case can have a model, or
// empty. A shard's coverage says nothing: what it has not met, others have.
void judge(StatementResult& result, const std::string& not_checked, const std::string& never, const Shard& shard);

// Once all statements have ended, so that no result depends on their order in time: the causes of the first failing
// statement about an operation that explain most of the others are named in each statement that they explain, in place
// of none, and of other causes unless those alone need no rule.
void prefer_common_causes(std::vector<StatementResult>& results);

// --- soaks
//
// A soak: the same calls again and again for a given time, for races and for faults of one call in many, which a suite
// meets by luck alone.
//
// Cases of the statements that outputs are Problem::answer(), of every variant that is offered, are drawn; the
// reference answers each once. Some are in hand at a time, and bursts of one to 32 calls of one of them follow bursts
// of another in random order. Every call has tensors of its own, filled anew; each burst comes from one of the
// process's three threads. On a device each call is made in a stream of its own, in the default one, or three times at
// once.

// Runs for options.soak_minutes. GateReport::soak is set; a statement of which a variant was not met is inconclusive.
// Error{usage} for a library that is no candidate or an --only that selects no statement of this kind.
GateReport run_soak(const GateOptions& options, const StatementWatch& watch);

// After n calls without a failure: the rate of failures that n calls would have shown at least once in 95 % of all
// such runs, if calls fail independently: 1 - 0.05^(1/n), which is below 3/n ("If nothing goes wrong, is everything all
// right?", Hanley and Lippman-Hand, JAMA 249, 1983). Returned: 3/n, 1 at most.
double rule_of_three(std::int64_t calls);

}  // namespace mxcheck

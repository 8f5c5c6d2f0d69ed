#pragma once
// A gate run for people and for machines: text, JSON, JUnit XML, GitHub's annotations and summary, and a counterexample
// saved as tensors. page.h has the page. Same binary, candidate, seed and machine: the same text apart from seconds.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/operation.h"
#include "properties/gate/gate.h"

namespace mxcheck {

// The line before anything runs: seed, candidate, suite.
std::string report_header(const GateReport& report);

// One line for a statement that was tried: verdict, name, cases, variants, seconds.
std::string statement_line(const StatementResult& result);

// One line for all statements that were not tried for the same reason: the first of them, and how many more; then one
// for each axis with bins of which every call in the run was refused. JSON and JUnit have each statement's.
std::string not_offered_text(const GateReport& report);

// The command that runs one case of the statement.
std::string reproduce_command(const GateReport& report, const StatementResult& r, const Case& c);

// The diagnosis in one sentence: "ties away from zero: gives every bit of 4 failing cases, 4160 elements"; that nothing
// known gives them; empty where they were not compared with causes.
std::string cause_text(const Finding& finding);

// The counterexample of a failed statement: statement, place, inputs, expected and observed, extent, minimal case,
// command that reproduces it, seed and candidate. saved: path of the saved case, or empty.
std::string counterexample_text(const GateReport& report, const StatementResult& result, const std::string& saved);

// After the counterexamples of a run: mxcheck, compiler, CPU, system and GPU; empty where there is none.
std::string machine_text(const GateReport& report);

// True if the counterexample is of all cases of the statement together: no case alone meets it again.
bool is_of_all_cases(const StatementResult& result);
// Why the counterexample's case is not enough to meet the failure again; empty where it is, alone or after others.
std::string not_reproduced(const Counterexample& e);
// The command that meets the failure again: the case, with those that it fails after, or else the run.
std::string again_command(const GateReport& report, const StatementResult& result);
// The command of the whole run.
std::string run_command(const GateReport& report);

// The GPU that was used, or the host's CPU.
std::string device_of(const GateReport& report);

// "there is a counterexample": what the exit code says.
std::string exit_meaning(const GateReport& report);
// The statements of an interrupted run that have no verdict, in one line.
std::string interrupted_text(const GateReport& report);

// Totals and the verdict.
std::string report_summary(const GateReport& report);

// The limits of the verdict.

// "rows to 40, columns to 100, rows in multiples of 48"; empty for an operation without limits.
std::string limits_text(const OperationInfo& operation);

// Kinds of faults that a run of this suite would have met by luck alone, each with the option that looks for it.
// Empty for a case that was reproduced.
std::vector<std::string> not_seen(const GateReport& report);

// Calls, failures, and the rate of failures that is excluded when there were none. Empty: no soak.
std::string soak_text(const GateReport& report);

// A line for each axis with bins that the candidate refused throughout, or mostly: what it does not offer, by name.
std::vector<std::string> not_offered(const StatementResult& result);

// Every axis with its bins and how many cases met each, and the pairs of bins: of every statement that was run.
std::string coverage_text(const GateReport& report);

// Where the time went, and whether the machine was free for it: for --timings and the end of a run.

// The phases of all jobs, and the statements that took longest, in seconds of wall time and of CPU. The wall column
// adds up to the run's seconds times its jobs, the CPU column to what the gate and the candidate's processes used.
// For a report with timings.
std::string timings_text(const GateReport& report);

// "the machine was busy: ...": a run of at least kLeastToJudge seconds in which no more than a fifth of the cores' time
// was idle, and other processes took at least a tenth of it. Otherwise nothing.
inline constexpr double kLeastToJudge = 5;
std::string busy_text(const MachineUse& use);

// The report for machines.

std::string report_json(const GateReport& report);
std::string report_junit(const GateReport& report);

// GitHub Actions: annotations, which the runner reads from a step's output, and the summary of a step.

// A step shows ten errors and ten warnings.
inline constexpr std::size_t kMostAnnotations = 10;

// Lines "::error title=STATEMENT,file=...,line=...::TEXT": one a failed statement, with its counterexample; "::warning"
// for inconclusive ones, "::notice" with the verdict where all is well. Those beyond kMostAnnotations are named in the
// last one. Without file and line where report.source is empty.
std::string github_annotations(const GateReport& report);

// GitHub's Markdown, of at most 64 KiB; counterexamples that do not fit are named. Every text is shown as it is,
// whoever wrote it.
std::string github_summary(const GateReport& report);

// ASCII punctuation as entities, so that Markdown sees none; other bytes as html::plain_text has them.
std::string escaped_markdown(std::string_view text);

// The tensors of a counterexample: what the case holds, the reference's answer, and what the candidate returns when it
// is called again.

struct ExampleTensors {
  std::vector<SavedTensor> inputs;
  std::vector<ExpectedTensor> expected;
  struct Observed {
    TensorInfo info;
    std::vector<std::byte> bytes;
  };
  std::vector<Observed> observed;  // empty: a fault, or a failure that was not met again
};

// The tensors of the smallest case, after the calls that it fails after. Nothing for a case whose answer the reference
// would need minutes for.
std::optional<ExampleTensors> tensors_of_minimal(const GateReport& report, const Counterexample& e,
                                                 const GateOptions& options);

// The tensors of the case as it was found, in a fresh process; nothing where that is the smallest one, is large (more
// than 2^20 elements), or where the failure is no difference of bytes.
std::optional<ExampleTensors> tensors_of_original(const Counterexample& e, const GateOptions& options);

// Writes the inputs, expected and observed outputs of the minimal case as a safetensors file into the directory, which
// is created; returns its path, or nothing where there are no tensors. The name is the statement's with a digest of the
// case.
std::string save_counterexample(const GateReport& report, const StatementResult& result, const std::string& directory,
                                const std::optional<ExampleTensors>& tensors);

// A gate's run as one page: verdict, statements by variants, what the domains' bins met, each counterexample with
// pictures of its wrong elements, times, and what was not tried. HTML that is well-formed XML; inline SVG and CSS, no
// script, nothing fetched. Every text is escaped, whoever it is from.

// The tensors that pictures of a failure are drawn from; without them there is its text alone.
struct ExamplePictures {
  std::optional<ExampleTensors> minimal;
  std::optional<ExampleTensors> original;
  std::string saved;  // path of the saved tensors, or empty
};

// pictures: by the statement's name.
std::string gate_page(const GateReport& report, const std::map<std::string, ExamplePictures>& pictures);

}  // namespace mxcheck

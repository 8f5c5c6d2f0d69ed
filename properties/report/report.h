#pragma once
// A gate run for people and for machines: text, JSON and JUnit XML, and a counterexample saved as tensors.
// Same binary, candidate, seed and machine: the same text apart from seconds.

#include <optional>
#include <string>

#include "properties/gate/gate.h"
#include "properties/report/example_tensors.h"

namespace mxcheck {

// The line before anything runs: seed, candidate, suite.
std::string report_header(const GateReport& report);

// One line a statement: verdict, name, cases, variants, seconds.
std::string statement_line(const StatementResult& result);

// The counterexample of a failed statement: statement, place, inputs, expected and observed, extent, minimal case,
// command that reproduces it, machine. saved: path of the saved case, or empty.
std::string counterexample_text(const GateReport& report, const StatementResult& result, const std::string& saved);

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

// Totals and the verdict.
std::string report_summary(const GateReport& report);

std::string report_json(const GateReport& report);
std::string report_junit(const GateReport& report);

// Writes the inputs, expected and observed outputs of the minimal case as a safetensors file into the directory, which
// is created; returns its path, or nothing where there are no tensors. The name is the statement's with a digest of the
// case.
std::string save_counterexample(const GateReport& report, const StatementResult& result, const std::string& directory,
                                const std::optional<ExampleTensors>& tensors);

}  // namespace mxcheck

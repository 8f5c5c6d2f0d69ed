#pragma once
// The output of gate and merge about a run: on standard output, and in the files that were asked for.

#include <functional>
#include <map>
#include <string>

#include "properties/gate/gate.h"
#include "properties/report/report.h"
#include "tools/common/command_line.h"

namespace mxcheck {

struct OutputOptions {
  std::string junit;
  std::string html;
  std::string report;
  std::string source;
  bool github = false;
  bool json = false;
  bool coverage = false;
};

// --junit, --html, --report, --json, --coverage, --github, --source.
void add_outputs(Command& command, OutputOptions& options);

// Error{usage} for a path that cannot be written: before anything runs.
void check_outputs(const OutputOptions& options);

// Runs `write`; keeps in the report why a file could not be written.
void attempt(GateReport& report, const std::function<void()>& write);

// --source: "FILE" or "FILE:LINE".
SourcePlace source_place(const std::string& text);

// The header and a line for each statement, of a report that was read; nothing with --json.
void print_results(const OutputOptions& options, const GateReport& report);

// Files first, so that the exit code that is printed is that of the process. pictures: as gate_page takes them.
void write_outputs(const OutputOptions& options, GateReport& report,
                   const std::map<std::string, ExamplePictures>& pictures);

// The process's exit code, once all has been said. Error{environment} where a file could not be written and nothing
// worse is known.
int end_code(const GateReport& report);

}  // namespace mxcheck

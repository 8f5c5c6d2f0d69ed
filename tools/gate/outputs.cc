#include "tools/gate/outputs.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/report/coverage_text.h"
#include "properties/report/github.h"
#include "properties/report/report.h"

namespace mxcheck {
namespace {

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// GitHub gives each step a file; several commands of one step add to it. Nothing where there is none.
void append_summary(const std::string& text) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || path[0] == '\0') return;
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(ErrorKind::usage, std::string("GITHUB_STEP_SUMMARY ") + path + " cannot be written");
}

}  // namespace

void add_outputs(Command& command, OutputOptions& options) {
  command.option("--junit", options.junit, "also write the results as JUnit XML to this file").not_empty();
  command
      .option("--html", options.html, "also write the results as one page, with pictures of what failed, to this file")
      .not_empty();
  command.option("--report", options.report, "also write the results as JSON to this file, for mxcheck merge")
      .not_empty();
  command.flag("--coverage,--classes", options.coverage,
               "print which bins of each operation's domain cases met, and which the candidate refused");
  command.flag("--github", options.github,
               "print annotations for GitHub Actions too, and append a summary to $GITHUB_STEP_SUMMARY");
  command.option("--source", options.source, "FILE[:LINE] that annotations and JUnit point to: where the kernel is")
      .not_empty();
  command.flag("--json", options.json, "print the report as JSON");
}

void check_outputs(const OutputOptions& o) {
  for (const std::string& path : {o.junit, o.html, o.report}) {
    if (!path.empty()) AtomicFile probe(path);
  }
  if (o.github && o.json)
    throw Error(ErrorKind::usage, "--github and --json both want standard output: --github --report FILE");
  if (o.github) append_summary("");
}

SourcePlace source_place(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto line =
      colon == std::string::npos ? std::nullopt : parse_number<int>(std::string_view(text).substr(colon + 1));
  if (!line || *line < 1 || colon == 0) return {text, 0};
  return {text.substr(0, colon), *line};
}

void attempt(GateReport& report, const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& e) {
    report.unwritten = e.what();
  }
}

void write_outputs(const OutputOptions& o, GateReport& report, const std::map<std::string, ExamplePictures>& pictures) {
  report.source = source_place(o.source);
  if (!o.junit.empty()) attempt(report, [&] { write_text(o.junit, report_junit(report)); });
  if (!o.report.empty()) attempt(report, [&] { write_text(o.report, report_json(report)); });
  if (!o.html.empty()) attempt(report, [&] { write_text(o.html, gate_page(report, pictures)); });
  if (o.github) attempt(report, [&] { append_summary(github_summary(report)); });
  if (o.json) {
    std::fputs(report_json(report).c_str(), stdout);
    return;
  }
  for (const StatementResult& r : report.statements) {
    if (!r.counterexample) continue;
    const auto found = pictures.find(std::string(r.statement->name));
    const std::string saved = found == pictures.end() ? "" : found->second.saved;
    std::fputs(counterexample_text(report, r, saved).c_str(), stdout);
  }
  std::fputs(((o.coverage ? coverage_text(report) : "") + report_summary(report)).c_str(), stdout);
  if (o.github) std::fputs(github_annotations(report).c_str(), stdout);
}

int end_code(const GateReport& report) {
  const int code = exit_code(report);
  if (report.unwritten.empty()) return code;
  if (code == 3) throw Error(ErrorKind::environment, report.unwritten);
  std::fputs(fmt::format("mxcheck: error: {}\n", report.unwritten).c_str(), stderr);
  return code;
}

}  // namespace mxcheck

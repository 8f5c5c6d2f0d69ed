#include "properties/report/page/page.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "properties/report/coverage_text.h"
#include "properties/report/markup.h"
#include "properties/report/page/coverage_map.h"
#include "properties/report/page/failure.h"
#include "properties/report/page/grid.h"
#include "properties/report/page/style.h"
#include "properties/report/page/times.h"
#include "properties/report/report.h"
#include "properties/report/scope_text.h"

namespace mxcheck {
namespace {

std::string section(const char* heading, const std::string& body) {
  return body.empty() ? "" : fmt::format("<section><h2>{}</h2>\n{}</section>\n", heading, body);
}

std::string verdict_line(const GateReport& report) {
  const int code = exit_code(report);
  const char* css = code == 0 ? "good" : code == 1 || code == 6 ? "bad" : "doubt";
  const char* word = code == 0                ? "HELD"
                     : code == 1 || code == 6 ? "FAILED"
                     : code == 3              ? "NOT WRITTEN"
                                              : "INCONCLUSIVE";
  std::string out =
      fmt::format("<div class=\"verdict {0}\"><strong class=\"{0}\">{1}</strong>exit code {2}: {3}</div>\n", css, word,
                  code, escaped_markup(exit_meaning(report)));
  for (const std::string& end : report.ends)
    out += "<p class=\"bad\">after all statements: " + escaped_markup(end) + "</p>\n";
  if (report.interrupted) out += "<p class=\"doubt\">interrupted: what had not run says nothing</p>\n";
  return out;
}

std::string facts(const GateReport& report) {
  std::int64_t cases = 0;
  for (const StatementResult& r : report.statements) cases += r.cases;
  std::string rows;
  const auto row = [&](const std::string& name, const std::string& value) {
    rows += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped_markup(name), escaped_markup(value));
  };
  row("candidate", report.candidate.name + " " + report.candidate.version);
  row("library", report.candidate.path);
  row("digest", report.candidate.digest);
  row("suite", report.suite);
  row("seed", std::to_string(report.seed));
  row("checked",
      fmt::format("{} cases, {:.1f} s; {} variant{} offered", grouped(cases), report.seconds,
                  grouped(static_cast<std::int64_t>(report.variants.size())), report.variants.size() == 1 ? "" : "s"));
  for (const auto& [key, value] : report.machine) row(key, value);
  if (!report.candidate.unconfined.empty())
    row("not confined", "missing here, to keep the candidate's process from the gate: " + report.candidate.unconfined);
  return "<dl>\n" + rows + "</dl>\n";
}

std::string failures(const GateReport& report, const std::map<std::string, ExamplePictures>& pictures) {
  std::string out;
  for (const StatementResult& r : report.statements) {
    if (!r.counterexample) continue;
    const auto found = pictures.find(std::string(r.statement->name));
    out += failure_section(report, r, found == pictures.end() ? ExamplePictures{} : found->second);
  }
  return out;
}

std::string list(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "<li>" + escaped_markup(line) + "</li>\n";
  return out.empty() ? "" : "<ul>\n" + out + "</ul>\n";
}

// How far the verdict reaches.
std::string not_tried(const GateReport& report) {
  std::vector<std::string> limits, refused;
  for (const OperationInfo& o : report.candidate.operations) {
    if (const std::string text = limits_text(o); !text.empty()) limits.push_back(o.name + ": " + text);
  }
  for (const StatementResult& r : report.statements) {
    for (const std::string& line : not_offered(r)) refused.push_back(std::string(r.statement->name) + ": " + line);
  }
  const auto part = [](const char* heading, const std::string& body) {
    return body.empty() ? "" : fmt::format("<h3>{}</h3>\n{}", heading, body);
  };
  return part("No case is beyond the limits that the library declares", list(limits)) +
         part("Options that it refuses", list(refused)) +
         part("Kinds of faults that this suite meets by luck alone", list(not_seen(report)));
}

std::string again(const GateReport& report) {
  if (report.one_case) return "";
  return "<pre class=\"command\">" + escaped_markup(run_command(report)) + "</pre>\n";
}

}  // namespace

std::string gate_page(const GateReport& report, const std::map<std::string, ExamplePictures>& pictures) {
  const std::string title = escaped_markup("mxcheck gate: " + report.candidate.name + " " + report.candidate.version);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
      "content=\"width=device-width, "
      "initial-scale=1\"/>\n<title>" +
      title + "</title>\n<style>" + std::string(kGateStyle) + "</style></head>\n<body>\n<main><h1>" + title +
      "</h1>\n" + verdict_line(report);
  out +=
      "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" "
      "width=\"4\" "
      "height=\"4\" patternUnits=\"userSpaceOnUse\"><path class=\"hatch\" d=\"M0 4L4 0M-1 1L1 -1M3 5L5 "
      "3\"/></pattern></defs>"
      "</svg>\n";
  out += share_bar(report) + facts(report);
  out += section("Failures", failures(report, pictures));
  out += section("Statements", statement_grid(report));
  out += section("What was reached", coverage_map(report));
  out += section("What was not tried", not_tried(report));
  if (report.soak) out += section("Soak", "<pre>" + escaped_markup(soak_text(report)) + "</pre>\n");
  out += section("Time", time_section(report));
  out += section("The whole run again", again(report));
  return out + "</main></body>\n</html>\n";
}

}  // namespace mxcheck

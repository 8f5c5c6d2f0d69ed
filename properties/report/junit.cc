// A report as JUnit XML.

#include <fmt/format.h>

#include "numerics/text.h"
#include "properties/gate/soak.h"
#include "properties/report/coverage_text.h"
#include "properties/report/markup.h"
#include "properties/report/report.h"
#include "properties/report/scope_text.h"

namespace mxcheck {
namespace {

// Properties: how far the verdict reaches.
std::vector<std::pair<std::string, std::string>> scope_of(const GateReport& report) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const OperationInfo& o : report.candidate.operations) {
    if (const std::string limits = limits_text(o); !limits.empty()) all.emplace_back("limits." + o.name, limits);
  }
  for (const StatementResult& r : report.statements) {
    const std::vector<std::string> refused = not_offered(r);
    if (!refused.empty()) all.emplace_back(fmt::format("not_offered.{}", r.statement->name), join(refused, "; "));
  }
  if (const std::vector<std::string> unseen = not_seen(report); !unseen.empty())
    all.emplace_back("not_seen", join(unseen, "; "));
  if (!report.soak) return all;
  all.emplace_back("soak_calls", std::to_string(report.soak->calls));
  all.emplace_back("soak_failures", std::to_string(report.soak->failures));
  if (report.soak->failures == 0)
    all.emplace_back("soak_failures_a_call_below", fmt::format("{:.2g}", rule_of_three(report.soak->calls)));
  return all;
}

std::string junit_case(const GateReport& report, const StatementResult& r) {
  std::string out = fmt::format("    <testcase classname=\"gate.{}\" name=\"{}\" time=\"{:.3f}\"", report.suite,
                                r.statement->name, r.seconds);
  if (r.verdict == Verdict::held) return out + "/>\n";
  out += ">\n";
  if (r.verdict == Verdict::not_offered) {
    out += fmt::format("      <skipped message=\"{}\"/>\n", escaped_markup(r.reason));
  } else if (r.counterexample) {
    const char* type = r.counterexample->finding.kind == FindingKind::fault ? "device-fault" : "mismatch";
    out += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", type,
                       escaped_markup(r.counterexample->finding.summary),
                       escaped_markup(counterexample_text(report, r, "")));
  } else {
    out += fmt::format("      <error type=\"inconclusive\" message=\"{}\"/>\n", escaped_markup(r.reason));
  }
  return out + "    </testcase>\n";
}

}  // namespace

std::string report_junit(const GateReport& report) {
  std::int64_t failures = 0, errors = 0, skipped = 0, cases = 0;
  std::string body;
  for (const StatementResult& r : report.statements) {
    cases += r.cases;
    failures += r.verdict == Verdict::failed ? 1 : 0;
    errors += r.verdict == Verdict::inconclusive ? 1 : 0;
    skipped += r.verdict == Verdict::not_offered ? 1 : 0;
    body += junit_case(report, r);
  }
  for (const std::string& end : report.ends) {
    ++failures;
    body += fmt::format(
        "    <testcase classname=\"gate\" name=\"the_candidate_ends_in_order\">\n      <failure type=\"device-fault\" "
        "message=\"{}\"/>\n    </testcase>\n",
        escaped_markup(end));
  }
  if (report.interrupted) {
    ++errors;
    body +=
        "    <testcase classname=\"gate\" name=\"the_run_was_not_interrupted\">\n      <error type=\"inconclusive\" "
        "message=\"interrupted by a signal\"/>\n    </testcase>\n";
  }
  std::string properties;
  const auto property = [&](const std::string& key, const std::string& value) {
    properties +=
        fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", escaped_markup(key), escaped_markup(value));
  };
  property("seed", std::to_string(report.seed));
  property("cases", std::to_string(cases));
  property("candidate", report.candidate.name + " " + report.candidate.version + " digest " + report.candidate.digest);
  for (const auto& [key, value] : report.machine) property(key, value);
  for (const auto& [key, value] : scope_of(report)) property(key, value);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"mxcheck gate {}\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n    <properties>\n{}    </properties>\n{}  "
      "</testsuite>\n</testsuites>\n",
      report.suite, report.statements.size() + report.ends.size() + (report.interrupted ? 1 : 0), failures, errors,
      skipped, report.seconds, properties, body);
}

}  // namespace mxcheck

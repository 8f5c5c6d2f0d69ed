// A report as JUnit XML.

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/text.h"
#include "pages/html.h"
#include "properties/gate/gate.h"
#include "properties/report/report.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostFailure = 60'000;  // bytes
constexpr std::size_t kMostMessage = 4'000;

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

// Markup of at most so many bytes: readers give up on failures of more than 64 KiB.
std::string short_markup(const std::string& text, std::size_t most) {
  std::string out = html::escaped(text);
  for (std::size_t room = most; out.size() > most; room = room * 3 / 4)
    out = html::escaped(html::shortened(text, room));
  return out;
}

std::string source_of(const GateReport& report) {
  if (report.source.file.empty()) return "";
  const std::string line = report.source.line > 0 ? fmt::format(" line=\"{}\"", report.source.line) : "";
  return fmt::format(" file=\"{}\"{}", html::escaped(report.source.file), line);
}

std::string junit_case(const GateReport& report, const StatementResult& r) {
  std::string out = fmt::format("    <testcase classname=\"gate.{}\" name=\"{}\" time=\"{:.3f}\"{}",
                                html::escaped(report.suite), r.statement->name, r.seconds, source_of(report));
  if (r.verdict == Verdict::held) return out + "/>\n";
  out += ">\n";
  if (r.verdict == Verdict::not_offered) {
    out += fmt::format("      <skipped message=\"{}\"/>\n", short_markup(r.reason, kMostMessage));
  } else if (r.counterexample) {
    const char* type = r.counterexample->finding.kind == FindingKind::fault ? "device-fault" : "mismatch";
    out += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", type,
                       short_markup(r.counterexample->finding.summary, kMostMessage),
                       short_markup(counterexample_text(report, r, ""), kMostFailure));
  } else {
    out += fmt::format("      <error type=\"inconclusive\" message=\"{}\"/>\n", short_markup(r.reason, kMostMessage));
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
        html::escaped(end));
  }
  if (!report.missing_shards.empty()) {
    ++errors;
    body += fmt::format(
        "    <testcase classname=\"gate\" name=\"every_shard_is_there\">\n      <error type=\"inconclusive\" "
        "message=\"{}\"/>\n"
        "    </testcase>\n",
        html::escaped(exit_meaning(report)));
  }
  if (report.interrupted) {
    ++errors;
    body += fmt::format(
        "    <testcase classname=\"gate\" name=\"the_run_was_not_interrupted\">\n      <error type=\"inconclusive\" "
        "message=\"interrupted by a signal: {}\"/>\n    </testcase>\n",
        html::escaped(interrupted_text(report)));
  }
  std::string properties;
  const auto property = [&](const std::string& key, const std::string& value) {
    properties += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", html::escaped(key), html::escaped(value));
  };
  property("seed", std::to_string(report.seed));
  property("cases", std::to_string(cases));
  property("candidate", report.candidate.name + " " + report.candidate.version + " digest " + report.candidate.digest);
  property("digest", report.candidate.digest);
  property("suite", report.suite);
  property("device", device_of(report));
  property("exit_code", std::to_string(exit_code(report)));
  if (!report.shard.is_whole()) property("shard", to_text(report.shard));
  for (const auto& [key, value] : report.machine) property(key, value);
  for (const auto& [key, value] : scope_of(report)) property(key, value);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"mxcheck gate {}\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n    <properties>\n{}    </properties>\n{}  "
      "</testsuite>\n</testsuites>\n",
      html::escaped(report.suite),
      report.statements.size() + report.ends.size() + (report.interrupted ? 1 : 0) +
          (report.missing_shards.empty() ? 0 : 1),
      failures, errors, skipped, report.seconds, properties, body);
}

}  // namespace mxcheck

// The machine-readable forms of a report.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "numerics/text.h"
#include "properties/gate/soak.h"
#include "properties/report/coverage_text.h"
#include "properties/report/markup.h"
#include "properties/report/report.h"
#include "properties/report/scope_text.h"

namespace mxcheck {
namespace {

using Json = nlohmann::ordered_json;

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::held: return "held";
    case Verdict::failed: return "failed";
    case Verdict::not_offered: return "not_offered";
    case Verdict::inconclusive: return "inconclusive";
  }
  return "";
}

Json to_json(const OperationInfo& o) {
  return {{"name", o.name},         {"contract", o.contract},           {"max_rows", o.max_rows},
          {"max_cols", o.max_cols}, {"rows_multiple", o.rows_multiple}, {"cols_multiple", o.cols_multiple}};
}

Json to_json(const SoakCount& s) {
  Json j{{"minutes", s.minutes}, {"calls", s.calls}, {"failures", s.failures}, {"seconds", s.seconds}};
  if (s.failures == 0 && s.calls > 0) j["failures_a_call_below"] = rule_of_three(s.calls), j["confidence"] = 0.95;
  return j;
}

Json to_json(const GateReport& report, const StatementResult& r) {
  const Counterexample& e = *r.counterexample;
  Json j;
  j["kind"] = to_text(e.finding.kind);
  j["summary"] = e.finding.summary;
  j["element"] = e.finding.element;
  if (e.finding.difference) {
    const Difference& d = *e.finding.difference;
    j["tensor"] = d.tensor.name;
    j["differing"] = d.count;
    j["total"] = d.total;
    j["first"] = {d.first.row, d.first.col};
    if (!d.first_alone) j["worst"] = {d.worst.row, d.worst.col};
    j["pattern"] = d.pattern;
    j["histogram"] = d.histogram;
  }
  j["matches"] = e.finding.matches;
  j["case"] = to_text(e.minimal);
  j["original"] = to_text(e.original);
  j["rows"] = e.minimal.rows;
  j["cols"] = e.minimal.cols;
  j["shrink_tries"] = e.shrink_tries;
  j["shrink_budget_spent"] = e.shrink_budget_spent;
  j["again"] = again_command(report, r);
  if (e.reproduction) {
    j["fresh_process"] = {{"reproduced", e.reproduction->reproduced}, {"after", Json::array()}};
    for (const Preceding& p : e.reproduction->after) j["fresh_process"]["after"].push_back(to_text(p, *r.statement));
    if (e.reproduction->of > 0)
      j["fresh_process"]["seen"] = e.reproduction->seen, j["fresh_process"]["of"] = e.reproduction->of;
  }
  return j;
}

Json bins_json(const AxisCount& axis) {
  Json bins = Json::array();
  for (const BinCount& bin : axis.bins) {
    bins.push_back({{"bin", bin.label},
                    {"checked", bin.checked},
                    {"refused", bin.refused},
                    {"nothing_claimed", bin.nothing_claimed}});
  }
  return bins;
}

Json counts_json(const TupleCounts& counts) {
  return {{"possible", counts.possible},
          {"checked", counts.checked},
          {"set_aside", counts.refused},
          {"excluded", counts.excluded}};
}

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

Json to_json(const CoverageReport& r) {
  Json j;
  j["operation"] = r.operation;
  j["axes"] = Json::array();
  for (const AxisCount& axis : r.axes) j["axes"].push_back({{"axis", axis.name}, {"bins", bins_json(axis)}});
  j["pairs"] = counts_json(r.pairs);
  j["triples"] = counts_json(r.triples);
  j["layers"] = bins_json(r.layers);
  j["layer_uses"] = counts_json(r.layer_uses);
  j["missed"] = r.missed;
  return j;
}

std::string report_json(const GateReport& report) {
  Json j;
  j["schema"] = "mxcheck.gate/1";
  j["exit_code"] = exit_code(report);
  j["seed"] = report.seed;
  j["suite"] = report.suite;
  j["interrupted"] = report.interrupted;
  j["seconds"] = report.seconds;
  if (const FirstCallCount& f = report.first_calls; f.calls != 0) {
    j["first_calls"] = {
        {"calls", f.calls}, {"seconds", f.seconds}, {"longest", f.longest}, {"longest_kind", f.longest_kind}};
  }
  j["candidate"] = {{"name", report.candidate.name},
                    {"version", report.candidate.version},
                    {"path", report.candidate.path},
                    {"digest", report.candidate.digest}};
  j["candidate"]["operations"] = Json::array();
  for (const OperationInfo& o : report.candidate.operations) j["candidate"]["operations"].push_back(to_json(o));
  if (report.soak) j["soak"] = to_json(*report.soak);
  if (!report.one_case) j["not_seen"] = not_seen(report);
  if (!report.candidate.unconfined.empty()) j["candidate"]["unconfined"] = report.candidate.unconfined;
  if (!report.ends.empty()) j["ends"] = report.ends;
  for (const auto& [key, value] : report.machine) j["machine"][key] = value;
  j["variants"] = Json::array();
  for (const Variant& v : report.variants) j["variants"].push_back(to_text(v));
  j["statements"] = Json::array();
  for (const StatementResult& r : report.statements) {
    Json s;
    s["name"] = r.statement->name;
    s["verdict"] = word(r.verdict);
    s["reason"] = r.reason;
    s["cases"] = r.cases;
    s["nothing_claimed"] = r.nothing_claimed;
    s["options_not_offered"] = r.options_not_offered;
    s["variants"] = r.variants;
    s["seconds"] = r.seconds;
    s["not_offered"] = not_offered(r);
    if (report.soak) s["calls"] = r.calls, s["failures"] = r.failures;
    s["coverage"] = Json::array();
    for (const CoverageReport& coverage : r.coverage) s["coverage"].push_back(to_json(coverage));
    if (r.counterexample) s["counterexample"] = to_json(report, r);
    j["statements"].push_back(std::move(s));
  }
  return j.dump(2) + "\n";
}

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

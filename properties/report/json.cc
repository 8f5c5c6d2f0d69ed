// A report as JSON: docs/gate.schema.json is its schema, properties/merge/merge.h reads it.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "properties/gate/gate.h"
#include "properties/report/report.h"

namespace mxcheck {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::held: return "held";
    case Verdict::failed: return "failed";
    case Verdict::not_offered: return "not_offered";
    case Verdict::inconclusive: return "inconclusive";
  }
  return "";
}

OrderedJson to_json(const OperationInfo& o) {
  OrderedJson j{{"name", o.name},         {"contract", o.contract},           {"max_rows", o.max_rows},
                {"max_cols", o.max_cols}, {"rows_multiple", o.rows_multiple}, {"cols_multiple", o.cols_multiple}};
  if (!o.listed.empty()) j["claimed_for"] = o.listed;
  return j;
}

OrderedJson to_json(const SoakCount& s) {
  OrderedJson j{{"minutes", s.minutes}, {"calls", s.calls}, {"failures", s.failures}, {"seconds", s.seconds}};
  if (s.failures == 0 && s.calls > 0) j["failures_a_call_below"] = rule_of_three(s.calls), j["confidence"] = 0.95;
  return j;
}

OrderedJson to_json(const GateReport& report, const StatementResult& r, const OtherFault& other) {
  return {{"kind", to_text(other.kind)},
          {"summary", other.finding.summary},
          {"matches", other.finding.matches},
          {"matched_elements", other.finding.matched},
          {"matched_others", other.finding.matched_others},
          {"element", other.finding.element},
          {"case", to_text(other.minimal)},
          {"again", reproduce_command(report, r, other.minimal)}};
}

OrderedJson to_json(const GateReport& report, const StatementResult& r) {
  const Counterexample& e = *r.counterexample;
  OrderedJson j;
  j["kind"] = to_text(e.finding.kind);
  j["summary"] = e.finding.summary;
  j["element"] = e.finding.element;
  if (e.finding.difference) {
    const Difference& d = *e.finding.difference;
    j["tensor"] = d.tensor.name;
    j["tensor_rows"] = d.tensor.rows, j["tensor_cols"] = d.tensor.cols;
    j["differing"] = d.count;
    j["total"] = d.total;
    j["first"] = {d.first.row, d.first.col};
    if (!d.first_alone) {
      j["last"] = {d.last.row, d.last.col};
      j["worst"] = {d.worst.row, d.worst.col};
    }
    j["neighbours"] = d.neighbours;
    j["pattern"] = d.pattern;
    j["histogram"] = d.histogram;
  }
  j["matches"] = e.finding.matches;
  j["matched_elements"] = e.finding.matched;
  j["matches_case_as_found"] = e.finding.matches_case_as_found;
  j["likely"] = e.finding.likely;
  j["matched_others"] = e.finding.matched_others;
  j["case"] = to_text(e.minimal);
  j["original"] = to_text(e.original);
  j["rows"] = e.minimal.rows;
  j["cols"] = e.minimal.cols;
  j["shrink_tries"] = e.shrink_tries;
  j["shrink_budget_spent"] = e.shrink_budget_spent;
  if (!e.gpu.empty()) j["gpu"] = e.gpu;
  j["again"] = again_command(report, r);
  if (e.reproduction) {
    j["fresh_process"] = {{"reproduced", e.reproduction->reproduced}, {"after", OrderedJson::array()}};
    for (const Preceding& p : e.reproduction->after) j["fresh_process"]["after"].push_back(to_text(p, *r.statement));
    if (e.reproduction->of > 0)
      j["fresh_process"]["seen"] = e.reproduction->seen, j["fresh_process"]["of"] = e.reproduction->of;
  }
  for (const OtherFault& other : e.others) j["others"].push_back(to_json(report, r, other));
  return j;
}

// met_alone: of a shard, which says nothing of the bins that others have met.
OrderedJson bins_json(const AxisCount& axis, bool met_alone) {
  OrderedJson bins = OrderedJson::array();
  for (const BinCount& bin : axis.bins) {
    if (met_alone && bin.checked + bin.refused + bin.not_applicable == 0) continue;
    bins.push_back({{"bin", bin.label},
                    {"checked", bin.checked},
                    {"refused", bin.refused},
                    {"not_applicable", bin.not_applicable}});
  }
  return bins;
}

OrderedJson counts_json(const TupleCounts& counts) {
  return {{"possible", counts.possible},
          {"checked", counts.checked},
          {"set_aside", counts.refused},
          {"excluded", counts.excluded}};
}

// The part of a shard's report that the statement's verdict is made of when all shards are there.
OrderedJson to_merge_json(const StatementResult& r) {
  OrderedJson states = OrderedJson::array();
  for (const PartStates& p : r.states)
    states.push_back(
        {{"operation", p.operation}, {"covering", p.covering}, {"triples", p.triples}, {"layers", p.layers}});
  std::string variants;
  for (const VariantCount& v : r.by_variant) {
    if (v.checked + v.refused + v.not_applicable > 0)
      variants +=
          fmt::format("{}{}:{}/{}/{}", variants.empty() ? "" : ",", v.variant, v.checked, v.refused, v.not_applicable);
  }
  OrderedJson j{{"states", std::move(states)}, {"cases_by_variant", variants}};
  if (r.refused_options) j["refused_options"] = *r.refused_options;
  return j;
}

OrderedJson to_json(const CoverageReport& r, bool met_alone) {
  OrderedJson j;
  j["operation"] = r.operation;
  j["axes"] = OrderedJson::array();
  for (const AxisCount& axis : r.axes) j["axes"].push_back({{"axis", axis.name}, {"bins", bins_json(axis, met_alone)}});
  j["pairs"] = counts_json(r.pairs);
  j["triples"] = counts_json(r.triples);
  j["layers"] = bins_json(r.layers, met_alone);
  j["layer_uses"] = counts_json(r.layer_uses);
  j["missed"] = r.missed;
  j["without_case"] = r.without_case;
  return j;
}

}  // namespace

std::string report_json(const GateReport& report) {
  OrderedJson j;
  j["schema"] = "mxcheck.gate/1";
  j["exit_code"] = exit_code(report);
  j["seed"] = report.seed;
  j["suite"] = report.suite;
  j["arguments"] = report.arguments;
  j["random_cases"] = report.random_cases;
  j["selective"] = report.selective;
  j["one_case"] = report.one_case;
  if (!report.shard.is_whole())
    j["shard"] = {
        {"index", report.shard.index + 1}, {"count", report.shard.count}, {"may_be_empty", report.shard.may_be_empty}};
  for (const int shard : report.missing_shards) j["missing_shards"].push_back(shard + 1);
  j["interrupted"] = report.interrupted;
  for (const Statement* s : report.not_begun) j["not_begun"].push_back(s->name);
  j["seconds"] = report.seconds;
  if (const FirstCallCount& f = report.first_calls; f.calls != 0) {
    j["first_calls"] = {
        {"calls", f.calls}, {"seconds", f.seconds}, {"longest", f.longest}, {"longest_kind", f.longest_kind}};
  }
  j["candidate"] = {{"name", report.candidate.name},
                    {"version", report.candidate.version},
                    {"path", report.candidate.path},
                    {"digest", report.candidate.digest},
                    {"cuda", report.candidate.cuda}};
  j["candidate"]["operations"] = OrderedJson::array();
  for (const OperationInfo& o : report.candidate.operations) j["candidate"]["operations"].push_back(to_json(o));
  if (report.soak) j["soak"] = to_json(*report.soak);
  if (!report.one_case) j["not_seen"] = not_seen(report);
  if (!report.candidate.unconfined.empty()) j["candidate"]["unconfined"] = report.candidate.unconfined;
  if (!report.ends.empty()) j["ends"] = report.ends;
  for (const auto& [key, value] : report.machine) j["machine"][key] = value;
  j["variants"] = OrderedJson::array();
  for (const Variant& v : report.variants) j["variants"].push_back(to_text(v));
  j["statements"] = OrderedJson::array();
  for (const StatementResult& r : report.statements) {
    OrderedJson s;
    s["name"] = r.statement->name;
    s["verdict"] = word(r.verdict);
    s["reason"] = r.reason;
    s["cases"] = r.cases;
    s["not_applicable"] = r.not_applicable;
    s["options_not_offered"] = r.options_not_offered;
    s["variants"] = r.variants;
    s["seconds"] = r.seconds;
    s["not_offered"] = not_offered(r);
    if (report.soak) s["calls"] = r.calls, s["failures"] = r.failures;
    s["coverage"] = OrderedJson::array();
    for (const CoverageReport& coverage : r.coverage)
      s["coverage"].push_back(to_json(coverage, !report.shard.is_whole()));
    if (!report.shard.is_whole()) s["to_merge"] = to_merge_json(r);
    if (r.counterexample) s["counterexample"] = to_json(report, r);
    j["statements"].push_back(std::move(s));
  }
  return j.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace mxcheck

#include "properties/report/page/page.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "numerics/text.h"
#include "properties/core/check.h"
#include "properties/report/coverage_text.h"
#include "properties/report/markup.h"
#include "properties/report/page/coverage_map.h"
#include "properties/report/page/failure.h"
#include "properties/report/page/grid.h"
#include "properties/report/page/pictures.h"
#include "properties/report/page/states.h"
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

namespace {

// The tensor that the finding is about, or, where that does not differ from the reference's, the first that does.
std::optional<DifferingTensor> differing(const std::optional<ExampleTensors>& tensors, const std::string& wanted) {
  if (!tensors) return std::nullopt;
  std::optional<DifferingTensor> other;
  for (const ExpectedTensor& expected : tensors->expected) {
    for (const ExampleTensors::Observed& observed : tensors->observed) {
      const bool is_same = observed.info.name == expected.info.name && observed.bytes.size() == expected.bytes.size();
      if (!is_same || !compare(expected.info, expected.bytes, observed.bytes, kPoisons[0])) continue;
      DifferingTensor t{expected.info, expected.bytes, observed.bytes};
      if (expected.info.name == wanted) return t;
      if (!other) other = t;
    }
  }
  return other;
}

std::string size_of(const TensorInfo& info) {
  return fmt::format("{}, {} x {}", escaped_markup(info.name), info.rows, info.cols);
}

std::string map_of(const char* what, const DifferingTensor& t) {
  const std::optional<Difference> d = compare(t.info, t.expected, t.observed, kPoisons[0]);
  if (!d) return "";
  return fmt::format(
      "<div><h3>{}: {}</h3>\n<p class=\"note\">{} of {} elements differ{}</p>\n<div class=\"wide\">{}</div></div>\n",
      what, size_of(t.info), grouped(d->count), grouped(d->total),
      d->pattern.empty() ? "" : ": " + escaped_markup(d->pattern), wrong_map(t));
}

std::string pictures_of(const Counterexample& e, const ExamplePictures& pictures) {
  const std::string wanted = e.finding.difference ? e.finding.difference->tensor.name : "";
  const std::optional<DifferingTensor> minimal = differing(pictures.minimal, wanted);
  const std::optional<DifferingTensor> original = differing(pictures.original, wanted);
  std::string maps;
  if (original) maps += map_of("As it was found", *original);
  if (minimal) maps += map_of(original ? "The smallest case" : "The case", *minimal);
  if (e.finding.difference && !e.finding.difference->histogram.empty())
    maps += "<div><h3>Steps off, of the smallest case</h3>\n" + step_bars(*e.finding.difference) + "</div>\n";
  std::string out = maps.empty() ? "" : "<div class=\"pair\">\n" + maps + "</div>\n";
  if (minimal) {
    out +=
        "<h3>Bits around the first wrong element: expected above observed</h3>\n<p class=\"note\">Filled: 1. Gaps part "
        "sign, exponent and mantissa. Red: this bit differs.</p>\n<div class=\"wide\">" +
        block_bits(*minimal) + "</div>\n";
  }
  return out;
}

}  // namespace

std::string failure_section(const GateReport& report, const StatementResult& r, const ExamplePictures& pictures) {
  const Counterexample& e = *r.counterexample;
  std::string text = counterexample_text(report, r, pictures.saved);
  text.erase(0, text.find_first_not_of('\n'));
  std::string out = fmt::format(
      "<section class=\"failure\" id=\"{0}\"><h3 class=\"mono\">{0}</h3>\n<p>must hold: {1} <span "
      "class=\"soft\">({2})</span></p>\n"
      "<p><strong class=\"bad\">{3}</strong></p>\n",
      escaped_markup(r.statement->name), escaped_markup(r.statement->sentence), escaped_markup(r.statement->source),
      escaped_markup(e.finding.summary));
  if (!e.finding.matches.empty()) {
    out += "<p>the observed bytes are exactly those of <strong>" + escaped_markup(join(e.finding.matches)) +
           "</strong></p>\n";
  }
  out += pictures_of(e, pictures);
  out += "<h3>The counterexample</h3>\n<pre>" + escaped_markup(text) + "</pre>\n";
  if (const std::string why = not_reproduced(e); !why.empty()) out += "<p>" + escaped_markup(why) + "</p>\n";
  out += "<h3>Run it again</h3>\n<pre class=\"command\">" + escaped_markup(again_command(report, r)) + "</pre>\n";
  return out + "</section>\n";
}

namespace {

constexpr std::size_t kMostCases = 10;

std::string slowest_cases(const GateReport& report) {
  struct Line {
    const StatementResult* statement;
    const SlowCase* slow;
  };
  std::vector<Line> lines;
  for (const StatementResult& r : report.statements) {
    for (const SlowCase& slow : r.slowest) lines.push_back({&r, &slow});
  }
  if (lines.empty()) return "";
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.slow->seconds > b.slow->seconds; });
  if (lines.size() > kMostCases) lines.resize(kMostCases);
  std::string rows;
  for (const Line& line : lines) {
    rows += fmt::format(
        "<tr><td class=\"n\">{:.3f} s</td><td><span class=\"mono\">{}</span><div class=\"note mono\">{}</div></td>"
        "</tr>\n",
        line.slow->seconds, escaped_markup(line.statement->statement->name), escaped_markup(to_text(line.slow->c)));
  }
  return "<h3>Slowest cases</h3>\n<p class=\"note\">The candidate's calls, the reference's answer and the comparison "
         "together."
         "</p>\n<div class=\"wide\"><table class=\"times\"><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

}  // namespace

std::string time_section(const GateReport& report) {
  std::vector<const StatementResult*> order;
  for (const StatementResult& r : report.statements) {
    if (r.seconds > 0) order.push_back(&r);
  }
  if (order.empty()) return "";
  std::stable_sort(order.begin(), order.end(),
                   [](const StatementResult* a, const StatementResult* b) { return a->seconds > b->seconds; });
  std::string rows;
  for (const StatementResult* r : order) {
    const double width = std::max(1.0, 240 * r->seconds / order.front()->seconds);
    const double each = r->cases > 0 ? 1000 * r->seconds / static_cast<double>(r->cases) : 0;
    rows += fmt::format(
        "<tr><td class=\"n\">{:.2f} s</td><td><svg role=\"img\" viewBox=\"0 0 240 12\"><title>{:.2f} s</title><rect "
        "class=\"bar\" x=\"0\" y=\"2\" width=\"{:.1f}\" height=\"9\"/></svg></td><td class=\"name mono\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        r->seconds, r->seconds, width, breakable(r->statement->name), grouped(r->cases),
        r->cases > 0 ? fmt::format("{:.2f} ms", each) : "-");
  }
  return fmt::format(
             "<details{}><summary>{} statements, {:.1f} s of the clock</summary><div class=\"wide\"><table "
             "class=\"times\"><thead><tr>"
             "<th class=\"n\">time</th><th></th><th>statement</th><th class=\"n\">cases</th><th class=\"n\">a "
             "case</th></tr>"
             "</thead>\n<tbody>\n",
             order.size() <= 12 ? " open=\"open\"" : "", order.size(), report.seconds) +
         rows + "</tbody></table></div></details>\n" + slowest_cases(report);
}

StateLook look_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::held: return {"held", "held"};
    case Verdict::failed: return {"failed", "FAILED"};
    case Verdict::inconclusive: return {"open", "inconclusive"};
    case Verdict::not_offered: break;
  }
  return {"none", "not offered"};
}

std::string badge(Verdict verdict) {
  const StateLook look = look_of(verdict);
  return fmt::format("<span class=\"badge {}\">{}</span>", look.css, look.word);
}

VariantState state_of(const GateReport& report, const StatementResult& r, const VariantCount& v) {
  if (r.counterexample && report.variants.at(v.variant) == r.counterexample->original.variant)
    return VariantState::failed;
  if (v.checked > 0) return VariantState::held;
  if (v.refused > 0) return VariantState::not_offered;
  return r.verdict == Verdict::held ? VariantState::not_drawn : VariantState::not_reached;
}

StateLook look_of(VariantState state) {
  switch (state) {
    case VariantState::held: return look_of(Verdict::held);
    case VariantState::failed: return look_of(Verdict::failed);
    case VariantState::not_offered: return look_of(Verdict::not_offered);
    case VariantState::not_reached: return {"open", "not reached"};
    case VariantState::not_drawn: break;
  }
  return {"undrawn", "not drawn"};
}

}  // namespace mxcheck

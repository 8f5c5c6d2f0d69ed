#include "properties/report/report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "numerics/text.h"
#include "pages/html.h"
#include "pages/svg.h"
#include "properties/core/check.h"
#include "properties/report/pictures.h"

namespace mxcheck {
namespace {

// Styles that html::kBaseStyle lacks. The four states of a statement differ in lightness and texture as well as in hue,
// so that they are told apart without colour vision and on paper.
constexpr std::string_view kStyle = R"(
:root { --none: #d4d5da; --h0: #f4f4f3; --h1: #e3edf8; --h2: #c3d9f1; --h3: #94bce6; --h4: var(--bar); --h5: #2a6fb8;
  --on: #ffffff; --bit: #4a4c53; }
@media (prefers-color-scheme: dark) { :root { --none: #45474e; --h0: #222429; --h1: #1d2b3b; --h2: #21405f; --h3: #285b8c;
  --h5: #7db8f0; --on: #0e0f11; --bit: #c3c5cc; } }
pre.command { user-select: all; } pre.command, .verdict pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.verdict pre { border: 0; background: none; padding: 0; font-size: 14px; } svg { display: block; }
dl { columns: 2 26em; column-gap: 32px; margin: 12px 0; } dl div { display: flex; gap: 12px; break-inside: avoid;
  padding: 1px 0; }
dt { color: var(--soft); flex: 0 0 6.5em; } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
td.name { overflow-wrap: anywhere; min-width: 26em; max-width: 30em; }
@media (max-width: 640px) { pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  td.name { min-width: 0; flex: 1 1 58%; } td.strips { flex: 1 0 100%; } dl { columns: auto; } }
.badge { font-size: 12px; font-weight: 600; white-space: nowrap; } .badge::before { content: ""; display: inline-block;
  width: 10px; height: 10px; margin-right: 6px; border-radius: 2px; background: var(--none); }
.badge.held::before { background: var(--good); } .badge.failed::before { background: var(--bad);
  border-radius: 50%; }
.badge.open::before { background: var(--doubt); clip-path: polygon(50% 0, 100% 100%, 0 100%); }
.badge.none::before { background: none; border: 1.5px solid var(--soft); }
.strip { display: flex; gap: 10px; align-items: center; font-size: 12px; line-height: 1.35; color: var(--soft); }
.strip svg { flex: 0 0 132px; width: 132px; height: 14px; } .held { fill: var(--good); } .failed { fill: var(--bad); }
.open { fill: url(#hatch); } .none { fill: var(--none); } .undrawn { fill: var(--soft); }
.hatch { stroke: var(--doubt); stroke-width: 1.2; }
.share { width: 100%; height: 18px; margin: 10px 0 4px; } .key svg { display: inline-block; width: 22px; height: 14px;
  margin-right: 6px; vertical-align: -2px; }
.met { fill: var(--h4); } .few { fill: var(--h2); } .refused { fill: var(--none); } .unmet { fill: url(#hatch); }
.left { fill: var(--h0); }
.axis { display: grid; grid-template-columns: 13em 1fr; gap: 2px 10px; padding: 3px 0;
  border-bottom: 1px solid var(--rule); }
.axis > span { color: var(--soft); font-size: 13px; } .cells { display: flex; flex-wrap: wrap; gap: 2px; }
.cells i { font: 11.5px/1.25 system-ui, "Liberation Sans", sans-serif; padding: 2px 6px; border-radius: 3px;
  border: 1.5px solid transparent;
  background: var(--h0); max-width: 22em; overflow-wrap: anywhere; } .cells b { font-weight: 600; margin-left: 5px; }
.cells .h1 { background: var(--h1); } .cells .h2 { background: var(--h2); } .cells .h3 { background: var(--h3); }
.cells .h4 { background: var(--h4); color: #101114; } .cells .h5 { background: var(--h5); color: var(--on); }
.cells .few { border: 1.5px dashed var(--soft); } .cells .unmet { border: 1.5px solid var(--doubt); color: var(--doubt); }
.cells .left { color: var(--soft); } .cells .refused { color: var(--soft); text-decoration: line-through; }
.failure { border-top: 1px solid var(--rule); margin-top: 16px; }
.pair { display: flex; flex-wrap: wrap; gap: 14px 40px; align-items: flex-start; } .pair > div { min-width: 0;
  max-width: 100%; }
svg text { font: 11px ui-monospace, "Liberation Mono", "DejaVu Sans Mono", monospace; fill: var(--soft); }
  svg text.ink { fill: var(--ink); }
svg text.bad { fill: var(--bad); font-weight: 700; } .cell { fill: var(--h1); } .frame { fill: none;
  stroke: var(--soft); }
.blocks { stroke: var(--rule); stroke-width: 1; } .wrong { fill: var(--bad); }
.b0 { fill: var(--card); stroke: var(--bit); stroke-width: 0.8; } .b1 { fill: var(--bit); stroke: var(--bit);
  stroke-width: 0.8; }
.x0 { fill: var(--card); stroke: var(--bad); stroke-width: 1.6; } .x1 { fill: var(--bad); stroke: var(--bad);
  stroke-width: 1.6; }
.times td.name { max-width: 34em; } .times svg { width: 240px; height: 12px; } .time { fill: var(--soft); }
@media print { pre { white-space: pre-wrap; } details { display: block; } }
)";

// The hatching of what is open.
constexpr std::string_view kHatch =
    "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" "
    "width=\"4\" "
    "height=\"4\" patternUnits=\"userSpaceOnUse\"><path class=\"hatch\" d=\"M0 4L4 0M-1 1L1 -1M3 5L5 "
    "3\"/></pattern></defs>"
    "</svg>\n";

// Failed statements that have a cause in common.
struct Diagnosis {
  std::string cause;
  std::vector<const StatementResult*> statements;
};

// By the name of the cause. A case that two causes give belongs to that of the two which another case tells apart.
std::vector<Diagnosis> diagnoses_of(const GateReport& report) {
  std::vector<Diagnosis> all;
  for (const bool of_several : {false, true}) {
    for (const StatementResult& r : report.statements) {
      if (!r.counterexample) continue;
      const Finding& f = r.counterexample->finding;
      if ((f.matches.size() > 1) != of_several) continue;
      const auto is_one = [&](const std::string& name) {
        return std::ranges::find(f.matches, name) != f.matches.end();
      };
      const std::string key = f.matches.empty() ? f.summary : join(f.matches, "; ");
      const auto same =
          std::ranges::find_if(all, [&](const Diagnosis& d) { return d.cause == key || is_one(d.cause); });
      same == all.end() ? (void)all.push_back({key, {&r}}) : same->statements.push_back(&r);
    }
  }
  return all;
}

// The cause in one sentence, or else what differs.
std::string sentence_of(const Finding& f) {
  const std::string cause = cause_text(f);
  if (!f.matches.empty() || cause == f.summary) return cause;
  return cause.empty() ? f.summary : f.summary + "; cause: " + cause;
}

std::string label_of(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  return std::string(line.substr(begin, line.find(' ', begin) - begin));
}

// "expected  0xfa = ..." and "observed  0xfb = ...", with their place.
std::string element_of(const Finding& f) {
  std::string lines;
  for (const std::string& line : f.element) {
    const std::string label = label_of(line);
    if (label == "place" || label == "expected" || label == "observed") lines += line + "\n";
  }
  return lines.empty() ? "" : "<pre>" + html::escaped(lines) + "</pre>\n";
}

std::string links_to(const Diagnosis& d) {
  return join(d.statements, ", ", [](const StatementResult* r) {
    return fmt::format("<a class=\"mono\" href=\"#{}\">{}</a>", html::escaped(r->statement->name),
                       html::breakable(r->statement->name));
  });
}

std::int64_t cases_of(const GateReport& report) {
  std::int64_t cases = 0;
  for (const StatementResult& r : report.statements) cases += r.cases;
  return cases;
}

// The first cause and its element; then the other causes, each with its statements.
std::string verdict_box(const GateReport& report, const std::vector<Diagnosis>& diagnoses) {
  const int code = exit_code(report);
  const bool failed = code == 1 || code == 6;
  const char* css = code == 0 ? "good" : failed ? "bad" : "doubt";
  const char* word = code == 0                                        ? "HELD"
                     : failed                                         ? "FAILED"
                     : code == spec(ErrorKind::environment).exit_code ? "NOT WRITTEN"
                                                                      : "INCONCLUSIVE";
  const std::string exit = fmt::format("exit code {}: {}", code, exit_meaning(report));
  std::string more;
  for (const Diagnosis& d : diagnoses) {
    const Finding& f = d.statements.front()->counterexample->finding;
    const bool first = &d == &diagnoses.front();
    if (!first) more += "<p>" + html::escaped(sentence_of(f)) + "</p>\n";
    more += (first ? element_of(f) : "") + "<p class=\"note\">in " + links_to(d) + "</p>\n";
  }
  for (const std::string& end : report.ends)
    more += "<p class=\"bad\">after all statements: " + html::escaped(end) + "</p>\n";
  if (report.interrupted)
    more += "<p class=\"doubt\">interrupted: " + html::escaped(interrupted_text(report)) + "</p>\n";
  const std::string run =
      fmt::format("{}; suite {}, {} cases", report.candidate.path, report.suite, html::grouped(cases_of(report)));
  if (diagnoses.empty()) return html::verdict(css, word, exit, more + html::note(run));
  return html::verdict(css, word, sentence_of(diagnoses.front().statements.front()->counterexample->finding),
                       more + html::note(exit + "; " + run));
}

std::string facts(const GateReport& report) {
  std::string rows;
  const auto row = [&](const std::string& name, const std::string& value) {
    rows += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html::escaped(name), html::escaped(value));
  };
  row("candidate", report.candidate.name + " " + report.candidate.version);
  row("library", report.candidate.path);
  row("digest", report.candidate.digest);
  row("suite", report.suite);
  row("seed", std::to_string(report.seed));
  row("checked", fmt::format("{} cases, {:.1f} s; {} variant{} offered", html::grouped(cases_of(report)),
                             report.seconds, html::grouped(static_cast<std::int64_t>(report.variants.size())),
                             report.variants.size() == 1 ? "" : "s"));
  for (const auto& [key, value] : report.machine) row(key, value);
  if (!report.candidate.unconfined.empty())
    row("not confined", "missing here, to keep the candidate's process from the gate: " + report.candidate.unconfined);
  return "<dl>\n" + rows + "</dl>\n";
}

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
  return fmt::format("{}, {} x {}", html::escaped(info.name), info.rows, info.cols);
}

// Nothing of a tensor of one element, which its bits show.
std::string map_of(const char* what, const DifferingTensor& t) {
  const std::optional<Difference> d = compare(t.info, t.expected, t.observed, kPoisons[0]);
  if (!d || d->total == 1) return "";
  return fmt::format("<div><h3>{}: {}</h3>\n<p class=\"note\">{} of {} elements differ{}</p>\n{}</div>\n", what,
                     size_of(t.info), html::grouped(d->count), html::grouped(d->total),
                     d->pattern.empty() ? "" : ": " + html::escaped(d->pattern), html::wide(wrong_map(t)));
}

std::string pictures_of(const Counterexample& e, const ExamplePictures& pictures) {
  const std::string wanted = e.finding.difference ? e.finding.difference->tensor.name : "";
  const std::optional<DifferingTensor> minimal = differing(pictures.minimal, wanted);
  const std::optional<DifferingTensor> original = differing(pictures.original, wanted);
  std::string maps;
  if (original) maps += map_of("As it was found", *original);
  if (minimal) maps += map_of(original ? "The smallest case" : "The case", *minimal);
  if (e.finding.difference && e.finding.difference->count > 1 && !e.finding.difference->histogram.empty())
    maps += "<div><h3>Steps off, of the smallest case</h3>\n" + step_bars(*e.finding.difference) + "</div>\n";
  std::string out = maps.empty() ? "" : "<div class=\"pair\">\n" + maps + "</div>\n";
  if (minimal) {
    out += html::note(
               "Bits, expected above observed. Filled: 1. Gaps part sign, exponent and mantissa. Red: it differs.") +
           html::wide(block_bits(*minimal));
  }
  return out;
}

// The counterexample's lines but for those that the page has elsewhere.
std::string lines_of(const std::string& counterexample) {
  std::string lines;
  for (std::size_t at = 0; at < counterexample.size();) {
    const std::size_t end = counterexample.find('\n', at);
    const std::string line = counterexample.substr(at, end - at);
    const std::string label = label_of(line);
    bool elsewhere = line.empty() || line[0] != ' ';
    for (const char* other : {"cause", "must", "source", "found", "again", "seed", "candidate"})
      elsewhere = elsewhere || label == other;
    if (!elsewhere) lines += line.substr(2) + "\n";
    at = end == std::string::npos ? end : end + 1;
  }
  return lines;
}

// is_first: of those with the same cause. The others are closed.
std::string failure_section(const GateReport& report, const StatementResult& r, const ExamplePictures& pictures,
                            bool is_first) {
  const Counterexample& e = *r.counterexample;
  std::string out = fmt::format(
      "<section class=\"failure\" id=\"{0}\"><h3 class=\"mono\">{0}</h3>\n<p "
      "class=\"bad\">{1}</p>\n",
      html::escaped(r.statement->name), html::escaped(sentence_of(e.finding)));
  if (!e.finding.matches.empty()) out += "<p>found: " + html::escaped(e.finding.summary) + "</p>\n";
  out += fmt::format("<p>must hold: {} <span class=\"soft\">({})</span></p>\n", html::escaped(r.statement->sentence),
                     html::escaped(r.statement->source));
  std::string body = pictures_of(e, pictures);
  body += "<pre>" + html::escaped(lines_of(counterexample_text(report, r, pictures.saved))) + "</pre>\n";
  if (const std::string why = not_reproduced(e); !why.empty()) body += "<p>" + html::escaped(why) + "</p>\n";
  body += "<pre class=\"command\">" + html::escaped(again_command(report, r)) + "</pre>\n";
  return out + html::details("the counterexample, and the command that meets it again", body, is_first) +
         "</section>\n";
}

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
  html::Table table{.css = "times"};
  for (const Line& line : lines) {
    const std::string name =
        fmt::format("<span class=\"mono\">{}</span><div class=\"note mono\">{}</div>",
                    html::escaped(line.statement->statement->name), html::escaped(to_text(line.slow->c)));
    table.rows.push_back({{html::text(fmt::format("{:.3f} s", line.slow->seconds), "n"), {name}}, ""});
  }
  return "<h3>Slowest cases</h3>\n" +
         html::note("The candidate's calls, the reference's answer and the comparison together.") +
         html::wide(html::table(table));
}

std::string time_section(const GateReport& report) {
  std::vector<const StatementResult*> order;
  for (const StatementResult& r : report.statements) {
    if (r.seconds > 0) order.push_back(&r);
  }
  if (order.empty()) return "";
  std::stable_sort(order.begin(), order.end(),
                   [](const StatementResult* a, const StatementResult* b) { return a->seconds > b->seconds; });
  html::Table table{.head = {html::text("time", "n"), html::text(""), html::text("statement"), html::text("cases", "n"),
                             html::text("a case", "n")},
                    .css = "times fold"};
  for (const StatementResult* r : order) {
    const std::string seconds = fmt::format("{:.2f} s", r->seconds);
    const double each = r->cases > 0 ? 1000 * r->seconds / static_cast<double>(r->cases) : 0;
    svg::Drawing d;
    d.rect(0, 2, std::max(1.0, 240 * r->seconds / order.front()->seconds), 9, {.css = "time"});
    const svg::Picture bar{.title = seconds, .width = 240, .height = 12, .sizing = svg::Sizing::of_page};
    table.rows.push_back({{html::text(seconds, "n"),
                           {d.picture(bar)},
                           {html::breakable(r->statement->name), "name mono"},
                           html::text(html::grouped(r->cases), "n"),
                           html::text(r->cases > 0 ? fmt::format("{:.2f} ms", each) : "-", "n")},
                          ""});
  }
  const std::string summary = fmt::format("{} statements, {:.1f} s of the clock", order.size(), report.seconds);
  return html::details(summary, html::wide(html::table(table)), order.size() <= 12) + slowest_cases(report);
}

std::string failures(const GateReport& report, const std::vector<Diagnosis>& diagnoses,
                     const std::map<std::string, ExamplePictures>& pictures) {
  std::string out;
  for (const Diagnosis& d : diagnoses) {
    for (const StatementResult* r : d.statements) {
      const auto found = pictures.find(std::string(r->statement->name));
      out += failure_section(report, *r, found == pictures.end() ? ExamplePictures{} : found->second,
                             r == d.statements.front());
    }
  }
  return out;
}

// The limits of the verdict.
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
  return part("No case is beyond the limits that the library declares", html::list(limits)) +
         part("Options that it refuses", html::list(refused)) +
         part("Faults that this suite finds only by chance", html::list(not_seen(report)));
}

std::string again(const GateReport& report) {
  if (report.one_case) return "";
  return "<pre class=\"command\">" + html::escaped(run_command(report)) + "</pre>\n";
}

}  // namespace

std::string gate_page(const GateReport& report, const std::map<std::string, ExamplePictures>& pictures) {
  const std::vector<Diagnosis> diagnoses = diagnoses_of(report);
  std::string out = verdict_box(report, diagnoses) + std::string(kHatch);
  out += html::section("Failures", failures(report, diagnoses, pictures));
  out += html::section("Statements", share_bar(report) + statement_grid(report));
  out += html::section("What was reached", coverage_map(report));
  out += html::section("What was not tried", not_tried(report));
  if (report.soak) out += html::section("Soak", "<pre>" + html::escaped(soak_text(report)) + "</pre>\n");
  out += html::section("Time", time_section(report));
  out += html::section("The run", facts(report) + again(report));
  return html::page("mxcheck gate: " + report.candidate.name + " " + report.candidate.version, kStyle, out);
}

}  // namespace mxcheck

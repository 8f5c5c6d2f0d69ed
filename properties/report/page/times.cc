#include "properties/report/page/times.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "properties/report/markup.h"

namespace mxcheck {
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

}  // namespace mxcheck

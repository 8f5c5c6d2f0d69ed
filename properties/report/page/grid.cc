#include "properties/report/page/grid.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "properties/report/coverage_text.h"
#include "properties/report/markup.h"
#include "properties/report/page/states.h"

namespace mxcheck {
namespace {

constexpr std::array<Verdict, 4> kVerdicts{Verdict::held, Verdict::failed, Verdict::inconclusive, Verdict::not_offered};
constexpr std::array<VariantState, 5> kStates{VariantState::held, VariantState::failed, VariantState::not_reached,
                                              VariantState::not_offered, VariantState::not_drawn};
constexpr double kStripWidth = 132;
constexpr double kLeastWidth = 2.5;  // of the stroke of a variant that failed, among thousands

struct Strip {
  std::string operation;
  std::vector<VariantState> states;
  std::int64_t cases = 0;
};

std::vector<Strip> strips_of(const GateReport& report, const StatementResult& r) {
  std::vector<Strip> strips;
  for (const VariantCount& v : r.by_variant) {
    const std::string& operation = report.variants.at(v.variant).operation;
    if (strips.empty() || strips.back().operation != operation) strips.push_back({operation, {}, 0});
    strips.back().states.push_back(state_of(report, r, v));
    strips.back().cases += v.checked;
  }
  return strips;
}

std::string count_text(const Strip& strip) {
  std::string text;
  for (const VariantState state : kStates) {
    const auto n = std::count(strip.states.begin(), strip.states.end(), state);
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(n), look_of(state).word);
  }
  return text;
}

// Neighbours of one state are one rectangle. A failure is drawn last, and never too narrow to be seen.
std::string strip_svg(const Strip& strip) {
  const double step = kStripWidth / static_cast<double>(strip.states.size());
  const double gap = step >= 4 ? 1 : 0;
  std::string runs, failed;
  for (std::size_t from = 0; from < strip.states.size();) {
    std::size_t to = from + 1;
    while (gap == 0 && to < strip.states.size() && strip.states[to] == strip.states[from]) ++to;
    const VariantState state = strip.states[from];
    double width = step * static_cast<double>(to - from) - gap;
    double x = step * static_cast<double>(from);
    if (state == VariantState::failed && width < kLeastWidth) {
      width = kLeastWidth;
      x = std::min(x, kStripWidth - width);
    }
    (state == VariantState::failed ? failed : runs) +=
        fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>", look_of(state).css, x,
                    state == VariantState::failed ? 0 : 2, width, state == VariantState::failed ? 14 : 10);
    from = to;
  }
  const std::string title = fmt::format("{}: {} variants: {}", strip.operation,
                                        grouped(static_cast<std::int64_t>(strip.states.size())), count_text(strip));
  return fmt::format("<svg role=\"img\" viewBox=\"0 0 {:.0f} 14\"><title>{}</title>{}{}</svg>", kStripWidth,
                     escaped_markup(title), runs, failed);
}

std::string strip_cell(const Strip& strip) {
  return fmt::format("<div class=\"strip\">{}<span>{}: {}; {} case{}</span></div>", strip_svg(strip),
                     escaped_markup(strip.operation), count_text(strip), grouped(strip.cases),
                     strip.cases == 1 ? "" : "s");
}

std::string row(const GateReport& report, const StatementResult& r) {
  std::string said = r.counterexample ? escaped_markup(r.counterexample->finding.summary) : escaped_markup(r.reason);
  for (const std::string& line : not_offered(r)) said += (said.empty() ? "" : "<br/>") + escaped_markup(line);
  std::string strips;
  for (const Strip& strip : strips_of(report, r)) strips += strip_cell(strip);
  const std::string name = r.counterexample ? fmt::format("<a href=\"#{}\">{}</a>", escaped_markup(r.statement->name),
                                                          breakable(r.statement->name))
                                            : breakable(r.statement->name);
  return fmt::format(
      "<tr><td>{}</td><td class=\"name\"><span class=\"mono\">{}</span>{}</td><td "
      "class=\"n\">{}</td><td>{}</td></tr>\n",
      badge(r.verdict), name, said.empty() ? "" : "<div class=\"note\">" + said + "</div>", grouped(r.cases), strips);
}

}  // namespace

std::string statement_grid(const GateReport& report) {
  std::string rows, left_out;
  std::int64_t without = 0;
  for (const StatementResult& r : report.statements) {
    if (r.verdict != Verdict::not_offered) {
      rows += row(report, r);
      continue;
    }
    ++without;
    left_out += fmt::format("<tr><td>{}</td><td class=\"name\"><span class=\"mono\">{}</span></td><td>{}</td></tr>\n",
                            badge(r.verdict), breakable(r.statement->name), escaped_markup(r.reason));
  }
  std::string out = "<p class=\"note\">A stroke is a variant of the operation: format, recipe, block, layout ...</p>\n";
  if (!rows.empty()) {
    out +=
        "<div class=\"wide\"><table>\n<thead><tr><th>state</th><th>statement</th><th class=\"n\">cases</th>"
        "<th>variants by operation</th></tr></thead>\n<tbody>\n" +
        rows + "</tbody></table></div>\n";
  }
  if (without == 0) return out;
  return out + fmt::format(
                   "<details><summary>{} statement{} not offered</summary><div class=\"wide\"><table><tbody>\n{}"
                   "</tbody></table></div></details>\n",
                   without, without == 1 ? "" : "s", left_out);
}

std::string share_bar(const GateReport& report) {
  const auto total = static_cast<double>(std::max<std::size_t>(1, report.statements.size()));
  std::string bars, key;
  double x = 0;
  for (const Verdict verdict : kVerdicts) {
    const auto n = std::count_if(report.statements.begin(), report.statements.end(),
                                 [&](const StatementResult& r) { return r.verdict == verdict; });
    const double width = 1000 * static_cast<double>(n) / total;
    if (n > 0) {
      bars += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"0\" width=\"{:.1f}\" height=\"18\"/>",
                          look_of(verdict).css, x, std::max(2.0, width - 2));
    }
    x += width;
    key += fmt::format("<span>{} {}</span>", badge(verdict), n);
  }
  return "<svg class=\"share\" role=\"img\" viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\"><title>statements by "
         "state</title>" +
         bars + "</svg>\n<div class=\"key\">" + key + "</div>\n";
}

}  // namespace mxcheck

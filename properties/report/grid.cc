// Statements by variants, and how many of them there are of each state.

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "pages/html.h"
#include "pages/svg.h"
#include "properties/report/pictures.h"
#include "properties/report/report.h"

namespace mxcheck {
namespace {

// The four states of a statement, and of a variant under it.
struct StateLook {
  const char* css;   // class
  const char* word;  // "held"
};

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

// A variant under a statement: failed if the counterexample is of it; held where cases of it were checked, whatever
// others did; not offered where all were refused. Without a case it is as the statement: not drawn where that held,
// open where it ended early or is inconclusive.
enum class VariantState { held, failed, not_reached, not_offered, not_drawn };

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
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", html::grouped(n), look_of(state).word);
  }
  return text;
}

// A path for each state, in which neighbours of the state are one rectangle; a thin line where nothing was drawn. A
// failure is drawn last, and never too narrow to be seen.
std::string strip_picture(const Strip& strip) {
  const double step = kStripWidth / static_cast<double>(strip.states.size());
  const double gap = step >= 4 ? 1 : 0;
  svg::Drawing runs, failed;
  std::array<std::string, kStates.size()> paths;
  for (std::size_t from = 0; from < strip.states.size();) {
    std::size_t to = from + 1;
    while (gap == 0 && to < strip.states.size() && strip.states[to] == strip.states[from]) ++to;
    const VariantState state = strip.states[from];
    const double x = step * static_cast<double>(from);
    const double width = step * static_cast<double>(to - from) - gap;
    if (state == VariantState::failed) {
      const double seen = std::max(width, kLeastWidth);
      failed.rect(std::min(x, kStripWidth - seen), 0, seen, 14, {.css = look_of(state).css});
    } else {
      const bool thin = state == VariantState::not_drawn;
      paths[static_cast<std::size_t>(state)] += fmt::format("M{} {}h{}v{}H{}z", svg::number(x), thin ? 6 : 2,
                                                            svg::number(width), thin ? 2 : 10, svg::number(x));
    }
    from = to;
  }
  for (const VariantState state : kStates) {
    const std::string& path = paths[static_cast<std::size_t>(state)];
    if (!path.empty()) runs.path(path, {.css = look_of(state).css});
  }
  runs.add(failed);
  const std::string variants = html::grouped(static_cast<std::int64_t>(strip.states.size()));
  return runs.picture({.title = fmt::format("{}: {} variants: {}", strip.operation, variants, count_text(strip)),
                       .width = kStripWidth,
                       .height = 14,
                       .sizing = svg::Sizing::of_page});
}

std::string strip_cell(const Strip& strip) {
  return fmt::format("<div class=\"strip\">{}<span>{}: {}; {} case{}</span></div>", strip_picture(strip),
                     html::escaped(strip.operation), count_text(strip), html::grouped(strip.cases),
                     strip.cases == 1 ? "" : "s");
}

html::Row row_of(const GateReport& report, const StatementResult& r) {
  std::string said = html::escaped(r.counterexample ? r.counterexample->finding.summary : r.reason);
  for (const std::string& line : not_offered(r)) said += (said.empty() ? "" : "<br/>") + html::escaped(line);
  std::string strips;
  for (const Strip& strip : strips_of(report, r)) strips += strip_cell(strip);
  std::string name = html::breakable(r.statement->name);
  if (r.counterexample) name = fmt::format("<a href=\"#{}\">{}</a>", html::escaped(r.statement->name), name);
  name = "<span class=\"mono\">" + name + "</span>";
  if (!said.empty()) name += "<div class=\"note\">" + said + "</div>";
  return {{{badge(r.verdict)}, {name, "name"}, html::text(html::grouped(r.cases), "n"), {strips, "strips"}}, ""};
}

}  // namespace

std::string statement_grid(const GateReport& report) {
  html::Table table{.head = {html::text("state"), html::text("statement"), html::text("cases", "n"),
                             html::text("variants by operation")},
                    .css = "fold"};
  html::Table left_out{.css = "fold"};
  for (const StatementResult& r : report.statements) {
    if (r.verdict != Verdict::not_offered) {
      table.rows.push_back(row_of(report, r));
    } else {
      const std::string name = "<span class=\"mono\">" + html::breakable(r.statement->name) + "</span>";
      left_out.rows.push_back({{{badge(r.verdict)}, {name, "name"}, html::text(r.reason)}, ""});
    }
  }
  std::string out = html::note(
      "A stroke is a variant of the operation: format, recipe, block, layout ... Green: held; hatched: not reached; "
      "grey: not offered; a thin line: not drawn.");
  if (!table.rows.empty()) out += html::wide(html::table(table));
  const std::size_t without = left_out.rows.size();
  if (without == 0) return out;
  return out + html::details(fmt::format("{} statement{} not offered", without, without == 1 ? "" : "s"),
                             html::wide(html::table(left_out)));
}

std::string share_bar(const GateReport& report) {
  const auto total = static_cast<double>(std::max<std::size_t>(1, report.statements.size()));
  svg::Drawing d;
  std::string key;
  double x = 0;
  for (const Verdict verdict : kVerdicts) {
    const auto n = std::count_if(report.statements.begin(), report.statements.end(),
                                 [&](const StatementResult& r) { return r.verdict == verdict; });
    const double width = 1000 * static_cast<double>(n) / total;
    if (n > 0) d.rect(x, 0, std::max(2.0, width - 2), 18, {.css = look_of(verdict).css});
    x += width;
    key += fmt::format("<span>{} {}</span>", badge(verdict), n);
  }
  return d.picture({.title = "statements by state",
                    .width = 1000,
                    .height = 18,
                    .sizing = svg::Sizing::of_page,
                    .css = "share",
                    .attributes = "preserveAspectRatio=\"none\""}) +
         "<div class=\"key\">" + key + "</div>\n";
}

}  // namespace mxcheck

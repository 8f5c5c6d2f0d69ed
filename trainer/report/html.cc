// A comparison as one page; charts are inline SVG.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "pages/chart.h"
#include "pages/html.h"
#include "trainer/report/report.h"
#include "trainer/report/tables.h"

namespace mxcheck {
namespace {

// Styles that html::kBaseStyle and svg::kChartStyle lack.
constexpr std::string_view kStyle = R"(
th, td { white-space: nowrap; padding: 4px 10px; font-size: 14px; } li { max-width: 86ch; }
.charts { display: flex; flex-wrap: wrap; gap: 8px 12px; } .charts > * { min-width: 0; }
figure { max-width: 340px; } figure.tall svg { display: block; }
.key i { display: inline-block; width: 22px; height: 0; border-top: 3px solid; margin-right: 6px;
  vertical-align: middle; }
svg.swatch { width: 28px; height: 8px; margin-right: 6px; vertical-align: middle; } .swatch .line { stroke-width: 3; }
.forest { max-width: 720px; } .forest p { margin: 8px 0 0; font-size: 13px; line-height: 1.35; max-width: none; }
.forest svg { display: block; width: 100%; height: 32px; } .forest svg.ticks { height: 24px; }
.forest svg.mark { width: 1px; height: 1px; overflow: visible; }
blockquote { margin: 8px 0; padding: 10px 16px; border: 1px solid var(--rule); border-radius: 6px; max-width: 86ch; }
.level.outer { stroke-dasharray: 1 4; } .pair, .mean { fill: currentColor; } .pair { opacity: 0.5; }
.whisker { stroke: currentColor; stroke-width: 2; }
.saturated { color: var(--ink); } .flushed { color: var(--soft); stroke-dasharray: 6 3; }
)";

std::string html_table(const ReportTable& t) {
  if (t.rows.empty()) return "";
  const auto cell = [&](std::size_t i, const std::string& text) {
    return html::text(text, t.columns[i].is_text ? "" : "n");
  };
  html::Table table;
  for (std::size_t i = 0; i < t.columns.size(); ++i) table.head.push_back(cell(i, t.columns[i].head));
  for (const auto& row : t.rows) {
    std::vector<html::Cell>& cells = table.rows.emplace_back().cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(cell(i, row[i]));
  }
  return html::wide(html::table(table));
}

std::string charts(const std::string& svgs) {
  return svgs.empty() ? "" : "<div class=\"charts\">\n" + svgs + "</div>\n";
}

// Closed where it has more parts than a screen shows.
constexpr std::size_t kMostOpen = 4;

std::string folded(const std::string& summary, const std::string& body, std::size_t parts) {
  return body.empty() ? "" : html::details(summary, body, parts <= kMostOpen);
}

std::string table_of(const std::string& what, const ReportTable& t) {
  return folded(fmt::format("{} {}", t.rows.size(), what), html_table(t), t.rows.size());
}

std::string outcome(const ParityComparison& c) {
  const int code = exit_code(c);
  const char* const css = code == 0 ? "good" : code == 1 ? "bad" : "doubt";
  const char* const word = code == 0 ? "Parity shown" : code == 1 ? "No parity" : "Inconclusive";
  return html::verdict(css, word, summary_line(c));
}

std::string sentences(const ParityComparison& c) {
  std::string out;
  std::size_t count = 0;
  for (const ArmResult& arm : c.arms) {
    const std::string sentence = allowed_sentence(c, arm);
    if (!sentence.empty()) ++count, out += "<blockquote>" + html::escaped(sentence) + "</blockquote>\n";
  }
  return out.empty() ? "<p>Nothing: no judged arm is non-inferior.</p>\n"
                     : folded(fmt::format("{} sentence{}", count, count == 1 ? "" : "s"), out, count);
}

std::string operand_section(const ParityComparison& c) {
  std::string out;
  for (const ArmResult& arm : c.arms) {
    if (!arm.observed.operands.empty()) out += html::details(html::escaped(arm.name), charts(operand_charts(arm)));
  }
  if (out.empty()) return "";
  return "<div class=\"key\"><span><i class=\"saturated\"></i>saturated</span><span><i class=\"flushed\"></i>flushed "
         "to "
         "zero (dashed)</span></div>\n" +
         out;
}

std::string key_of_all(const ParityComparison& c) {
  std::vector<std::size_t> arms;
  for (std::size_t i = 0; i < c.arms.size(); ++i) arms.push_back(i);
  return key_of(c, arms);
}

// Verdicts: drawn, as a table, and why.
std::string verdict_sections(const ParityComparison& c) {
  const ComparisonOptions& o = c.options;
  std::string out = html::section(
      "Gaps",
      fmt::format("d = (L_arm - L_bf16) / L_bf16 in %, by branch point. Dot and bar: mean and {:.3g} % interval, "
                  "in the verdict's colour; small dots: the pairs, one a seed; shaded: inside the margin of {}; "
                  "dotted: {} and {}; an "
                  "arrow: beyond the axis.",
                  100 * (1 - 2 * o.alpha), share_text(o.margin), share_text(o.inner_margin.value()),
                  share_text(o.outer_margin)),
      forest_html(c));
  out += html::section(
      "Recipes", recipe_note(),
      html_table(recipe_table(c)) + html::details("why each has its verdict", html::list(reason_lines(c))));
  const std::string chart = dependence_chart(c);
  std::string names;
  if (!chart.empty()) {
    std::vector<std::size_t> first;
    for (const RecipeByBranchPoint& recipe : by_branch_point(c)) first.push_back(recipe.arms.front());
    names = key_of(c, first);
  }
  out += html::section(
      "Recipes by branch point",
      "How the gap depends on the share of training that a recipe had; above the next: how much more it is "
      "than from the "
      "next branch point, of the seeds that both have. Recipes at one share are drawn side by "
      "side.",
      html_table(dependence_table(c)) + names + charts(chart));
  out += html::section("Beside other experiments", beside_note(), html_table(beside_table(c)));
  out += html::section(
      "A/A and controls",
      "A/A, BF16 against itself, must be equivalent, and the negative control, recipe broken, inferior; \"How it was "
      "decided\" says where one is not. Graded controls are among the recipes.",
      html_table(conditions_table(c)));
  return out;
}

std::string loss_sections(const ParityComparison& c) {
  std::string out = html::section(
      "Two curves, and what they hide",
      "Above: training losses, means over the seeds and over bins of steps, as papers show them. Below: the "
      "difference of each pair of runs, on the same data, with its interval; shaded: inside the margin.",
      two_curves_figure(c));
  out += html::section("Loss of BF16", "Line: mean over the seeds; band: from the least to the largest.",
                       charts(baseline_chart(c)));
  out += html::section(
      "Differences over training",
      "Mean d after each evaluation, from the branch point on. Bands: limits of A/A, and of the judged arms "
      "where they are few. The axis is made for the later half of the judged arms' curves; the rest is cut "
      "off.",
      key_of_all(c) + charts(branch_point_charts(c)));
  out += html::section(
      "Differences, arm by arm",
      fmt::format("Band: one-sided limits at {0:.3g} % of each evaluation; whiskers: at {0:.3g} % / {1}, for at "
                  "most as many checkpoints together.",
                  100 * c.options.alpha, kCheckpoints),
      folded(fmt::format("{} arms", c.arms.size() - 1), charts(difference_charts(c)), c.arms.size() - 1));
  return out;
}

}  // namespace

std::string comparison_html(const ParityComparison& c) {
  std::string out = outcome(c) + "<p class=\"soft\">" + html::escaped(experiment_line(c)) + "</p>\n";
  out += verdict_sections(c);
  out += html::section("What may be said", "", sentences(c));
  out += loss_sections(c);
  out += html::section("Noise and power", power_note(c), table_of("arms", power_table(c)));
  out += html::section("Spikes and divergence",
                       fmt::format("Steps whose z-score over {} steps is above {:.3g}, and those that are not finite.",
                                   kSpikeWindow, c.options.spike),
                       html_table(spike_table(c)));
  out += html::section("Saturation and underflow",
                       "Shares of elements of each quantized operand; 0 is drawn at the bottom.", operand_section(c));
  out += html::section("Routes and experts", "", charts(routing_charts(c)));
  out += html::section("How it was decided", "", html::list(decision_lines(c)));
  out += html::section("Pairs", "", table_of("pairs", pair_table(c)));
  out += html::section("Runs", "By the time at which they started.", table_of("runs", run_table(c)));
  const std::string style = std::string(svg::kChartStyle) + std::string(kStyle) + svg::series_style(c.arms.size());
  return html::page("Loss parity with BF16", style, out);
}

}  // namespace mxcheck

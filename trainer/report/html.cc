#include "trainer/report/html.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "trainer/report/charts.h"
#include "trainer/report/colours.h"
#include "trainer/report/forest.h"
#include "trainer/report/style.h"
#include "trainer/report/svg.h"
#include "trainer/report/tables.h"
#include "trainer/report/words.h"

namespace mxcheck {
namespace {

std::string html_table(const ReportTable& t) {
  if (t.rows.empty()) return "";
  const auto cell = [&](std::size_t i, const char* tag, const std::string& text) {
    return fmt::format("<{0}{1}>{2}</{0}>", tag, t.columns[i].is_text ? " class=\"l\"" : "", escaped_xml(text));
  };
  std::string out = "<div class=\"wide\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < t.columns.size(); ++i) out += cell(i, "th", t.columns[i].head);
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) out += cell(i, "td", row[i]);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_list(const std::vector<std::string>& lines) {
  std::string out = "<ul>\n";
  for (const std::string& line : lines) out += "<li>" + escaped_xml(line) + "</li>\n";
  return out + "</ul>\n";
}

std::string section(const std::string& heading, const std::string& note, const std::string& body) {
  if (body.empty()) return "";
  return "<section><h2>" + escaped_xml(heading) + "</h2>\n" +
         (note.empty() ? "" : "<p class=\"soft\">" + escaped_xml(note) + "</p>\n") + body + "</section>\n";
}

std::string charts(const std::string& svgs) {
  return svgs.empty() ? "" : "<div class=\"charts\">\n" + svgs + "</div>\n";
}

std::string outcome(const ParityComparison& c) {
  const int code = exit_code(c);
  const char* const css = code == 0 ? "good" : code == 1 ? "bad" : "open";
  const char* const word = code == 0 ? "Parity shown" : code == 1 ? "No parity" : "Inconclusive";
  return fmt::format("<div class=\"outcome {0}\"><strong class=\"{0}\">{1}</strong> - {2}</div>\n", css, word,
                     escaped_xml(summary_line(c)));
}

std::string sentences(const ParityComparison& c) {
  std::string out;
  for (const ArmResult& arm : c.arms) {
    const std::string sentence = allowed_sentence(c, arm);
    if (!sentence.empty()) out += "<blockquote>" + escaped_xml(sentence) + "</blockquote>\n";
  }
  return out.empty() ? "<p>Nothing: no judged arm is non-inferior.</p>\n" : out;
}

std::string operand_section(const ParityComparison& c) {
  std::string out;
  for (const ArmResult& arm : c.arms) {
    if (!arm.observed.operands.empty()) out += "<h3>" + escaped_xml(arm.name) + "</h3>\n" + charts(operand_charts(arm));
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
  std::string out = section(
      "Gaps",
      fmt::format("d = (L_arm - L_bf16) / L_bf16 in %, by branch point. Dot and bar: mean and {:.3g} % interval; "
                  "small dots: the pairs, one a seed; shaded: inside the margin of {}; dotted: {} and {}; an "
                  "arrow: beyond the axis.",
                  100 * (1 - 2 * o.alpha), share_text(o.margin), share_text(o.inner_margin.value()),
                  share_text(o.outer_margin)),
      forest_html(c));
  out += section("Recipes", recipe_note(), html_table(recipe_table(c)) + html_list(reason_lines(c)));
  const std::string chart = dependence_chart(c);
  std::string names;
  if (!chart.empty()) {
    std::vector<std::size_t> first;
    for (const RecipeByBranchPoint& recipe : by_branch_point(c)) first.push_back(recipe.arms.front());
    names = key_of(c, first);
  }
  out += section("Recipes by branch point",
                 "How the gap depends on the share of training that a recipe had; above the next: how much more it is "
                 "than from the "
                 "next branch point, of the seeds that both have. Recipes at one share are drawn side by "
                 "side.",
                 html_table(dependence_table(c)) + names + charts(chart));
  out += section("Beside other experiments", beside_note(), html_table(beside_table(c)));
  out += section(
      "A/A and controls",
      "A/A, BF16 against itself, must be equivalent, and the negative control, recipe broken, inferior; \"How it was "
      "decided\" says where one is not. Graded controls are among the recipes.",
      html_table(conditions_table(c)));
  return out;
}

std::string loss_sections(const ParityComparison& c) {
  std::string out =
      section("Two curves, and what they hide",
              "Above: training losses, means over the seeds and over bins of steps, as papers show them. Below: the "
              "difference of each pair of runs, on the same data, with its interval; shaded: inside the margin.",
              two_curves_figure(c));
  out += section("Loss of BF16", "Line: mean over the seeds; band: from the least to the largest.",
                 charts(baseline_chart(c)));
  out += section("Differences over training",
                 "Mean d after each evaluation, from the branch point on. Bands: limits of A/A, and of the judged arms "
                 "where they are few. The axis is made for the later half of the judged arms' curves; the rest is cut "
                 "off.",
                 key_of_all(c) + charts(branch_point_charts(c)));
  out += section(
      "Differences, arm by arm",
      fmt::format("Band: one-sided limits at {0:.3g} % of each evaluation; whiskers: at {0:.3g} % / {1}, for at "
                  "most as many checkpoints together.",
                  100 * c.options.alpha, kCheckpoints),
      charts(difference_charts(c)));
  return out;
}

}  // namespace

std::string comparison_html(const ParityComparison& c) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Loss parity with "
      "BF16</title>\n<style>" +
      std::string(kReportStyle) + series_style(c.arms.size()) +
      "</style></head>\n<body>\n<h1>Loss parity with BF16</h1>\n<p class=\"soft\">" + escaped_xml(experiment_line(c)) +
      "</p>\n" + outcome(c);
  out += verdict_sections(c);
  out += section("What may be said", "", sentences(c));
  out += loss_sections(c);
  out += section("Noise and power", power_note(c), html_table(power_table(c)));
  out += section("Spikes and divergence",
                 fmt::format("Steps whose z-score over {} steps is above {:.3g}, and those that are not finite.",
                             kSpikeWindow, c.options.spike),
                 html_table(spike_table(c)));
  out += section("Saturation and underflow", "Shares of elements of each quantized operand; 0 is drawn at the bottom.",
                 operand_section(c));
  out += section("Routes and experts", "", charts(routing_charts(c)));
  out += section("How it was decided", "", html_list(decision_lines(c)));
  out += section("Pairs", "", html_table(pair_table(c)));
  out += section("Runs", "By the time at which they started.", html_table(run_table(c)));
  return out + "</body>\n</html>\n";
}

}  // namespace mxcheck

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "pages/chart.h"
#include "pages/html.h"
#include "trainer/report/report.h"
#include "trainer/report/tables.h"

namespace mxcheck {
namespace {

constexpr int kRowHeight = 32;
constexpr int kBarAt = 11;
constexpr int kPairsAt = 24;
constexpr int kTicksHeight = 24;

// The axis goes from -end to end, of which the places are percent of the width. The room on either side is for half of
// a tick's number where the page is 280 px wide.
struct ForestScale {
  double end;
  static constexpr double kRoom = 7;
  [[nodiscard]] double at(double d) const {
    return kRoom + (100 - 2 * kRoom) * (std::clamp(d, -end, end) / end + 1) / 2;
  }
  [[nodiscard]] bool holds(double d) const { return std::abs(d) <= end; }
};

// By A/A and the judged arms: controls may be far away.
ForestScale forest_scale(const ParityComparison& c, const std::vector<std::size_t>& arms) {
  std::vector<double> reaches;
  for (const std::size_t i : arms) {
    if (c.arms[i].role == ArmRole::control || c.arms[i].role == ArmRole::graded) continue;
    const PairedInterval& d = c.arms[i].evidence.interval;
    const double limit = std::max(std::abs(d.lower), std::abs(d.upper));
    reaches.push_back(std::isfinite(limit) ? limit : std::abs(d.mean));
  }
  return {axis_end(std::move(reaches), c.options.margin)};
}

void vertical(svg::Drawing& d, const char* css, double x, double top, double bottom) {
  d.line(svg::percent(x), top, svg::percent(x), bottom, {.css = css});
}

// A triangle that points outward, at an end of the axis; an svg of its own, as a path takes no percent.
void draw_arrow(svg::Drawing& d, double x, int direction) {
  svg::Drawing triangle;
  triangle.path(fmt::format("M{},0 l{},-6 l0,12 z", 10 * direction, -10 * direction), {.css = "mean"});
  d.inset(svg::percent(x), kBarAt, 1, 1, triangle, {.css = "mark"});
}

void draw_interval(svg::Drawing& d, const PairedInterval& i, const ForestScale& scale) {
  if (!std::isfinite(i.mean)) return;
  const bool has_limits = std::isfinite(i.lower) && std::isfinite(i.upper);
  if (has_limits) {
    d.line(svg::percent(scale.at(i.lower)), kBarAt, svg::percent(scale.at(i.upper)), kBarAt, {.css = "whisker"});
    for (const double limit : {i.lower, i.upper}) {
      if (scale.holds(limit)) vertical(d, "whisker", scale.at(limit), kBarAt - 5, kBarAt + 5);
    }
  }
  const double left = has_limits ? i.lower : i.mean;
  const double right = has_limits ? i.upper : i.mean;
  if (left < -scale.end) draw_arrow(d, scale.at(-scale.end), -1);
  if (right > scale.end) draw_arrow(d, scale.at(scale.end), 1);
  if (scale.holds(i.mean)) d.circle(svg::percent(scale.at(i.mean)), kBarAt, 5, {.css = "mean"});
}

void draw_guides(svg::Drawing& d, const ComparisonOptions& o, const ForestScale& scale) {
  d.rect(svg::percent(scale.at(-o.margin)), 0, svg::percent(scale.at(o.margin) - scale.at(-o.margin)), kRowHeight,
         {.css = "inside"});
  vertical(d, "axis", scale.at(0), 0, kRowHeight);
  for (const double sign : {-1.0, 1.0}) {
    vertical(d, "level", scale.at(sign * o.margin), 0, kRowHeight);
    for (const double other : {o.inner_margin.value(), o.outer_margin}) {
      if (scale.holds(other)) vertical(d, "level outer", scale.at(sign * other), 0, kRowHeight);
    }
  }
}

// The colour of an arm: a failure is red, but not a negative control's, which must fail, nor a graded arm's, which may.
const char* colour_of(const ArmResult& arm) {
  switch (arm.judgement.verdict) {
    case ArmVerdict::equivalent:
    case ArmVerdict::non_inferior: return "good";
    case ArmVerdict::inconclusive: return "doubt";
    case ArmVerdict::inferior:
    case ArmVerdict::diverged:
      return arm.role == ArmRole::control ? "good" : arm.role == ArmRole::graded ? "doubt" : "bad";
    case ArmVerdict::improved: return "bad";
  }
  return "doubt";
}

std::string forest_row(const ParityComparison& c, std::size_t i, const ForestScale& scale) {
  const ArmResult& arm = c.arms[i];
  const PairedInterval& d = arm.evidence.interval;
  const bool is_beyond = std::isfinite(d.mean) && !scale.holds(d.mean);
  const std::string words =
      fmt::format("<p><b>{}</b> <span class=\"{}\">{}</span> <span class=\"soft\">{}{} {}, {} pair{}{}</span></p>\n",
                  html::escaped(arm.recipe), colour_of(arm), to_text(arm.judgement.verdict),
                  arm.role == ArmRole::judged ? "" : fmt::format("({}) ", to_text(arm.role)), signed_percent(d.mean),
                  limits(d), d.pairs, d.pairs == 1 ? "" : "s", is_beyond ? ", beyond the axis" : "");
  svg::Drawing bars;
  draw_guides(bars, c.options, scale);
  draw_interval(bars, d, scale);
  for (const SeedPair& p : arm.pairs) {
    if (std::isfinite(p.difference) && scale.holds(p.difference))
      bars.circle(svg::percent(scale.at(p.difference)), kPairsAt, 2.5, {.css = "pair"});
  }
  return words +
         bars.picture({.title = fmt::format("{}: mean {}, limits {}", arm.name, signed_percent(d.mean), limits(d)),
                       .height = kRowHeight,
                       .sizing = svg::Sizing::fluid,
                       .css = colour_of(arm)});
}

std::string forest_ticks(const ForestScale& scale) {
  svg::Drawing d;
  for (const double tick : svg::ticks_of({.label = "", .low = -scale.end, .high = scale.end})) {
    vertical(d, "axis", scale.at(tick), 0, 5);
    d.text(svg::percent(scale.at(tick)), 18, fmt::format("{:.3g}", 100 * tick), {.anchor = "middle"});
  }
  return d.picture({.title = "", .height = kTicksHeight, .sizing = svg::Sizing::fluid, .css = "ticks"});
}

// By branch point: judged arms and graded controls as they are ranked, then A/A and the negative controls.
std::map<std::int64_t, std::vector<std::size_t>> forest_groups(const ParityComparison& c) {
  std::map<std::int64_t, std::vector<std::size_t>> groups;
  for (const std::size_t i : ranking(c)) groups[c.arms[i].branch_step].push_back(i);
  for (std::size_t i = 1; i < c.arms.size(); ++i) {
    if (!is_ranked(c.arms[i])) groups[c.arms[i].branch_step].push_back(i);
  }
  return groups;
}

}  // namespace

std::string forest_html(const ParityComparison& c) {
  std::string out = "<div class=\"forest\">\n";
  for (const auto& [step, arms] : forest_groups(c)) {
    const ForestScale scale = forest_scale(c, arms);
    out += "<h3>From " + branch_point(step, c.config.steps) + "</h3>\n";
    for (const std::size_t i : arms) out += forest_row(c, i, scale);
    out += forest_ticks(scale);
  }
  return out + "</div>\n";
}

}  // namespace mxcheck

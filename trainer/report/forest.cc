#include "trainer/report/forest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "trainer/report/charts.h"
#include "trainer/report/colours.h"
#include "trainer/report/svg.h"
#include "trainer/report/words.h"

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

std::string vertical(const char* css, double x, double top, double bottom) {
  return fmt::format("<line class=\"{0}\" x1=\"{1:.2f}%\" y1=\"{2}\" x2=\"{1:.2f}%\" y2=\"{3}\"/>", css, x, top,
                     bottom);
}

// A triangle that points outward, at an end of the axis; an svg of its own, as a path takes no percent.
std::string arrow(double x, int direction) {
  return fmt::format(
      "<svg class=\"mark\" x=\"{:.2f}%\" y=\"{}\" width=\"1\" height=\"1\"><path class=\"mean\" d=\"M{},0 l{},-6 l0,12 "
      "z\"/></svg>",
      x, kBarAt, 10 * direction, -10 * direction);
}

std::string bar(const PairedInterval& d, const ForestScale& scale) {
  if (!std::isfinite(d.mean)) return "";
  std::string out;
  const bool has_limits = std::isfinite(d.lower) && std::isfinite(d.upper);
  if (has_limits) {
    out += fmt::format("<line class=\"whisker\" x1=\"{0:.2f}%\" y1=\"{2}\" x2=\"{1:.2f}%\" y2=\"{2}\"/>",
                       scale.at(d.lower), scale.at(d.upper), kBarAt);
    for (const double limit : {d.lower, d.upper}) {
      if (scale.holds(limit)) out += vertical("whisker", scale.at(limit), kBarAt - 5, kBarAt + 5);
    }
  }
  const double left = has_limits ? d.lower : d.mean;
  const double right = has_limits ? d.upper : d.mean;
  if (left < -scale.end) out += arrow(scale.at(-scale.end), -1);
  if (right > scale.end) out += arrow(scale.at(scale.end), 1);
  if (scale.holds(d.mean))
    out += fmt::format("<circle class=\"mean\" cx=\"{:.2f}%\" cy=\"{}\" r=\"5\"/>", scale.at(d.mean), kBarAt);
  return out;
}

std::string guides(const ComparisonOptions& o, const ForestScale& scale) {
  std::string out = fmt::format("<rect class=\"inside\" x=\"{:.2f}%\" y=\"0\" width=\"{:.2f}%\" height=\"{}\"/>",
                                scale.at(-o.margin), scale.at(o.margin) - scale.at(-o.margin), kRowHeight);
  out += vertical("axis", scale.at(0), 0, kRowHeight);
  for (const double sign : {-1.0, 1.0}) {
    out += vertical("level", scale.at(sign * o.margin), 0, kRowHeight);
    for (const double other : {o.inner_margin.value(), o.outer_margin}) {
      if (scale.holds(other)) out += vertical("level outer", scale.at(sign * other), 0, kRowHeight);
    }
  }
  return out;
}

// The colour of an arm: a failure is red, but not a negative control's, which must fail, nor a graded arm's, which may.
const char* colour_of(const ArmResult& arm) {
  switch (arm.judgement.verdict) {
    case ArmVerdict::equivalent:
    case ArmVerdict::non_inferior: return "good";
    case ArmVerdict::inconclusive: return "open";
    case ArmVerdict::inferior:
    case ArmVerdict::diverged:
      return arm.role == ArmRole::control ? "good" : arm.role == ArmRole::graded ? "open" : "bad";
    case ArmVerdict::improved: return "bad";
  }
  return "open";
}

std::string forest_row(const ParityComparison& c, std::size_t i, const ForestScale& scale) {
  const ArmResult& arm = c.arms[i];
  const PairedInterval& d = arm.evidence.interval;
  const bool is_beyond = std::isfinite(d.mean) && !scale.holds(d.mean);
  std::string out =
      fmt::format("<p><b>{}</b> <span class=\"{}\">{}</span> <span class=\"soft\">{}{} {}, {} pair{}{}</span></p>\n",
                  escaped_xml(arm.recipe), colour_of(arm), to_text(arm.judgement.verdict),
                  arm.role == ArmRole::judged ? "" : fmt::format("({}) ", to_text(arm.role)), signed_percent(d.mean),
                  limits(d), d.pairs, d.pairs == 1 ? "" : "s", is_beyond ? ", beyond the axis" : "");
  out +=
      fmt::format("<svg class=\"{}\" width=\"100%\" height=\"{}\" role=\"img\"><title>{}: mean {}, limits {}</title>",
                  series_class(i), kRowHeight, escaped_xml(arm.name), signed_percent(d.mean), limits(d));
  out += guides(c.options, scale) + bar(d, scale);
  for (const SeedPair& p : arm.pairs) {
    if (std::isfinite(p.difference) && scale.holds(p.difference))
      out +=
          fmt::format("<circle class=\"pair\" cx=\"{:.2f}%\" cy=\"{}\" r=\"2.5\"/>", scale.at(p.difference), kPairsAt);
  }
  return out + "</svg>\n";
}

std::string forest_ticks(const ForestScale& scale) {
  std::string out = fmt::format("<svg class=\"ticks\" width=\"100%\" height=\"{}\">", kTicksHeight);
  for (const double tick : ticks_of({.label = "", .low = -scale.end, .high = scale.end})) {
    out += vertical("axis", scale.at(tick), 0, 5);
    out += fmt::format("<text x=\"{:.2f}%\" y=\"18\" text-anchor=\"middle\">{:.3g}</text>", scale.at(tick), 100 * tick);
  }
  return out + "</svg>\n";
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

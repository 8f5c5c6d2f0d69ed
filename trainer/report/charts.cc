#include "trainer/report/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/text.h"
#include "pages/chart.h"
#include "pages/html.h"
#include "trainer/report/tables.h"

namespace mxcheck {
namespace {

using svg::Chart;
using svg::Point;
using svg::series_class;
using svg::Span;

std::vector<Point> points_of(const StepCurve& curve) {
  std::vector<Point> points;
  for (const StepValue& p : curve) points.push_back({static_cast<double>(p.step), p.value});
  return points;
}

// Finite values alone; 5 % of room on either side.
class Range {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  void add(const StepCurve& curve) {
    for (const StepValue& p : curve) add(p.value);
  }
  [[nodiscard]] svg::Axis axis(std::string label) const {
    const double room = std::max(0.05 * (high_ - low_), 1e-3 * std::abs(high_));  // one value has no extent
    return {.label = std::move(label), .low = low_ - room, .high = high_ + room};
  }

 private:
  double low_ = HUGE_VAL;
  double high_ = -HUGE_VAL;
};

svg::Axis step_axis(double first, double last) {
  return {.label = "step", .low = std::max(1.0, first), .high = last, .logarithmic = true};
}

double first_step(const StepCurve& curve) {
  for (const StepValue& p : curve) {
    if (p.step > 0) return static_cast<double>(p.step);
  }
  return 1;
}

std::vector<Point> means_of(const std::vector<CheckpointInterval>& intervals) {
  std::vector<Point> points;
  for (const CheckpointInterval& p : intervals) points.push_back({static_cast<double>(p.step), p.interval.mean});
  return points;
}

std::vector<Span> limits_of(const std::vector<CheckpointInterval>& intervals) {
  std::vector<Span> band;
  for (const CheckpointInterval& p : intervals)
    band.push_back({static_cast<double>(p.step), p.interval.lower, p.interval.upper});
  return band;
}

// How far the later half of a curve and its band goes, by which axes are made: what is soon after the beginning is far
// larger.
double reach_of(const std::vector<CheckpointInterval>& intervals) {
  double reach = 0;
  for (std::size_t i = intervals.size() / 2; i < intervals.size(); ++i) {
    const PairedInterval& d = intervals[i].interval;
    for (const double place : {d.mean, d.lower, d.upper}) {
      if (std::isfinite(place)) reach = std::max(reach, std::abs(place));
    }
  }
  return reach;
}

// The arms of a branch point but for the baseline.
std::vector<std::size_t> arms_from(const ParityComparison& c, std::int64_t step) {
  std::vector<std::size_t> all;
  for (std::size_t i = 1; i < c.arms.size(); ++i) {
    if (c.arms[i].branch_step == step) all.push_back(i);
  }
  return all;
}

std::set<std::int64_t> branch_steps(const ParityComparison& c) {
  std::set<std::int64_t> steps;
  for (std::size_t i = 1; i < c.arms.size(); ++i) steps.insert(c.arms[i].branch_step);
  return steps;
}

// d goes from minus to plus this: as far as the judged arms of the branch point need.
double difference_end(const ParityComparison& c, std::int64_t step) {
  std::vector<double> reaches;
  for (const std::size_t i : arms_from(c, step)) {
    if (c.arms[i].role == ArmRole::judged) reaches.push_back(reach_of(c.arms[i].differences));
  }
  return axis_end(std::move(reaches), c.options.margin);
}

svg::Axis difference_axis(double end) { return {.label = "d", .low = -end, .high = end, .percent = true}; }

svg::Axis steps_from(const ParityComparison& c, std::int64_t step) {
  return {.label = "step", .low = static_cast<double>(step), .high = static_cast<double>(c.config.steps)};
}

void draw_margins(const ParityComparison& c, Chart& chart) {
  chart.shade(-c.options.margin, c.options.margin);
  chart.level(0, "");
  chart.level(c.options.margin, "margin");
  chart.level(-c.options.margin, "");
}

// Bands of more arms than this cover one another.
constexpr std::size_t kMostBands = 3;

std::string differences_from(const ParityComparison& c, std::int64_t step) {
  const std::vector<std::size_t> arms = arms_from(c, step);
  const double end = difference_end(c, step);
  Chart chart({.title = "d, from " + branch_point(step, c.config.steps),
               .x = steps_from(c, step),
               .y = difference_axis(end),
               .height = 300});
  draw_margins(c, chart);
  const auto judged = static_cast<std::size_t>(
      std::ranges::count_if(arms, [&](std::size_t i) { return c.arms[i].role == ArmRole::judged; }));
  for (const std::size_t i : arms) {
    const bool has_band =
        c.arms[i].role == ArmRole::repeat || (c.arms[i].role == ArmRole::judged && judged <= kMostBands);
    if (has_band) chart.band(limits_of(c.arms[i].differences), series_class(i));
  }
  std::vector<std::string> beyond;
  for (const std::size_t i : arms) {
    const std::vector<CheckpointInterval>& d = c.arms[i].differences;
    if (d.empty()) continue;
    chart.line(means_of(d), series_class(i), c.arms[i].name);
    const double last = d.back().interval.mean;
    if (std::abs(last) > end) beyond.push_back(c.arms[i].recipe + ", at the end " + signed_percent(last));
  }
  const std::string note =
      beyond.empty()
          ? ""
          : "<figcaption>Cut off, beyond the axis: " + html::escaped(join(beyond, "; ")) + ".</figcaption>\n";
  return "<figure>\n" + chart.picture() + note + "</figure>\n";
}

std::string difference_chart(const ParityComparison& c, std::size_t i) {
  const ArmResult& arm = c.arms[i];
  const double of_judged = difference_end(c, arm.branch_step);
  const double own = axis_end({reach_of(arm.differences)}, c.options.margin);
  Chart chart({.title = "d of " + arm.name,
               .x = steps_from(c, arm.branch_step),
               .y = difference_axis(arm.role == ArmRole::judged ? of_judged : std::max(of_judged, own)),
               .height = 210});
  draw_margins(c, chart);
  chart.band(limits_of(arm.differences), series_class(i));
  chart.line(means_of(arm.differences), series_class(i));
  chart.whiskers(limits_of(arm.checkpoints), series_class(i));
  chart.dots(means_of(arm.checkpoints), series_class(i));
  return chart.picture();
}

// The recipe that the figure of two curves is of: from scratch, or else from the earliest branch point.
const ArmResult* figure_arm(const ParityComparison& c) {
  const ArmResult* first = nullptr;
  for (const ArmResult& arm : c.arms) {
    const bool is_it = arm.recipe == "mxfp8" && !arm.training_curves.difference.empty();
    if (is_it && (first == nullptr || arm.branch_step < first->branch_step)) first = &arm;
  }
  return first;
}

constexpr double kLeastShare = 1e-7;  // the axis's beginning: a share of 0 is drawn there

std::vector<Point> floored(const StepCurve& curve) {
  std::vector<Point> points = points_of(curve);
  for (Point& p : points) p.y = std::max(p.y, kLeastShare);
  return points;
}

std::string observed_chart(const ParityComparison& c, const std::string& title, StepCurve ObservedArm::*curve,
                           svg::Axis y) {
  bool any = false;
  double first = static_cast<double>(c.config.steps);
  for (const ArmResult& arm : c.arms) {
    any = any || !(arm.observed.*curve).empty();
    first = std::min(first, first_step(arm.observed.*curve));
  }
  if (!any) return "";
  Range range;
  for (const ArmResult& arm : c.arms) range.add(arm.observed.*curve);
  const svg::Axis extent = range.axis(y.label);
  y.low = std::max(0.0, extent.low);
  y.high = std::min(1.0, extent.high);
  Chart chart({.title = title, .x = step_axis(first, static_cast<double>(c.config.steps)), .y = y});
  for (std::size_t i = c.arms.size(); i-- > 0;)
    chart.line(points_of(c.arms[i].observed.*curve), series_class(i), c.arms[i].name);
  return chart.picture();
}

std::string load_chart(const ParityComparison& c, std::size_t layer) {
  Range range;
  range.add(0);
  std::size_t experts = 1;
  std::vector<StepCurve> curves;
  for (const ArmResult& arm : c.arms) {
    StepCurve& curve = curves.emplace_back();
    if (arm.observed.loads.size() <= layer) continue;
    const std::vector<double>& shares = arm.observed.loads[layer];
    experts = std::max(experts, shares.size());
    for (std::size_t i = 0; i < shares.size(); ++i)
      curve.push_back({static_cast<std::int64_t>(i + 1), shares[i] * static_cast<double>(shares.size())});
    range.add(curve);
  }
  Chart chart({.title = fmt::format("Expert loads, layer {}", layer),
               .x = {.label = "expert, the most loaded first", .low = 1, .high = static_cast<double>(experts)},
               .y = range.axis("rows / even share"),
               .width = 300,
               .height = 210});
  chart.level(1, "even");
  for (std::size_t i = curves.size(); i-- > 0;) chart.line(points_of(curves[i]), series_class(i), c.arms[i].name);
  return chart.picture();
}

}  // namespace

double axis_end(std::vector<double> reaches, double least) {
  std::erase_if(reaches, [](double reach) { return !std::isfinite(reach); });
  std::ranges::sort(reaches);
  constexpr double kFarther = 4;
  double end = 1.4 * least;
  for (std::size_t i = 0; i < reaches.size(); ++i) {
    const bool are_few = 2 * (reaches.size() - i) <= reaches.size();
    if (are_few && reaches[i] > kFarther * end) break;
    end = std::max(end, 1.15 * reaches[i]);
  }
  return end;
}

std::string baseline_chart(const ParityComparison& c) {
  std::map<std::int64_t, std::vector<double>> losses;
  for (const RunCurve& run : c.arms.front().curves) {
    for (const StepValue& p : run.validation) {
      if (p.step > 0 && std::isfinite(p.value)) losses[p.step].push_back(p.value);
    }
  }
  if (losses.empty()) return "";
  Range range;
  std::vector<Point> mean;
  std::vector<Span> band;
  for (const auto& [step, of_runs] : losses) {
    const auto [low, high] = std::ranges::minmax(of_runs);
    double sum = 0;
    for (const double loss : of_runs) sum += loss;
    const auto x = static_cast<double>(step);
    mean.push_back({x, sum / static_cast<double>(of_runs.size())});
    band.push_back({x, low, high});
    range.add(low);
    range.add(high);
  }
  Chart chart({.title = "Validation loss of BF16",
               .x = step_axis(mean.front().x, static_cast<double>(c.config.steps)),
               .y = range.axis("nats per byte")});
  chart.band(band, series_class(0));
  chart.line(mean, series_class(0), fmt::format("bf16, mean of {} runs", c.arms.front().curves.size()));
  return chart.picture();
}

std::string branch_point_charts(const ParityComparison& c) {
  std::string out;
  for (const std::int64_t step : branch_steps(c)) {
    const auto has_curve = [&](std::size_t i) { return !c.arms[i].differences.empty(); };
    if (std::ranges::any_of(arms_from(c, step), has_curve)) out += differences_from(c, step);
  }
  return out;
}

std::string difference_charts(const ParityComparison& c) {
  std::string out;
  for (std::size_t i = 1; i < c.arms.size(); ++i) {
    if (!c.arms[i].differences.empty()) out += difference_chart(c, i);
  }
  return out;
}

std::string dependence_chart(const ParityComparison& c) {
  const std::vector<RecipeByBranchPoint> recipes = by_branch_point(c);
  if (recipes.empty()) return "";
  std::vector<double> reaches;
  for (const RecipeByBranchPoint& recipe : recipes) {
    for (const std::size_t i : recipe.arms) reaches.push_back(std::abs(c.arms[i].evidence.interval.mean));
  }
  Chart chart({.title = "Gap by share of training",
               .x = {.label = "share of training under the recipe (%)", .low = 0, .high = 104},
               .y = difference_axis(axis_end(std::move(reaches), c.options.margin)),
               .height = 280});
  draw_margins(c, chart);
  for (std::size_t r = 0; r < recipes.size(); ++r) {
    std::vector<Point> mean;
    std::vector<Span> intervals;
    for (const std::size_t i : recipes[r].arms) {
      const PairedInterval& d = c.arms[i].evidence.interval;
      // To the percent, and a percent from those of the recipes before: intervals would cover one another.
      const auto beside = static_cast<std::int64_t>(r) - static_cast<std::int64_t>(recipes.size() / 2);
      const auto x = static_cast<double>(std::lround(100 * share_of_training(c, c.arms[i])) +
                                         std::clamp<std::int64_t>(beside, -4, 4));
      mean.push_back({x, d.mean});
      intervals.push_back({x, d.lower, d.upper});
    }
    const std::string css = series_class(recipes[r].arms.front());
    chart.whiskers(intervals, css);
    chart.line(mean, css, recipes[r].recipe);
    chart.dots(mean, css);
  }
  return chart.picture();
}

std::string two_curves_figure(const ParityComparison& c) {
  const ArmResult* const arm = figure_arm(c);
  if (arm == nullptr) return "";
  const std::string css = series_class(static_cast<std::size_t>(arm - c.arms.data()));
  const TrainingCurves& curves = arm->training_curves;
  Range range;
  range.add(curves.baseline);
  range.add(curves.arm);
  Chart above({.title = "BF16 and " + arm->name, .x = steps_from(c, 0), .y = range.axis("training loss")});
  above.line(points_of(curves.baseline), series_class(0), "bf16");
  above.line(points_of(curves.arm), css, arm->name);
  Chart below({.title = arm->name + " - BF16 of the same seed",
               .x = steps_from(c, 0),
               .y = difference_axis(axis_end({reach_of(curves.difference)}, c.options.margin))});
  draw_margins(c, below);
  below.band(limits_of(curves.difference), css);
  below.line(means_of(curves.difference), css);
  return "<figure class=\"tall\">\n" + key_of(c, {0, static_cast<std::size_t>(arm - c.arms.data())}) + above.picture() +
         below.picture() +
         fmt::format("<figcaption>Over the last tenth of the steps: d = {}, limits {}.</figcaption></figure>\n",
                     signed_percent(arm->training.mean), limits(arm->training));
}

std::string key_of(const ParityComparison& c, const std::vector<std::size_t>& arms) {
  std::string out = "<div class=\"key\">";
  for (const std::size_t i : arms) {
    svg::Drawing swatch;
    swatch.path("M0,4 L28,4", {.css = "line " + series_class(i)});
    out += "<span>" + swatch.picture({.title = "", .width = 28, .height = 8, .css = "swatch"}) +
           html::escaped(c.arms[i].name) + "</span>";
  }
  return out + "</div>\n";
}

std::string operand_charts(const ArmResult& arm) {
  std::string out;
  for (const OperandShares& o : arm.observed.operands) {
    const double last = o.flushed.empty() ? 10 : static_cast<double>(o.flushed.back().step);
    Chart chart({.title = o.operand,
                 .x = step_axis(first_step(o.flushed), last),
                 .y = {.label = "elements", .low = kLeastShare, .high = 1, .logarithmic = true, .percent = true},
                 .width = 300,
                 .height = 190});
    chart.line(floored(o.saturated), "saturated", "saturated");
    chart.line(floored(o.flushed), "flushed", "flushed to zero");
    out += chart.picture();
  }
  return out;
}

std::string routing_charts(const ParityComparison& c) {
  std::string out =
      observed_chart(c, "Routes equal to BF16's, same weights", &ObservedArm::equal_routes,
                     {.label = "routes", .percent = true}) +
      observed_chart(c, "Entropy of expert loads", &ObservedArm::load_entropy, {.label = "entropy / log(experts)"});
  std::size_t layers = 0;
  for (const ArmResult& arm : c.arms) layers = std::max(layers, arm.observed.loads.size());
  for (std::size_t layer = 0; layer < layers; ++layer) out += load_chart(c, layer);
  return out;
}

}  // namespace mxcheck

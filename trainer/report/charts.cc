#include "trainer/report/charts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trainer/report/svg.h"
#include "trainer/report/words.h"

namespace mxcheck {
namespace {

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
  [[nodiscard]] ChartAxis axis(std::string label, bool percent = false) const {
    const double room = std::max(0.05 * (high_ - low_), 1e-3 * std::abs(high_));  // one value has no extent
    return {.label = std::move(label), .low = low_ - room, .high = high_ + room, .percent = percent};
  }

 private:
  double low_ = HUGE_VAL;
  double high_ = -HUGE_VAL;
};

ChartAxis step_axis(double first, double last) {
  return {.label = "step", .low = std::max(1.0, first), .high = last, .logarithmic = true};
}

double first_step(const StepCurve& curve) {
  for (const StepValue& p : curve) {
    if (p.step > 0) return static_cast<double>(p.step);
  }
  return 1;
}

std::string loss_chart(const ParityComparison& c, const std::string& title, StepCurve RunCurve::*curve) {
  // A run that diverged must not squeeze the others: its arm has no say in the axis, and its lines are cut off.
  Range range;
  double first = static_cast<double>(c.config.steps);
  for (const RunCurve& run : c.arms.front().curves) {
    range.add(run.*curve);
    first = std::min(first, first_step(run.*curve));
  }
  for (const ArmResult& arm : c.arms) {
    for (const RunCurve& run : arm.curves) {
      if (arm.evidence.diverged == 0) range.add(run.*curve);
    }
  }
  Chart chart(
      {.title = title, .x = step_axis(first, static_cast<double>(c.config.steps)), .y = range.axis("nats per byte")});
  for (std::size_t i = c.arms.size(); i-- > 0;) {
    for (const RunCurve& run : c.arms[i].curves)
      chart.line(run.*curve, series_class(i), fmt::format("{}, seed {}", c.arms[i].name, run.seed));
  }
  return chart.svg();
}

std::string difference_chart(const ParityComparison& c, std::size_t i) {
  const ArmResult& arm = c.arms[i];
  Range range;
  StepCurve mean;
  std::vector<BandPoint> band;
  for (const CheckpointInterval& p : arm.checkpoints) {
    mean.push_back({p.step, p.interval.mean});
    range.add(p.interval.mean);
    // Bands of few pairs are wide: the axis follows the mean and the margins, and cuts them off.
    band.push_back({p.step, p.interval.lower, p.interval.upper});
  }
  for (const double margin : {-c.options.outer_margin, c.options.outer_margin}) range.add(1.2 * margin);
  Chart chart({.title = arm.name + ": difference from BF16",
               .x = step_axis(first_step(mean), static_cast<double>(c.config.steps)),
               .y = range.axis("d", true),
               .height = 240});
  chart.band(band, series_class(i));
  chart.level(0, "");
  chart.level(c.options.margin, "margin");
  chart.level(-c.options.margin, "");
  chart.level(c.options.outer_margin, "outer");
  chart.level(-c.options.outer_margin, "");
  chart.line(mean, series_class(i));
  chart.dots(mean, series_class(i));
  return chart.svg();
}

constexpr double kLeastShare = 1e-7;  // the axis's beginning: a share of 0 is drawn there

StepCurve floored(StepCurve curve) {
  for (StepValue& p : curve) p.value = std::max(p.value, kLeastShare);
  return curve;
}

std::string observed_chart(const ParityComparison& c, const std::string& title, StepCurve ObservedArm::*curve,
                           ChartAxis y) {
  bool any = false;
  double first = static_cast<double>(c.config.steps);
  for (const ArmResult& arm : c.arms) {
    any = any || !(arm.observed.*curve).empty();
    first = std::min(first, first_step(arm.observed.*curve));
  }
  if (!any) return "";
  Range range;
  for (const ArmResult& arm : c.arms) range.add(arm.observed.*curve);
  const ChartAxis extent = range.axis(y.label);
  y.low = std::max(0.0, extent.low);
  y.high = std::min(1.0, extent.high);
  Chart chart({.title = title, .x = step_axis(first, static_cast<double>(c.config.steps)), .y = y});
  for (std::size_t i = c.arms.size(); i-- > 0;) chart.line(c.arms[i].observed.*curve, series_class(i), c.arms[i].name);
  return chart.svg();
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
  for (std::size_t i = curves.size(); i-- > 0;) chart.line(curves[i], series_class(i), c.arms[i].name);
  return chart.svg();
}

}  // namespace

std::string series_class(std::size_t arm) { return "s" + std::to_string(arm % kSeriesColours); }

std::string loss_charts(const ParityComparison& c) {
  return loss_chart(c, "Validation loss, weights under BF16", &RunCurve::validation) +
         loss_chart(c, "Training loss, means over bins of steps", &RunCurve::training);
}

std::string difference_charts(const ParityComparison& c) {
  std::string out;
  for (std::size_t i = 1; i < c.arms.size(); ++i) {
    if (!c.arms[i].checkpoints.empty()) out += difference_chart(c, i);
  }
  return out;
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
    out += chart.svg();
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

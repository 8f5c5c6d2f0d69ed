#include "trainer/report/charts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trainer/report/forest.h"
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

namespace {

constexpr int kWidth = 960;
constexpr int kLeft = 230;   // names of arms
constexpr int kRight = 720;  // verdicts are beyond
constexpr int kTop = 34;     // labels of the margins
constexpr int kRow = 46;
constexpr int kBottom = 44;

struct Scale {
  double end;  // the axis goes from -end to end
  [[nodiscard]] double at(double d) const {
    return kLeft + (kRight - kLeft) * (std::clamp(d, -end, end) / end + 1) / 2;
  }
  [[nodiscard]] bool holds(double d) const { return std::abs(d) <= end; }
};

// As wide as the judged arms and the outer margin need, up to 16 times that margin: a control may be far away.
Scale scale_of(const ParityComparison& c) {
  double end = 1.4 * c.options.outer_margin;
  const double most = 16 * c.options.outer_margin;
  for (const ArmResult& arm : c.arms) {
    if (arm.role == ArmRole::control) continue;
    for (const double d : {arm.evidence.interval.lower, arm.evidence.interval.upper}) {
      if (std::isfinite(d)) end = std::max(end, std::min(1.1 * std::abs(d), most));
    }
  }
  return {end};
}

std::string arrow(double x, double y, int direction) {
  return fmt::format("<path class=\"mean\" d=\"M{:.1f},{:.1f} l{},-5 l0,10 z\"/>\n", x, y, -8 * direction);
}

std::string interval(const PairedInterval& i, const Scale& scale, double y) {
  if (!std::isfinite(i.mean)) return "";
  std::string out;
  if (std::isfinite(i.lower) && std::isfinite(i.upper)) {
    out += fmt::format("<line class=\"whisker\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n",
                       scale.at(i.lower), scale.at(i.upper), y);
    for (const double end : {i.lower, i.upper}) {
      // An end, or an arrow where it lies beyond the axis.
      const double back = scale.holds(end) ? 0 : end > 0 ? -6 : 6;
      out += fmt::format("<path class=\"whisker\" fill=\"none\" d=\"M{:.1f},{:.1f} L{:.1f},{:.1f} L{:.1f},{:.1f}\"/>\n",
                         scale.at(end) + back, y - 6, scale.at(end), y, scale.at(end) + back, y + 6);
    }
  }
  if (!scale.holds(i.mean)) return out + arrow(scale.at(i.mean), y, i.mean > 0 ? 1 : -1);
  return out + fmt::format("<circle class=\"mean\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n", scale.at(i.mean), y);
}

// What fails is red but for the control, which is to.
const char* colour_of(const ArmResult& arm) {
  switch (arm.judgement.verdict) {
    case ArmVerdict::equivalent:
    case ArmVerdict::non_inferior: return "good";
    case ArmVerdict::inconclusive: return "open";
    case ArmVerdict::inferior:
    case ArmVerdict::diverged: return arm.role == ArmRole::control ? "good" : "bad";
    case ArmVerdict::improved: return "bad";
  }
  return "open";
}

std::string row(const ArmResult& arm, const Scale& scale, int top, std::size_t series) {
  const double y = top + kRow / 2.0 - 4;
  std::string out =
      fmt::format("<g class=\"s{}\"><title>{}: mean {}, limits {}</title>\n", series, escaped_xml(arm.name),
                  signed_percent(arm.evidence.interval.mean), limits(arm.evidence.interval));
  for (const SeedPair& p : arm.pairs) {
    if (std::isfinite(p.difference) && scale.holds(p.difference))
      out += fmt::format("<circle class=\"pair\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n", scale.at(p.difference),
                         y + 13);
  }
  out += interval(arm.evidence.interval, scale, y) + "</g>\n";
  out += fmt::format("<text class=\"name\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 12, y + 2,
                     escaped_xml(arm.name));
  out += fmt::format("<text class=\"note\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 12, y + 17,
                     arm.role == ArmRole::judged ? "" : to_text(arm.role));
  out += fmt::format("<text class=\"name {}\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", colour_of(arm), kRight + 12, y + 2,
                     to_text(arm.judgement.verdict));
  out += fmt::format("<text class=\"note\" x=\"{}\" y=\"{:.1f}\">{}, {} pairs</text>\n", kRight + 12, y + 17,
                     signed_percent(arm.evidence.interval.mean), arm.evidence.interval.pairs);
  return out;
}

std::string margins(const ParityComparison& c, const Scale& scale, int bottom) {
  const double m = c.options.margin;
  std::string out = fmt::format("<rect class=\"inside\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>\n",
                                scale.at(-m), kTop, scale.at(m) - scale.at(-m), bottom - kTop);
  out += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n", scale.at(0), kTop,
                     bottom);
  for (const double margin : {-c.options.outer_margin, -m, m, c.options.outer_margin}) {
    const double x = scale.at(margin);
    const bool outer = std::abs(margin) > m;
    out += fmt::format("<line class=\"level{3}\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n", x, kTop,
                       bottom, outer ? " outer" : "");
    // Away from the middle, and the outer ones above: they would cover one another.
    out += fmt::format("<text class=\"note\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x,
                       kTop - (outer ? 20 : 6), margin < 0 ? "end" : "start",
                       fmt::format("{} {:+.3g} %", outer ? "outer" : "margin", 100 * margin));
  }
  return out;
}

}  // namespace

std::string forest_svg(const ParityComparison& c) {
  const Scale scale = scale_of(c);
  const int bottom = kTop + kRow * static_cast<int>(c.arms.size() - 1);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
      "<title>Relative difference of the endpoint loss from BF16, by arm</title>\n",
      kWidth, bottom + kBottom);
  out += margins(c, scale, bottom);
  for (std::size_t i = 1; i < c.arms.size(); ++i)
    out += row(c.arms[i], scale, kTop + kRow * static_cast<int>(i - 1), i);
  for (const double tick : ticks_of({.label = "", .low = -scale.end, .high = scale.end})) {
    out += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n", scale.at(tick),
                       bottom, bottom + 4);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.3g}</text>\n", scale.at(tick),
                       bottom + 17, 100 * tick);
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">d = (L_arm - L_bf16) / L_bf16 (%)</text>\n",
                     (kLeft + kRight) / 2, bottom + 36);
  return out + "</svg>\n";
}

namespace {

constexpr int kSvgLeft = 72;  // room for the ticks' numbers and the label
constexpr int kSvgRight = 14;
constexpr int kSvgTop = 30;
ChartAxis usable(ChartAxis axis) {
  const bool ordered = std::isfinite(axis.low) && std::isfinite(axis.high) && axis.low < axis.high;
  const bool right = ordered && (!axis.logarithmic || axis.low > 0);
  if (!right) {
    axis.low = axis.logarithmic ? 1 : 0;
    axis.high = axis.logarithmic ? 10 : 1;
  }
  return axis;
}

double fraction_of(const ChartAxis& axis, double value) {
  if (axis.logarithmic) return std::log(value / axis.low) / std::log(axis.high / axis.low);
  return (value - axis.low) / (axis.high - axis.low);
}

// The fewest digits that tell the ticks apart, in the axis's unit.
std::string tick_text(const ChartAxis& axis, double value) {
  const double shown = axis.percent ? 100 * value : value;
  if (shown == 0) return "0";
  if (axis.logarithmic && (shown < 0.001 || shown >= 1e6)) return fmt::format("{:.0e}", shown);
  if (std::abs(shown) >= 1e4) return fmt::format("{:.4g}k", shown / 1e3);
  return fmt::format("{:.4g}", shown);
}

std::vector<double> log_ticks(const ChartAxis& axis) {
  const double decades = std::log10(axis.high / axis.low);
  std::vector<double> ticks;
  const int first = static_cast<int>(std::floor(std::log10(axis.low)));
  const int last = static_cast<int>(std::ceil(std::log10(axis.high)));
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 6)));
  for (int power = first; power <= last; ++power) {
    for (const double m : {1.0, 2.0, 5.0}) {
      if (m > 1 && decades > 2.5) continue;
      if (m == 1 && decades > 6 && power % every != 0) continue;
      const double tick = m * std::pow(10.0, power);
      // 1e-9: a tick that is an end of the axis but for its rounding belongs to it.
      if (tick >= axis.low * (1 - 1e-9) && tick <= axis.high * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

}  // namespace

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return out;
}

std::vector<double> ticks_of(const ChartAxis& given) {
  const ChartAxis axis = usable(given);
  if (axis.logarithmic) return log_ticks(axis);
  const double rough = (axis.high - axis.low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double m = rough / power;
  const double step = power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  const auto first = static_cast<std::int64_t>(std::ceil(axis.low / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(axis.high / step + 1e-9));
  for (std::int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

Chart::Chart(ChartSpec spec) : spec_(std::move(spec)) {
  spec_.x = usable(spec_.x);
  spec_.y = usable(spec_.y);
}

double Chart::at_x(double value) const { return fraction_of(spec_.x, value) * (spec_.width - kSvgLeft - kSvgRight); }

double Chart::at_y(double value) const {
  return (1 - fraction_of(spec_.y, value)) * (spec_.height - kSvgTop - kBottom);
}

void Chart::line(const StepCurve& curve, std::string_view css, std::string_view tooltip) {
  std::string path;
  bool pen_down = false;
  for (const StepValue& p : curve) {
    const double x = at_x(static_cast<double>(p.step));
    const double y = at_y(p.value);
    const bool drawn = std::isfinite(x) && std::isfinite(y);
    if (drawn) path += fmt::format("{}{:.1f},{:.1f}", pen_down ? " L" : " M", x, y);
    pen_down = drawn;
  }
  if (path.empty()) return;
  body_ += fmt::format("<path class=\"line {}\" d=\"{}\">", css, path.substr(1));
  if (!tooltip.empty()) body_ += "<title>" + escaped_xml(tooltip) + "</title>";
  body_ += "</path>\n";
}

void Chart::dots(const StepCurve& curve, std::string_view css) {
  for (const StepValue& p : curve) {
    const double x = at_x(static_cast<double>(p.step));
    const double y = at_y(p.value);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    body_ += fmt::format("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", css, x, y);
  }
}

void Chart::band(const std::vector<BandPoint>& points, std::string_view css) {
  std::string there;
  std::string back;
  for (const BandPoint& p : points) {
    const double x = at_x(static_cast<double>(p.step));
    const double low = at_y(p.low);
    const double high = at_y(p.high);
    if (!std::isfinite(x) || !std::isfinite(low) || !std::isfinite(high)) continue;
    there += fmt::format("{:.1f},{:.1f} ", x, high);
    back = fmt::format(" {:.1f},{:.1f}", x, low) + back;
  }
  if (there.empty()) return;
  there.pop_back();
  body_ += fmt::format("<polygon class=\"band {}\" points=\"{}{}\"/>\n", css, there, back);
}

void Chart::level(double value, std::string_view label) {
  const double y = at_y(value);
  const int width = spec_.width - kSvgLeft - kSvgRight;
  const bool inside = y >= 0 && y <= spec_.height - kSvgTop - kBottom;
  if (!inside) return;
  body_ += fmt::format("<line class=\"level\" x1=\"0\" y1=\"{0:.1f}\" x2=\"{1}\" y2=\"{0:.1f}\"/>\n", y, width);
  constexpr double kLineHeight = 12;
  const auto covers = [&](double other) { return std::abs(other - y) < kLineHeight; };
  if (label.empty() || std::ranges::any_of(label_heights_, covers)) return;
  label_heights_.push_back(y);
  labels_ += fmt::format("<text class=\"note\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                         spec_.width - kSvgRight - 3, y + kSvgTop - 3, escaped_xml(label));
}

std::string Chart::axes() const {
  const int right = spec_.width - kSvgRight;
  const int bottom = spec_.height - kBottom;
  std::string out;
  for (const double tick : ticks_of(spec_.y)) {
    const double y = kSvgTop + at_y(tick);
    out +=
        fmt::format("<line class=\"grid\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/>\n", kSvgLeft, y, right);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kSvgLeft - 6, y + 4,
                       tick_text(spec_.y, tick));
  }
  for (const double tick : ticks_of(spec_.x)) {
    const double x = kSvgLeft + at_x(tick);
    out += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n", x, bottom,
                       bottom + 4);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x, bottom + 17,
                       tick_text(spec_.x, tick));
  }
  out += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/>\n", kSvgLeft, bottom, right);
  const auto label = [](const ChartAxis& axis) { return escaped_xml(axis.label) + (axis.percent ? " (%)" : ""); };
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kSvgLeft + right) / 2,
                     spec_.height - 8, label(spec_.x));
  out += fmt::format("<text transform=\"translate(13,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     (kSvgTop + bottom) / 2, label(spec_.y));
  return out;
}

std::string Chart::svg() const {
  const int width = spec_.width - kSvgLeft - kSvgRight;
  const int height = spec_.height - kSvgTop - kBottom;
  const std::string title = escaped_xml(spec_.title);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
      "<title>{2}</title>\n<text class=\"head\" x=\"{3}\" y=\"17\">{2}</text>\n",
      spec_.width, spec_.height, title, kSvgLeft);
  out += axes();
  // An inner svg cuts off what is outside of it.
  out += fmt::format("<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\n", kSvgLeft, kSvgTop, width, height);
  return out + body_ + "</svg>\n" + labels_ + "</svg>\n";
}

}  // namespace mxcheck

#include "trainer/report/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace mxcheck {
namespace {

constexpr int kLeft = 72;  // room for the ticks' numbers and the label
constexpr int kRight = 14;
constexpr int kTop = 30;
constexpr int kBottom = 44;

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

double Chart::at_x(double value) const { return fraction_of(spec_.x, value) * (spec_.width - kLeft - kRight); }

double Chart::at_y(double value) const { return (1 - fraction_of(spec_.y, value)) * (spec_.height - kTop - kBottom); }

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
  const int width = spec_.width - kLeft - kRight;
  const bool inside = y >= 0 && y <= spec_.height - kTop - kBottom;
  if (!inside) return;
  body_ += fmt::format("<line class=\"level\" x1=\"0\" y1=\"{0:.1f}\" x2=\"{1}\" y2=\"{0:.1f}\"/>\n", y, width);
  constexpr double kLineHeight = 12;
  const auto covers = [&](double other) { return std::abs(other - y) < kLineHeight; };
  if (label.empty() || std::ranges::any_of(label_heights_, covers)) return;
  label_heights_.push_back(y);
  labels_ += fmt::format("<text class=\"note\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                         spec_.width - kRight - 3, y + kTop - 3, escaped_xml(label));
}

std::string Chart::axes() const {
  const int right = spec_.width - kRight;
  const int bottom = spec_.height - kBottom;
  std::string out;
  for (const double tick : ticks_of(spec_.y)) {
    const double y = kTop + at_y(tick);
    out += fmt::format("<line class=\"grid\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/>\n", kLeft, y, right);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 6, y + 4,
                       tick_text(spec_.y, tick));
  }
  for (const double tick : ticks_of(spec_.x)) {
    const double x = kLeft + at_x(tick);
    out += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n", x, bottom,
                       bottom + 4);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x, bottom + 17,
                       tick_text(spec_.x, tick));
  }
  out += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/>\n", kLeft, bottom, right);
  const auto label = [](const ChartAxis& axis) { return escaped_xml(axis.label) + (axis.percent ? " (%)" : ""); };
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kLeft + right) / 2,
                     spec_.height - 8, label(spec_.x));
  out += fmt::format("<text transform=\"translate(13,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     (kTop + bottom) / 2, label(spec_.y));
  return out;
}

std::string Chart::svg() const {
  const int width = spec_.width - kLeft - kRight;
  const int height = spec_.height - kTop - kBottom;
  const std::string title = escaped_xml(spec_.title);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
      "<title>{2}</title>\n<text class=\"head\" x=\"{3}\" y=\"17\">{2}</text>\n",
      spec_.width, spec_.height, title, kLeft);
  out += axes();
  // An inner svg cuts off what is outside of it.
  out += fmt::format("<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\n", kLeft, kTop, width, height);
  return out + body_ + "</svg>\n" + labels_ + "</svg>\n";
}

}  // namespace mxcheck

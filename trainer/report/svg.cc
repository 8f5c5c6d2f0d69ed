#include "trainer/report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "trainer/report/colours.h"

namespace mxcheck {
namespace {

constexpr int kSvgLeft = 66;   // room for the ticks' numbers and the label
constexpr int kSvgRight = 20;  // and for half of the last number
constexpr int kSvgTop = 30;
constexpr int kSvgBottom = 44;
constexpr int kSvgTitleLeft = 8;
constexpr double kSvgBoldLetter = 7.4;  // a letter's width, about

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
  return (1 - fraction_of(spec_.y, value)) * (spec_.height - kSvgTop - kSvgBottom);
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

void Chart::whiskers(const std::vector<BandPoint>& points, std::string_view css) {
  for (const BandPoint& p : points) {
    const double x = at_x(static_cast<double>(p.step));
    const double low = at_y(p.low);
    const double high = at_y(p.high);
    if (!std::isfinite(x) || !std::isfinite(low) || !std::isfinite(high)) continue;
    body_ += fmt::format("<line class=\"thin {0}\" x1=\"{1:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{3:.1f}\"/>\n",
                         css, x, low, high);
  }
}

void Chart::shade(double low, double high) {
  const double top = std::max(0.0, at_y(high));
  const double bottom = std::min<double>(spec_.height - kSvgTop - kSvgBottom, at_y(low));
  const bool is_seen = top < bottom;
  if (!is_seen) return;
  // Below the grid and all else that is drawn.
  under_ += fmt::format("<rect class=\"inside\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"/>\n", kSvgLeft,
                        kSvgTop + top, spec_.width - kSvgLeft - kSvgRight, bottom - top);
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
  const bool inside = y >= 0 && y <= spec_.height - kSvgTop - kSvgBottom;
  if (!inside) return;
  body_ += fmt::format("<line class=\"level\" x1=\"0\" y1=\"{0:.1f}\" x2=\"{1}\" y2=\"{0:.1f}\"/>\n", y, width);
  constexpr double kLineHeight = 14;
  const auto covers = [&](double other) { return std::abs(other - y) < kLineHeight; };
  if (label.empty() || std::ranges::any_of(label_heights_, covers)) return;
  label_heights_.push_back(y);
  labels_ += fmt::format("<text class=\"note\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                         spec_.width - kSvgRight - 3, y + kSvgTop - 3, escaped_xml(label));
}

std::string Chart::axes() const {
  const int right = spec_.width - kSvgRight;
  const int bottom = spec_.height - kSvgBottom;
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
  const int height = spec_.height - kSvgTop - kSvgBottom;
  const std::string title = escaped_xml(spec_.title);
  const auto room = static_cast<std::size_t>((spec_.width - 2 * kSvgTitleLeft) / kSvgBoldLetter);
  const std::string head = spec_.title.size() <= room ? title : escaped_xml(spec_.title.substr(0, room - 3)) + "...";
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
      "<title>{2}</title>\n<text class=\"head\" x=\"{3}\" y=\"17\">{4}</text>\n",
      spec_.width, spec_.height, title, kSvgTitleLeft, head);
  out += under_ + axes();
  // An inner svg cuts off what is outside of it.
  out += fmt::format("<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\n", kSvgLeft, kSvgTop, width, height);
  return out + body_ + "</svg>\n" + labels_ + "</svg>\n";
}

namespace {

struct Rgb {
  double red, green, blue;  // linear
};

// OKLab's published matrices (Ottosson 2020).
Rgb rgb_of(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue);
  const double b = chroma * std::sin(hue);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

int byte_of(double linear) {
  const double c = std::clamp(linear, 0.0, 1.0);
  return static_cast<int>(std::lround(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055)));
}

// The most chroma up to kChroma that a screen has at this hue and lightness.
std::string hex_of(double lightness, double degrees) {
  constexpr double kChroma = 0.15;
  const double hue = degrees * std::numbers::pi / 180;
  Rgb rgb{};
  for (double chroma = kChroma; chroma > 0; chroma -= 0.005) {
    rgb = rgb_of(lightness, chroma, hue);
    const auto fits = [](double c) { return c >= 0 && c <= 1; };
    if (fits(rgb.red) && fits(rgb.green) && fits(rgb.blue)) break;
  }
  return fmt::format("#{:02x}{:02x}{:02x}", byte_of(rgb.red), byte_of(rgb.green), byte_of(rgb.blue));
}

constexpr std::size_t kHues = 10;
constexpr std::array<double, 4> kLightOnWhite{0.40, 0.63, 0.48, 0.56};
constexpr std::array<double, 4> kLightOnBlack{0.70, 0.90, 0.78, 0.84};
constexpr std::array<std::string_view, 4> kDashes{"", "7 3", "2 3", "10 3 2 3"};
static_assert(kSeriesColours == kHues * kLightOnWhite.size());

}  // namespace

std::string series_class(std::size_t arm) { return "s" + std::to_string(arm); }

std::string series_colour(std::size_t arm, bool on_black) {
  if (arm == 0) return on_black ? "#b9bbc2" : "#55575e";
  const std::size_t i = arm - 1;
  const std::size_t turn = i / kHues;
  // Neighbours in the list are far apart on the circle, of which red and its neighbours, 335 to 65 degrees, are left
  // out; those on the circle differ in lightness. The hues of a turn are between those of another.
  const double step = 270.0 / kHues;
  const double hue = 65 + step * (static_cast<double>(3 * i % kHues) + static_cast<double>(turn % 4) / 4);
  return hex_of((on_black ? kLightOnBlack : kLightOnWhite)[(i + turn) % kLightOnWhite.size()], hue);
}

std::string series_style(std::size_t arms) {
  std::string light;
  std::string dark;
  for (std::size_t i = 0; i < arms; ++i) {
    const std::string name = series_class(i);
    light += fmt::format(".{} {{ color: {}; }}\n", name, series_colour(i, false));
    dark += fmt::format(".{} {{ color: {}; }}\n", name, series_colour(i, true));
    // A turn has dashes of its own; where colours begin again they have others than before.
    const std::size_t turn = i == 0 ? 0 : (i - 1) / kHues + (i - 1) / kSeriesColours;
    const std::string_view dashes = kDashes[turn % kDashes.size()];
    if (!dashes.empty()) light += fmt::format(".line.{} {{ stroke-dasharray: {}; }}\n", name, dashes);
  }
  return light + "@media (prefers-color-scheme: dark) {\n" + dark + "}\n";
}

}  // namespace mxcheck

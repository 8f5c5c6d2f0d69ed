#include "pages/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "pages/html.h"

namespace mxcheck::svg {
namespace {

constexpr int kLeft = 66;   // room for the ticks' numbers and the label
constexpr int kRight = 20;  // and for half of the last number
constexpr int kTop = 30;
constexpr int kBottom = 44;
constexpr int kTitleLeft = 8;
constexpr double kBoldLetter = 7.4;  // a letter's width, about

Axis usable(Axis axis) {
  const bool ordered = std::isfinite(axis.low) && std::isfinite(axis.high) && axis.low < axis.high;
  const bool right = ordered && (!axis.logarithmic || axis.low > 0);
  if (!right) {
    axis.low = axis.logarithmic ? 1 : 0;
    axis.high = axis.logarithmic ? 10 : 1;
  }
  return axis;
}

double fraction_of(const Axis& axis, double value) {
  if (axis.logarithmic) return std::log(value / axis.low) / std::log(axis.high / axis.low);
  return (value - axis.low) / (axis.high - axis.low);
}

// The fewest digits that tell the ticks apart, in the axis's unit.
std::string tick_text(const Axis& axis, double value) {
  const double shown = axis.percent ? 100 * value : value;
  if (shown == 0) return "0";
  if (axis.logarithmic && (shown < 0.001 || shown >= 1e6)) return fmt::format("{:.0e}", shown);
  if (std::abs(shown) >= 1e4) return fmt::format("{:.4g}k", shown / 1e3);
  return fmt::format("{:.4g}", shown);
}

std::vector<double> log_ticks(const Axis& axis) {
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

// Every second one, as often as there are too many.
std::vector<double> thinned(std::vector<double> ticks, std::size_t most) {
  while (ticks.size() > std::max<std::size_t>(2, most)) {
    for (std::size_t i = 1; i < ticks.size(); ++i) ticks.erase(ticks.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return ticks;
}

std::string pair_of(double x, double y) { return number(x) + "," + number(y); }

}  // namespace

const std::string_view kChartStyle = R"(
svg text { font: 13px system-ui, "Liberation Sans", sans-serif; fill: var(--soft); } svg text.head { fill: var(--ink);
  font-weight: 600; }
svg text.ink { fill: var(--ink); }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); } .level { stroke: var(--soft); stroke-dasharray: 5 4; }
.inside { fill: #e3f0e6; } @media (prefers-color-scheme: dark) { .inside { fill: #1d3325; } }
.line { fill: none; stroke-width: 1.6; stroke: currentColor; stroke-linejoin: round; } .dot { fill: currentColor; }
.thin { stroke: currentColor; } .band { fill: currentColor; opacity: 0.18; }
)";

std::vector<double> ticks_of(const Axis& given) {
  const Axis axis = usable(given);
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

void Chart::line(const std::vector<Point>& points, const std::string& css, const std::string& tooltip) {
  std::string path;
  bool pen_down = false;
  for (const Point& p : points) {
    const double x = at_x(p.x);
    const double y = at_y(p.y);
    const bool drawn = std::isfinite(x) && std::isfinite(y);
    if (drawn) path += (pen_down ? " L" : " M") + pair_of(x, y);
    pen_down = drawn;
  }
  if (!path.empty()) body_.path(path.substr(1), {.css = "line " + css, .title = tooltip});
}

void Chart::dots(const std::vector<Point>& points, const std::string& css) {
  for (const Point& p : points) {
    const double x = at_x(p.x);
    const double y = at_y(p.y);
    if (std::isfinite(x) && std::isfinite(y)) body_.circle(x, y, 3, {.css = "dot " + css});
  }
}

void Chart::whiskers(const std::vector<Span>& spans, const std::string& css) {
  for (const Span& s : spans) {
    const double x = at_x(s.x);
    const double low = at_y(s.low);
    const double high = at_y(s.high);
    if (!std::isfinite(x) || !std::isfinite(low) || !std::isfinite(high)) continue;
    body_.line(x, low, x, high, {.css = "thin " + css});
  }
}

void Chart::shade(double low, double high) {
  const double top = std::max(0.0, at_y(high));
  const double bottom = std::min<double>(spec_.height - kTop - kBottom, at_y(low));
  const bool is_seen = top < bottom;
  if (is_seen) under_.rect(kLeft, kTop + top, spec_.width - kLeft - kRight, bottom - top, {.css = "inside"});
}

void Chart::band(const std::vector<Span>& spans, const std::string& css) {
  std::string there;
  std::string back;
  for (const Span& s : spans) {
    const double x = at_x(s.x);
    const double low = at_y(s.low);
    const double high = at_y(s.high);
    if (!std::isfinite(x) || !std::isfinite(low) || !std::isfinite(high)) continue;
    there += (there.empty() ? "" : " ") + pair_of(x, high);
    back = " " + pair_of(x, low) + back;
  }
  if (!there.empty()) body_.polygon(there + back, {.css = "band " + css});
}

void Chart::level(double value, std::string_view label) {
  const double y = at_y(value);
  const bool inside = y >= 0 && y <= spec_.height - kTop - kBottom;
  if (!inside) return;
  body_.line(0, y, spec_.width - kLeft - kRight, y, {.css = "level"});
  constexpr double kLineHeight = 14;
  const auto covers = [&](double other) { return std::abs(other - y) < kLineHeight; };
  if (label.empty() || std::ranges::any_of(label_heights_, covers)) return;
  label_heights_.push_back(y);
  labels_.text(spec_.width - kRight - 3, y + kTop - 3, label, {.css = "ink", .anchor = "end"});
}

void Chart::draw_axes(Drawing& d) const {
  const int right = spec_.width - kRight;
  const int bottom = spec_.height - kBottom;
  for (const double tick : ticks_of(spec_.y)) {
    const double y = kTop + at_y(tick);
    d.line(kLeft, y, right, y, {.css = "grid"});
    d.text(kLeft - 6, y + 4, tick_text(spec_.y, tick), {.anchor = "end"});
  }
  const std::vector<double> ticks = ticks_of(spec_.x);
  std::size_t letters = 1;
  for (const double tick : ticks) letters = std::max(letters, tick_text(spec_.x, tick).size());
  const auto room = static_cast<std::size_t>((right - kLeft) / (kBoldLetter * (static_cast<double>(letters) + 1)));
  for (const double tick : thinned(ticks, room)) {
    const double x = kLeft + at_x(tick);
    d.line(x, bottom, x, bottom + 4, {.css = "axis"});
    d.text(x, bottom + 17, tick_text(spec_.x, tick), {.anchor = "middle"});
  }
  d.line(kLeft, bottom, right, bottom, {.css = "axis"});
  const auto label = [](const Axis& axis) { return axis.label + (axis.percent ? " (%)" : ""); };
  d.text((kLeft + right) / 2, spec_.height - 8, label(spec_.x), {.anchor = "middle"});
  const std::string turned = fmt::format("transform=\"translate(13,{}) rotate(-90)\"", (kTop + bottom) / 2);
  d.text(0, 0, label(spec_.y), {.attributes = turned, .anchor = "middle"});
}

Drawing Chart::drawing() const {
  const auto room = static_cast<std::size_t>((spec_.width - 2 * kTitleLeft) / kBoldLetter);
  const std::string& title = spec_.title;
  Drawing d;
  d.text(kTitleLeft, 17, title.size() <= room ? title : title.substr(0, room - 3) + "...", {.css = "head"});
  d.add(under_);
  draw_axes(d);
  d.inset(kLeft, kTop, spec_.width - kLeft - kRight, spec_.height - kTop - kBottom, body_);
  d.add(labels_);
  return d;
}

std::string Chart::picture() const {
  return drawing().picture({.title = spec_.title, .width = 1.0 * spec_.width, .height = 1.0 * spec_.height});
}

namespace {

// Where the bars' axis begins: at zero, or where differences are to be seen at a tick, so that the least bar is left.
double beginning_of(const std::vector<Bar>& bars, double largest, bool shows_differences) {
  double least = largest;
  for (const Bar& bar : bars) least = std::isfinite(bar.value) && bar.value > 0 ? std::min(least, bar.value) : least;
  if (!shows_differences || least >= largest || least < largest / 2) return 0;
  const double span = largest - least;
  const std::vector<double> ticks = ticks_of({.label = "", .low = std::max(0.0, least - span), .high = largest});
  double begin = 0;
  for (const double tick : ticks) begin = tick <= least - 0.1 * span ? tick : begin;
  return begin;
}

}  // namespace

std::string bar_chart(const std::vector<Bar>& bars, const BarChartSpec& spec) {
  double largest = 0;
  for (const Bar& bar : bars) largest = std::isfinite(bar.value) ? std::max(largest, bar.value) : largest;
  const Axis axis = usable({.label = "",
                            .low = beginning_of(bars, largest, spec.shows_differences),
                            .high = spec.unit.empty() ? largest : std::max(1.0, largest)});
  const auto share = [&](double value) { return std::clamp(100 * fraction_of(axis, value), 0.0, 100.0); };
  constexpr std::size_t kMostTicks = 5;  // on a phone
  const auto ticks = spec.unit.empty() ? std::vector<double>{} : thinned(ticks_of(axis), kMostTicks);
  constexpr double kHeight = 14;
  std::string out = fmt::format("<div class=\"bars\" role=\"group\" aria-label=\"{}\">\n", html::escaped(spec.title));
  for (const Bar& bar : bars) {
    Drawing d;
    for (const double tick : ticks)
      d.line(percent(share(tick)), -2, percent(share(tick)), kHeight + 2, {.css = "grid"});
    const bool drawn = std::isfinite(bar.value) && bar.value > 0;
    if (drawn) d.rect(0, 0, percent(std::max(0.5, share(bar.value))), kHeight, {.css = bar.css});
    out += fmt::format("<b>{}</b>{}<span>{}</span>\n", html::escaped(bar.label),
                       d.picture({.title = "", .height = kHeight, .sizing = Sizing::fluid}), html::escaped(bar.text));
  }
  Drawing d;
  for (const double tick : ticks) {
    const double at = share(tick);
    const std::string unit = tick == ticks.back() ? " " + spec.unit : "";
    d.text(percent(at), 13, number(tick) + unit, {.anchor = at < 8 ? "start" : at > 92 ? "end" : "middle"});
  }
  if (!ticks.empty()) out += d.picture({.title = "", .height = 18, .sizing = Sizing::fluid, .css = "ticks"});
  return out + "</div>\n";
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

std::string series_class(std::size_t series) { return "s" + std::to_string(series); }

std::string series_colour(std::size_t series, bool on_black) {
  if (series == 0) return on_black ? "#b9bbc2" : "#55575e";
  const std::size_t i = series - 1;
  const std::size_t turn = i / kHues;
  // From green-blue to magenta: red, amber and green are colours of verdicts. Neighbours in the list are far apart on
  // the circle; those on the circle differ in lightness. The hues of a turn are between those of another.
  const double step = 160.0 / kHues;
  const double hue = 180 + step * (static_cast<double>(3 * i % kHues) + static_cast<double>(turn % 4) / 4);
  return hex_of((on_black ? kLightOnBlack : kLightOnWhite)[(i + turn) % kLightOnWhite.size()], hue);
}

std::string series_style(std::size_t count) {
  std::string light;
  std::string dark;
  for (std::size_t i = 0; i < count; ++i) {
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

}  // namespace mxcheck::svg

#pragma once
// Charts as pictures of a page: lines, bands, points and levels on two axes; bars with their labels; and the colours of
// series. What lies outside of the axes is cut off; what is no finite number leaves a gap.
//
//   svg::Chart chart({.title = "Validation loss", .x = {.label = "step", .low = 1, .high = 1000, .logarithmic = true},
//                     .y = {.label = "nats per byte", .low = 2, .high = 6}});
//   chart.line(curve, svg::series_class(1));
//   page += chart.picture();
//
// A page with a chart has kChartStyle, and series_style() where it has series. Errors: none. An axis whose ends are no
// numbers or the wrong way round becomes 0 to 1, or 1 to 10 where logarithmic.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "pages/svg.h"

namespace mxcheck::svg {

struct Axis {
  std::string label;
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  bool percent = false;  // values are shares; ticks are in percent
};

// Where ticks are: at 1, 2 or 5 times a power of ten, about five of them; of logarithmic axes at powers of ten, and at
// 2 and 5 times them where those are few.
std::vector<double> ticks_of(const Axis& axis);

struct ChartSpec {
  std::string title;
  Axis x;
  Axis y;
  int width = 340;  // with 13 px of text: 11 px on a phone that is 320 px wide
  int height = 250;
};

struct Point {
  double x = 0;
  double y = 0;
};
struct Span {
  double x = 0;
  double low = 0;
  double high = 0;
};

class Chart {
 public:
  explicit Chart(ChartSpec spec);

  void line(const std::vector<Point>& points, const std::string& css, const std::string& tooltip = "");
  void dots(const std::vector<Point>& points, const std::string& css);
  void band(const std::vector<Span>& spans, const std::string& css);
  void whiskers(const std::vector<Span>& spans, const std::string& css);
  void shade(double low, double high);  // between two values of y, below all else
  // A dashed horizontal line; its label is left out where it would cover another level's.
  void level(double y, std::string_view label);

  [[nodiscard]] std::string picture() const;  // for a page
  [[nodiscard]] Drawing drawing() const;      // the same, for a picture of several charts

 private:
  [[nodiscard]] double at_x(double value) const;  // pixels, inside of the plot's area
  [[nodiscard]] double at_y(double value) const;
  void draw_axes(Drawing& d) const;

  ChartSpec spec_;
  Drawing under_;
  Drawing body_;
  Drawing labels_;
  std::vector<double> label_heights_;
};

extern const std::string_view kChartStyle;

// Horizontal bars, a line each: label, bar, text; on a narrow page the label is above its bar. A value that is no
// positive number has its texts alone. All are of html::kBaseStyle.
struct Bar {
  std::string label;
  double value = 0;
  std::string text;
  std::string css = "bar";  // of the bar
};
struct BarChartSpec {
  std::string title;
  std::string unit = "";           // of ticks below the bars; empty: none
  bool shows_differences = false;  // values that are close to one another: the axis begins at a tick below the least
};
std::string bar_chart(const std::vector<Bar>& bars, const BarChartSpec& spec);

// Colours of series: number i is class "s<i>". The first, the baseline, is grey; the others are spread over hue and
// lightness, and lines over dashes, too. Red, amber and green are none of them: they are for verdicts.
inline constexpr std::size_t kSeriesColours = 40;  // all different, the grey one besides; later ones differ by dashes

std::string series_class(std::size_t series);
std::string series_colour(std::size_t series, bool on_black);  // "#2a78d6"
std::string series_style(std::size_t count);                   // the style sheet of so many

}  // namespace mxcheck::svg

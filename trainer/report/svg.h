#pragma once
// A chart as inline SVG: axes with ticks and units, lines, bands, points and levels. Colours are the page's, by class:
// "s0" ... of a series, "axis", "grid", "level". What lies outside of the axes is cut off; what is no finite number
// leaves a gap.
//
//   Chart chart({.title = "Validation loss", .x = {.label = "step", .low = 1, .high = 1000, .logarithmic = true},
//                .y = {.label = "nats per byte", .low = 2, .high = 6}});
//   chart.line(curve, "s1");
//   page += chart.svg();
//
// Errors: none. An axis whose ends are no numbers or the wrong way round becomes 0 to 1, or 1 to 10 where logarithmic.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/compare/trajectory.h"

namespace mxcheck {

std::string escaped_xml(std::string_view text);  // with what is not printable ASCII as '?'

struct ChartAxis {
  std::string label;
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  bool percent = false;  // values are shares; ticks are in percent
};

// Where ticks are: at 1, 2 or 5 times a power of ten, about five of them; of logarithmic axes at powers of ten, and at
// 2 and 5 times them where those are few.
std::vector<double> ticks_of(const ChartAxis& axis);

struct ChartSpec {
  std::string title;
  ChartAxis x;
  ChartAxis y;
  int width = 340;  // with the page's 13 px of text: 11 px on a phone that is 320 px wide
  int height = 250;
};

struct BandPoint {
  std::int64_t step = 0;
  double low = 0;
  double high = 0;
};

class Chart {
 public:
  explicit Chart(ChartSpec spec);

  void line(const StepCurve& curve, std::string_view css, std::string_view tooltip = "");
  void dots(const StepCurve& curve, std::string_view css);
  void band(const std::vector<BandPoint>& points, std::string_view css);
  void whiskers(const std::vector<BandPoint>& points, std::string_view css);
  void shade(double low, double high);  // between two values of y, below all else
  // A dashed horizontal line; its label is left out where it would cover another level's.
  void level(double y, std::string_view label);

  [[nodiscard]] std::string svg() const;

 private:
  [[nodiscard]] double at_x(double value) const;  // pixels, inside of the plot's area
  [[nodiscard]] double at_y(double value) const;
  [[nodiscard]] std::string axes() const;

  ChartSpec spec_;
  std::string under_;
  std::string body_;
  std::string labels_;
  std::vector<double> label_heights_;
};

}  // namespace mxcheck

#include "benchmarks/sm90/moe/report.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "pages/svg.h"

namespace mxcheck::bench {
namespace {

constexpr double kPanel = 700;  // one pass, names of the steps and times included
constexpr double kNames = 170;
constexpr double kTimes = 150;  // to the right of the longest bar
constexpr double kBars = kPanel - kNames - kTimes;
constexpr double kLine = 16;
constexpr double kMargin = 20;

// Told apart by people who do not see red or green, too (Okabe and Ito).
std::string_view color_of(StepKind kind) {
  switch (kind) {
    case StepKind::check: return "#999999";
    case StepKind::quantize: return "#e69f00";
    case StepKind::gemm: return "#0072b2";
    case StepKind::elementwise: return "#009e73";
  }
  return "#000000";
}

constexpr std::string_view kStyle =
    "text{font:11px sans-serif;fill:#222} .h{font-weight:bold;font-size:13px} line{stroke:#ddd}";

struct TimeLine {
  svg::Drawing drawing;
  double y = kMargin;

  void bar(double x, double at, double width, std::string_view color, const std::string& title) {
    drawing.rect(x, at, std::max(width, 0.5), kLine - 4,
                 {.title = title, .attributes = fmt::format("fill=\"{}\"", color)});
  }
};

// Microseconds between two lines of the grid: 1, 2 or 5 times a power of ten, at most ten of them.
double grid_of(double longest) {
  const double power = std::pow(10, std::floor(std::log10(std::max(longest, 1.0) / 10)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (longest / (factor * power) <= 10) return factor * power;
  }
  return 10 * power;
}

std::string duration(double us) {
  return us < 1000 ? fmt::format("{:.1f} us", us) : fmt::format("{:.2f} ms", us / 1e3);
}

std::string rate_of(const StepTime& s) {
  return s.kind == StepKind::gemm ? fmt::format("{:.0f} TFLOPS", s.tflops())
                                  : fmt::format("{:.2f} TB/s", s.bytes_per_second() / 1e12);
}

void draw_pass(const PassResult& p, const std::string& recipe, double left, double longest, TimeLine& d) {
  const double top = d.y;
  const double bars = left + kNames;
  d.drawing.text(left, top, fmt::format("{} {}: {}", recipe, to_text(p.direction), duration(p.call.median)),
                 {.css = "h"});
  const double bottom = top + 8 + kLine * static_cast<double>(p.steps.size());
  const double grid = grid_of(longest);
  for (int i = 0; i * grid <= longest; ++i) {
    const double x = bars + i * grid / longest * kBars;
    d.drawing.line(x, top + 6, x, bottom);
  }
  double begin = 0;
  double y = top + 8;
  for (const StepTime& s : p.steps) {
    const double x = bars + begin / longest * kBars;
    const double width = s.us / longest * kBars;
    const std::string label = fmt::format("{}, {}", duration(s.us), rate_of(s));
    d.drawing.text(bars - 6, y + kLine - 6, s.name, {.anchor = "end"});
    d.bar(x, y + 1, width, color_of(s.kind), fmt::format("{}: {}", s.name, label));
    d.drawing.text(x + std::max(width, 0.5) + 4, y + kLine - 6, label);
    begin += s.us;
    y += kLine;
  }
}

void draw_legend(TimeLine& d) {
  double x = kMargin;
  for (const auto& kind : kStepKinds) {
    d.bar(x, d.y, 14, color_of(kind.value), std::string(kind.name));
    d.drawing.text(x + 20, d.y + 10, std::string(kind.name));
    x += 120;
  }
  d.y += 2 * kLine;
}

void draw_shape(const ShapeResult& r, TimeLine& d) {
  double longest = 1;
  for (const RecipeResult& recipe : r.recipes) {
    for (const PassResult& p : recipe.passes) longest = std::max(longest, p.steps_us());
  }
  d.drawing.text(kMargin, d.y + kLine,
                 fmt::format("{}, {} routes; a grid of {}", r.shape.text(), r.load, duration(grid_of(longest))),
                 {.css = "h"});
  d.y += 3 * kLine;
  for (const RecipeResult& recipe : r.recipes) {
    std::size_t lines = 0;
    double left = kMargin;
    for (const PassResult& p : recipe.passes) {
      draw_pass(p, recipe.recipe, left, longest, d);
      lines = std::max(lines, p.steps.size());
      left += kPanel + kMargin;
    }
    d.y += kLine * static_cast<double>(lines + 2) + 8;
  }
}

}  // namespace

std::string time_line_svg(const MoeResults& results) {
  TimeLine d;
  draw_legend(d);
  for (const ShapeResult& r : results.shapes) draw_shape(r, d);
  return d.drawing.file(2 * kPanel + 3 * kMargin, d.y + kMargin,
                        "steps of mixture-of-experts layers, " + results.card.name, kStyle);
}

}  // namespace mxcheck::bench

#include "benchmarks/sm90/moe/svg.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

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

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

class Drawing {
 public:
  double y = kMargin;

  void text(double x, double at, const std::string& words, const char* style = "") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, at, style, escaped(words));
  }
  void bar(double x, double at, double width, std::string_view color, const std::string& title) {
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>{}</title></rect>\n", x,
        at, std::max(width, 0.5), kLine - 4, color, escaped(title));
  }
  void line(double x, double from, double to) {
    body_ += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n", x, from, to);
  }
  [[nodiscard]] std::string file(const std::string& title) const {
    return fmt::format(
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
               "{1:.0f}\">\n<title>{2}</title>\n"
               "<style>text{{font:11px sans-serif;fill:#222}} .h{{font-weight:bold;font-size:13px}} "
               ".e{{text-anchor:end}} line{{stroke:#ddd}}</style>\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               2 * kPanel + 3 * kMargin, y + kMargin, escaped(title)) +
           body_ + "</svg>\n";
  }

 private:
  std::string body_;
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

void draw_pass(const PassResult& p, const std::string& recipe, double left, double longest, Drawing& d) {
  const double top = d.y;
  const double bars = left + kNames;
  d.text(left, top, fmt::format("{} {}: {}", recipe, to_text(p.direction), duration(p.call.median)), " class=\"h\"");
  const double bottom = top + 8 + kLine * static_cast<double>(p.steps.size());
  const double grid = grid_of(longest);
  for (int i = 0; i * grid <= longest; ++i) d.line(bars + i * grid / longest * kBars, top + 6, bottom);
  double begin = 0;
  double y = top + 8;
  for (const StepTime& s : p.steps) {
    const double x = bars + begin / longest * kBars;
    const double width = s.us / longest * kBars;
    const std::string label = fmt::format("{}, {}", duration(s.us), rate_of(s));
    d.text(bars - 6, y + kLine - 6, s.name, " class=\"e\"");
    d.bar(x, y + 1, width, color_of(s.kind), fmt::format("{}: {}", s.name, label));
    d.text(x + std::max(width, 0.5) + 4, y + kLine - 6, label);
    begin += s.us;
    y += kLine;
  }
}

void draw_legend(Drawing& d) {
  double x = kMargin;
  for (const auto& kind : kStepKinds) {
    d.bar(x, d.y, 14, color_of(kind.value), std::string(kind.name));
    d.text(x + 20, d.y + 10, std::string(kind.name));
    x += 120;
  }
  d.y += 2 * kLine;
}

void draw_shape(const ShapeResult& r, Drawing& d) {
  double longest = 1;
  for (const RecipeResult& recipe : r.recipes) {
    for (const PassResult& p : recipe.passes) longest = std::max(longest, p.steps_us());
  }
  d.text(kMargin, d.y + kLine,
         fmt::format("{}, {} routes; a grid of {}", r.shape.text(), r.load, duration(grid_of(longest))),
         " class=\"h\"");
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
  Drawing d;
  draw_legend(d);
  for (const ShapeResult& r : results.shapes) draw_shape(r, d);
  return d.file("steps of mixture-of-experts layers, " + results.device);
}

}  // namespace mxcheck::bench

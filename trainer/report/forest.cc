#include "trainer/report/forest.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trainer/report/svg.h"
#include "trainer/report/words.h"

namespace mxcheck {
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

}  // namespace mxcheck

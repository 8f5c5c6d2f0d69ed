// flow_svg: boxes are tensors, dashed ones what a GEMM reads of them, ellipses steps.

#include <fmt/format.h>

#include "numerics/text.h"
#include "tools/layer/flow.h"

namespace mxcheck {
namespace {

constexpr int kWidth = 1040;
constexpr int kBoxWidth = 320;
constexpr int kBoxHeight = 28;
constexpr int kLeft = 20;
constexpr int kRight = 360;  // of a GEMM's second operand

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
  int y = 20;

  void heading(std::string_view text) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"h\">{}</text>\n", kLeft, y + 14, text);
    y += 30;
  }
  void box(int x, int at, const std::string& text, const char* kind) {
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" class=\"{}\"/>\n", x, at,
                         kBoxWidth, kBoxHeight, kind);
    label(x + kBoxWidth / 2, at + 19, text);
  }
  void ellipse(int x, int at, const std::string& text) {
    body_ += fmt::format("<ellipse cx=\"{}\" cy=\"{}\" rx=\"90\" ry=\"18\" class=\"s\"/>\n", x, at);
    label(x, at + 5, text);
  }
  void label(int x, int at, const std::string& text, const char* anchor = "middle") {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, at, anchor, escaped(text));
  }
  void arrow(int x0, int y0, int x1, int y1) {
    body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" marker-end=\"url(#a)\"/>\n", x0, y0, x1, y1);
  }
  [[nodiscard]] std::string text(const std::string& title) const {
    return fmt::format(
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
               "<title>{2}</title>\n"
               "<style>text{{font:13px monospace}} .h{{font-weight:bold}} rect,ellipse{{fill:white;stroke:black}}\n"
               "rect.q{{stroke-dasharray:4 3;fill:#eef3fb}} rect.k{{fill:#fdf3d8}} ellipse.s{{fill:#e9e9e9}} "
               "line{{stroke:black}}</style>\n"
               "<defs><marker id=\"a\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">"
               "<path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n"
               "<rect width=\"100%\" height=\"100%\" style=\"stroke:none\"/>\n",
               kWidth, y, escaped(title)) +
           body_ + "</svg>\n";
  }

 private:
  std::string body_;
};

void draw(const FlowStep& step, Drawing& d) {
  const bool quantizes = step.is_gemm && (step.inputs[0].becomes != "bf16" || step.inputs[1].becomes != "bf16");
  const int down = d.y + kBoxHeight + (quantizes ? 2 * kBoxHeight : 0);
  const int middle = (kLeft + kRight + kBoxWidth) / 2;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const FlowTensor& t = step.inputs[i];
    const int x = kLeft + static_cast<int>(i) * (kRight - kLeft);
    const int from = x + kBoxWidth / 2;
    d.box(x, d.y, t.name + "  " + t.type, "t");
    int out = d.y + kBoxHeight;
    if (quantizes && t.becomes != "bf16") {
      d.arrow(from, out, from, out + kBoxHeight);
      d.box(x, out + kBoxHeight, t.becomes, "q");
      out += 2 * kBoxHeight;
    }
    d.arrow(from, out, middle, down + 22);
  }
  d.ellipse(middle, down + 40, step.name);
  d.label(middle + 100, down + 45, step.does, "start");
  d.arrow(middle, down + 58, middle, down + 80);
  const auto tensor_text = [](const FlowTensor& t) { return t.name + "  " + t.type; };
  const std::string outputs = join(step.outputs, ",   ", tensor_text);
  int y = down + 80;
  d.label(middle, y + 19, outputs);
  if (!step.kept.empty()) {
    y += kBoxHeight;
    d.label(middle, y + 19, "kept: " + step.kept);
  }
  d.y = y + 2 * kBoxHeight;
}

}  // namespace

std::string flow_svg(const LayerRecipe& recipe) {
  Drawing d;
  d.heading("forward");
  for (const FlowStep& step : forward_flow(recipe)) draw(step, d);
  d.heading("backward");
  for (const FlowStep& step : backward_flow(recipe)) draw(step, d);
  return d.text("layer recipe " + recipe.name);
}

}  // namespace mxcheck

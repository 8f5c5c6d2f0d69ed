// flow_text: one column an operand, joined at its GEMM.

#include <fmt/format.h>

#include "numerics/text.h"
#include "tools/layer/flow.h"

namespace mxcheck {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kRight = 50;  // column of the second operand
constexpr std::size_t kMiddle = 25;

// A line with `text` written over it from `column` on, cut where the picture ends.
void put(std::string& line, std::size_t column, std::string_view text) {
  if (line.size() < column) line.resize(column, ' ');
  line.replace(column, std::min(text.size(), line.size() - column), text);
  if (line.size() > kWidth) line = line.substr(0, kWidth - 3) + "...";
}

std::string tensor_text(const FlowTensor& t) { return t.name + "  " + t.type; }

void draw_gemm(const FlowStep& step, std::string& to) {
  const auto line = [&](std::string_view left, std::string_view right) {
    std::string text;
    put(text, 2, left);
    put(text, kRight, right);
    to += text + "\n";
  };
  const FlowTensor& a = step.inputs[0];
  const FlowTensor& b = step.inputs[1];
  line(tensor_text(a), tensor_text(b));
  const auto quantized = [](const FlowTensor& t) { return t.becomes == "bf16" ? "  |" : "  [ " + t.becomes + " ]"; };
  if (a.becomes != "bf16" || b.becomes != "bf16") line(quantized(a), quantized(b));
  line("  |", "  |");
  const std::string name = "( " + step.name + " )";
  std::string join = "    +" + std::string(kRight + 2 - 5, '-') + "+  " + step.does;
  join.replace(kMiddle - name.size() / 2, name.size(), name);
  put(join, join.size(), "");
  to += join + "\n";
}

void draw_plain(const FlowStep& step, std::string& to) {
  to += "  " + join(step.inputs, ",   ", tensor_text) + "\n";
  std::string text;
  put(text, kMiddle - step.name.size() / 2 - 2, "( " + step.name + " )");
  if (!step.does.empty()) put(text, kRight + 5, step.does);
  to += text + "\n";
}

void draw(const FlowStep& step, std::string& to) {
  step.is_gemm ? draw_gemm(step, to) : draw_plain(step, to);
  std::string arrow;
  put(arrow, kMiddle, "|");
  to += arrow + "\n";
  std::string out;
  put(out, kMiddle, "v");
  put(out, kMiddle + 3, join(step.outputs, ",   ", tensor_text));
  to += out + "\n";
  if (!step.kept.empty()) {
    std::string kept;
    put(kept, kMiddle + 3, "kept: " + step.kept);
    to += kept + "\n";
  }
  to += "\n";
}

}  // namespace

std::string flow_text(const LayerRecipe& recipe) {
  std::string text = "forward\n\n";
  for (const FlowStep& step : forward_flow(recipe)) draw(step, text);
  text += "backward\n\n";
  for (const FlowStep& step : backward_flow(recipe)) draw(step, text);
  return text +
         "T tokens of width d, E experts of inner width n, R routed rows sorted by expert.\n"
         "[ ]: a tensor quantized (format, block, scales); ( ): a step. Type and shape follow a tensor's name.\n";
}

}  // namespace mxcheck

#include "tools/layer/layer.h"

#include <algorithm>

#include <fmt/format.h>

#include "goldens/layer/recipe_json.h"
#include "numerics/text.h"
#include "pages/svg.h"

namespace mxcheck {
namespace {

// A tensor of the layer: its type and shape, by its name in docs/layer.md.
struct Known {
  std::string_view name;
  std::string_view type;
};
constexpr std::array<Known, 10> kOperandTypes{{{"X", "bf16 [T, d]"},
                                               {"W1", "bf16 [E, d, 2n]"},
                                               {"A", "bf16 [R, n]"},
                                               {"W2", "bf16 [E, n, d]"},
                                               {"dO", "bf16 [T, d]"},
                                               {"dH", "bf16 [R, 2n]"},
                                               {"A'", "bf16 [R, n]"}}};

std::string type_of(std::string_view name) {
  for (const Known& known : kOperandTypes) {
    if (known.name == name) return std::string(known.type);
  }
  return "";
}

std::string operand_type(const LayerRecipe& r, LayerGemm gemm, std::string_view tensor) {
  const bool backward_x = gemm == LayerGemm::d_w1 && tensor == "X";
  if (backward_x && r.keeps_quantized_x) return rule_text(r.gemm(LayerGemm::up).a) + " [T, d]";
  return type_of(tensor);
}

std::string shown_name(LayerGemm gemm, std::string_view tensor) {
  const bool by_token = tensor == "X" || tensor == "dO";
  const bool transposed = gemm == LayerGemm::d_down || gemm == LayerGemm::d_up;
  const bool is_weight = tensor == "W1" || tensor == "W2";
  std::string name(tensor);
  if (gemm == LayerGemm::d_w1 && tensor == "X") name = "X kept";
  if (by_token) name += "[gather]";
  if (transposed && is_weight) name += "^T";
  return name;
}

FlowStep gemm_step(const LayerRecipe& r, LayerGemm gemm, FlowTensor output) {
  const GemmRule& rule = r.gemm(gemm);
  const LayerGemmSpec& g = spec(gemm);
  FlowStep step;
  step.name = g.name, step.is_gemm = true;
  const auto operand = [&](std::string_view tensor, const OperandRule& of) {
    step.inputs.push_back({shown_name(gemm, tensor), operand_type(r, gemm, tensor), rule_text(of)});
  };
  operand(g.a, rule.a);
  operand(g.b, rule.b);
  step.does = fmt::format("sum over {}: {}", g.k, rule.contract);
  step.outputs.push_back(std::move(output));
  return step;
}

FlowStep plain_step(std::string name, std::vector<FlowTensor> inputs, std::string does,
                    std::vector<FlowTensor> outputs) {
  return {std::move(name), std::move(inputs), std::move(does), std::move(outputs), "", false};
}

}  // namespace

std::string rule_text(const OperandRule& rule) {
  if (!rule.quantized()) return "bf16";
  return fmt::format("{} {} {}{}", spec(rule.format).name, block_text(rule), rule.scales,
                     rule.source == OperandSource::requantized ? " again" : "") +
         (rule.rotates == 0   ? ""
          : rule.random_signs ? fmt::format(" rotated{}", rule.rotates)
                              : " rotated") +
         (rule.stochastic ? " stochastic" : "");
}

std::vector<FlowStep> forward_flow(const LayerRecipe& r) {
  FlowStep up = gemm_step(r, LayerGemm::up, {"H", "bf16 [R, 2n]", ""});
  const std::string x = r.keeps_quantized_x ? "codes, " + rule_text(r.gemm(LayerGemm::up).a) : "bf16";
  up.kept = fmt::format("X as {}; H as {}", x, rule_text(r.kept_h));
  return {std::move(up), plain_step("SwiGLU", {{"H", "bf16 [R, 2n]", ""}}, "", {{"A", "bf16 [R, n]", ""}}),
          gemm_step(r, LayerGemm::down, {"Y", "bf16 [R, d]", ""}),
          plain_step("aggregate", {{"Y", "bf16 [R, d]", ""}, {"s", "fp32 [R]", ""}}, "fma over slots in order, FP32",
                     {{"O", "bf16 [T, d]", ""}})};
}

std::vector<FlowStep> backward_flow(const LayerRecipe& r) {
  return {
      gemm_step(r, LayerGemm::d_down, {"P", "fp32 [R, n]", ""}),
      plain_step("SwiGLU backward",
                 {{"H kept", rule_text(r.kept_h) + " [R, 2n]", ""}, {"P", "fp32 [R, n]", ""}, {"s", "fp32 [R]", ""}},
                 "", {{"A'", "bf16 [R, n]", ""}, {"dH", "bf16 [R, 2n]", ""}, {"dS", "fp32 [R]", ""}}),
      gemm_step(r, LayerGemm::d_w2, {"dW2", "fp32 [E, n, d]", ""}),
      gemm_step(r, LayerGemm::d_up, {"dX~", "bf16 [R, d]", ""}),
      plain_step("aggregate", {{"dX~", "bf16 [R, d]", ""}}, "sum over slots in order, FP32",
                 {{"dX", "bf16 [T, d]", ""}}),
      gemm_step(r, LayerGemm::d_w1, {"dW1", "fp32 [E, d, 2n]", ""})};
}

// flow_svg: boxes are tensors, dashed ones what a GEMM reads of them, ellipses steps. An arrow leads from a tensor that
// a step makes to each step that reads it.

namespace {

constexpr int kWidth = 1080;
constexpr int kBoxWidth = 320;
constexpr int kBoxHeight = 28;
constexpr int kLeft = 20;
constexpr int kColumn = 340;  // from an operand to the next
constexpr int kMiddle = kLeft + (kColumn + kBoxWidth) / 2;
constexpr int kGap = 48;     // between steps, for the arrows from one to the next
constexpr int kLane = 1056;  // right of all boxes: arrows to later steps

constexpr std::string_view kStyle =
    "text{font:13px monospace} .h{font-weight:bold} rect,ellipse{fill:white;stroke:black}\n"
    "rect.q{stroke-dasharray:4 3;fill:#eef3fb} ellipse.s{fill:#e9e9e9} line,path.flow{stroke:black;fill:none}\n"
    "@media (prefers-color-scheme:dark){.paper{fill:#17181b} text,path{fill:#ececef} rect,ellipse{fill:#1e2024}\n"
    "rect,ellipse,line,path.flow{stroke:#ececef} rect.q{fill:#21405f} ellipse.s{fill:#36383e}}";

constexpr int column_at(std::size_t i) { return kLeft + static_cast<int>(i) * kColumn; }

struct Flow {
  // The box of a tensor that a step made.
  struct Made {
    std::string name;
    int x, bottom;
    bool is_of_last_step;
  };
  svg::Drawing drawing;
  int y = 20;
  std::vector<Made> made;

  void heading(std::string_view text) {
    drawing.text(kLeft, y + 14, text, {.css = "h"});
    y += 30;
    made.clear();
  }
  void box(int x, int at, const std::string& text, const char* kind) {
    drawing.rect(x, at, kBoxWidth, kBoxHeight, {.css = kind, .attributes = "rx=\"3\""});
    label(x + kBoxWidth / 2, at + 19, text);
  }
  void ellipse(int x, int at, const std::string& text) {
    drawing.ellipse(x, at, 90, 18, {.css = "s"});
    label(x, at + 5, text);
  }
  void label(int x, int at, const std::string& text, const char* anchor = "middle") {
    drawing.text(x, at, text, {.anchor = anchor});
  }
  void arrow(int x0, int y0, int x1, int y1) { drawing.arrow(x0, y0, x1, y1); }

  // The line from the step that made a tensor to the one that reads it: down, or along the lane past the steps between.
  void connect(const std::string& name, int x) {
    const auto from = std::ranges::find_if(made, [&](const Made& m) { return m.name == name; });
    if (from == made.end()) return;
    const int turn = y - 16;
    const std::string end = fmt::format("V{}H{}", turn, x);
    const std::string path = from->is_of_last_step ? fmt::format("M{},{}{}", from->x, from->bottom, end)
                                                   : fmt::format("M{},{}v12H{}{}", from->x, from->bottom, kLane, end);
    drawing.path(path, {.css = "flow"});
    arrow(x, turn, x, y);
  }
};

void draw_inputs(const FlowStep& step, bool quantizes, int down, Flow& d) {
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const FlowTensor& t = step.inputs[i];
    const int x = column_at(i);
    const int from = x + kBoxWidth / 2;
    d.connect(t.name, from);
    d.box(x, d.y, t.name + "  " + t.type, "t");
    int out = d.y + kBoxHeight;
    if (quantizes && t.becomes != "bf16") {
      d.arrow(from, out, from, out + kBoxHeight);
      d.box(x, out + kBoxHeight, t.becomes, "q");
      out += 2 * kBoxHeight;
    }
    d.arrow(from, out, kMiddle, down + 22);
  }
}

void draw(const FlowStep& step, Flow& d) {
  const bool quantizes = step.is_gemm && (step.inputs[0].becomes != "bf16" || step.inputs[1].becomes != "bf16");
  const int down = d.y + kBoxHeight + (quantizes ? 2 * kBoxHeight : 0);
  draw_inputs(step, quantizes, down, d);
  d.ellipse(kMiddle, down + 40, step.name);
  d.label(kMiddle + 100, down + 45, step.does, "start");
  const int y = down + 84;
  for (Flow::Made& m : d.made) m.is_of_last_step = false;
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const FlowTensor& t = step.outputs[i];
    const int x = step.outputs.size() == 1 ? kMiddle - kBoxWidth / 2 : column_at(i);
    d.arrow(kMiddle, down + 58, x + kBoxWidth / 2, y);
    d.box(x, y, t.name + "  " + t.type, "t");
    d.made.push_back({t.name, x + kBoxWidth / 2, y + kBoxHeight, true});
  }
  if (!step.kept.empty()) {
    const std::size_t half = step.kept.find("; ");
    d.label(kMiddle + kBoxWidth / 2 + 12, y + 10, "kept: " + step.kept.substr(0, half), "start");
    if (half != std::string::npos)
      d.label(kMiddle + kBoxWidth / 2 + 12, y + 27, "kept: " + step.kept.substr(half + 2), "start");
  }
  d.y = y + kBoxHeight + kGap;
}

}  // namespace

std::string flow_svg(const LayerRecipe& recipe) {
  Flow d;
  d.heading("forward");
  for (const FlowStep& step : forward_flow(recipe)) draw(step, d);
  d.heading("backward");
  for (const FlowStep& step : backward_flow(recipe)) draw(step, d);
  return d.drawing.file(kWidth, d.y, "layer recipe " + recipe.name, kStyle);
}

// flow_text: one column an operand, joined at its GEMM.

namespace {

constexpr std::size_t kFlowTextWidth = 100;
constexpr std::size_t kFlowTextRight = 50;  // column of the second operand
constexpr std::size_t kFlowTextMiddle = 25;

// A line with `text` written over it from `column` on, cut where the picture ends.
void put(std::string& line, std::size_t column, std::string_view text) {
  if (line.size() < column) line.resize(column, ' ');
  line.replace(column, std::min(text.size(), line.size() - column), text);
  if (line.size() > kFlowTextWidth) line = line.substr(0, kFlowTextWidth - 3) + "...";
}

std::string tensor_text(const FlowTensor& t) { return t.name + "  " + t.type; }

void draw_gemm(const FlowStep& step, std::string& to) {
  const auto line = [&](std::string_view left, std::string_view right) {
    std::string text;
    put(text, 2, left);
    put(text, kFlowTextRight, right);
    to += text + "\n";
  };
  const FlowTensor& a = step.inputs[0];
  const FlowTensor& b = step.inputs[1];
  line(tensor_text(a), tensor_text(b));
  const auto quantized = [](const FlowTensor& t) { return t.becomes == "bf16" ? "  |" : "  [ " + t.becomes + " ]"; };
  if (a.becomes != "bf16" || b.becomes != "bf16") line(quantized(a), quantized(b));
  line("  |", "  |");
  const std::string name = "( " + step.name + " )";
  std::string join = "    +" + std::string(kFlowTextRight + 2 - 5, '-') + "+  " + step.does;
  join.replace(kFlowTextMiddle - name.size() / 2, name.size(), name);
  put(join, join.size(), "");
  to += join + "\n";
}

void draw_plain(const FlowStep& step, std::string& to) {
  to += "  " + join(step.inputs, ",   ", tensor_text) + "\n";
  std::string text;
  put(text, kFlowTextMiddle - step.name.size() / 2 - 2, "( " + step.name + " )");
  if (!step.does.empty()) put(text, kFlowTextRight + 5, step.does);
  to += text + "\n";
}

void flow_text_draw(const FlowStep& step, std::string& to) {
  step.is_gemm ? draw_gemm(step, to) : draw_plain(step, to);
  std::string arrow;
  put(arrow, kFlowTextMiddle, "|");
  to += arrow + "\n";
  std::string out;
  put(out, kFlowTextMiddle, "v");
  put(out, kFlowTextMiddle + 3, join(step.outputs, ",   ", tensor_text));
  to += out + "\n";
  if (!step.kept.empty()) {
    std::string kept;
    put(kept, kFlowTextMiddle + 3, "kept: " + step.kept);
    to += kept + "\n";
  }
  to += "\n";
}

}  // namespace

std::string flow_text(const LayerRecipe& recipe) {
  std::string text = "forward\n\n";
  for (const FlowStep& step : forward_flow(recipe)) flow_text_draw(step, text);
  text += "backward\n\n";
  for (const FlowStep& step : backward_flow(recipe)) flow_text_draw(step, text);
  return text +
         "T tokens of width d, E experts of inner width n, R routed rows sorted by expert.\n"
         "[ ]: a tensor quantized (format, block, scales); ( ): a step. Type and shape follow a tensor's name.\n";
}

// A recipe as a table.

namespace {

std::string kept_x_text(const LayerRecipe& r) {
  return r.keeps_quantized_x ? "codes and scales of up's operand, " + rule_text(r.gemm(LayerGemm::up).a) : "bf16";
}

std::string again_text(const LayerRecipe& r) {
  bool tokens = false, weights = false;
  for (const LayerGemmSpec& g : kLayerGemms) {
    const GemmRule& rule = r.gemm(g.value);
    const bool along_tokens = g.value == LayerGemm::d_w2 || g.value == LayerGemm::d_w1;
    const bool b = rule.b.source == OperandSource::requantized;
    tokens |= rule.a.source == OperandSource::requantized || (b && along_tokens);
    weights |= b && !along_tokens;
  }
  if (!tokens && !weights) return "";
  return std::string("\nagain: made of the tensor as it was quantized ") + (tokens ? "along its rows" : "") +
         (tokens && weights ? ", of weights " : "") + (weights ? "for the forward pass" : "") +
         ", not of its BF16 values\n";
}

}  // namespace

std::string to_text(const LayerRecipe& r) {
  constexpr const char* kRow = "{:<8} {:<24} {:<7} {:<30} {:<30} {:<20} {}\n";
  std::string text = fmt::format("{}: {}\n\n", r.name, r.meaning);
  text += fmt::format(kRow, "GEMM", "D = A B^T", "k", "A", "B", "contract", "D");
  for (const LayerGemmSpec& g : kLayerGemms) {
    const GemmRule& rule = r.gemm(g.value);
    const auto operand = [](std::string_view tensor, const OperandRule& o) {
      return fmt::format("{:<3} {}", tensor, rule_text(o));
    };
    text += fmt::format(kRow, g.name, g.formula, g.k, operand(g.a, rule.a), operand(g.b, rule.b), rule.contract,
                        spec(g.output).name);
  }
  text += fmt::format("\nkept for the backward pass, beside the routing\nX        {}\nH        {}\n", kept_x_text(r),
                      rule_text(r.kept_h));
  const auto rotates = [&](bool random) {
    return std::any_of(r.gemms.begin(), r.gemms.end(),
                       [&](const GemmRule& g) { return g.a.rotates != 0 && g.a.random_signs == random; });
  };
  return text + again_text(r) +
         (rotates(false) ? "\nrotated: the Hadamard transform of 16 tokens, before it is quantized\n" : "") +
         (rotates(true)
              ? "\nrotatedN: the Hadamard transform of N numbers along k, signs at random, before it is quantized\n"
              : "") +
         "\n" + flow_text(r);
}

}  // namespace mxcheck

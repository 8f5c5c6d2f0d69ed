#include "tools/layer/flow.h"

#include <fmt/format.h>

#include "goldens/layer/recipe_json.h"

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
                     rule.source == OperandSource::requantized ? " again" : "");
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

}  // namespace mxcheck

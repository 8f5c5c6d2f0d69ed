// A recipe as a table.

#include <fmt/format.h>

#include <algorithm>

#include "tools/layer/flow.h"

namespace mxcheck {
namespace {

std::string kept_x_text(const LayerRecipe& r) {
  return r.keeps_quantized_x ? "codes and scales of up's operand, " + rule_text(r.gemm(LayerGemm::up).a) : "bf16";
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
  const bool again = std::any_of(r.gemms.begin(), r.gemms.end(), [](const GemmRule& g) {
    return g.a.source == OperandSource::requantized || g.b.source == OperandSource::requantized;
  });
  return text +
         (again ? "\nagain: made of the tensor as it was quantized along its rows, not of its BF16 values\n" : "") +
         "\n" + flow_text(r);
}

}  // namespace mxcheck

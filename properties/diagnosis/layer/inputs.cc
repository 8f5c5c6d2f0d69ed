#include "properties/diagnosis/layer/inputs.h"

#include <map>

#include "properties/diagnosis/layer/steps.h"

namespace mxcheck {

std::vector<std::string> made_of(const std::string& name) {
  static const std::map<std::string, std::vector<std::string>> kParents{{"A", {"H"}},
                                                                        {"Y", {"A"}},
                                                                        {"O", {"Y"}},
                                                                        {"A_again", {"H"}},
                                                                        {"scaled_A", {"H", "A_again"}},
                                                                        {"dH", {"H", "P"}},
                                                                        {"dS", {"H", "P", "A_again"}},
                                                                        {"dW2", {"scaled_A"}},
                                                                        {"dX_rows", {"dH"}},
                                                                        {"dX", {"dX_rows"}},
                                                                        {"dW1", {"dH"}},
                                                                        {"kept_h_codes", {"H"}},
                                                                        {"kept_h_scales", {"H"}}};
  const std::optional<GemmTensor> g = gemm_tensor(name);
  if (g && !g->is_output) {
    if (g->gemm == LayerGemm::down && g->side == Side::a) return {"A"};
    if (g->gemm == LayerGemm::d_up && g->side == Side::a) return {"dH"};
    if (g->gemm == LayerGemm::d_w2 && g->side == Side::a) return {"scaled_A"};
    if (g->gemm == LayerGemm::d_w1 && g->side == Side::b) return {"dH"};
    return {};
  }
  const auto found = kParents.find(name);
  return found == kParents.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> inputs_of(const std::string& name) {
  const std::optional<GemmTensor> g = gemm_tensor(name);
  if (name == "d_logits") return {"dS"};
  if (!g) return made_of(name);
  const auto named = [](std::string_view tensor) { return std::string(tensor == "A'" ? "scaled_A" : tensor); };
  const LayerGemmSpec& gemm = spec(g->gemm);
  if (!g->is_output) return {named(g->side == Side::a ? gemm.a : gemm.b)};
  return {named(gemm.a), named(gemm.b)};
}

std::optional<LayerGemm> gemm_of(const std::string& name) {
  const std::optional<GemmTensor> g = gemm_tensor(name);
  return g ? std::optional(g->gemm) : std::nullopt;
}

}  // namespace mxcheck

#include "benchmarks/sm90/moe/report/table.h"

#include <optional>

#include <fmt/format.h>

namespace mxcheck::bench {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::string cell(const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : "-"; }
double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / kGib; }

std::string title(const ShapeResult& r) {
  return fmt::format("{}, {} routes (the busiest expert has {:.2f} of the mean)", r.shape.text(), r.load, r.busiest);
}

std::string router_text(const ShapeResult& r) {
  if (!r.router) return "router: not measured, in no figure below; SonicMoE's have theirs";
  return fmt::format(
      "router: {:.1f} us (token choice {:.1f}, rows by expert {:.1f}), in \"+ router\" and in the forward pass's \"of "
      "SonicMoE\"; not in it: the GEMM that makes the logits, and the router's backward pass",
      r.router->sum(), r.router->route, r.router->metadata);
}

}  // namespace

std::string head_text(const MoeResults& r) {
  std::string text = fmt::format("{}\nlibrary {}\n", r.device, r.library);
  text += fmt::format(
      "Passes: microseconds of one call from a graph, median of {}, all recipes in turn; TFLOPS are 6 R n d operations "
      "forward, 12 R n d backward. \"of SonicMoE\": of its rate in BF16 on an H200, by its own benchmark, router "
      "included.\n",
      r.samples);
  text += fmt::format(
      "Steps: one after another with an event between them. \"of limit\": a GEMM's rate over the dense peak of its "
      "tensor "
      "cores (BF16 {:.0f}, FP8 {:.0f} TFLOPS), other steps' over the best copy's, {:.0f} GB/s.\n",
      kPeakBf16, kPeakFp8, r.copy_bytes_per_second / 1e9);
  return text;
}

std::string passes_text(const ShapeResult& r) {
  std::string text = fmt::format("\n{}\n{}\n", title(r), router_text(r));
  text += fmt::format("{:<18} {:<9} {:>9} {:>19} {:>7} {:>8} {:>9} {:>12} {:>9}\n", "recipe", "pass", "us",
                      "least-most", "TFLOPS", "of bf16", "+ router", "of SonicMoE", "quantize");
  for (const RecipeResult& recipe : r.recipes) {
    for (const PassResult& p : recipe.passes) {
      text += fmt::format("{:<18} {:<9} {:>9.1f} {:>9.1f}-{:<9.1f} {:>7.1f} {:>8} {:>9.1f} {:>12} {:>8.1f}%\n",
                          recipe.recipe, to_text(p.direction), p.call.median, p.call.least, p.call.most,
                          r.shape.tflops(p.direction, p.call.median), cell(r.of_bf16(p)), r.with_router(p),
                          cell(r.of_sonic_moe(p)), 100 * p.share(StepKind::quantize));
    }
    if (!recipe.check.empty()) text += fmt::format("    {}\n", recipe.check);
  }
  return text;
}

std::string steps_text(const ShapeResult& r, double copy) {
  std::string text;
  for (const RecipeResult& recipe : r.recipes) {
    for (const PassResult& p : recipe.passes) {
      text += fmt::format("\n{} {}, {}\n", recipe.recipe, to_text(p.direction), r.shape.text());
      text += fmt::format("{:<34} {:<11} {:>9} {:>7} {:>8} {:>7} {:>7} {:>9}\n", "step", "kind", "us", "share", "GB",
                          "TB/s", "TFLOPS", "of limit");
      for (const StepTime& s : p.steps) {
        text += fmt::format("{:<34} {:<11} {:>9.1f} {:>6.1f}% {:>8.3f} {:>7.2f} {:>7} {:>9.3f}\n", s.name,
                            name_in(kStepKinds, s.kind), s.us, 100 * s.us / p.steps_us(),
                            static_cast<double>(s.bytes) / 1e9, s.bytes_per_second() / 1e12,
                            s.kind == StepKind::gemm ? fmt::format("{:.1f}", s.tflops()) : "-", s.share_of_limit(copy));
      }
      text += fmt::format("{:<34} {:<11} {:>9.1f}   the call: {:.1f}", "sum", "", p.steps_us(), p.call.median);
      for (const auto& kind : kStepKinds) text += fmt::format("   {} {:.1f}%", kind.name, 100 * p.share(kind.value));
      text += '\n';
    }
  }
  return text;
}

std::string memory_text(const ShapeResult& r) {
  const double theirs = gib(sonic_moe_kept_bytes(r.shape));
  std::string text = fmt::format(
      "\nMemory in GiB, {}. kept: X and H as the backward pass takes them; SonicMoE's formula, 2 T d + 4 T K n bytes, "
      "gives {:.3f}. peak: inputs, outputs and workspace of one call.\n",
      r.shape.text(), theirs);
  text += fmt::format("{:<18} {:>8} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "recipe", "kept",
                      "of SonicMoE", "fwd in+out", "fwd work", "fwd peak", "bwd in+out", "bwd work", "bwd peak");
  for (const RecipeResult& recipe : r.recipes) {
    const auto& [f, b] = recipe.passes;
    text += fmt::format("{:<18} {:>8.3f} {:>12.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f}\n",
                        recipe.recipe, gib(recipe.kept_bytes), gib(recipe.kept_bytes) / theirs, gib(f.tensor_bytes),
                        gib(f.workspace_bytes), gib(f.peak_bytes()), gib(b.tensor_bytes), gib(b.workspace_bytes),
                        gib(b.peak_bytes()));
  }
  return text;
}

}  // namespace mxcheck::bench

#include "benchmarks/sm90/moe/report/results.h"

#include <algorithm>

namespace mxcheck::bench {

double peak_tflops_of(const LayerRecipe& recipe, std::string_view step) {
  for (std::size_t at = 0; at < step.size();) {
    const std::size_t end = std::min(step.find(' ', at), step.size());
    for (const LayerGemmSpec& gemm : kLayerGemms) {
      if (step.substr(at, end - at) != gemm.name) continue;
      return recipe.gemm(gemm.value).contract.starts_with("sm90_fp8") ? kPeakFp8 : kPeakBf16;
    }
    at = end + 1;
  }
  return kPeakBf16;
}

double PassResult::steps_us() const {
  double sum = 0;
  for (const StepTime& s : steps) sum += s.us;
  return sum;
}

double PassResult::share(StepKind kind) const {
  double sum = 0;
  for (const StepTime& s : steps) sum += s.kind == kind ? s.us : 0;
  const double all = steps_us();
  return all > 0 ? sum / all : 0;
}

const PassResult* ShapeResult::bf16(Direction direction) const {
  for (const RecipeResult& r : recipes) {
    if (r.recipe == "bf16") return &r.passes[static_cast<std::size_t>(direction)];
  }
  return nullptr;
}

double ShapeResult::with_router(const PassResult& pass) const {
  const bool counts = router && pass.direction == Direction::forward;
  return pass.call.median + (counts ? router->sum() : 0);
}

std::optional<double> ShapeResult::of_sonic_moe(const PassResult& pass) const {
  const SonicMoeRate* const rate = find_sonic_moe_rate(shape);
  if (rate == nullptr) return std::nullopt;
  const double theirs = pass.direction == Direction::forward ? rate->forward : rate->backward;
  return shape.tflops(pass.direction, with_router(pass)) / theirs;
}

std::optional<double> ShapeResult::of_bf16(const PassResult& pass) const {
  const PassResult* const other = bf16(pass.direction);
  if (other == nullptr) return std::nullopt;
  return other->call.median / pass.call.median;
}

}  // namespace mxcheck::bench

#include "trainer/run/evaluation.h"

#include <algorithm>
#include <bit>

namespace mxcheck {
namespace {

// Of each token the experts that both chose, in whatever order. A layer that only one has has none.
std::int64_t equal_routes(const Evaluation& a, const Evaluation& b, std::size_t layer, std::int64_t top_k) {
  if (layer >= a.routes.size() || layer >= b.routes.size()) return 0;
  const auto k = static_cast<std::ptrdiff_t>(top_k);
  std::int64_t equal = 0;
  for (auto x = a.routes[layer].begin(), y = b.routes[layer].begin(); x != a.routes[layer].end(); x += k, y += k)
    equal += std::count_if(x, x + k, [&](std::int32_t expert) { return std::find(y, y + k, expert) != y + k; });
  return equal;
}

}  // namespace

RecordedEvaluation evaluation_of(TrainingEngine& engine, const TrainingConfig& config,
                                 std::span<const std::uint8_t> validation) {
  const ModelShape& m = config.model;
  const LayerRecipe& bf16_recipe = layer_recipe_named("bf16");
  const std::int64_t sequences = std::ssize(validation) / (m.length + 1);
  RecordedEvaluation e;
  e.step = engine.steps_done();
  e.routes = sequences * m.length * m.top_k;
  e.equal_routes.resize(static_cast<std::size_t>(m.layers));
  double own_sum = 0;
  double bf16_sum = 0;
  for (std::int64_t first = 0; first < sequences; first += kSequencesAtOnce) {
    const std::int64_t count = std::min(kSequencesAtOnce, sequences - first);
    const auto part = validation.subspan(static_cast<std::size_t>(first * (m.length + 1)),
                                         static_cast<std::size_t>(count * (m.length + 1)));
    const Evaluation own = engine.evaluate(config.recipe, part);
    const Evaluation bf16 = engine.evaluate(bf16_recipe, part);
    own_sum += static_cast<double>(count) * double{own.loss};
    bf16_sum += static_cast<double>(count) * double{bf16.loss};
    for (std::size_t l = 0; l < e.equal_routes.size(); ++l) e.equal_routes[l] += equal_routes(own, bf16, l, m.top_k);
  }
  const auto mean = [&](double sum) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(sum / static_cast<double>(sequences)));
  };
  e.loss_own = mean(own_sum), e.loss_bf16 = mean(bf16_sum);
  return e;
}

}  // namespace mxcheck

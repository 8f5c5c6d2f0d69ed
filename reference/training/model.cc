// The parameters as a list: docs/training.md has them as a table, and the standard deviations of their initial values.

#include "reference/training/model.h"

#include <cmath>
#include <string>

#include "reference/common/checked_size.h"
#include "reference/training/parts.h"

namespace mxcheck {
void check(const TrainingConfig& c) {
  const ModelShape& m = c.model;
  const auto positive = [](std::int64_t value, const char* name) {
    require(value > 0 && value <= 1 << 24,
            std::string(name) + " is " + std::to_string(value) + "; 1 to 2^24 is needed");
  };
  positive(m.layers, "layers"), positive(m.width, "width"), positive(m.heads, "heads");
  positive(m.experts, "experts"), positive(m.inner, "inner"), positive(m.top_k, "top_k");
  positive(m.length, "length"), positive(c.batch, "batch"), positive(c.steps, "steps");
  require(m.width % m.heads == 0 && m.head_width() % 2 == 0,
          "width " + std::to_string(m.width) + " must be heads (" + std::to_string(m.heads) + ") times an even number");
  require(m.top_k <= m.experts,
          "top_k is " + std::to_string(m.top_k) + " of " + std::to_string(m.experts) + " experts; at most all");
  require(checked_product(c.batch, m.length, "training: batch x length") <= 1 << 24,
          "batch x length is above 2^24 tokens a step");
  require(c.perturb >= kPerturbAll && c.perturb <= parameter_count(m),
          "perturb is " + std::to_string(c.perturb) + "; 0, -1 for all weights, or 1 to " +
              std::to_string(parameter_count(m)) + ", the number of weights, is needed");
  check(c.recipe);
  require(
      c.rounding == TokenRoundingRule::none || rounds_to_tiles(c.rounding),
      "token rounding by '" + std::string(to_text(c.rounding)) + "'; none, or a rule that rounds to tiles is needed");
  if (c.rounding != TokenRoundingRule::none) positive(c.tile, "tile");
  const OptimizerConfig& o = c.optimizer;
  const auto finite = [](float value, bool holds, const char* name, const char* range) {
    require(std::isfinite(value) && holds, std::string(name) + " is " + std::to_string(value) + "; " + range);
  };
  finite(c.balance, c.balance >= 0, "balance", "0 or above is needed");
  finite(o.peak_rate, o.peak_rate >= 0, "peak_rate", "0 or above is needed");
  finite(o.last_rate, o.last_rate >= 0 && o.last_rate <= o.peak_rate, "last_rate", "0 to peak_rate is needed");
  finite(o.beta1, o.beta1 >= 0 && o.beta1 < 1, "beta1", "0 to below 1 is needed");
  finite(o.beta2, o.beta2 >= 0 && o.beta2 < 1, "beta2", "0 to below 1 is needed");
  finite(o.epsilon, o.epsilon > 0, "epsilon", "above 0 is needed");
  finite(o.decay, o.decay >= 0, "decay", "0 or above is needed");
  finite(o.clip, o.clip > 0, "clip", "above 0 is needed");
  require(o.warm_up >= 0 && o.warm_up <= 1 << 24, "warm_up is " + std::to_string(o.warm_up) + "; 0 to 2^24 is needed");
  require(o.moments == Format::fp32 || o.moments == Format::bf16, "moments are in fp32 or bf16");
}

std::vector<ParameterSpec> parameters_of(const ModelShape& m) {
  const std::int64_t d = m.width;
  const float of_width = one_over_root(d);
  const float of_depth = one_over_root(2 * m.layers);
  std::vector<ParameterSpec> all;
  const auto gain = [&](std::string name) { all.push_back({std::move(name), ParameterKind::gain, 1, 1, d, 0}); };
  const auto matrix = [&](std::string name, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                          float deviation) {
    all.push_back({std::move(name), ParameterKind::matrix, matrices, rows, cols, deviation});
  };
  all.push_back({"embedding", ParameterKind::embedding, 1, kVocabulary, d, 0.125F});
  for (std::int64_t l = 0; l < m.layers; ++l) {
    const std::string layer = "layers." + std::to_string(l) + ".";
    gain(layer + "attention_norm");
    matrix(layer + "qkv", 1, 3 * d, d, of_width);
    matrix(layer + "attention_out", 1, d, d, of_width * of_depth);
    gain(layer + "moe_norm");
    matrix(layer + "router", 1, m.experts, d, of_width);
    matrix(layer + "w1", m.experts, d, 2 * m.inner, of_width);
    matrix(layer + "w2", m.experts, m.inner, d, one_over_root(m.inner) * of_depth);
  }
  gain("final_norm");
  matrix("output", 1, kVocabulary, d, of_width);
  return all;
}

// All layers have the same: a configuration from a file may ask for more of them than can be listed.
std::int64_t parameter_count(const ModelShape& model) {
  ModelShape one_layer = model;
  one_layer.layers = 1;
  std::int64_t count = 0;
  for (const ParameterSpec& p : parameters_of(one_layer)) {
    constexpr const char* kWhat = "training: the number of weights";
    std::int64_t size = checked_product(checked_product(p.matrices, p.rows, kWhat), p.cols, kWhat);
    if (p.name.starts_with("layers.")) size = checked_product(size, model.layers, kWhat);
    count = checked_sum(count, size, kWhat);
  }
  return count;
}

}  // namespace mxcheck

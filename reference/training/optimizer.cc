#include "reference/training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "numerics/elementary/elementary.h"
#include "reference/training/parts.h"

namespace mxcheck {
namespace {

// The pairwise sum of squares. Blocks of 2^14 squares are whole subtrees of it; where the last block is shorter, what
// follows it are sums of +0, and a sum of squares is the same with +0 added.
float sum_of_squares(std::span<const float> g, int threads) {
  constexpr std::int64_t kBlock = 1 << 14;
  std::vector<float> sums(static_cast<std::size_t>((std::ssize(g) + kBlock - 1) / kBlock));
  parallel_ranges(std::ssize(sums), std::ssize(g), threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> squares;
    for (std::int64_t block = begin; block < end; ++block) {
      const auto first = static_cast<std::size_t>(block * kBlock);
      const std::span<const float> part = g.subspan(first, std::min<std::size_t>(kBlock, g.size() - first));
      squares.clear();
      for (const float v : part) squares.push_back(v * v);
      sums[static_cast<std::size_t>(block)] = pairwise_sum(squares);
    }
  });
  return pairwise_sum(sums);
}

// What is the same for all elements of a parameter.
struct AdamW {
  const OptimizerConfig& config;
  float clip;  // 1 where nothing is clipped
  bool clips;
  float rate;
  float correction1, correction2;  // of the moments' bias
  bool decays;
};

float stored(const OptimizerConfig& config, float moment) {
  return config.moments == Format::bf16 ? widen(to_bf16(moment)) : moment;
}

void update_element(const AdamW& a, float gradient, float& weight, float& first, float& second) {
  const OptimizerConfig& o = a.config;
  const float g = a.clips ? gradient * a.clip : gradient;
  first = stored(o, std::fma(o.beta1, first, (1.0F - o.beta1) * g));
  second = stored(o, std::fma(o.beta2, second, (1.0F - o.beta2) * (g * g)));
  float step = (first / a.correction1) / (std::sqrt(second / a.correction2) + o.epsilon);
  if (a.decays) step += o.decay * weight;
  weight -= a.rate * step;
}

}  // namespace

float gradient_norm(std::span<const std::vector<float>> gradients, int threads) {
  float total = 0;
  for (const std::vector<float>& g : gradients) total += sum_of_squares(g, threads);
  return std::sqrt(total);
}

void update(const TrainingConfig& config, TrainingState& state, std::vector<std::vector<float>>& gradients, float norm,
            float rate, int threads) {
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  const OptimizerConfig& o = config.optimizer;
  require_size("the list of gradients", std::ssize(gradients), std::ssize(specs));
  require_size("the list of weights", std::ssize(state.weights), std::ssize(specs));
  require_size("the list of first moments", std::ssize(state.first_moments), std::ssize(specs));
  require_size("the list of second moments", std::ssize(state.second_moments), std::ssize(specs));
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const char* const name = specs[p].name.c_str();
    require_size(name, std::ssize(gradients[p]), specs[p].size());
    require_size(name, std::ssize(state.weights[p]), specs[p].size());
    require_size(name, std::ssize(state.first_moments[p]), specs[p].size());
    require_size(name, std::ssize(state.second_moments[p]), specs[p].size());
  }
  const std::int64_t t = ++state.updates;
  const bool clips = norm > o.clip;
  AdamW a{o,    clips ? o.clip / norm : 1.0F, clips, rate, bias_correction(o.beta1, t), bias_correction(o.beta2, t),
          false};
  for (std::size_t p = 0; p < specs.size(); ++p) {
    a.decays = specs[p].kind == ParameterKind::matrix;
    parallel_ranges(specs[p].size(), specs[p].size() * 4, threads, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        update_element(a, gradients[p][i], state.weights[p][i], state.first_moments[p][i], state.second_moments[p][i]);
    });
  }
}

}  // namespace mxcheck

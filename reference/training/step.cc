// One step, and an evaluation, out of the passes: docs/training.md.

#include "reference/training/step.h"

#include <cmath>
#include <limits>

#include "reference/training/digest.h"
#include "reference/training/optimizer.h"
#include "reference/training/parts.h"
#include "reference/training/passes.h"

namespace mxcheck {
namespace {

// Sequences of length + 1 bytes: what is read, and what follows it.
struct Sequences {
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;
};
Sequences split(std::span<const std::uint8_t> tokens, std::int64_t sequences, std::int64_t length) {
  Sequences s;
  for (std::int64_t b = 0; b < sequences; ++b) {
    const auto all = tokens.subspan(static_cast<std::size_t>(b * (length + 1)), static_cast<std::size_t>(length + 1));
    s.inputs.insert(s.inputs.end(), all.begin(), all.end() - 1);
    s.targets.insert(s.targets.end(), all.begin() + 1, all.end());
  }
  return s;
}

struct StepResult {
  float loss = std::numeric_limits<float>::quiet_NaN();
  float balance_loss = std::numeric_limits<float>::quiet_NaN();
  float norm = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::vector<float>> gradients;
  std::vector<LayerObservation> layers;
};

void move_observations(std::vector<LayerPass>& passes, std::vector<LayerObservation>& to) {
  for (LayerPass& layer : passes) to.push_back(std::move(layer.observation));
}

// Everything of a step but the update. Where no routes can be made, loss and norm stay NaN, and observations end before
// that layer.
StepResult gradients_of(const PassSetting& s, const PassWeights& weights, const Sequences& data) {
  const RotaryTable table = rotary_table(s.config.model.length, s.config.model.head_width());
  StepResult result;
  try {
    ForwardPass pass = forward(s, table, weights, data.inputs);
    const TokenLoss loss = token_loss(pass.logits, data.targets, s.threads);
    result.loss = loss.loss;
    result.balance_loss = 0;
    for (const LayerPass& layer : pass.layers) result.balance_loss += layer.balance.value;
    result.gradients = backward(s, table, weights, data.inputs, pass, loss.d_logits);
    result.norm = gradient_norm(result.gradients, s.threads);
    move_observations(pass.layers, result.layers);
  } catch (RouterOverflow& overflow) {
    move_observations(overflow.layers, result.layers);
  }
  return result;
}

}  // namespace

StepOutcome training_step(const TrainingConfig& config, TrainingState& state, std::span<const std::uint8_t> tokens,
                          bool observe, int threads) {
  check(config);
  const ModelShape& m = config.model;
  require(std::ssize(tokens) == config.batch * (m.length + 1),
          "a step's data has " + std::to_string(tokens.size()) +
              " bytes; batch x (length + 1) = " + std::to_string(config.batch * (m.length + 1)) + " are needed");
  const PassSetting setting{.config = config,
                            .recipe = config.recipe,
                            .rounding = config.rounding,
                            .sequences = config.batch,
                            .step = static_cast<std::uint64_t>(state.step),
                            .observe = observe,
                            .threads = threads};
  const PassWeights weights = pass_weights(m, state.weights, threads);
  StepResult result = gradients_of(setting, weights, split(tokens, config.batch, m.length));

  StepOutcome outcome;
  outcome.loss = result.loss;
  outcome.balance_loss = result.balance_loss;
  outcome.gradient_norm = result.norm;
  outcome.rate = learning_rate(config, state.step);
  outcome.layers = std::move(result.layers);
  outcome.updated = std::isfinite(result.norm);
  if (outcome.updated) {
    update(config, state, result.gradients, result.norm, outcome.rate, threads);
  } else {
    outcome.skipped = parameter_count(m);
  }
  ++state.step;
  for (const std::vector<float>& weight : state.weights)
    outcome.parameter_digests.push_back(tensor_digest(weight, threads));
  outcome.weights_digest = digest_of_digests(outcome.parameter_digests);
  return outcome;
}

Evaluation evaluate(const TrainingConfig& config, const TrainingState& state, const LayerRecipe& recipe,
                    std::span<const std::uint8_t> tokens, int threads) {
  check(config);
  check(recipe);
  const ModelShape& m = config.model;
  const std::int64_t each = m.length + 1;
  require(!tokens.empty() && std::ssize(tokens) % each == 0,
          "validation data has " + std::to_string(tokens.size()) +
              " bytes; a multiple of length + 1 = " + std::to_string(each) + " is needed");
  const PassSetting setting{
      .config = config, .recipe = recipe, .sequences = std::ssize(tokens) / each, .threads = threads};
  const Sequences data = split(tokens, setting.sequences, m.length);
  const PassWeights weights = pass_weights(m, state.weights, threads);
  Evaluation evaluation;
  evaluation.loss = std::numeric_limits<float>::quiet_NaN();
  const auto add_routes = [&](std::vector<LayerPass>& layers) {
    for (LayerPass& layer : layers) evaluation.routes.push_back(std::move(layer.chosen));
  };
  try {
    ForwardPass pass = forward(setting, rotary_table(m.length, m.head_width()), weights, data.inputs);
    evaluation.loss = token_loss(pass.logits, data.targets, threads).loss;
    add_routes(pass.layers);
  } catch (RouterOverflow& overflow) {
    add_routes(overflow.layers);
  }
  return evaluation;
}

}  // namespace mxcheck

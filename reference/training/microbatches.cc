#include "reference/training/microbatches.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "reference/common/parallel.h"
#include "reference/training/attention.h"
#include "reference/training/observe.h"
#include "reference/training/parts.h"
#include "reference/training/passes.h"

namespace mxcheck {

Sequences split_sequences(std::span<const std::uint8_t> bytes, std::int64_t length) {
  const auto each = static_cast<std::size_t>(length + 1);
  Sequences s;
  for (std::size_t at = 0; at < bytes.size(); at += each) {
    const auto all = bytes.subspan(at, each);
    s.inputs.insert(s.inputs.end(), all.begin(), all.end() - 1);
    s.targets.insert(s.targets.end(), all.begin() + 1, all.end());
  }
  return s;
}

namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

void move_observations(std::vector<LayerPass>& passes, std::vector<LayerObservation>& to) {
  for (LayerPass& layer : passes) to.push_back(std::move(layer.observation));
}

// One microbatch. Where no routes can be made, losses are NaN, and observations end before that layer.
MicrobatchSum one_microbatch(const PassSetting& s, const RotaryTable& table, const PassWeights& weights,
                             const Sequences& data) {
  MicrobatchSum result;
  try {
    ForwardPass pass = forward(s, table, weights, data.inputs);
    const TokenLoss loss = token_loss(pass.logits, data.targets, s.threads);
    result.loss = loss.loss;
    for (const LayerPass& layer : pass.layers) result.balance_loss += layer.balance.value;
    result.gradients = backward(s, table, weights, data.inputs, pass, loss.d_logits);
    move_observations(pass.layers, result.layers);
  } catch (RouterOverflow& overflow) {
    result.overflowed = true;
    result.loss = result.balance_loss = kNotANumber;
    move_observations(overflow.layers, result.layers);
  }
  return result;
}

// Inputs that the microbatches of a step share.
struct StepParts {
  const TrainingConfig& config;
  std::uint64_t step;
  std::span<const std::uint8_t> tokens;
  bool observe;
  int threads;
  RotaryTable table;
  PassWeights weights;
};

MicrobatchSum sum_of(const StepParts& p, MicrobatchRange range) {
  if (range.count > 1) {
    const std::int64_t half = range.count / 2;
    MicrobatchSum sum = sum_of(p, {range.first, half});
    add(sum, sum_of(p, {range.first + half, half}), p.threads);
    return sum;
  }
  const TrainingConfig& c = p.config;
  const PassSetting setting{
      .config = c,
      .recipe = c.recipe,
      .rounding = c.rounding,
      .sequences = c.microbatch(),
      .step = p.step * static_cast<std::uint64_t>(c.microbatches) + static_cast<std::uint64_t>(range.first),
      .observe = p.observe && range.first == 0,
      .threads = p.threads,
      .first_sequence = range.first * c.microbatch()};
  const auto bytes = static_cast<std::size_t>(c.microbatch() * (c.model.length + 1));
  const auto own = p.tokens.subspan(static_cast<std::size_t>(range.first) * bytes, bytes);
  return one_microbatch(setting, p.table, p.weights, split_sequences(own, c.model.length));
}

void add_to(std::vector<float>& left, std::span<const float> right, int threads) {
  require_size("a gradient", std::ssize(right), std::ssize(left));
  parallel_ranges(std::ssize(left), std::ssize(left), threads, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) left[i] += right[i];
  });
}

// With several microbatches sums become means. A NaN of the sums may have any bits; it is recorded as one.
void take_means(MicrobatchSum& sum, std::int64_t microbatches, int threads) {
  const float share = 1.0F / static_cast<float>(microbatches);  // a power of two
  const auto mean = [&](float x) { return std::isnan(x) ? kNotANumber : x * share; };
  sum.loss = mean(sum.loss), sum.balance_loss = mean(sum.balance_loss);
  for (std::vector<float>& gradient : sum.gradients) {
    parallel_ranges(std::ssize(gradient), std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) gradient[i] *= share;
    });
  }
}

}  // namespace

MicrobatchSum sum_of_microbatches(const TrainingConfig& config, const TrainingState& state,
                                  std::span<const std::uint8_t> tokens, MicrobatchRange range, bool observe,
                                  int threads) {
  check(config);
  const ModelShape& m = config.model;
  require(std::ssize(tokens) == config.batch * (m.length + 1),
          "a step's data has " + std::to_string(tokens.size()) +
              " bytes; batch x (length + 1) = " + std::to_string(config.batch * (m.length + 1)) + " are needed");
  const bool is_subtree = range.count > 0 && (range.count & (range.count - 1)) == 0 && range.first >= 0 &&
                          range.first % range.count == 0 && range.first + range.count <= config.microbatches;
  require(is_subtree, std::to_string(range.count) + " microbatches from " + std::to_string(range.first) + " of " +
                          std::to_string(config.microbatches) +
                          "; a power of two of them from a multiple of it is needed");
  return sum_of({config, static_cast<std::uint64_t>(state.step), tokens, observe, threads,
                 rotary_table(m.length, m.head_width()), pass_weights(m, state.weights, threads)},
                range);
}

void add(MicrobatchSum& left, MicrobatchSum right, int threads) {
  left.loss += right.loss, left.balance_loss += right.balance_loss;
  left.layers.resize(std::min(left.layers.size(), right.layers.size()));
  for (std::size_t l = 0; l < left.layers.size(); ++l) left.layers[l].output_digest += right.layers[l].output_digest;
  left.overflowed = left.overflowed || right.overflowed;
  if (left.overflowed) {
    left.gradients.clear();
    return;
  }
  require_size("the list of gradients", std::ssize(right.gradients), std::ssize(left.gradients));
  for (std::size_t p = 0; p < left.gradients.size(); ++p) add_to(left.gradients[p], right.gradients[p], threads);
}

StepOutcome finish_step(const TrainingConfig& config, TrainingState& state, MicrobatchSum sum, int threads) {
  if (config.microbatches > 1) take_means(sum, config.microbatches, threads);
  StepOutcome outcome;
  outcome.loss = sum.loss;
  outcome.balance_loss = sum.balance_loss;
  outcome.gradient_norm = sum.overflowed ? kNotANumber : gradient_norm(sum.gradients, threads);
  outcome.rate = learning_rate(config, state.step);
  outcome.layers = std::move(sum.layers);
  outcome.updated = std::isfinite(outcome.gradient_norm);
  if (outcome.updated) {
    update(config, state, sum.gradients, outcome.gradient_norm, outcome.rate, threads);
  } else {
    outcome.skipped = parameter_count(config.model);
  }
  ++state.step;
  for (const std::vector<float>& weight : state.weights)
    outcome.parameter_digests.push_back(tensor_digest(weight, threads));
  outcome.weights_digest = digest_of_digests(outcome.parameter_digests);
  return outcome;
}

StepOutcome training_step(const TrainingConfig& config, TrainingState& state, std::span<const std::uint8_t> tokens,
                          bool observe, int threads) {
  const MicrobatchRange all{0, config.microbatches};
  return finish_step(config, state, sum_of_microbatches(config, state, tokens, all, observe, threads), threads);
}

}  // namespace mxcheck

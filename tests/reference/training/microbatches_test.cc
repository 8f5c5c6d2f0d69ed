// Steps of several microbatches against passes that are summed here, one after the other.

#include "reference/training/microbatches.h"

#include "reference/training/attention.h"
#include "reference/training/observe.h"
#include "reference/training/passes.h"
#include "tests/reference/training/test_training.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

TrainingConfig cut_config(const std::string& recipe, std::int64_t microbatches) {
  TrainingConfig c = test_config(recipe);
  c.batch = 8;
  c.microbatches = microbatches;
  return c;
}

struct Plain {
  float loss = 0, balance_loss = 0;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> outputs;  // of each layer
};

// One microbatch as docs/training.md has it: so many sequences from `first` on, random words of `number`.
Plain pass_of(const TrainingConfig& config, const TrainingState& state, const std::vector<std::uint8_t>& data,
              std::int64_t first, std::int64_t sequences, std::uint64_t number) {
  const auto each = static_cast<std::size_t>(config.model.length + 1);
  std::vector<std::uint8_t> inputs, targets;
  for (auto b = static_cast<std::size_t>(first); b < static_cast<std::size_t>(first + sequences); ++b) {
    for (std::size_t i = 0; i + 1 < each; ++i) {
      inputs.push_back(data[b * each + i]);
      targets.push_back(data[b * each + i + 1]);
    }
  }
  const PassSetting s{.config = config,
                      .recipe = config.recipe,
                      .rounding = config.rounding,
                      .sequences = sequences,
                      .step = number,
                      .threads = 1};
  const PassWeights w = pass_weights(config.model, state.weights, 1);
  const RotaryTable table = rotary_table(config.model.length, config.model.head_width());
  ForwardPass pass = forward(s, table, w, inputs);
  const TokenLoss loss = token_loss(pass.logits, targets, 1);
  Plain plain{loss.loss, 0, backward(s, table, w, inputs, pass, loss.d_logits), {}};
  for (std::size_t l = 0; l < pass.layers.size(); ++l) {
    plain.balance_loss += pass.layers[l].balance.value;
    plain.outputs.push_back(l + 1 < pass.layers.size() ? pass.layers[l + 1].x : pass.x);
  }
  return plain;
}

// Neighbours are added until one is left.
template <class Value>
float tree(std::int64_t count, Value value) {
  std::vector<float> terms;
  for (std::int64_t m = 0; m < count; ++m) terms.push_back(value(static_cast<std::size_t>(m)));
  return plain::pairwise(terms);
}

void expect_step_of_passes(const TrainingConfig& config, std::int64_t steps) {
  TrainingState found_state = initial_state(config, 1);
  TrainingState state = found_state;
  const std::int64_t m = config.microbatches;
  const float share = 1.0F / static_cast<float>(m);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::vector<std::uint8_t> data = test_data(config, step);
    const StepOutcome found = training_step(config, found_state, data, false, 2);
    std::vector<Plain> passes;
    for (std::int64_t i = 0; i < m; ++i)
      passes.push_back(pass_of(config, state, data, i * config.batch / m, config.batch / m,
                               static_cast<std::uint64_t>(step * m + i)));
    std::vector<std::vector<float>> gradients = passes[0].gradients;
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      for (std::size_t e = 0; e < gradients[p].size(); ++e)
        gradients[p][e] = share * tree(m, [&](std::size_t i) { return passes[i].gradients[p][e]; });
    }
    const float norm = gradient_norm(gradients, 1);
    update(config, state, gradients, norm, learning_rate(config, step), 1);
    ++state.step;
    EXPECT_EQ(found.loss, share * tree(m, [&](std::size_t i) { return passes[i].loss; })) << m << ' ' << step;
    EXPECT_EQ(found.balance_loss, share * tree(m, [&](std::size_t i) { return passes[i].balance_loss; })) << m;
    EXPECT_EQ(found.gradient_norm, norm) << m << ' ' << step;
    EXPECT_EQ(found_state.weights, state.weights) << m << ' ' << step;
    for (std::size_t l = 0; l < found.layers.size(); ++l) {
      std::vector<float> output;
      for (const Plain& pass : passes) output.insert(output.end(), pass.outputs[l].begin(), pass.outputs[l].end());
      EXPECT_EQ(found.layers[l].output_digest, tensor_digest(output, 1)) << m << ' ' << l;
    }
  }
}

TEST(Microbatches, are_summed_by_a_tree_and_divided) {
  for (const std::int64_t m : {1, 2, 4, 8}) expect_step_of_passes(cut_config("bf16", m), 3);
  expect_step_of_passes(cut_config("mxfp8", 4), 2);
}

// Random words of every microbatch are its own: those of step * microbatches + number.
TEST(Microbatches, draw_words_of_their_own) {
  TrainingConfig config = cut_config("quartet2", 4);
  expect_step_of_passes(config, 2);
  config = cut_config("mxfp8", 4);
  config.rounding = token_rounding_rule_named("sr-f"), config.tile = 8;
  expect_step_of_passes(config, 2);
}

// Gradients of different sizes, so that another order of the additions is another number.
TEST(Microbatches, are_added_in_the_order_of_the_tree_and_in_no_other) {
  const TrainingConfig config = cut_config("bf16", 8);
  const TrainingState state = initial_state(config, 1);
  const std::vector<std::uint8_t> data = test_data(config);
  const MicrobatchSum whole = sum_of_microbatches(config, state, data, {0, 8}, false, 1);
  MicrobatchSum left = sum_of_microbatches(config, state, data, {0, 4}, false, 1);
  add(left, sum_of_microbatches(config, state, data, {4, 4}, false, 1), 1);
  EXPECT_EQ(left.gradients, whole.gradients);
  EXPECT_EQ(left.loss, whole.loss);
  MicrobatchSum chain = sum_of_microbatches(config, state, data, {0, 1}, false, 1);
  for (std::int64_t m = 1; m < 8; ++m) add(chain, sum_of_microbatches(config, state, data, {m, 1}, false, 1), 1);
  EXPECT_NE(chain.gradients, whole.gradients);
}

TEST(Microbatches, threads_and_observation_change_no_bit) {
  TrainingConfig config = cut_config("mxfp8", 4);
  TrainingState one = initial_state(config, 1), three = one;
  const StepOutcome a = training_step(config, one, test_data(config), true, 1);
  const StepOutcome b = training_step(config, three, test_data(config), false, 3);
  EXPECT_EQ(a.parameter_digests, b.parameter_digests);
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.layers.size(), 2U);
  EXPECT_EQ(a.layers[1].output_digest, b.layers[1].output_digest);
  // Loads are those of the first microbatch.
  for (const LayerObservation& layer : a.layers) {
    EXPECT_EQ(std::accumulate(layer.expert_loads.begin(), layer.expert_loads.end(), std::int64_t{0}), 2 * 20 * 2);
    EXPECT_EQ(layer.operands.size(), 12U);
  }
}

TEST(Microbatches, of_which_one_overflows_end_the_step) {
  TrainingConfig config = cut_config("bf16", 4);
  TrainingState state = initial_state(config, 1);
  // A byte that the first three do not have has an embedding of infinities.
  std::vector<std::uint8_t> data = test_data(config);
  const auto of_three = static_cast<std::ptrdiff_t>(3 * 2 * (config.model.length + 1));
  ASSERT_EQ(std::count(data.begin(), data.begin() + of_three, 7), 0);
  data[static_cast<std::size_t>(of_three)] = 7;
  for (std::int64_t i = 0; i < config.model.width; ++i)
    state.weights[kEmbedding][static_cast<std::size_t>(7 * config.model.width + i)] = kInf;
  const std::vector<std::vector<float>> before = state.weights;
  const StepOutcome outcome = training_step(config, state, data, false, 1);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(outcome.loss), 0x7FC00000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(outcome.balance_loss), 0x7FC00000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(outcome.gradient_norm), 0x7FC00000U);
  EXPECT_TRUE(outcome.layers.empty());
  EXPECT_FALSE(outcome.updated);
  EXPECT_EQ(state.weights, before);
}

TEST(Microbatches, that_are_no_power_of_two_or_do_not_divide_the_batch_are_refused) {
  for (const std::int64_t wrong : {-1, 0, 3, 16}) {
    TrainingConfig config = cut_config("bf16", wrong);
    expect_error(ErrorKind::usage,
                 "microbatches are " + std::to_string(wrong) +
                     " of a batch of 8 sequences; a power of two that divides it is needed",
                 [&] { check(config); });
  }
  const TrainingConfig config = cut_config("bf16", 4);
  const TrainingState state = initial_state(config, 1);
  const std::vector<MicrobatchRange> wrong{{0, 3}, {1, 2}, {-2, 2}, {4, 1}, {0, 8}, {0, 0}};
  for (const MicrobatchRange& range : wrong) {
    expect_error(ErrorKind::usage, "a power of two of them from a multiple of it is needed",
                 [&] { (void)sum_of_microbatches(config, state, test_data(config), range, false, 1); });
  }
}

}  // namespace
}  // namespace mxcheck

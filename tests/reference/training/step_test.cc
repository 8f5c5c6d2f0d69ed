// A step as a whole: its gradients against derivatives of the model in double precision, what training does to the
// loss, and what must not change a bit. The operations have tests of their own.

#include "reference/training/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "reference/training/optimizer.h"
#include "reference/training/passes.h"
#include "tests/reference/training/exact_model.h"
#include "tests/reference/training/test_training.h"

namespace mxcheck {
namespace {

struct Differentiated {
  std::vector<std::vector<float>> gradients;
  float loss = 0;
  exact_model::Routes routes;
};

Differentiated differentiate(const TrainingConfig& config, const TrainingState& state,
                             const std::vector<std::uint8_t>& data) {
  const PassSetting s{.config = config, .recipe = config.recipe, .sequences = config.batch, .threads = 1};
  const PassWeights w = pass_weights(config.model, state.weights, 1);
  const RotaryTable table = rotary_table(config.model.length, config.model.head_width());
  const auto length = static_cast<std::size_t>(config.model.length);
  std::vector<std::uint8_t> inputs, targets;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (i % (length + 1) != length) inputs.push_back(data[i]);
    if (i % (length + 1) != 0) targets.push_back(data[i]);
  }
  ForwardPass pass = forward(s, table, w, inputs);
  const TokenLoss loss = token_loss(pass.logits, targets, 1);
  Differentiated d;
  d.loss = loss.loss;
  for (const LayerPass& layer : pass.layers) d.routes.push_back(layer.chosen);
  d.gradients = backward(s, table, w, inputs, pass, loss.d_logits);
  return d;
}

exact_model::Weights as_doubles(const TrainingState& state) {
  exact_model::Weights w;
  for (const std::vector<float>& weight : state.weights) w.emplace_back(weight.begin(), weight.end());
  return w;
}

// Along the gradient g of one parameter the loss must grow by |g|. With an error of relative size e in g, that is
// across the true gradient, the growth is |g| / (1 + e^2); along it, |g| (1 - e). Gradients are made of some ten
// factors that are each rounded to BF16 once, 2^-9, so 2^-5 is above what roundings do; weights are rounded to BF16 on
// their way too, which moves the point. A factor that is missing, or a sign, is far above it.
TEST(TrainingStep, gradients_are_derivatives_of_the_loss) {
  TrainingConfig config = test_config("bf16");
  config.balance = 0.5F;
  const std::vector<std::uint8_t> data = test_data(config);
  TrainingState state = initial_state(config, 1);
  for (int step = 0; step < 3; ++step) training_step(config, state, test_data(config, step), false, 1);
  const Differentiated d = differentiate(config, state, data);
  const exact_model::Weights weights = as_doubles(state);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  const auto total = [&](const exact_model::Weights& w) {
    const exact_model::Loss loss = exact_model::loss(config, w, data, d.routes);
    return loss.tokens + loss.balance;
  };
  EXPECT_NEAR(exact_model::loss(config, weights, data, d.routes).tokens, d.loss, 0x1p-7 * d.loss);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    double squares = 0;
    for (const float g : d.gradients[p]) squares += double{g} * double{g};
    const double size = std::sqrt(squares);
    ASSERT_GT(size, 0) << specs[p].name;
    const auto moved = [&](double by) {
      exact_model::Weights w = weights;
      for (std::size_t i = 0; i < w[p].size(); ++i) w[p][i] += by * double{d.gradients[p][i]} / size;
      return total(w);
    };
    constexpr double kBy = 0x1p-10;
    const double growth = (moved(kBy) - moved(-kBy)) / (2 * kBy);
    EXPECT_LE(std::abs(growth - size), 0x1p-5 * size) << specs[p].name << ": |g| " << size << ", growth " << growth;
  }
}

TEST(TrainingStep, the_loss_falls_under_every_recipe) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    TrainingConfig config = test_config(recipe.name);
    config.optimizer.peak_rate = 0.01F;
    TrainingState state = initial_state(config, 1);
    const float first = training_step(config, state, test_data(config, 0), false, 1).loss;
    float last = 0;
    for (int step = 1; step < 12; ++step) last = training_step(config, state, test_data(config, step), false, 1).loss;
    EXPECT_NEAR(first, std::log(256.0) + 0.5, 0.5) << recipe.name;  // logits of variance 1: ln 256 + 1/2 and some luck
    EXPECT_LT(last, first - 1) << recipe.name;
    EXPECT_EQ(state.step, 12);
    EXPECT_EQ(state.updates, 12);
  }
}

void expect_equal(const StepOutcome& a, const StepOutcome& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.balance_loss, b.balance_loss);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  EXPECT_EQ(a.weights_digest, b.weights_digest);
  EXPECT_EQ(a.parameter_digests, b.parameter_digests);
}

TEST(TrainingStep, threads_and_observation_change_no_bit) {
  for (const char* rule : {"none", "nr-f", "sr-f"}) {
    TrainingConfig config = test_config("mxfp8");
    config.rounding = token_rounding_rule_named(rule);
    config.tile = 8;
    TrainingState one = initial_state(config, 1);
    TrainingState three = initial_state(config, 3);
    for (int step = 0; step < 2; ++step) {
      const StepOutcome a = training_step(config, one, test_data(config, step), true, 1);
      const StepOutcome b = training_step(config, three, test_data(config, step), false, 3);
      expect_equal(a, b);
      ASSERT_EQ(a.layers.size(), 2U);
      for (std::size_t l = 0; l < 2; ++l) EXPECT_EQ(a.layers[l].output_digest, b.layers[l].output_digest);
    }
  }
}

// Sequences that see one another, or positions that see later ones, would change: the loss of the first sequence is the
// same with another second one, and a later byte changes no route of an earlier position.
TEST(TrainingStep, positions_see_only_what_is_before_them) {
  TrainingConfig config = test_config("bf16");
  const TrainingState state = initial_state(config, 1);
  std::vector<std::uint8_t> data = test_data(config);
  const Evaluation before = evaluate(config, state, config.recipe, data, 1);
  const std::size_t changed = 12;  // a position of the first sequence
  data[changed] ^= 1;
  const Evaluation after = evaluate(config, state, config.recipe, data, 1);
  const auto k = static_cast<std::size_t>(config.model.top_k);
  const auto length = static_cast<std::size_t>(config.model.length);
  for (std::size_t l = 0; l < before.routes.size(); ++l) {
    for (std::size_t i = 0; i < before.routes[l].size(); ++i) {
      const std::size_t position = i / k;
      if (position < changed || position >= length) {
        EXPECT_EQ(before.routes[l][i], after.routes[l][i]) << l << ' ' << position;
      }
    }
  }
  EXPECT_NE(before.loss, after.loss);
}

TEST(TrainingStep, a_router_that_overflows_ends_the_step_and_updates_nothing) {
  TrainingConfig config = test_config("mxfp8");
  TrainingState state = initial_state(config, 1);
  const LayerParameters second = parameters_of_layer(1);
  state.weights[second.router][5] = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> before = state.weights;
  const StepOutcome outcome = training_step(config, state, test_data(config), false, 1);
  EXPECT_TRUE(std::isnan(outcome.loss));
  EXPECT_TRUE(std::isnan(outcome.balance_loss));
  EXPECT_TRUE(std::isnan(outcome.gradient_norm));
  EXPECT_FALSE(outcome.updated);
  EXPECT_EQ(outcome.skipped, parameter_count(config.model));
  EXPECT_EQ(outcome.layers.size(), 1U);
  EXPECT_EQ(state.weights, before);
  EXPECT_EQ(state.step, 1);
  EXPECT_EQ(state.updates, 0);
  EXPECT_TRUE(std::isnan(evaluate(config, state, config.recipe, test_data(config), 1).loss));
}

TEST(TrainingStep, a_nan_in_a_weight_is_seen_in_loss_and_norm) {
  TrainingConfig config = test_config("bf16");
  TrainingState state = initial_state(config, 1);
  state.weights.back()[3] = std::numeric_limits<float>::quiet_NaN();  // of the output: no router sees it
  const StepOutcome outcome = training_step(config, state, test_data(config), false, 1);
  EXPECT_TRUE(std::isnan(outcome.loss));
  EXPECT_TRUE(std::isnan(outcome.gradient_norm));
  EXPECT_FALSE(outcome.updated);
  EXPECT_EQ(outcome.layers.size(), 2U);
}

TEST(TrainingStep, an_evaluation_has_the_loss_of_a_step_on_the_same_data) {
  const TrainingConfig config = test_config("mxfp8");
  TrainingState state = initial_state(config, 1);
  const Evaluation evaluation = evaluate(config, state, config.recipe, test_data(config), 1);
  const Evaluation bf16 = evaluate(config, state, layer_recipe_named("bf16"), test_data(config), 1);
  EXPECT_EQ(evaluation.loss, training_step(config, state, test_data(config), false, 1).loss);
  EXPECT_NE(evaluation.loss, bf16.loss);
  EXPECT_EQ(evaluation.routes[0], bf16.routes[0]);  // nothing before them is quantized
}

TEST(TrainingStep, sizes_that_do_not_agree_are_refused) {
  const TrainingConfig config = test_config("bf16");
  TrainingState state = initial_state(config, 1);
  std::vector<std::uint8_t> data = test_data(config);
  data.pop_back();
  EXPECT_THROW(training_step(config, state, data, false, 1), Error);
  EXPECT_THROW(evaluate(config, state, config.recipe, data, 1), Error);
  EXPECT_THROW(evaluate(config, state, config.recipe, {}, 1), Error);
  state.weights[2].pop_back();
  EXPECT_THROW(training_step(config, state, test_data(config), false, 1), Error);
  EXPECT_EQ(state.step, 0);
}

}  // namespace
}  // namespace mxcheck

// Steps of training on a Hopper GPU against the reference, in every bit: losses, gradient norm, weights, moments, each
// layer's output, and the observations of steps that are observed. Skipped without a GPU. The longest are disabled:
// --gtest_also_run_disabled_tests.

#include <array>
#include <atomic>
#include <cstdio>
#include <limits>
#include <thread>

#include "numerics/error.h"
#include "reference/training/step.h"
#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/train/device_run.h"
#include "trainer/run/engine.h"

namespace mxcheck::test {
namespace {

void expect_same_floats(const std::string& what, const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_TRUE(same(found[i], expected[i])) << what << " " << i;
}

void expect_same_state(DeviceRun& run, const TrainingState& state) {
  std::vector<float> weights, first, second;
  for (std::size_t p = 0; p < state.weights.size(); ++p) {
    const std::string name = "parameter " + std::to_string(p);
    run.get_parameter(p, weights, first, second);
    expect_same_floats(name, weights, state.weights[p]);
    expect_same_floats(name + ", first moments", first, state.first_moments[p]);
    expect_same_floats(name + ", second moments", second, state.second_moments[p]);
  }
}

// Step number `number`, on the device and by the reference, whose state goes on.
bool step_agrees(DeviceRun& run, const TrainingConfig& config, TrainingState& state, std::int64_t number,
                 int threads = 0) {
  const std::vector<std::uint8_t> data = data_of(config, config.batch, number);
  const DeviceOutcome found = run.step(state, data);
  return agree(found, training_step(config, state, data, false, threads));
}

void expect_same_evaluation(DeviceRun& run, const TrainingConfig& config, const TrainingState& state,
                            const LayerRecipe& recipe, const std::vector<std::uint8_t>& data) {
  const Evaluation found = run.evaluate(recipe.name, data);
  const Evaluation expected = evaluate(config, state, recipe, data);
  EXPECT_TRUE(same(found.loss, expected.loss)) << recipe.name << ": " << found.loss << ", " << expected.loss;
  EXPECT_EQ(found.routes, expected.routes) << recipe.name;
}

// Stops at the first step that differs, and says where.
void expect_same_steps(const TrainingConfig& config, int steps, TrainingState state) {
  DeviceRun run(config, state);
  for (int s = 0; s < steps; ++s) {
    const std::vector<std::uint8_t> data = data_of(config, config.batch, s);
    const DeviceOutcome found = run.step(state, data);
    const TrainingState before = state;
    const StepOutcome expected = training_step(config, state, data, false);
    if (agree(found, expected)) continue;
    FAIL() << config.recipe.name << ", step " << s << ": loss " << found.values.loss << " (expected " << expected.loss
           << "), balance " << found.values.balance_loss << " (" << expected.balance_loss << "), norm "
           << found.values.gradient_norm << " (" << expected.gradient_norm << "), updated " << found.values.updated
           << " (" << expected.updated << ")\n"
           << differences(config, before, data, run);
  }
  expect_same_state(run, state);
}
void expect_same_steps(const TrainingConfig& config, int steps) {
  expect_same_steps(config, steps, initial_state(config));
}

class Sm90TrainStep : public DeviceTest {};

TEST_F(Sm90TrainStep, fifty_steps_in_bf16) { expect_same_steps(tiny("bf16"), 50); }
TEST_F(Sm90TrainStep, fifty_steps_in_mxfp8) { expect_same_steps(tiny("mxfp8"), 50); }

TEST_F(Sm90TrainStep, recipes_of_blocks_of_32) {
  for (const char* const recipe : {"mxfp8_floor", "mxfp8_e5m2_grad", "broken"}) expect_same_steps(tiny(recipe), 2);
}

// The random words are those of each step: after the second one too, from which on other recipes have a graph.
TEST_F(Sm90TrainStep, recipes_of_two_levels) {
  for (const char* const recipe : {"nvfp4", "nvfp4_forward", "nvfp4_backward", "nvfp4_46", "quartet2"})
    expect_same_steps(tiny(recipe), 5);
}

// Recipes whose layers keep other tensors than those in BF16, and one that draws words.
TEST_F(Sm90TrainStep, last_layers_in_bf16) {
  for (const char* const recipe : {"mxfp8", "nvfp4"}) {
    TrainingConfig config = tiny(recipe);
    config.bf16_last = 1;
    expect_same_steps(config, 4);
  }
}

// Each operand by a rule of its own, and GEMMs as they are: both GEMMs of dO and both directions of dH share or do not.
TEST_F(Sm90TrainStep, recipes_written_out) {
  const OperandRule plain;
  const auto blocks = [](Format format, const char* scales) { return OperandRule{format, {1, 32}, scales, {}}; };
  const OperandRule e2m1 = blocks(Format::e2m1, "rceil");
  const OperandRule e3m2 = blocks(Format::e3m2, "floor");
  const OperandRule e2m3 = blocks(Format::e2m3, "rceil");
  const OperandRule e5m2 = blocks(Format::e5m2, "floor");
  const std::array<std::array<OperandRule, 12>, 6> recipes{{
      {e2m1, e2m1, e2m1, e2m1, plain, plain, plain, plain, plain, plain, plain, plain},  // forward alone
      {plain, plain, plain, plain, e3m2, e3m2, e3m2, e3m2, e3m2, e3m2, e3m2, e3m2},      // backward alone
      {e2m3, e3m2, e2m3, e2m1, e5m2, e2m1, e3m2, e2m1, plain, plain, plain, plain},
      {plain, plain, plain, plain, plain, plain, e2m3, e2m1, e2m3, e2m1, plain, plain},    // dH along its rows alone
      {e5m2, e2m1, plain, plain, plain, plain, plain, plain, plain, plain, e5m2, e3m2},    // dH along tokens alone
      {plain, plain, plain, plain, e2m3, e5m2, plain, plain, plain, plain, plain, plain},  // dO for d_down alone
  }};
  for (std::size_t r = 0; r < recipes.size(); ++r) {
    TrainingConfig config = tiny("bf16");
    config.recipe.name = "written out " + std::to_string(r);
    for (std::size_t g = 0; g < kLayerGemmCount; ++g)
      config.recipe.gemms[g] = {recipes[r][2 * g], recipes[r][2 * g + 1],
                                recipes[r][2 * g].quantized() ? "sm90_bf16+decode" : "sm90_bf16"};
    SCOPED_TRACE(device_recipe(config.recipe));
    expect_same_steps(config, 3);
  }
}

TEST_F(Sm90TrainStep, recipes_of_fp8_codes) {
  for (const char* const recipe : {"dsv3", "dsv3_pow2", "dsv3_128x128_grad", "fp8_tensor"}) {
    expect_same_steps(wide(recipe), 2);
  }
}

TEST_F(Sm90TrainStep, moments_in_bf16) {
  TrainingConfig config = tiny("mxfp8");
  config.optimizer.moments = Format::bf16;
  expect_same_steps(config, 5);
}

// 96 wide, heads of 24, 72 tokens: no multiples of tiles, nor of powers of two.
TEST_F(Sm90TrainStep, sizes_between_tiles) {
  TrainingConfig config = tiny("mxfp8");
  config.model = {.layers = 3, .width = 96, .heads = 4, .experts = 16, .inner = 40, .top_k = 3, .length = 72};
  config.batch = 3;
  expect_same_steps(config, 3);
}

TEST_F(Sm90TrainStep, a_sequence_of_few_tokens) {
  TrainingConfig config = tiny("bf16");
  config.model = {.layers = 1, .width = 24, .heads = 3, .experts = 8, .inner = 8, .top_k = 8, .length = 8};
  config.batch = 1;
  expect_same_steps(config, 3);
}

// Rows of the residual stream and of scores are in registers, by kernels of 2, 8 and more chunks of 128 columns.
TEST_F(Sm90TrainStep, rows_of_several_chunks) {
  struct Row {
    std::int64_t width, heads, length;
  };
  for (const Row& row : {Row{264, 1, 16}, Row{1032, 3, 16}, Row{16, 2, 264}, Row{16, 1, 1032}}) {
    TrainingConfig config = tiny("bf16");
    config.model = {.layers = 1,
                    .width = row.width,
                    .heads = row.heads,
                    .experts = 8,
                    .inner = 8,
                    .top_k = 2,
                    .length = row.length};
    config.batch = 2;
    SCOPED_TRACE(std::to_string(row.width) + " wide, length " + std::to_string(row.length));
    expect_same_steps(config, 2);
  }
}

// Passes are replayed as a graph from the second microbatch on; words are drawn for each.
TEST_F(Sm90TrainStep, microbatches) {
  for (const std::int64_t microbatches : {2, 4, 8}) {
    for (const char* const recipe : {"bf16", "mxfp8", "quartet2"}) {
      TrainingConfig config = tiny(recipe);
      config.batch = 8, config.microbatches = microbatches;
      SCOPED_TRACE(std::string(recipe) + ", " + std::to_string(microbatches));
      expect_same_steps(config, 3);
    }
  }
  TrainingConfig config = tiny("mxfp8");
  config.batch = 8, config.microbatches = 4, config.rounding = TokenRoundingRule::sr_f, config.tile = 16;
  expect_same_steps(config, 3);
}

// The last microbatch alone has a byte whose embedding is infinite.
TEST_F(Sm90TrainStep, a_microbatch_that_overflows_leaves_the_update_out) {
  TrainingConfig config = tiny("bf16");
  config.batch = 8, config.microbatches = 4, config.optimizer.skips_non_finite = true;
  TrainingState state = initial_state(config);
  for (std::int64_t i = 0; i < config.model.width; ++i)
    state.weights[0][static_cast<std::size_t>(7 * config.model.width + i)] = std::numeric_limits<float>::infinity();
  DeviceRun run(config, state);
  std::vector<std::uint8_t> data = data_of(config, config.batch, 0);
  std::replace(data.begin(), data.end(), std::uint8_t{7}, std::uint8_t{8});
  data[data.size() - 9] = 7;
  const DeviceOutcome found = run.step(state, data);
  EXPECT_TRUE(agree(found, training_step(config, state, data, false)));
  EXPECT_EQ(found.values.updated, 0);
}

TEST_F(Sm90TrainStep, token_rounding) {
  for (const TokenRoundingRule rule : {TokenRoundingRule::nr_f, TokenRoundingRule::sr_f, TokenRoundingRule::up,
                                       TokenRoundingRule::down, TokenRoundingRule::balance_f}) {
    TrainingConfig config = tiny("mxfp8");
    config.rounding = rule, config.tile = 16;
    SCOPED_TRACE(std::string(to_text(rule)));
    expect_same_steps(config, 4);
  }
}

TEST_F(Sm90TrainStep, no_clipping_no_decay_and_the_balance_loss_alone) {
  TrainingConfig config = tiny("bf16");
  config.optimizer.clip = 1e6F, config.optimizer.decay = 0, config.balance = 10;
  expect_same_steps(config, 3);
}

// A router's logits that are not finite: no routes, no update.
TEST_F(Sm90TrainStep, logits_that_are_not_finite_leave_the_update_out) {
  TrainingConfig config = tiny("mxfp8");
  config.optimizer.skips_non_finite = true;
  TrainingState state = initial_state(config);
  state.weights[12][5] = std::numeric_limits<float>::infinity();  // layers.1.router
  expect_same_steps(config, 2, state);
}

// A norm that overflows: the gradient of the output is finite, its square is not.
TEST_F(Sm90TrainStep, a_norm_that_overflows_leaves_the_update_out) {
  TrainingConfig config = tiny("bf16");
  config.optimizer.skips_non_finite = true;
  TrainingState state = initial_state(config);
  for (float& g : state.weights[state.weights.size() - 2]) g = 0x1p100F;  // final_norm
  expect_same_steps(config, 2, state);
}

TEST_F(Sm90TrainStep, evaluations_under_every_recipe) {
  const TrainingConfig config = wide("mxfp8");
  TrainingState state = initial_state(config);
  DeviceRun run(config, state, 6);
  for (const std::int64_t sequences : {6, 1, 3}) {
    const std::vector<std::uint8_t> data = data_of(config, sequences, 1000 + sequences);
    for (const LayerRecipe& recipe : all_layer_recipes()) expect_same_evaluation(run, config, state, recipe, data);
    EXPECT_TRUE(step_agrees(run, config, state, sequences));  // which an evaluation must not disturb
  }
}

// The second evaluation of a recipe and a size captures a graph, the third replays it; weights and data differ each
// time.
TEST_F(Sm90TrainStep, evaluations_that_come_again) {
  const TrainingConfig config = wide("mxfp8");
  TrainingState state = initial_state(config);
  DeviceRun run(config, state, 6);
  for (int s = 0; s < 4; ++s) {
    for (const std::int64_t sequences : {6, 5}) {
      const std::vector<std::uint8_t> data = data_of(config, sequences, 2000 + 10 * s + sequences);
      SCOPED_TRACE(std::to_string(sequences) + " sequences after step " + std::to_string(s));
      for (const char* const name : {"mxfp8", "bf16", "dsv3"})
        expect_same_evaluation(run, config, state, layer_recipe_named(name), data);
    }
    EXPECT_TRUE(step_agrees(run, config, state, s));
  }
}

// A run whose state another one continues, and one that is set back.
TEST_F(Sm90TrainStep, a_state_that_is_taken_over_continues_with_the_same_bits) {
  const TrainingConfig config = tiny("mxfp8");
  TrainingState state = initial_state(config);
  DeviceRun first(config, state);
  for (int s = 0; s < 3; ++s) EXPECT_TRUE(step_agrees(first, config, state, s));
  TrainingState taken = state;
  for (std::size_t p = 0; p < state.weights.size(); ++p)
    first.get_parameter(p, taken.weights[p], taken.first_moments[p], taken.second_moments[p]);
  const std::vector<std::uint8_t> data = data_of(config, config.batch, 3);
  DeviceRun second(config, taken);
  const TrainingState before = state;
  const StepOutcome expected = training_step(config, state, data, false);
  EXPECT_TRUE(agree(second.step(before, data), expected));
  EXPECT_TRUE(agree(first.step(before, data), expected));
  first.set_state(taken);
  EXPECT_TRUE(agree(first.step(before, data), expected));
}

// Each thread has a run, a stream and a graph.
TEST_F(Sm90TrainStep, runs_at_once_do_not_disturb_one_another) {
  constexpr int kRuns = 4;
  constexpr int kSteps = 20;
  std::vector<int> wrong(kRuns, -1);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRuns; ++r) {
    threads.emplace_back([&wrong, r] {
      TrainingConfig config = tiny(r % 2 == 0 ? "mxfp8" : "bf16");
      config.seed += static_cast<std::uint64_t>(r);
      TrainingState state = initial_state(config, 1);
      DeviceRun run(config, state);
      wrong[static_cast<std::size_t>(r)] = 0;
      for (int s = 0; s < kSteps; ++s)
        wrong[static_cast<std::size_t>(r)] += step_agrees(run, config, state, s, 1) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kRuns, 0));
}

// Runs begin and end while others capture their steps and evaluations as graphs: nothing that they call may wait for
// the whole device, which ends a capture.
TEST_F(Sm90TrainStep, runs_begin_and_end_beside_captures) {
  const TrainingConfig config = tiny("bf16");
  const TrainingState state = initial_state(config);
  std::atomic<bool> done = false;
  std::atomic<int> begun = 0;
  std::thread beside([&] {
    while (!done) {
      try {
        const DeviceRun run(config, state);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
        done = true;
      }
      ++begun;
    }
  });
  const std::vector<std::uint8_t> data = data_of(config, config.batch, 0);
  try {
    for (int i = 0; !done && (i < 30 || begun < 200); ++i) {
      DeviceRun run(config, state, config.batch);
      for (int s = 0; s < 3; ++s) run.step(state, data);
      for (const char* const recipe : {"bf16", "mxfp8", "mxfp8_floor"}) {
        for (int e = 0; e < 3; ++e) run.evaluate(recipe, data);
      }
    }
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
  done = true;
  beside.join();
}

TEST_F(Sm90TrainStep, what_is_refused_changes_nothing) {
  const TrainingConfig config = tiny("mxfp8");
  TrainingState state = initial_state(config);
  DeviceRun run(config, state, 2);
  const std::vector<std::uint8_t> data = data_of(config, config.batch, 0);
  EXPECT_THROW(run.evaluate("mxfp8", data), Error);                  // four sequences
  EXPECT_THROW(run.evaluate("dsv3", data_of(config, 2, 0)), Error);  // of multiples of 128
  EXPECT_THROW(run.read<float>("layers.2.x"), Error);
  EXPECT_FALSE(run.read<char>("").empty());
  EXPECT_TRUE(step_agrees(run, config, state, 0));
}

// --- steps that are observed: a step has the same bits whether it is or not

class Sm90TrainObserved : public DeviceTest {};

TrainingConfig cut(TrainingConfig config, std::int64_t microbatches) {
  config.batch = 8, config.microbatches = microbatches;
  return config;
}

// Five steps, of which the first, the third and the fourth are observed: before the graph is made, and after it.
void expect_same_observations(const TrainingConfig& config) {
  TrainingState state = initial_state(config);
  DeviceRun run(config, state);
  const ReadTensor read = [&](const std::string& name) { return run.read<std::byte>(name); };
  for (int s = 0; s < 5; ++s) {
    const bool observe = s == 0 || s == 2 || s == 3;
    const std::vector<std::uint8_t> data = data_of(config, config.batch, s);
    const DeviceOutcome found = run.step(state, data, observe);
    const StepOutcome expected = training_step(config, state, data, observe);
    ASSERT_TRUE(agree(found, expected)) << config.recipe.name << ", step " << s;
    for (std::size_t l = 0; observe && l < expected.layers.size(); ++l) {
      LayerObservation observation = observe_device_layer(config, {s, static_cast<std::int64_t>(l)}, read, 0);
      observation.output_digest = found.layer_digests[l];
      EXPECT_EQ(observation, expected.layers[l]) << config.recipe.name << ", step " << s << ", layer " << l;
      EXPECT_EQ(observation.operands.empty(), !quantizes(config.recipe));
    }
  }
}

TEST_F(Sm90TrainObserved, observations_are_the_references_under_every_recipe) {
  for (const LayerRecipe& recipe : all_layer_recipes()) expect_same_observations(wide(recipe.name));
}

TEST_F(Sm90TrainObserved, observations_of_the_first_microbatch) {
  for (const char* const recipe : {"mxfp8", "nvfp4", "quartet2"}) expect_same_observations(cut(wide(recipe), 4));
}

TEST_F(Sm90TrainObserved, observations_under_token_rounding) {
  TrainingConfig config = tiny("mxfp8");
  config.rounding = TokenRoundingRule::nr_f, config.tile = 16;
  expect_same_observations(config);
}

TEST_F(Sm90TrainStep, DISABLED_a_step_of_the_full_model) {
  for (const char* const recipe : {"bf16", "mxfp8", "mxfp8_e5m2_grad", "dsv3", "dsv3_pow2", "fp8_tensor"})
    expect_same_steps(full(recipe), 1);
}

}  // namespace
}  // namespace mxcheck::test

// Steps on a Hopper GPU that are observed: the observations made of their tensors are those of the reference's own
// step, and a step has the same bits whether it is observed or not. Skipped without a GPU.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/train/device_run.h"
#include "tests/kernels/sm90/train/train_fixture.h"
#include "trainer/run/device_layers.h"

namespace mxcheck::test {
namespace {

class Sm90TrainObserved : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

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
      LayerObservation observation = observe_device_layer(config, static_cast<std::int64_t>(l), read, 0);
      observation.output_digest = found.layer_digests[l];
      EXPECT_EQ(observation, expected.layers[l]) << config.recipe.name << ", step " << s << ", layer " << l;
      EXPECT_EQ(observation.operands.empty(), !quantizes(config.recipe));
    }
  }
}

TEST_F(Sm90TrainObserved, observations_are_the_references_under_every_recipe) {
  for (const LayerRecipe& recipe : all_layer_recipes()) expect_same_observations(wide(recipe.name));
}

TEST_F(Sm90TrainObserved, observations_under_token_rounding) {
  TrainingConfig config = tiny("mxfp8");
  config.rounding = TokenRoundingRule::nr_f, config.tile = 16;
  expect_same_observations(config);
}

}  // namespace
}  // namespace mxcheck::test

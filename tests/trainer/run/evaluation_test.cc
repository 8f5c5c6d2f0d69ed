// Evaluations of more sequences than are computed at once, against parts that are computed here.

#include "trainer/run/evaluation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/run_fixture.h"

namespace mxcheck {
namespace {

// Its loss is the first byte of a part and a fraction, its routes say how many sequences the part has.
class PartEngine final : public TrainingEngine {
 public:
  explicit PartEngine(const TrainingConfig& config) : config_(config) {}
  [[nodiscard]] std::string name() const override { return "part"; }
  [[nodiscard]] std::string device() const override { return "none"; }
  void load(TrainingState /*state*/) override {}
  [[nodiscard]] std::int64_t steps_done() const override { return 7; }
  [[nodiscard]] const TrainingState& state() override { return state_; }
  StepOutcome step(std::span<const std::uint8_t> /*tokens*/, bool /*observe*/) override { return {}; }
  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    const std::int64_t sequences = std::ssize(tokens) / (config_.model.length + 1);
    parts.push_back(sequences);
    Evaluation e;
    e.loss = recipe.name == "bf16" ? static_cast<float>(tokens[0]) + 0.1F : losses;
    const auto slots = static_cast<std::size_t>(sequences * config_.model.length * config_.model.top_k);
    e.routes.assign(2, std::vector<std::int32_t>(slots, recipe.name == "bf16" ? 0 : 1));
    e.routes[0][0] = 2;  // of a part's first token one expert is the same in layer 0
    return e;
  }

  std::vector<std::int64_t> parts;
  float losses = 0.3F;

 private:
  TrainingConfig config_;
  TrainingState state_;
};

TEST(Evaluation, is_the_mean_of_its_parts) {
  const TrainingConfig config = test::small_config("mxfp8");
  const std::int64_t each = config.model.length + 1;
  std::vector<std::uint8_t> data(static_cast<std::size_t>(600 * each), 1);
  data[static_cast<std::size_t>(256 * each)] = 2, data[static_cast<std::size_t>(512 * each)] = 3;
  PartEngine engine(config);
  const RecordedEvaluation e = evaluation_of(engine, config, data);
  EXPECT_EQ(engine.parts, (std::vector<std::int64_t>{256, 256, 256, 256, 88, 88}));
  EXPECT_EQ(e.step, 7);
  const double sum = 256.0 * (1 + 0.1F) + 256.0 * (2 + 0.1F) + 88.0 * (3 + 0.1F);
  EXPECT_EQ(e.loss_bf16, std::bit_cast<std::uint32_t>(static_cast<float>(sum / 600)));
  EXPECT_EQ(e.loss_own, std::bit_cast<std::uint32_t>(0.3F));  // the mean of equal numbers, not one near it
  EXPECT_EQ(e.routes, 600 * config.model.length * config.model.top_k);
  EXPECT_EQ(e.equal_routes, (std::vector<std::int64_t>{3, 0}));
  engine.losses = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(evaluation_of(engine, config, data).loss_own)));
}

TEST(Evaluation, of_one_part_is_the_engines) {
  const TrainingConfig config = test::small_config("mxfp8");
  const Corpus corpus = test::small_corpus();
  const std::vector<std::uint8_t> data = validation_batch(corpus, config.model, 5);
  const std::unique_ptr<TrainingEngine> engine = cpu_engine(config, 1);
  engine->load(initial_state(config));
  const RecordedEvaluation e = evaluation_of(*engine, config, data);
  EXPECT_EQ(e.loss_own, std::bit_cast<std::uint32_t>(engine->evaluate(config.recipe, data).loss));
  EXPECT_EQ(e.loss_bf16, std::bit_cast<std::uint32_t>(engine->evaluate(layer_recipe_named("bf16"), data).loss));
}

}  // namespace
}  // namespace mxcheck

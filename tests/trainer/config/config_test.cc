#include "trainer/config/config.h"
#include "goldens/json/json.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

TrainingConfig full_of_values() {
  TrainingConfig c = preset_named("tiny");
  c.steps = 77, c.seed = std::numeric_limits<std::uint64_t>::max(), c.perturb = 12;
  c.recipe = layer_recipe_named("dsv3_pow2");
  c.rounding = TokenRoundingRule::sr_f, c.tile = 16;
  c.balance = 0x1.234567p-8F;
  c.optimizer = {1e-3F, 0x1p-149F, 7, 0.9F, 0.95F, 1e-8F, 0.1F, std::numeric_limits<float>::max(), Format::bf16, true};
  return c;
}

TEST(ConfigJson, gives_the_configuration_again) {
  EXPECT_EQ(config_from_json(to_json(full_of_values()), "x"), full_of_values());
  for (const TrainingPreset& preset : all_training_presets()) {
    const TrainingConfig c = preset_named(preset.name);
    EXPECT_EQ(config_from_json(to_json(c), "x"), c) << preset.name;
  }
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    TrainingConfig c = full_of_values();
    c.recipe = recipe;
    EXPECT_EQ(config_from_json(to_json(c), "x"), c) << recipe.name;
  }
}

TEST(ConfigJson, has_layers_that_stay_in_bf16_only_where_there_are_some) {
  TrainingConfig c = full_of_values();
  EXPECT_EQ(to_json(c).find("bf16_last"), std::string::npos);
  c.bf16_last = 1;
  expect_contains(to_json(c), "\"bf16_last\": 1");
  EXPECT_EQ(config_from_json(to_json(c), "x"), c);
}

TEST(ConfigJson, has_microbatches_only_where_there_are_several) {
  TrainingConfig c = full_of_values();
  EXPECT_EQ(to_json(c).find("microbatches"), std::string::npos);
  c.microbatches = 2, c.batch = 6;
  expect_contains(to_json(c), "\"microbatches\": 2");
  EXPECT_EQ(config_from_json(to_json(c), "x"), c);
}

TEST(ConfigJson, floats_are_short_decimals) {
  const std::string text = to_json(preset_named("tiny"));
  for (const char* member : {"\"peak_rate\": 0.001", "\"beta2\": 0.95", "\"epsilon\": 1e-08", "\"balance\": 0.01"})
    expect_contains(text, member);
}

// The decimal 7.038531e-26 is so near to the middle of two FP32 numbers that a double rounds it onto that middle, and
// the even one of the two is the other.
TEST(ConfigJson, a_short_decimal_that_a_double_takes_elsewhere_is_not_written) {
  TrainingConfig c = preset_named("tiny");
  c.optimizer.epsilon = std::bit_cast<float>(0x15AE43FDU);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(config_from_json(to_json(c), "x").optimizer.epsilon), 0x15AE43FDU);
}

void expect_refused(const std::string& what, const std::function<void(Json&)>& change) {
  Json json = parse_json(to_json(full_of_values()), "x", 8, ErrorKind::usage);
  change(json);
  try {
    config_from_json(to_text(json), "mine.json");
    ADD_FAILURE() << what << " is not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    expect_contains(std::string(e.what()), what);
    EXPECT_EQ(std::string(e.what()).rfind("mine.json"), 0U) << e.what();  // the place is there once
  }
}

TEST(ConfigJson, is_read_strictly) {
  expect_refused("extra", [](Json& j) { j["extra"] = 1; });
  expect_refused(R"(has "a\x0Ab", which)", [](Json& j) { j["a\nb"] = 1; });
  expect_refused("$.model", [](Json& j) { j["model"]["widht"] = 1; });
  expect_refused("layers", [](Json& j) { j["model"]["layers"] = 0; });
  expect_refused("layers", [](Json& j) { j["model"]["layers"] = 1.5; });
  expect_refused("seed", [](Json& j) { j["seed"] = -1; });
  expect_refused("seed", [](Json& j) { j["seed"] = "1"; });
  expect_refused("rounding", [](Json& j) { j["rounding"] = "nearest"; });
  expect_refused("mine.json: $.rounding: must be a string", [](Json& j) { j["rounding"] = 1; });
  expect_refused("$.optimizer", [](Json& j) { j["optimizer"]["moments"] = "e4m3"; });
  expect_refused("beta1", [](Json& j) { j["optimizer"]["beta1"] = "0.9"; });
  expect_refused("beta1", [](Json& j) { j["optimizer"]["beta1"] = 1; });
  expect_refused("skips_non_finite", [](Json& j) { j["optimizer"]["skips_non_finite"] = 1; });
  expect_refused("$.recipe", [](Json& j) { j["recipe"]["gemms"] = Json::array(); });
  expect_refused("perturb", [](Json& j) { j["perturb"] = std::int64_t{1} << 40; });
  expect_refused("$.bf16_last", [](Json& j) { j["bf16_last"] = 0; });
  expect_refused("$.bf16_last", [](Json& j) { j["bf16_last"] = "1"; });
  expect_refused("$.microbatches", [](Json& j) { j["microbatches"] = 0; });
  expect_refused("a power of two that divides it is needed", [](Json& j) { j["microbatches"] = 3; });
  expect_refused("bf16_last is 2 of 2 layers; 0 to 1 is needed", [](Json& j) { j["bf16_last"] = 2; });
  expect_refused("bf16_last is 1 of the recipe bf16, whose layers are all in BF16; 0 is needed", [](Json& j) {
    j["bf16_last"] = 1,
    j["recipe"] =
        parse_json(R"({"base": "bf16", "name": "bf16", "meaning": "nothing is quantized"})", "x", 8, ErrorKind::usage);
  });
  EXPECT_THROW(config_from_json("{", "x"), Error);
  EXPECT_THROW(config_from_json("{}", "x"), Error);
  EXPECT_THROW(config_from_json("[]", "x"), Error);
}

// Weights and moments to the byte, the rest no more than a step takes.
TEST(TrainingMemory, is_counted_from_the_sizes) {
  const TrainingConfig full = preset_named("full");
  const TrainingMemory memory = training_memory(full, 64);
  EXPECT_NEAR(memory.state, 12.0 * 13'797'632, 1e5);
  EXPECT_GT(memory.step, 6.0 * 13'797'632);
  EXPECT_LT(memory.step, 4e8);
  EXPECT_EQ(memory.total(), memory.state + std::max(memory.step, memory.evaluation));
  EXPECT_GT(training_memory(full, 256).evaluation, 3 * memory.evaluation);
  EXPECT_LT(training_memory(full, 1 << 20).evaluation - training_memory(full, 256).evaluation, 257.0 * (1 << 20));
  EXPECT_EQ(memory_objection(full, 1 << 20), "");
  EXPECT_NO_THROW(require_memory(preset_named("tiny"), 64));
}

// Memory that no machine has: for each size by itself, and for sizes whose product is beyond 64 bits.
TEST(TrainingMemory, that_no_machine_has_is_named) {
  const std::vector<std::function<void(TrainingConfig&)>> cases{
      [](TrainingConfig& c) { c.model.width = 1 << 24; },
      [](TrainingConfig& c) { c.model.inner = 1 << 24, c.model.experts = 256; },
      [](TrainingConfig& c) { c.model.experts = 1 << 24; },
      [](TrainingConfig& c) { c.model.length = 1 << 22; },
      [](TrainingConfig& c) { c.batch = 1 << 18, c.model.layers = 1 << 16; },
      [](TrainingConfig& c) { c.batch = 1, c.model.length = c.model.heads = 1 << 24, c.model.width = 1 << 25; },
  };
  for (const auto& change : cases) {
    TrainingConfig config = preset_named("tiny");
    change(config);
    const std::string wrong = memory_objection(config, 64);
    EXPECT_TRUE(wrong.starts_with("a run of this configuration takes at least ")) << wrong;
    expect_contains(wrong, {"GiB of memory (weights and moments ", "; at most 1024.0 GiB may be asked for"});
    expect_error(ErrorKind::environment, "out of memory: a run of this configuration takes",
                 [&] { require_memory(config, 64); });
  }
}

TEST(Presets, that_are_not_there_are_refused_with_those_that_are) {
  EXPECT_EQ(thrown_by([] { preset_named("huge"); }).text,
            "there is no preset 'huge'; known are tiny, small, full, verdict");
}

}  // namespace
}  // namespace mxcheck

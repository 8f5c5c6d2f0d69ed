// A library behind kernels/train.h as an engine: one that computes with the reference must give the CPU's runs, to the
// bit, also through checkpoints.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "numerics/error.h"
#include "reference/training/observe.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/run/device_layers.h"

namespace mxcheck {
namespace {

using test::small_config;
using test::small_corpus;
using test::small_request;

// All that has bits, but facts of operands: the library's H, P and dO are not the CPU's.
RunRecord bits_of_any_engine(RunRecord run) {
  run.started.clear(), run.device.clear(), run.engine.clear();
  run.seconds = 0, run.sittings = 1;
  for (RecordedObservation& o : run.observations) {
    for (LayerObservation& layer : o.layers) layer.operands.clear();
  }
  return run;
}

TEST(DeviceEngine, gives_the_runs_of_the_cpu) {
  const test::TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  for (const char* recipe : {"bf16", "mxfp8"}) {
    for (const bool varies : {false, true}) {
      RunRequest request = small_request(dir / "cpu.h5", corpus);
      request.config = small_config(recipe);
      if (varies) {
        request.config.rounding = TokenRoundingRule::sr_f, request.config.tile = 4;
        request.config.optimizer.moments = Format::bf16;
      }
      const RunRecord cpu = run_training(request, *cpu_engine(request.config, 1), {});
      request.out = dir / "device.h5";
      const auto engine = [&] { return device_engine(request.config, MXCHECK_TRAIN_LIBRARY, 2, 1); };
      const RunRecord begun = run_training(request, *engine(), [](const RunProgress& p) { return p.step != 7; });
      EXPECT_EQ(begun.engine, "reference");
      ASSERT_EQ(begun.observations.size(), 2U);
      EXPECT_EQ(begun.observations[1].layers[1].operands.size(), std::string(recipe) == "bf16" ? 0U : 12U);
      request.resume = true;
      EXPECT_EQ(bits_of_any_engine(run_training(request, *engine(), {})), bits_of_any_engine(cpu)) << recipe << varies;
      for (const char* name : {"cpu.h5", "device.h5", "cpu.step6.h5", "device.step6.h5"})
        std::filesystem::remove(dir / name);
    }
  }
}

void expect_refused(ErrorKind kind, const std::string& what, const TrainingConfig& config, const std::string& library) {
  try {
    device_engine(config, library, 2, 1);
    ADD_FAILURE() << what << " is not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  }
}

TEST(DeviceEngine, what_cannot_be_is_refused) {
  const TrainingConfig config = small_config();
  expect_refused(ErrorKind::environment, "/none.so: cannot be loaded", config, "/none.so");
  expect_refused(ErrorKind::environment, "has no symbol mxcheck_train", config, "libm.so.6");
  TrainingConfig changed = config;
  changed.model.layers = 3;
  expect_refused(ErrorKind::usage, "three layers are not offered", changed, MXCHECK_TRAIN_LIBRARY);
  changed = config;
  changed.recipe.gemms[0].a.block = {1, 64};  // under a built-in recipe's name
  expect_refused(ErrorKind::usage, "GEMM up, operand X", changed, MXCHECK_TRAIN_LIBRARY);
  changed.recipe.name = "mine";
  EXPECT_THROW(device_engine(changed, MXCHECK_TRAIN_LIBRARY, 2, 1), Error);
}

TEST(DeviceLayers, recipes_are_names_or_written_out) {
  for (const LayerRecipe& recipe : all_layer_recipes()) EXPECT_EQ(device_recipe(recipe), recipe.name);
  LayerRecipe mine = layer_recipe_named("mxfp8");
  const std::string first_four =
      "mx32 e4m3.rceil e4m3.rceil e4m3.rceil e4m3.rceil e4m3.rceil e4m3.rceil e4m3.rceil e4m3.rceil ";
  mine.name = "mine";
  EXPECT_EQ(device_recipe(mine), first_four + "e4m3.rceil e4m3.rceil e4m3.rceil e4m3.rceil");
  mine.gemms[4] = {{}, {}, "sm90_bf16"};
  mine.gemms[5].a.format = Format::e3m2, mine.gemms[5].a.scales = "floor", mine.gemms[5].b.format = Format::e2m1;
  check(mine);
  EXPECT_EQ(device_recipe(mine), first_four + "bf16 bf16 e3m2.floor e2m1.rceil");
  const auto refused = [](const LayerRecipe& recipe, const std::string& words) {
    test::expect_error(ErrorKind::usage, words, [&] { device_recipe(recipe); });
  };
  LayerRecipe wrong = mine;
  wrong.gemms[0].b.block = {1, 16};
  refused(wrong, "recipe 'mine', GEMM up, operand W1");
  wrong = mine;
  wrong.gemms[3].a.scales = "deepgemm_host";
  refused(wrong, "GEMM d_up, operand dH");
  wrong = mine;
  wrong.gemms[1].contract = "exact+decode";
  refused(wrong, "GEMM down, contract exact+decode");
  wrong = mine;
  wrong.kept_h = wrong.gemms[0].a;
  refused(wrong, "what is kept");
}

// An observation of what `read` gives: for a layer that the reference computed, the facts that it has itself.
TEST(DeviceLayers, an_observation_is_the_references) {
  const TrainingConfig config = small_config("mxfp8_e5m2_grad");
  const ModelShape& m = config.model;
  const auto words = [](std::int64_t count, std::uint32_t seed) {
    std::vector<std::uint16_t> v;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(i) * 2654435761U + seed * 40503U;
      v.push_back(static_cast<std::uint16_t>(0x3000U + (bits >> 18U) % 0x1200U + (bits >> 31U) * 0x8000U));
    }
    return v;
  };
  const auto x = words(config.tokens() * m.width, 1), d_o = words(config.tokens() * m.width, 2);
  const auto w1 = words(m.experts * m.width * 2 * m.inner, 3), w2 = words(m.experts * m.inner * m.width, 4);
  Routes choice{config.tokens(), 2, {}, std::vector<float>(static_cast<std::size_t>(2 * config.tokens()), 0.25F)};
  for (std::int32_t t = 0; t < config.tokens(); ++t) choice.experts.push_back(t % 3), choice.experts.push_back(3);
  const LayerRoutes routes = layer_routes(choice, m.experts);
  const Layer layer{{config.tokens(), m.width, m.inner, m.experts}, &config.recipe, GateUp::halves, w1, w2, 1};
  const LayerForward f = layer_forward(layer, x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, d_o, routes);
  LayerObservation expected{expert_loads(routes), {}, 0};
  forward_facts(layer, x, routes, f, expected.operands);
  backward_facts(layer, x, d_o, routes, b, expected.operands);

  std::map<std::string, std::vector<std::byte>> tensors;
  const auto put = [&](const std::string& name, const auto& values, std::size_t more) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors[name].assign(bytes.begin(), bytes.end());
    tensors[name].insert(tensors[name].end(), more, std::byte{0xCC});  // there may be more than the routed rows
  };
  put("layers.1.moe_u", x, 0), put("layers.1.observed_d_o", d_o, 0);
  put("layers.1.observed_h", f.h, 64), put("layers.1.observed_p", b.p, 64);
  put("layers.1.offsets", routes.offsets, 0), put("layers.1.token_offsets", routes.token_offsets, 0);
  put("layers.1.row_token", routes.row_token, 64), put("layers.1.row_weight", routes.row_weight, 64);
  put("layers.1.token_rows", routes.token_rows, 64);
  put("weights_bf16.13", w1, 0), put("weights_bf16.14", w2, 0);  // 1 + 7 + w1 and w2 of docs/training.md's list
  const ReadTensor read = [&](const std::string& name) { return tensors.at(name); };
  EXPECT_EQ(observe_device_layer(config, 1, read, 1), expected);
  EXPECT_EQ(expected.operands.size(), 12U);

  for (auto& [name, bytes] : tensors) {
    const std::vector<std::byte> whole = bytes;
    bytes.resize(4);
    EXPECT_THROW(observe_device_layer(config, 1, read, 1), Error) << name;
    bytes = whole;
  }
  LayerRoutes wrong = routes;
  wrong.offsets.back() = std::int64_t{1} << 60;
  put("layers.1.offsets", wrong.offsets, 0);
  EXPECT_THROW(observe_device_layer(config, 1, read, 1), Error);
}

}  // namespace
}  // namespace mxcheck

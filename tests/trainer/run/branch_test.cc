// Runs that take over from another: what they begin with, what they record, and what is refused.

#include "trainer/run/branch.h"
#include "reference/training/observe.h"
#include "tests/testing.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/audit/audit.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"
#include "trainer/run/engine.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

using namespace test;

const EngineMaker kCpu = [](const TrainingConfig& config) { return cpu_engine(config, 1); };

// A trunk of 12 steps under BF16 with a checkpoint before step 6, and its branches.
class Branch : public testing::Test {
 protected:
  Branch() {
    RunRequest request = small_request(dir / "trunk.h5", corpus);
    request.config = small_config("bf16");
    computed(request);
    trunk = read_trunk(request.out);
  }
  RunRequest request(const std::string& name, const TrainingConfig& config, std::int64_t step) {
    RunRequest r = small_request(dir / name, corpus);
    r.config = config;
    r.plan.kept.clear();
    if (step + 1 < config.steps) r.plan.kept.push_back(step + 1);
    r.branch = branch_of(trunk, config, step);
    r.trunk = [this, step] { return state_of(trunk, step, corpus, kCpu, {}); };
    return r;
  }

  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  Trunk trunk;
};

TEST_F(Branch, in_which_nothing_is_otherwise_is_its_trunk_gone_on_with) {
  for (const std::int64_t step : {1, 6, 8, 11}) {
    const RunRecord record = computed(request("same.h5", small_config("bf16"), step));
    EXPECT_EQ(record.first_step(), step);
    EXPECT_EQ(record.steps_done(), 12);
    const std::vector<RecordedStep> rest(trunk.run.steps.begin() + step, trunk.run.steps.end());
    EXPECT_EQ(record.steps, rest) << step;
    for (const RecordedEvaluation& e : record.evaluations) {
      EXPECT_GE(e.step, step);
      EXPECT_EQ(e, *std::ranges::find(trunk.run.evaluations, e.step, &RecordedEvaluation::step));
    }
    EXPECT_EQ(record.evaluations.back().step, 12);
    EXPECT_EQ(read_run(dir / "same.h5"), record);
    std::filesystem::remove(dir / "same.h5");
    if (step != 11) std::filesystem::remove(kept_checkpoint_of(dir / "same.h5", step + 1));
  }
}

TEST_F(Branch, takes_over_under_another_recipe) {
  const TrainingConfig config = small_config("mxfp8");
  const RunRecord record = computed(request("mxfp8.h5", config, 6));
  EXPECT_EQ(record.branch->trunk, trunk.sha256);
  EXPECT_EQ(record.branch->file, "trunk.h5");
  EXPECT_EQ(record.branch->weights, trunk.run.step(5).weights);
  TrainingState state = read_checkpoint(dir / "trunk.step6.h5").state;
  for (std::int64_t step = 6; step < 12; ++step) {
    const StepOutcome o = training_step(config, state, training_batch(corpus, config, step), false, 1);
    EXPECT_EQ(record.step(step), recorded(o)) << step;
    EXPECT_NE(record.step(step), trunk.run.step(step)) << step;
  }
}

TEST_F(Branch, may_leave_its_last_layers_in_bf16) {
  TrainingConfig config = small_config("mxfp8");
  config.bf16_last = 1;
  const RunRecord record = computed(request("last.h5", config, 6));
  EXPECT_EQ(read_run(dir / "last.h5").config.bf16_last, 1);
  EXPECT_EQ(read_run(dir / "last.h5"), record);
  EXPECT_NE(record.step(6), computed(request("mxfp8.h5", small_config("mxfp8"), 6)).step(6));
  TrainingState state = read_checkpoint(dir / "trunk.step6.h5").state;
  EXPECT_EQ(record.step(6), recorded(training_step(config, state, training_batch(corpus, config, 6), false, 1)));
}

// Half a unit of BF16 up or down, as the initial weights are moved; one weight an ulp.
TEST_F(Branch, moves_weights_where_it_branches_off) {
  const TrainingState before = *state_of(trunk, 6, corpus, kCpu, {});
  TrainingConfig config = small_config("bf16");
  config.perturb = kPerturbAll;
  TrainingState moved = before;
  branch_off(moved, config);
  TrainingConfig plain = config;
  plain.perturb = 0;
  const TrainingState from = initial_state(plain, 1);
  const TrainingState initially = initial_state(config, 1);
  std::int64_t up = 0, down = 0;
  for (std::size_t p = 0; p < before.weights.size(); ++p) {
    for (std::size_t i = 0; i < before.weights[p].size(); ++i) {
      const float weight = before.weights[p][i];
      const bool is_up = moved.weights[p][i] == weight * (1 + 0x1p-8F);
      EXPECT_TRUE(is_up || moved.weights[p][i] == weight * (1 - 0x1p-8F)) << p << ' ' << i;
      if (weight != 0 && from.weights[p][i] != 0) {
        EXPECT_EQ(is_up, initially.weights[p][i] == from.weights[p][i] * (1 + 0x1p-8F)) << p << ' ' << i;
      }
      (is_up ? up : down) += 1;
    }
  }
  EXPECT_GT(up, down / 2);
  EXPECT_GT(down, up / 2);
  EXPECT_EQ(moved.first_moments, before.first_moments);

  config.perturb = 3;
  TrainingState one = before;
  branch_off(one, config);
  EXPECT_EQ(one.weights[0][2], std::nextafter(before.weights[0][2], kInf));
  one.weights[0][2] = before.weights[0][2];
  EXPECT_EQ(one.weights, before.weights);

  config.perturb = kPerturbAll;
  EXPECT_NE(computed(request("moved.h5", config, 6)).step(6), trunk.run.step(6));
}

TEST_F(Branch, keeps_moments_in_its_own_type) {
  TrainingConfig config = small_config("bf16");
  config.optimizer.moments = Format::bf16;
  const RunRecord record = computed(request("moments.h5", config, 6));
  TrainingState state = *state_of(trunk, 6, corpus, kCpu, {});
  for (auto* moments : {&state.first_moments, &state.second_moments}) {
    for (std::vector<float>& tensor : *moments) {
      for (float& x : tensor) {  // nearest, ties to even: of finite numbers
        const auto bits = std::bit_cast<std::uint32_t>(x);
        x = std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U);
      }
    }
  }
  const StepOutcome o = training_step(config, state, training_batch(corpus, config, 6), false, 1);
  EXPECT_EQ(record.step(6), recorded(o));
  EXPECT_EQ(read_checkpoint(dir / "moments.step7.h5").state.step, 7);
}

TEST_F(Branch, that_was_stopped_goes_on_to_the_same_bits) {
  const TrainingConfig config = small_config("mxfp8");
  const RunRecord right = computed(request("whole.h5", config, 5));
  for (const bool loses_checkpoint : {false, true}) {
    RunRequest stopped = request("stopped.h5", config, 5);
    EXPECT_EQ(computed(stopped, [](const RunProgress& p) { return p.step != 8; }).steps_done(), 8);
    EXPECT_EQ(read_journal(journal_of(stopped.out)).record.branch, right.branch);
    if (loses_checkpoint) std::filesystem::remove(checkpoint_of(stopped.out));
    stopped.resume = true;
    RunRequest elsewhere = stopped;
    elsewhere.branch->step = 4;
    expect_error(ErrorKind::input, "a run that branches off elsewhere", [&] { computed(elsewhere); });
    const RunRecord record = computed(stopped);
    EXPECT_EQ(record.steps, right.steps);
    EXPECT_EQ(record.evaluations, right.evaluations);
    EXPECT_EQ(record.branch, right.branch);
    std::filesystem::remove(stopped.out);
    std::filesystem::remove(kept_checkpoint_of(stopped.out, 6));
  }
}

TEST_F(Branch, is_refused_where_it_could_not_be_compared_with_its_trunk) {
  const TrainingConfig config = small_config("mxfp8");
  TrainingConfig other = config;
  other.optimizer.peak_rate *= 2;
  expect_error(ErrorKind::usage, "optimizer.peak_rate is ", [&] { branch_of(trunk, other, 6); });
  other = config;
  other.seed += 1;
  expect_error(ErrorKind::usage, "seed is ", [&] { branch_of(trunk, other, 6); });
  for (const std::int64_t step : {0, 12, 13})
    expect_error(ErrorKind::usage, "it begins after 1 to 11 steps", [&] { branch_of(trunk, config, step); });
  Trunk short_one = trunk;
  short_one.run.steps.resize(5);
  expect_error(ErrorKind::input, "has 5 steps", [&] { branch_of(short_one, config, 6); });
  Corpus other_text = corpus;
  other_text.training_sha256[0] = other_text.training_sha256[0] == '0' ? '1' : '0';
  expect_error(ErrorKind::input, "was trained on other data", [&] { check_data(trunk, other_text); });

  computed(request("one.h5", config, 6));
  expect_error(ErrorKind::input, "is a branch itself", [&] { read_trunk(dir / "one.h5"); });
  const RunRecord one = read_run(dir / "one.h5");
  EXPECT_EQ(trunk_beside(one, dir / "one.h5", "").sha256, trunk.sha256);
  expect_error(ErrorKind::input, "which is not at", [&] { trunk_beside(one, "/elsewhere/one.h5", ""); });
  RunRecord of_another = one;
  of_another.branch->trunk = std::string(64, 'a');
  expect_error(ErrorKind::input, "branches off from a run with SHA-256 aaaa",
               [&] { check_branch(of_another, "x", trunk); });
  of_another = one;
  of_another.branch->weights ^= 1;
  expect_error(ErrorKind::input, "have the digest", [&] { check_branch(of_another, "x", trunk); });
}

TEST_F(Branch, does_not_begin_with_a_state_that_the_trunk_did_not_have) {
  Trunk wrong = trunk;
  wrong.run.steps[3].loss ^= 1;
  expect_error(ErrorKind::internal, "step 3, computed again", [&] { state_of(wrong, 5, corpus, kCpu, {}); });
  std::vector<std::int64_t> steps;
  const auto state = state_of(trunk, 8, corpus, kCpu, [&](std::int64_t step) { steps.push_back(step); });
  EXPECT_EQ(steps, (std::vector<std::int64_t>{6, 7}));  // from the kept checkpoint on
  EXPECT_EQ(weights_digest(*state), trunk.run.step(7).weights);
  RunRequest r = request("wrong.h5", small_config("mxfp8"), 6);
  r.trunk = [&] { return state; };
  expect_error(ErrorKind::internal, "the state to branch off from is of step 8", [&] { computed(r); });
}

TEST_F(Branch, is_audited_from_its_trunk) {
  const RunRecord run = computed(request("one.h5", small_config("mxfp8"), 6));
  for (const std::int64_t step : {6, 7, 11}) {
    AuditRequest r{.run = &run, .corpus = &corpus, .step = step};
    const std::unique_ptr<TrainingEngine> engine = cpu_engine(run.config, 1);
    expect_error(ErrorKind::usage, "its trunk's state", [&] { audit_step(r, *engine, {}); });
    r.trunk = state_of(trunk, 6, corpus, kCpu, {});
    const AuditResult result = audit_step(r, *engine, {});
    EXPECT_TRUE(result.passed());
    EXPECT_EQ(result.first, 6);
    RunRecord wrong = run;
    wrong.steps[static_cast<std::size_t>(step - 6)].gradient_norm ^= 1;
    r.run = &wrong;
    EXPECT_FALSE(audit_step(r, *engine, {}).passed());
  }
  AuditRequest before{.run = &run, .corpus = &corpus, .step = 5};
  const std::unique_ptr<TrainingEngine> engine = cpu_engine(run.config, 1);
  expect_error(ErrorKind::usage, "has no step 5; it has 6 to 11", [&] { audit_step(before, *engine, {}); });
}

// A library behind kernels/train.h as an engine: one that computes with the reference must give the CPU's runs, to the
// bit, also through checkpoints.

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
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  for (const char* recipe : {"bf16", "mxfp8"}) {
    for (const bool varies : {false, true}) {
      RunRequest request = small_request(dir / "cpu.h5", corpus);
      request.config = small_config(recipe);
      if (varies) {
        request.config.rounding = TokenRoundingRule::sr_f, request.config.tile = 4;
        request.config.optimizer.moments = Format::bf16, request.config.microbatches = 2;
        if (std::string(recipe) != "bf16") request.config.bf16_last = 1;
      }
      const RunRecord cpu = run_training(request, *cpu_engine(request.config, 1), {});
      request.out = dir / "device.h5";
      const auto engine = [&] { return device_engine(request.config, MXCHECK_TRAIN_LIBRARY, 2, 1); };
      const RunRecord begun = run_training(request, *engine(), [](const RunProgress& p) { return p.step != 7; });
      EXPECT_EQ(begun.engine, "reference");
      ASSERT_EQ(begun.observations.size(), 2U);
      EXPECT_EQ(begun.observations[1].layers[0].operands.size(), std::string(recipe) == "bf16" ? 0U : 12U);
      EXPECT_EQ(begun.observations[1].layers[1].operands.size(), std::string(recipe) == "bf16" || varies ? 0U : 12U);
      request.resume = true;
      EXPECT_EQ(bits_of_any_engine(run_training(request, *engine(), {})), bits_of_any_engine(cpu)) << recipe << varies;
      for (const char* name : {"cpu.h5", "device.h5", "cpu.step6.h5", "device.step6.h5"})
        std::filesystem::remove(dir / name);
    }
  }
}

void expect_refused(ErrorKind kind, const std::string& what, const TrainingConfig& config, const std::string& library) {
  expect_error(kind, what, [&] { device_engine(config, library, 2, 1); });
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

// It would train all layers under the recipe.
TEST(DeviceEngine, a_library_that_does_not_know_layers_in_bf16_is_refused_where_there_are_some) {
  TrainingConfig config = small_config();
  EXPECT_NO_THROW(device_engine(config, MXCHECK_EARLIER_TRAIN_LIBRARY, 2, 1));
  config.bf16_last = 1;
  expect_refused(ErrorKind::usage, "was built before layers could stay in BF16, and bf16_last is 1", config,
                 MXCHECK_EARLIER_TRAIN_LIBRARY);
  config.bf16_last = 0, config.microbatches = 2;
  expect_refused(ErrorKind::usage, "was built before a batch could be cut, and microbatches are 2", config,
                 MXCHECK_EARLIER_TRAIN_LIBRARY);
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
    expect_error(ErrorKind::usage, words, [&] { device_recipe(recipe); });
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
  EXPECT_EQ(observe_device_layer(config, {0, 1}, read, 1), expected);
  EXPECT_EQ(expected.operands.size(), 12U);

  for (auto& [name, bytes] : tensors) {
    const std::vector<std::byte> whole = bytes;
    bytes.resize(4);
    EXPECT_THROW(observe_device_layer(config, {0, 1}, read, 1), Error) << name;
    bytes = whole;
  }
  LayerRoutes wrong = routes;
  wrong.offsets.back() = std::int64_t{1} << 60;
  put("layers.1.offsets", wrong.offsets, 0);
  EXPECT_THROW(observe_device_layer(config, {0, 1}, read, 1), Error);
}

}  // namespace
}  // namespace mxcheck

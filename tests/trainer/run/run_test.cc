// Runs to the end, runs that are interrupted in every way and go on, runs that diverge, and requests that cannot be;
// evaluations in parts; several runs in one process.

#include <memory>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "tests/testing.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

using namespace test;

// The record of a run, without when and where.
RunRecord bits_of(RunRecord run) {
  run.started.clear(), run.device.clear();
  run.seconds = 0, run.sittings = 1;
  return run;
}

class Run : public testing::Test {
 protected:
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  RunRequest request = small_request(dir / "run.h5", corpus);
};

TEST_F(Run, records_every_step_and_what_is_due) {
  const RunRecord record = computed(request);
  EXPECT_EQ(read_run(request.out), record);
  std::vector<std::string> names = dir.names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"run.h5", "run.step6.h5"}));

  TrainingState state = initial_state(request.config, 1);
  ASSERT_EQ(record.steps.size(), 12U);
  for (std::int64_t step = 0; step < 12; ++step) {
    if (step == 6) {
      EXPECT_EQ(read_checkpoint(dir / "run.step6.h5").state.weights, state.weights);
    }
    const StepOutcome o = training_step(request.config, state, training_batch(corpus, request.config, step), false, 1);
    EXPECT_EQ(record.steps[static_cast<std::size_t>(step)], recorded(o)) << step;
    EXPECT_EQ(std::bit_cast<float>(recorded(o).loss), o.loss);
  }
  const auto steps_of = [](const auto& list) {
    std::vector<std::int64_t> steps;
    for (const auto& entry : list) steps.push_back(entry.step);
    return steps;
  };
  EXPECT_EQ(steps_of(record.evaluations), (std::vector<std::int64_t>{0, 4, 8, 12}));
  EXPECT_EQ(steps_of(record.observations), (std::vector<std::int64_t>{0, 5, 10}));
  EXPECT_EQ(steps_of(record.witnesses), (std::vector<std::int64_t>{0, 1, 5, 6, 10, 11}));
  const Evaluation last =
      evaluate(request.config, state, request.config.recipe, validation_batch(corpus, request.config.model, 2), 1);
  EXPECT_EQ(std::bit_cast<float>(record.evaluations.back().loss_own), last.loss);
  EXPECT_EQ(record.evaluations.back().routes, 2 * 12 * 2);
  EXPECT_EQ(record.end, RunEnd::finished);
  EXPECT_EQ(record.corpus, "made up");
  EXPECT_EQ(record.engine, "cpu");
}

TEST_F(Run, routes_that_agree_are_counted_whatever_their_order) {
  request.config = small_config("bf16");
  for (const RecordedEvaluation& e : computed(request).evaluations) {
    EXPECT_EQ(e.loss_own, e.loss_bf16);
    EXPECT_EQ(e.equal_routes, (std::vector<std::int64_t>{48, 48}));
  }
}

// Stopped after `step`, gone on with, until it ends.
RunRecord interrupted_at(const std::vector<std::int64_t>& stops, RunRequest request,
                         const std::function<void()>& between) {
  RunRecord record;
  for (const std::int64_t stop : stops) {
    record = computed(request, [&](const RunProgress& p) { return p.step != stop; });
    EXPECT_EQ(record.end, RunEnd::unfinished);
    EXPECT_EQ(std::ssize(record.steps), stop);
    EXPECT_FALSE(std::filesystem::exists(request.out));
    if (between) between();
    request.resume = true;
  }
  return computed(request);
}

TEST_F(Run, that_was_stopped_goes_on_to_the_same_bits) {
  const RunRecord right = bits_of(computed(small_request(dir / "whole.h5", corpus)));
  for (const std::vector<std::int64_t>& stops : {std::vector<std::int64_t>{1}, {4, 5, 11}, {6}, {3, 9}}) {
    const RunRequest request = small_request(dir / "stopped.h5", corpus);
    const RunRecord record = interrupted_at(stops, request, {});
    EXPECT_EQ(record.sittings, std::ssize(stops) + 1);
    EXPECT_EQ(bits_of(record), right);
    EXPECT_EQ(bits_of(read_run(request.out)), right);
    std::filesystem::remove(request.out);
    std::filesystem::remove(dir / "stopped.step6.h5");
  }
}

TEST_F(Run, gives_the_states_that_it_keeps) {
  request.plan.kept = {3, 6};
  std::vector<std::shared_ptr<const TrainingState>> states;
  request.keeps = [&](const auto& state) { states.push_back(state); };
  computed(request);
  ASSERT_EQ(states.size(), 2U);
  for (const auto& state : states) {
    const TrainingState kept = read_checkpoint(kept_checkpoint_of(request.out, state->step)).state;
    EXPECT_EQ(state->weights, kept.weights) << state->step;
    EXPECT_EQ(state->second_moments, kept.second_moments) << state->step;
  }
}

// A folder has the name of the checkpoint when it is to be written.
TEST_F(Run, whose_checkpoint_cannot_be_kept_fails) {
  request.plan.kept = {3};
  request.keeps = [&](const auto& /*state*/) { std::filesystem::create_directory(dir / "run.step3.h5"); };
  EXPECT_ANY_THROW(computed(request));
  EXPECT_FALSE(path_exists(request.out));
}

TEST_F(Run, writes_no_checkpoint_after_its_last_step) {
  for (const std::int64_t every : {6, 12}) {
    RunRequest request = small_request(dir / fmt::format("every{}.h5", every), corpus);
    request.plan.checkpoint_every = every, request.plan.kept.clear();
    std::int64_t seen = 0;  // after so many steps there was one
    computed(request, [&](const RunProgress& p) {
      if (seen == 0 && path_exists(checkpoint_of(request.out))) seen = p.step;
      return true;
    });
    EXPECT_EQ(seen, every == 6 ? 6 : 0);
  }
}

// The state after a kill: the journal is ahead of the checkpoint, or there is no checkpoint.
TEST_F(Run, that_was_killed_goes_on_to_the_same_bits) {
  const RunRecord right = bits_of(computed(small_request(dir / "whole.h5", corpus)));
  for (const std::int64_t killed_at : {1, 3, 8}) {
    for (const bool loses_checkpoint : {false, true}) {
      RunRequest request = small_request(dir / "killed.h5", corpus);
      struct Kill {};
      EXPECT_THROW(computed(request,
                            [&](const RunProgress& p) {
                              if (p.step == killed_at) throw Kill();
                              return true;
                            }),
                   Kill);
      EXPECT_EQ(std::ssize(read_journal(journal_of(request.out)).record.steps), killed_at);
      if (loses_checkpoint) std::filesystem::remove(checkpoint_of(request.out));
      request.resume = true;
      EXPECT_EQ(bits_of(computed(request)), right) << killed_at;
      std::filesystem::remove(request.out);
      std::filesystem::remove(dir / "killed.step6.h5");
    }
  }
}

// An engine whose result is turned at one step.
class OtherEngine final : public TrainingEngine {
 public:
  OtherEngine(const TrainingConfig& config, std::int64_t at, std::function<void(StepOutcome&)> turn)
      : engine_(cpu_engine(config, 1)), at_(at), turn_(std::move(turn)) {}
  [[nodiscard]] std::string name() const override { return "other"; }
  [[nodiscard]] std::string device() const override { return "none"; }
  void load(TrainingState state) override { engine_->load(std::move(state)); }
  [[nodiscard]] std::int64_t steps_done() const override { return engine_->steps_done(); }
  [[nodiscard]] const TrainingState& state() override { return engine_->state(); }
  StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) override {
    const std::int64_t step = state().step;
    StepOutcome outcome = engine_->step(tokens, observe);
    if (step == at_) turn_(outcome);
    return outcome;
  }
  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    return engine_->evaluate(recipe, tokens);
  }

 private:
  std::unique_ptr<TrainingEngine> engine_;
  std::int64_t at_;
  std::function<void(StepOutcome&)> turn_;
};

TEST_F(Run, a_step_that_comes_out_otherwise_the_second_time_is_an_error) {
  computed(request, [](const RunProgress& p) { return p.step != 5; });
  std::filesystem::remove(checkpoint_of(request.out));
  request.resume = true;
  OtherEngine other(request.config, 2, [](StepOutcome& o) { o.gradient_norm = std::nextafter(o.gradient_norm, 0.0F); });
  EXPECT_THROW(run_training(request, other, {}), Error);
  EXPECT_EQ(read_journal(journal_of(request.out)).record.steps.size(), 5U);  // and nothing of it is kept
  EXPECT_EQ(computed(request).end, RunEnd::finished);
}

void diverge(StepOutcome& o) {
  o.loss = o.gradient_norm = kNaN;
  o.updated = false, o.skipped = 77;
}

TEST_F(Run, that_diverges_ends_there_and_says_so) {
  OtherEngine other(request.config, 7, diverge);
  const RunRecord record = run_training(request, other, {});
  EXPECT_EQ(record.end, RunEnd::diverged);
  ASSERT_EQ(record.steps.size(), 8U);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(record.steps[7].loss)));
  EXPECT_EQ(record.steps[7].skipped, 77);
  EXPECT_EQ(read_run(request.out), record);
  EXPECT_FALSE(std::filesystem::exists(journal_of(request.out)));
}

TEST_F(Run, goes_on_past_a_norm_that_is_not_finite_where_the_configuration_says_so) {
  request.config.optimizer.skips_non_finite = true;
  OtherEngine other(request.config, 5, [](StepOutcome& o) {
    diverge(o);
    o.layers.pop_back();  // as where a router's logits were not finite: nothing is known of a layer
  });
  const RunRecord record = run_training(request, other, {});
  EXPECT_EQ(record.end, RunEnd::finished);
  EXPECT_EQ(record.steps[5].skipped, 77);
  EXPECT_EQ(record.observations.size(), 2U);
  EXPECT_EQ(read_run(request.out), record);
}

// An engine that is short of memory at one of its calls.
class ShortEngine final : public TrainingEngine {
 public:
  enum class Where : std::uint8_t { load, evaluation, step };
  ShortEngine(const TrainingConfig& config, Where where, std::int64_t at = 0)
      : engine_(cpu_engine(config, 1)), where_(where), at_(at) {}
  [[nodiscard]] std::string name() const override { return "short"; }
  [[nodiscard]] std::string device() const override { return "none"; }
  void load(TrainingState state) override {
    if (where_ == Where::load) throw std::bad_alloc();
    engine_->load(std::move(state));
  }
  [[nodiscard]] std::int64_t steps_done() const override { return engine_->steps_done(); }
  [[nodiscard]] const TrainingState& state() override { return engine_->state(); }
  StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) override {
    if (where_ == Where::step && engine_->steps_done() == at_)
      throw Error(ErrorKind::environment, "the device has no memory");
    return engine_->step(tokens, observe);
  }
  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    if (where_ == Where::evaluation) throw std::bad_alloc();
    return engine_->evaluate(recipe, tokens);
  }

 private:
  std::unique_ptr<TrainingEngine> engine_;
  Where where_;
  std::int64_t at_;
};

TEST_F(Run, that_fails_before_a_step_leaves_nothing) {
  request.plan.kept = {0, 6};
  using Where = ShortEngine::Where;
  for (const Where where : {Where::load, Where::evaluation, Where::step}) {
    ShortEngine engine(request.config, where);
    EXPECT_ANY_THROW(run_training(request, engine, {}));
    EXPECT_TRUE(dir.names().empty()) << static_cast<int>(where) << ' ' << dir.names().front();
  }
  ShortEngine later(request.config, Where::step, 1);
  EXPECT_THROW(run_training(request, later, {}), Error);
  ASSERT_EQ(read_journal(journal_of(request.out)).record.steps.size(), 1U);
  request.resume = true;
  for (const Where where : {Where::load, Where::evaluation, Where::step}) {
    std::filesystem::remove(checkpoint_of(request.out));  // from the first step again
    ShortEngine engine(request.config, where, 0);
    if (where != Where::evaluation) {
      EXPECT_ANY_THROW(run_training(request, engine, {}));
    }
    EXPECT_TRUE(std::filesystem::exists(journal_of(request.out))) << "a run that was gone on with keeps its journal";
  }
  EXPECT_EQ(computed(request).end, RunEnd::finished);
}

// The same for a run that was begun and has no step yet: this sitting must not remove what another one made.
TEST_F(Run, that_is_gone_on_with_keeps_a_journal_without_steps) {
  computed(request, [](const RunProgress& p) { return p.step != 2; });
  RunRecord head = read_journal(journal_of(request.out)).record;
  head.sittings = 1, head.seconds = 0;
  std::filesystem::remove(journal_of(request.out));
  std::filesystem::remove(checkpoint_of(request.out));
  { Journal::create(journal_of(request.out), head); }
  request.resume = true;
  ShortEngine engine(request.config, ShortEngine::Where::step);
  EXPECT_THROW(run_training(request, engine, {}), Error);
  EXPECT_TRUE(std::filesystem::exists(journal_of(request.out)));
  EXPECT_EQ(computed(request).end, RunEnd::finished);
}

void expect_refused(ErrorKind kind, const std::string& what, const RunRequest& request) {
  expect_error(kind, what, [&] { computed(request); });
}

TEST_F(Run, that_cannot_be_is_refused_before_anything_is_written) {
  const Corpus other = small_corpus(2);
  RunRequest changed = request;
  changed.plan.evaluate_every = 0;
  expect_refused(ErrorKind::usage, "an evaluation every 0", changed);
  changed = request, changed.plan.kept = {3, 3};
  expect_refused(ErrorKind::usage, "before step 3", changed);
  changed = request, changed.plan.kept = {12};
  expect_refused(ErrorKind::usage, "before step 12", changed);
  changed = request, changed.plan.validation_sequences = 0;
  expect_refused(ErrorKind::usage, "0 sequences", changed);
  changed = request, changed.config.model.width = 1 << 24;
  expect_error(ErrorKind::usage, "takes at least", [&] { check(changed.plan, changed.config); });
  changed = request, changed.resume = true;
  expect_refused(ErrorKind::usage, "run.h5.journal", changed);
  Corpus short_one = corpus;
  short_one.validation.resize(5);
  changed = request, changed.corpus = &short_one;
  expect_refused(ErrorKind::input, "validation part has 5 bytes", changed);
  EXPECT_TRUE(dir.names().empty());

  computed(request, [](const RunProgress& p) { return p.step != 5; });
  expect_refused(ErrorKind::usage, "--resume", request);
  changed = request, changed.resume = true, changed.corpus = &other;
  expect_refused(ErrorKind::input, "other data", changed);
  changed = request, changed.resume = true, changed.config.seed = 9;
  expect_refused(ErrorKind::input, "another configuration", changed);
  changed = request, changed.resume = true, changed.plan.observe_every = 9;
  expect_refused(ErrorKind::input, "other intervals", changed);
  changed = request, changed.resume = true;
  computed(changed);
  expect_refused(ErrorKind::usage, "is there already", request);
}

// A checkpoint of an earlier run to this name would not be written again, and audits would refuse it after all steps.
TEST_F(Run, does_not_begin_beside_a_checkpoint_of_another) {
  request.plan.kept = {3};
  computed(request);
  std::filesystem::remove(request.out);
  request.config.seed += 1;
  expect_refused(ErrorKind::usage, "run.step3.h5: is there already, of another run", request);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"run.step3.h5"});
}

TEST(RunPlan, has_intervals_that_fit_the_run) {
  TrainingConfig config = small_config();
  for (const std::int64_t steps : {1, 2, 99, 10000}) {
    config.steps = steps;
    check(plan_of(config), config);
  }
  EXPECT_EQ(plan_of(config).evaluate_every, 100);
  EXPECT_EQ(plan_of(config).kept, (std::vector<std::int64_t>{100, 5000, 9999}));
}

// Evaluations of more sequences than are computed at once, against parts that are computed here.

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
  const TrainingConfig config = small_config("mxfp8");
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
  engine.losses = kNaN;
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(evaluation_of(engine, config, data).loss_own)));
}

TEST(Evaluation, of_one_part_is_the_engines) {
  const TrainingConfig config = small_config("mxfp8");
  const Corpus corpus = small_corpus();
  const std::vector<std::uint8_t> data = validation_batch(corpus, config.model, 5);
  const std::unique_ptr<TrainingEngine> engine = cpu_engine(config, 1);
  engine->load(initial_state(config));
  const RecordedEvaluation e = evaluation_of(*engine, config, data);
  EXPECT_EQ(e.loss_own, std::bit_cast<std::uint32_t>(engine->evaluate(config.recipe, data).loss));
  EXPECT_EQ(e.loss_bf16, std::bit_cast<std::uint32_t>(engine->evaluate(layer_recipe_named("bf16"), data).loss));
}

// Runs at once in one process: the bits of runs alone, and one's failure is no other's.

ConcurrentRun one(const std::string& out, const Corpus& corpus, std::uint64_t seed) {
  ConcurrentRun one{small_request(out, corpus), nullptr};
  one.request.config.seed = seed;
  one.request.plan.kept = {3};
  one.engine = cpu_engine(one.request.config, 1);
  return one;
}

TEST(RunTogether, has_the_bits_of_runs_alone_whatever_becomes_of_the_others) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const ConcurrentRun alone = one(dir / "alone.h5", corpus, 2);
  const RunRecord expected = run_training(alone.request, *alone.engine, {});
  std::ofstream(dir / "fails.h5") << "is there";
  std::vector<ConcurrentRun> runs;
  runs.push_back(one(dir / "fails.h5", corpus, 1));
  for (const std::uint64_t seed : {2U, 3U, 4U})
    runs.push_back(one(dir / ("run_" + std::to_string(seed) + ".h5"), corpus, seed));
  const std::vector<ConcurrentRunEnd> ends = run_together(runs, {});
  ASSERT_EQ(ends.size(), 4U);
  ASSERT_TRUE(ends[0].error != nullptr);
  expect_error(ErrorKind::usage, "fails.h5: is there already", [&] { std::rethrow_exception(ends[0].error); });
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(ends[i].error == nullptr && ends[i].record.config.seed == i + 1) << i;
  EXPECT_EQ(ends[1].record.steps, expected.steps);
  EXPECT_EQ(read_run(dir / "run_2.h5").steps, expected.steps);
  EXPECT_EQ(read_run(dir / "run_2.h5").witnesses, expected.witnesses);
  for (const char* name : {"run_3.h5", "run_4.h5"}) EXPECT_EQ(read_run(dir / name).end, RunEnd::finished);
}

}  // namespace
}  // namespace mxcheck

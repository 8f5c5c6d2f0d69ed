// Campaigns: what a text asks for, that each run is made once however it was stopped, and what is refused.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "tests/testing.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/config/config.h"
#include "trainer/record/run_file.h"
#include "trainer/run/campaign.h"

namespace mxcheck {
namespace {

using namespace test;

const EngineMaker kEngine = [](const TrainingConfig& config) { return cpu_engine(config, 1); };

// kEngine, which counts the engines that it makes.
EngineMaker counted(std::atomic<int>& engines) {
  return [&engines](const TrainingConfig& config) {
    ++engines;
    return kEngine(config);
  };
}

std::string text_of(const std::string& arms, const std::string& more = "") {
  return R"({"configuration": )" + to_json(small_config("bf16")) +
         R"(, "seeds": [1, 2], "evaluate_every": 4, "validation_sequences": 2, )" + more + R"("arms": [)" + arms + "]}";
}

const char* const kArms = R"({"recipe": "mxfp8", "at": [25, 50]}, {"recipe": "bf16", "perturb": "all", "at": [50]},
                             {"recipe": "mxfp8", "moments": "bf16", "rounding": "nr-f", "at": [0], "seeds": [3]})";

std::map<std::string, RunRecord> records_in(const std::vector<CampaignRun>& runs) {
  std::map<std::string, RunRecord> records;
  for (const CampaignRun& run : runs) records[run.out] = read_run(run.out);
  return records;
}

TEST(Campaign, of_a_text_has_trunks_branches_and_runs_from_scratch) {
  const Campaign campaign = campaign_from_json(text_of(kArms), "x.json");
  EXPECT_EQ(campaign.plan.kept, (std::vector<std::int64_t>{3, 6}));
  std::vector<std::string> names;
  for (const CampaignRun& run : runs_of(campaign, "runs")) names.push_back(run.out);
  EXPECT_EQ(names, (std::vector<std::string>{"runs/bf16_1.h5", "runs/bf16_2.h5", "runs/bf16_3.h5",
                                             "runs/mxfp8_at25_1.h5", "runs/mxfp8_at25_2.h5", "runs/mxfp8_at50_1.h5",
                                             "runs/bf16_moved_at50_1.h5", "runs/mxfp8_at50_2.h5",
                                             "runs/bf16_moved_at50_2.h5", "runs/mxfp8_nr-f_moments_bf16_3.h5"}));
}

TEST(Campaign, names_arms_whose_last_layers_stay_in_bf16) {
  const auto arm = [](const std::string& more) {
    return R"({"recipe": "mxfp8", "at": [50], "seeds": [1])" + more + "}";
  };
  const Campaign campaign = campaign_from_json(text_of(arm("") + ", " + arm(R"(, "bf16_last": 1)")), "x.json");
  std::vector<std::string> names;
  for (const CampaignRun& run : runs_of(campaign, "runs")) names.push_back(run.out);
  EXPECT_EQ(std::ranges::count(names, "runs/mxfp8_at50_1.h5"), 1);
  EXPECT_EQ(std::ranges::count(names, "runs/mxfp8_bf16_last1_at50_1.h5"), 1);
  expect_error(ErrorKind::usage, "bf16_last is 2 of 2 layers",
               [&] { campaign_from_json(text_of(arm(R"(, "bf16_last": 2)")), "x.json"); });
}

TEST(Campaign, of_the_deciding_preset_evaluates_as_it_does) {
  const Campaign campaign =
      campaign_from_json(R"({"preset": "verdict", "seeds": [1], "arms": [{"recipe": "mxfp8", "at": [50]}]})", "x.json");
  EXPECT_EQ(campaign.trunk.tokens(), 32768);
  EXPECT_EQ(campaign.trunk.steps, 2000);
  EXPECT_EQ(campaign.trunk.optimizer.last_rate, 0);
  EXPECT_EQ(campaign.plan.validation_sequences, 2048);
  EXPECT_EQ(campaign.plan.kept, (std::vector<std::int64_t>{1000}));
  const Campaign larger = campaign_from_json(
      R"({"model": {"layers": 6, "width": 512}, "seeds": [1], "arms": [{"recipe": "mxfp8", "at": [50]}]})", "x.json");
  EXPECT_EQ(larger.trunk.model.layers, 6);
  EXPECT_EQ(larger.trunk.model.width, 512);
  EXPECT_EQ(larger.trunk.model.experts, 32);
}

TEST(Campaign, of_a_large_model_says_when_it_observes_and_keeps_checkpoints) {
  const Campaign campaign =
      campaign_from_json(text_of(kArms, R"("observe_every": 12, "checkpoint_every": 6, )"), "x.json");
  EXPECT_EQ(campaign.plan.observe_every, 12);
  EXPECT_EQ(campaign.plan.checkpoint_every, 6);
  for (const CampaignRun& run : runs_of(campaign, "runs")) {
    EXPECT_EQ(run.plan.observe_every, 12) << run.out;
    EXPECT_EQ(run.plan.checkpoint_every, 6) << run.out;
  }
  for (const char* const key : {"observe_every", "checkpoint_every"}) {
    expect_error(ErrorKind::usage, key,
                 [&] { campaign_from_json(text_of(kArms, fmt::format(R"("{}": 0, )", key)), "x.json"); });
  }
}

TEST(Campaign, may_have_rates_of_its_own) {
  const auto with = [](const std::string& optimizer) {
    return campaign_from_json(
        R"({"seeds": [1], "arms": [{"recipe": "mxfp8", "at": [50]}], "optimizer": )" + optimizer + "}", "x.json");
  };
  const Campaign campaign = with(R"({"peak_rate": 0.001, "warm_up": 50})");
  EXPECT_EQ(campaign.trunk.optimizer.peak_rate, 1e-3F);
  EXPECT_EQ(campaign.trunk.optimizer.last_rate, 0);
  EXPECT_EQ(campaign.trunk.optimizer.warm_up, 50);
  EXPECT_EQ(campaign.arms[0].config.optimizer, campaign.trunk.optimizer);
  EXPECT_EQ(with(R"({"last_rate": 0.001})").trunk.optimizer.last_rate, 1e-3F);
  for (const char* const wrong : {R"({"peak_rate": "high"})", R"({"decay": 0})", R"({"warm_up": -1})", "[]"})
    expect_error(ErrorKind::usage, "x.json: $.optimizer", [&] { (void)with(wrong); });
  for (const char* const rate : {"1.5", "-0.001", "2", "-1"}) {
    expect_error(ErrorKind::usage, "peak_rate: must be a number from 0 to 1",
                 [&] { (void)with(fmt::format(R"({{"peak_rate": {}}})", rate)); });
  }
}

TEST(Campaign, makes_every_run_and_each_once) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const std::vector<CampaignRun> runs = runs_of(campaign_from_json(text_of(kArms), "x"), dir.path());
  CampaignProgress last;
  const auto watch = [&](const CampaignProgress& p) {
    EXPECT_GE(p.tokens_done, last.tokens_done);
    last = p;
    return true;
  };
  EXPECT_TRUE(run_campaign(runs, corpus, kEngine, {.at_once = 3, .mxcheck = "test"}, watch));
  EXPECT_EQ(last.tokens_done, last.tokens);
  EXPECT_EQ(last.tokens_own, last.tokens);
  const auto records = records_in(runs);
  for (const CampaignRun& run : runs) {
    const RunRecord& r = records.at(run.out);
    EXPECT_EQ(r.end, RunEnd::finished) << run.out;
    EXPECT_EQ(r.config, run.config);
    EXPECT_EQ(r.first_step(), run.at);
  }
  for (const std::string& name : dir.names())
    EXPECT_EQ(name.find("step"), std::string::npos) << name;  // no checkpoints
  std::atomic<int> engines = 0;
  const EngineMaker counts = counted(engines);
  EXPECT_TRUE(run_campaign(runs, corpus, counts, {}, {}));
  EXPECT_EQ(engines, 0);
  EXPECT_EQ(records_in(runs), records);

  // One that is gone is made again, its trunk's state computed again.
  std::filesystem::remove(runs[4].out);
  EXPECT_TRUE(run_campaign(runs, corpus, counts, {}, {}));
  EXPECT_EQ(engines, 2);
  EXPECT_EQ(read_run(runs[4].out).steps, records.at(runs[4].out).steps);
}

// Checkpoints that vanish at once would have to be computed again, by engines of their own.
TEST(Campaign, gives_branches_the_state_of_a_trunk_of_the_same_sitting) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const std::vector<CampaignRun> runs = runs_of(campaign_from_json(text_of(kArms), "x"), dir.path());
  std::atomic<int> engines = 0;
  const EngineMaker counts = counted(engines);
  const auto watch = [&](const CampaignProgress&) {
    for (const CampaignRun& run : runs) {
      for (const std::int64_t step : run.plan.kept) std::filesystem::remove(kept_checkpoint_of(run.out, step));
    }
    return true;
  };
  EXPECT_TRUE(run_campaign(runs, corpus, counts, {.at_once = 1}, watch));
  EXPECT_EQ(engines, std::ssize(runs));
}

// An engine that calls `before` before each step.
class WatchedEngine final : public TrainingEngine {
 public:
  WatchedEngine(const TrainingConfig& config, std::function<void(std::int64_t step)> before)
      : engine_(cpu_engine(config, 1)), before_(std::move(before)) {}
  [[nodiscard]] std::string name() const override { return engine_->name(); }
  [[nodiscard]] std::string device() const override { return engine_->device(); }
  void load(TrainingState state) override { engine_->load(std::move(state)); }
  [[nodiscard]] std::int64_t steps_done() const override { return engine_->steps_done(); }
  [[nodiscard]] const TrainingState& state() override { return engine_->state(); }
  StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) override {
    before_(engine_->steps_done());
    return engine_->step(tokens, observe);
  }
  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    return engine_->evaluate(recipe, tokens);
  }

 private:
  std::unique_ptr<TrainingEngine> engine_;
  std::function<void(std::int64_t step)> before_;
};

// The trunk does not go beyond step 8 before both branches are at their last step.
class EarlyBranches : public testing::Test {
 protected:
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const std::vector<CampaignRun> runs = runs_of(
      campaign_from_json(
          text_of(R"({"recipe": "mxfp8", "at": [25], "seeds": [1]}, {"recipe": "broken", "at": [50], "seeds": [1]})"),
          "x"),
      dir.path());
  std::atomic<int> last_steps = 0;  // of branches
  std::atomic<bool> was_early = true;
  const EngineMaker engine = [this](const TrainingConfig& config) {
    const bool is_trunk = config.recipe.name == "bf16";
    return std::make_unique<WatchedEngine>(config, [this, is_trunk](std::int64_t step) {
      if (step != (is_trunk ? 8 : 11)) return;
      if (!is_trunk) ++last_steps;
      for (int i = 0; is_trunk && last_steps < 2 && was_early; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (i == 3000) was_early = false;
      }
    });
  };
};

TEST_F(EarlyBranches, begin_where_the_trunk_is_and_name_it_when_it_has_ended) {
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_TRUE(run_campaign(runs, corpus, engine, {.at_once = 3}, {}));
  EXPECT_TRUE(was_early);
  const Trunk trunk = read_trunk(runs[0].out);
  for (const std::size_t branch : {1U, 2U}) {
    const RunRecord record = read_run(runs[branch].out);
    EXPECT_EQ(record.branch.value().trunk, trunk.sha256);
    EXPECT_EQ(record.end, RunEnd::finished);
    check_branch(record, runs[branch].out, trunk);
  }
  const TemporaryDirectory later;
  const std::vector<CampaignRun> same = runs_of(
      campaign_from_json(
          text_of(R"({"recipe": "mxfp8", "at": [25], "seeds": [1]}, {"recipe": "broken", "at": [50], "seeds": [1]})"),
          "x"),
      later.path());
  EXPECT_TRUE(run_campaign(same, corpus, kEngine, {.at_once = 1}, {}));
  for (std::size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(read_run(runs[i].out).steps, read_run(same[i].out).steps);
}

TEST_F(EarlyBranches, whose_trunk_is_stopped_go_on_with_it) {
  EXPECT_FALSE(
      run_campaign(runs, corpus, engine, {.at_once = 3}, [&](const CampaignProgress&) { return last_steps < 2; }));
  EXPECT_TRUE(was_early);
  for (const CampaignRun& run : runs) {
    EXPECT_FALSE(path_exists(run.out)) << run.out;
    EXPECT_TRUE(path_exists(journal_of(run.out))) << run.out;
  }
  EXPECT_TRUE(run_campaign(runs, corpus, kEngine, {.at_once = 3}, {}));
  const Trunk trunk = read_trunk(runs[0].out);
  for (const std::size_t branch : {1U, 2U}) check_branch(read_run(runs[branch].out), runs[branch].out, trunk);
}

TEST(Campaign, that_was_stopped_goes_on_to_the_same_bits) {
  const Corpus corpus = small_corpus();
  const TemporaryDirectory whole;
  const Campaign campaign = campaign_from_json(text_of(kArms), "x");
  const std::vector<CampaignRun> right = runs_of(campaign, whole.path());
  run_campaign(right, corpus, kEngine, {}, {});
  const TemporaryDirectory dir;
  const std::vector<CampaignRun> runs = runs_of(campaign, dir.path());
  bool ended = false;
  for (int sitting = 0; !ended; ++sitting) {
    ASSERT_LT(sitting, 40);
    int steps = 0;
    ended = run_campaign(runs, corpus, kEngine, {.at_once = 2}, [&](const CampaignProgress&) { return ++steps < 7; });
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord a = read_run(right[i].out), b = read_run(runs[i].out);
    EXPECT_EQ(a.steps, b.steps) << runs[i].out;
    EXPECT_EQ(a.evaluations, b.evaluations) << runs[i].out;
  }
}

// Two processes' locks are those of two open files, which two runners of one process have, too.
TEST(Campaign, is_shared_by_all_that_work_at_it) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const std::vector<CampaignRun> runs = runs_of(campaign_from_json(text_of(kArms), "x"), dir.path());
  std::atomic<int> engines = 0;
  const EngineMaker counts = counted(engines);
  std::atomic<int> ended = 0;
  const auto work = [&] {
    try {
      ended += run_campaign(runs, corpus, counts, {.at_once = 2}, {}) ? 1 : 0;
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(ended, 2);
  for (const CampaignRun& run : runs) EXPECT_EQ(read_run(run.out).end, RunEnd::finished) << run.out;
  EXPECT_EQ(engines, std::ssize(runs)) << "each once";
}

TEST(Campaign, takes_recipes_of_the_users_own) {
  const Campaign campaign = campaign_from_json(
      text_of(
          R"({"recipe": {"base": "mxfp8", "name": "../mine", "kept_h": {"format": "e4m3", "block": "1x32", "scales": "rceil"}},
                  "at": [50]}, {"recipe": "bf16", "perturb": "order", "at": [50]})"),
      "x.json");
  const std::vector<CampaignRun> runs = runs_of(campaign, "runs");
  EXPECT_EQ(runs[2].out, "runs/___mine_at50_1.h5");
  EXPECT_EQ(runs[2].config.recipe.kept_h.format, Format::e4m3);
  EXPECT_EQ(runs[3].out, "runs/bf16_reordered_at50_1.h5");
  EXPECT_EQ(runs[3].config.perturb, kPerturbOrder);
}

TEST(Campaign, refuses_a_run_of_another_under_its_names) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const std::vector<CampaignRun> runs = runs_of(campaign_from_json(text_of(kArms), "x"), dir.path());
  run_campaign(runs, corpus, kEngine, {}, {});
  std::filesystem::copy_file(runs[3].out, runs[4].out, std::filesystem::copy_options::overwrite_existing);
  expect_error(ErrorKind::input, "mxfp8_at25_2.h5: is another run than the campaign's: seed is 1, but 2",
               [&] { run_campaign(runs, corpus, kEngine, {}, {}); });
}

// The others go on to their ends; branches of a trunk that failed are left out.
TEST(Campaign, goes_on_beside_a_run_that_fails) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const std::vector<CampaignRun> runs = runs_of(campaign_from_json(text_of(kArms), "x"), dir.path());
  const EngineMaker fails = [](const TrainingConfig& config) -> std::unique_ptr<TrainingEngine> {
    if (config.seed == 1 && config.recipe.name == "bf16") throw Error(ErrorKind::environment, "no memory for seed 1");
    return cpu_engine(config, 1);
  };
  expect_error(ErrorKind::environment, "no memory for seed 1", [&] { run_campaign(runs, corpus, fails, {}, {}); });
  for (const CampaignRun& run : runs) EXPECT_EQ(std::filesystem::exists(run.out), run.config.seed != 1) << run.out;
}

TEST(Campaign, text_that_cannot_be_is_refused_with_its_place) {
  const auto refused = [](const std::string& words, const std::string& text) {
    expect_error(ErrorKind::usage, words, [&] { campaign_from_json(text, "x.json"); });
  };
  refused("x.json", "{");
  refused("$.seeds", R"({"arms": []})");
  refused("arms", text_of(""));
  expect_error(ErrorKind::usage, "is the file of two runs", [] {
    const char* const two = R"({"recipe": "mxfp8", "at": [25]},
                               {"recipe": {"base": "mxfp8", "name": "mxfp8_at25"}, "at": [0]})";
    runs_of(campaign_from_json(text_of(two), "x.json"), "runs");
  });
  refused("$.model", text_of(kArms, R"("model": {"depth": 2}, )"));
  refused("$.model", text_of(kArms, R"("model": {"width": 0}, )"));
  refused("$.arms[0].recipe", text_of(R"({"recipe": {"base": "mxfp8", "name": "x", "kept": 1}, "at": [50]})"));
  refused("seeds", R"({"seeds": [1, 1], "arms": []})");
  refused("$.arms[0]", text_of(R"({"recipe": "mxfp8", "at": []})"));
  refused("$.arms[0]", text_of(R"({"recipe": "mxfp8", "at": [100]})"));
  refused("$.arms[0]", text_of(R"({"recipe": "mxfp8", "at": [50, 50]})"));
  refused("less than a step", text_of(R"({"recipe": "mxfp8", "at": [1]})"));
  refused("the trunk's own runs", text_of(R"({"recipe": "bf16", "at": [0]})"));
  refused("$.arms[1]", text_of(R"({"recipe": "mxfp8", "at": [50]}, {"recipe": "mxfp9", "at": [50]})"));
  refused("at 50 % is there already", text_of(R"({"recipe": "mxfp8", "at": [50]}, {"recipe": "mxfp8", "at": [50]})"));
  refused("$.arms[0]", text_of(R"({"recipe": "mxfp8", "at": [50], "purturb": "all"})"));
  refused("perturb", text_of(R"({"recipe": "mxfp8", "at": [50], "perturb": "one"})"));
}

}  // namespace
}  // namespace mxcheck

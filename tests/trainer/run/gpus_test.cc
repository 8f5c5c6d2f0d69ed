// Runs on several GPUs: which run goes where, and that every call of an engine is made with its own GPU current.

#include "trainer/run/gpus.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "tests/testing.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/config/config.h"
#include "trainer/record/run_file.h"
#include "trainer/run/campaign.h"
#include "trainer/run/engine.h"

namespace mxcheck {
namespace {

using namespace test;

// GPUs that note which of them each thread bound last.
struct FakeHost {
  std::mutex mutex;
  std::map<std::thread::id, int> current;
  std::set<int> bound;

  [[nodiscard]] std::shared_ptr<TrainingGpus> gpus(int count) {
    return std::make_shared<TrainingGpus>(HostGpus{count,
                                                   [this](int gpu) {
                                                     const std::lock_guard lock(mutex);
                                                     current[std::this_thread::get_id()] = gpu, bound.insert(gpu);
                                                   },
                                                   [](int gpu) { return "Fake GPU " + std::to_string(gpu); }});
  }
  int of_this_thread() { return current[std::this_thread::get_id()]; }
};

std::unique_ptr<TrainingEngine> engine_on(const std::shared_ptr<TrainingGpus>& gpus,
                                          const TrainingConfig& config = small_config("bf16")) {
  return device_engine(config, MXCHECK_TRAIN_LIBRARY, 2, 1, gpus);
}

TEST(TrainingGpus, deal_the_next_run_to_the_one_with_the_fewest) {
  FakeHost host;
  const auto gpus = host.gpus(3);
  EXPECT_EQ(gpus->take(), 0);
  EXPECT_EQ(gpus->take(), 1);
  EXPECT_EQ(gpus->take(), 2);
  EXPECT_EQ(gpus->take(), 0);
  gpus->give_back(2);
  gpus->give_back(1);
  EXPECT_EQ(gpus->take(), 1);
  EXPECT_EQ(gpus->take(), 2);
  EXPECT_EQ(gpus->take(), 1);
}

TEST(TrainingGpus, every_call_of_an_engine_is_made_on_its_own) {
  FakeHost host;
  const auto gpus = host.gpus(2);
  const auto first = engine_on(gpus), second = engine_on(gpus);
  EXPECT_EQ(first->device(), "Fake GPU 0");
  EXPECT_EQ(second->device(), "Fake GPU 1");
  const TrainingConfig config = small_config("bf16");
  const Corpus corpus = small_corpus();
  const std::vector<std::uint8_t> batch = training_batch(corpus, config, 0);
  for (const auto& [engine, gpu] : {std::pair(first.get(), 0), std::pair(second.get(), 1)}) {
    gpus->bind(1 - gpu);
    engine->load(initial_state(config, 1));
    EXPECT_EQ(host.of_this_thread(), gpu);
    gpus->bind(1 - gpu);
    engine->step(batch, false);
    EXPECT_EQ(host.of_this_thread(), gpu);
    gpus->bind(1 - gpu);
    engine->evaluate(config.recipe, batch);
    EXPECT_EQ(host.of_this_thread(), gpu);
    gpus->bind(1 - gpu);
    (void)engine->state();
    EXPECT_EQ(host.of_this_thread(), gpu);
  }
}

TEST(TrainingGpus, are_given_back_with_the_engine_and_by_one_that_is_refused) {
  FakeHost host;
  const auto gpus = host.gpus(2);
  auto first = engine_on(gpus);
  TrainingConfig refused = small_config("bf16");
  refused.model.layers = 3;
  expect_error(ErrorKind::usage, "on GPU 1: training on the device: three layers", [&] { engine_on(gpus, refused); });
  EXPECT_EQ(engine_on(gpus)->device(), "Fake GPU 1");
  const auto second = engine_on(gpus);
  first.reset();
  EXPECT_EQ(engine_on(gpus)->device(), "Fake GPU 0");
}

TEST(TrainingGpus, nothing_is_bound_where_there_are_not_several) {
  FakeHost host;
  for (const int count : {0, 1}) (void)engine_on(host.gpus(count));
  (void)engine_on(nullptr);
  EXPECT_TRUE(host.bound.empty());
}

TEST(TrainingGpus, a_campaign_has_the_same_runs_on_one_two_and_four) {
  const Corpus corpus = small_corpus();
  const std::string text = R"({"configuration": )" + to_json(small_config("bf16")) +
                           R"(, "seeds": [1, 2], "evaluate_every": 4, "validation_sequences": 2,
                              "arms": [{"recipe": "mxfp8", "at": [0, 50]}]})";
  std::map<int, std::vector<std::string>> digests;
  for (const int count : {1, 2, 4}) {
    const TemporaryDirectory dir;
    FakeHost host;
    const auto gpus = host.gpus(count);
    const std::vector<CampaignRun> runs = runs_of(campaign_from_json(text, "x"), dir.path());
    const EngineMaker engine = [&](const TrainingConfig& config) { return engine_on(gpus, config); };
    EXPECT_TRUE(run_campaign(runs, corpus, engine, {.at_once = 4, .mxcheck = "test"}, {}));
    if (count == 2) {
      EXPECT_EQ(host.bound, (std::set<int>{0, 1}));
    }
    for (const CampaignRun& run : runs) {
      for (const RecordedStep& step : read_run(run.out).steps) digests[count].push_back(std::to_string(step.weights));
    }
  }
  EXPECT_FALSE(digests[1].empty());
  EXPECT_EQ(digests[2], digests[1]);
  EXPECT_EQ(digests[4], digests[1]);
}

}  // namespace
}  // namespace mxcheck

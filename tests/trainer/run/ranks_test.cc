// A run on several ranks, which are threads here: the record and the bits are those of one.

#include "trainer/run/ranks.h"

#include <barrier>
#include <thread>

#include "tests/testing.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

using namespace test;

// Values that the threads show each other.
struct Meeting {
  explicit Meeting(int count)
      : ranks(count), texts(static_cast<std::size_t>(count)), parts(texts.size()), both(count) {}
  int ranks;
  std::vector<std::string> texts;
  std::vector<std::vector<float>> parts;
  std::barrier<> both;
};

class ThreadGroup final : public RankGroup {
 public:
  ThreadGroup(Meeting& meeting, int rank) : m_(meeting), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return m_.ranks; }
  std::vector<std::string> all_gather(std::string_view, std::string_view mine) override {
    m_.texts[own()] = mine;
    m_.both.arrive_and_wait();
    std::vector<std::string> all = m_.texts;
    m_.both.arrive_and_wait();
    return all;
  }
  void all_to_all(std::string_view, std::span<const float> sent, std::span<float> received) override {
    m_.parts[own()].assign(sent.begin(), sent.end());
    m_.both.arrive_and_wait();
    const std::size_t size = sent.size() / m_.parts.size();
    for (std::size_t r = 0; r < m_.parts.size(); ++r)
      std::copy_n(m_.parts[r].begin() + static_cast<std::ptrdiff_t>(own() * size), size,
                  received.begin() + static_cast<std::ptrdiff_t>(r * size));
    m_.both.arrive_and_wait();
  }
  void gather_parts(std::string_view, std::span<float> parts) override {
    m_.parts[own()].assign(parts.begin(), parts.end());
    m_.both.arrive_and_wait();
    const std::size_t size = parts.size() / m_.parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = m_.parts[i / size][i];
    m_.both.arrive_and_wait();
  }

 private:
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(rank_); }
  Meeting& m_;
  int rank_;
};

RunRecord run_on(int ranks, const RunRequest& request, const RunWatch& watch = {}) {
  Meeting meeting(ranks);
  std::vector<std::thread> followers;
  for (int r = 1; r < ranks; ++r) {
    followers.emplace_back([&, r] {
      ThreadGroup group(meeting, r);
      follow(*cpu_engine(request.config, 1, &group), group);
    });
  }
  ThreadGroup group(meeting, 0);
  const std::unique_ptr<TrainingEngine> own = cpu_engine(request.config, 1, &group);
  const RunRecord record = run_training(request, *leading_engine(*own, group), watch);
  dismiss_followers(group);
  for (std::thread& follower : followers) follower.join();
  return record;
}

RunRecord bits_without_place(RunRecord run) {
  run.started.clear(), run.device.clear();
  run.seconds = 0, run.sittings = 1;
  return run;
}

RunRequest cut_request(const std::string& out, const Corpus& corpus, std::int64_t microbatches) {
  RunRequest request = small_request(out, corpus);
  request.config.batch = 4, request.config.microbatches = microbatches;
  return request;
}

TEST(Ranks, have_the_record_of_one_whatever_their_number) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const RunRecord alone = computed(cut_request(dir / "alone.h5", corpus, 4));
  for (const int ranks : {1, 2, 4}) {
    const RunRequest request = cut_request(dir / (std::to_string(ranks) + ".h5"), corpus, 4);
    EXPECT_EQ(bits_without_place(run_on(ranks, request)), bits_without_place(alone)) << ranks;
  }
}

// Stopped with four, gone on with two, then one: the checkpoint is of no number of ranks.
TEST(Ranks, go_on_with_another_number) {
  const TemporaryDirectory dir;
  const Corpus corpus = small_corpus();
  const RunRecord alone = computed(cut_request(dir / "alone.h5", corpus, 4));
  RunRequest request = cut_request(dir / "run.h5", corpus, 4);
  EXPECT_EQ(run_on(4, request, [](const RunProgress& p) { return p.step != 5; }).end, RunEnd::unfinished);
  request.resume = true;
  EXPECT_EQ(run_on(2, request, [](const RunProgress& p) { return p.step != 8; }).end, RunEnd::unfinished);
  EXPECT_EQ(bits_without_place(run_on(1, request)), bits_without_place(alone));
}

// Each microbatch overflows alone: no gradients are exchanged, and all ranks leave the update out.
TEST(Ranks, leave_the_update_out_where_one_overflows) {
  const Corpus corpus = small_corpus();
  TrainingConfig config = small_config("bf16");
  config.batch = 4, config.microbatches = 4;
  TrainingState state = initial_state(config, 1);
  std::vector<std::uint8_t> tokens = training_batch(corpus, config, 0);
  for (std::uint8_t& byte : tokens) byte = byte == 200 ? std::uint8_t{201} : byte;
  tokens[tokens.size() - 5] = 200;
  for (std::int64_t i = 0; i < config.model.width; ++i)
    state.weights[0][static_cast<std::size_t>(200 * config.model.width + i)] = kInf;
  TrainingState expected_state = state;
  const StepOutcome expected = training_step(config, expected_state, tokens, false, 1);
  ASSERT_FALSE(expected.updated);
  Meeting meeting(2);
  std::vector<TrainingState> states(2, state);
  std::vector<StepOutcome> found(2);
  const auto step = [&](int rank) {
    ThreadGroup group(meeting, rank);
    const auto r = static_cast<std::size_t>(rank);
    found[r] = step_of_ranks(config, states[r], tokens, false, 1, group);
  };
  std::thread other(step, 1);
  step(0);
  other.join();
  for (const StepOutcome& outcome : found) {
    EXPECT_EQ(recorded(outcome), recorded(expected));
    EXPECT_EQ(outcome.layers.size(), expected.layers.size());
  }
  EXPECT_EQ(states[1].weights, state.weights);
}

TEST(Ranks, that_cannot_share_the_microbatches_are_refused) {
  TrainingConfig config = small_config();
  config.batch = 4, config.microbatches = 4;
  EXPECT_NO_THROW(check_ranks(config, 4));
  for (const std::int64_t wrong : {0, 3, 8, 32}) {
    expect_error(ErrorKind::usage,
                 std::to_string(wrong) +
                     " ranks for 4 microbatches: a power of two up to 16 that divides the microbatches is needed",
                 [&] { check_ranks(config, wrong); });
  }
}

}  // namespace
}  // namespace mxcheck

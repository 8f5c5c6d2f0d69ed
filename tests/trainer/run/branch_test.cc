// Runs that take over from another: what they begin with, what they record, and what is refused.

#include "trainer/run/branch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/audit/audit.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

using test::computed;
using test::small_config;
using test::small_corpus;
using test::small_request;
using test::TemporaryDirectory;

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
  // Refused with these words.
  template <class Action>
  void refused(ErrorKind kind, const std::string& words, Action action) {
    try {
      action();
      ADD_FAILURE() << "not refused: " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), kind) << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
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
  EXPECT_EQ(one.weights[0][2], std::nextafter(before.weights[0][2], std::numeric_limits<float>::infinity()));
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
    refused(ErrorKind::input, "a run that branches off elsewhere", [&] { computed(elsewhere); });
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
  refused(ErrorKind::usage, "optimizer.peak_rate is ", [&] { branch_of(trunk, other, 6); });
  other = config;
  other.seed += 1;
  refused(ErrorKind::usage, "seed is ", [&] { branch_of(trunk, other, 6); });
  for (const std::int64_t step : {0, 12, 13})
    refused(ErrorKind::usage, "it begins after 1 to 11 steps", [&] { branch_of(trunk, config, step); });
  Trunk short_one = trunk;
  short_one.run.steps.resize(5);
  refused(ErrorKind::input, "has 5 steps", [&] { branch_of(short_one, config, 6); });
  Corpus other_text = corpus;
  other_text.training_sha256[0] = other_text.training_sha256[0] == '0' ? '1' : '0';
  refused(ErrorKind::input, "was trained on other data", [&] { check_data(trunk, other_text); });

  computed(request("one.h5", config, 6));
  refused(ErrorKind::input, "is a branch itself", [&] { read_trunk(dir / "one.h5"); });
  const RunRecord one = read_run(dir / "one.h5");
  EXPECT_EQ(trunk_beside(one, dir / "one.h5", "").sha256, trunk.sha256);
  refused(ErrorKind::input, "which is not at", [&] { trunk_beside(one, "/elsewhere/one.h5", ""); });
  RunRecord of_another = one;
  of_another.branch->trunk = std::string(64, 'a');
  refused(ErrorKind::input, "branches off from a run with SHA-256 aaaa", [&] { check_branch(of_another, "x", trunk); });
  of_another = one;
  of_another.branch->weights ^= 1;
  refused(ErrorKind::input, "have the digest", [&] { check_branch(of_another, "x", trunk); });
}

TEST_F(Branch, does_not_begin_with_a_state_that_the_trunk_did_not_have) {
  Trunk wrong = trunk;
  wrong.run.steps[3].loss ^= 1;
  refused(ErrorKind::internal, "step 3, computed again", [&] { state_of(wrong, 5, corpus, kCpu, {}); });
  std::vector<std::int64_t> steps;
  const auto state = state_of(trunk, 8, corpus, kCpu, [&](std::int64_t step) { steps.push_back(step); });
  EXPECT_EQ(steps, (std::vector<std::int64_t>{6, 7}));  // from the kept checkpoint on
  EXPECT_EQ(weights_digest(*state), trunk.run.step(7).weights);
  RunRequest r = request("wrong.h5", small_config("mxfp8"), 6);
  r.trunk = [&] { return state; };
  refused(ErrorKind::internal, "the state to branch off from is of step 8", [&] { computed(r); });
}

TEST_F(Branch, is_audited_from_its_trunk) {
  const RunRecord run = computed(request("one.h5", small_config("mxfp8"), 6));
  for (const std::int64_t step : {6, 7, 11}) {
    AuditRequest r{.run = &run, .corpus = &corpus, .step = step};
    const std::unique_ptr<TrainingEngine> engine = cpu_engine(run.config, 1);
    refused(ErrorKind::usage, "its trunk's state", [&] { audit_step(r, *engine, {}); });
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
  refused(ErrorKind::usage, "has no step 5; it has 6 to 11", [&] { audit_step(before, *engine, {}); });
}

}  // namespace
}  // namespace mxcheck

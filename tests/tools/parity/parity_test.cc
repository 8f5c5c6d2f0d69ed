// mxcheck parity as a user runs it: on a small text, with a model of a few thousand weights.

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "goldens/json/json.h"
#include "tests/tools/command.h"
#include "trainer/config/config.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/run_file.h"
#include "trainer/run/branch.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

using namespace test;

class Parity : public ToolTest {
 protected:
  Parity() {
    std::ofstream text(dir / "text");
    for (int i = 0; i < 3000; ++i) text << "line " << i % 13 << " of " << i << '\n';
    TrainingConfig config = preset_named("tiny");
    config.model = {.layers = 2, .width = 16, .heads = 2, .experts = 4, .inner = 8, .top_k = 2, .length = 12};
    config.batch = 2;
    config.steps = 20;
    config.optimizer.warm_up = 5;
    std::ofstream(dir / "small.json") << to_json(config);
  }
  // With the small model and text.
  Answer run(const std::string& arguments, const std::string& before = "") {
    return mxcheck("parity run --config small.json --data text --validation-sequences 4 --threads 1 " + arguments,
                   before);
  }
  // Two ranks as torchrun starts them, each with options of its own; what both have comes last.
  std::pair<Answer, Answer> two_ranks(const std::string& of_first, const std::string& of_second,
                                      const std::string& of_both = "--batch 4 --microbatches 2 ") {
    const int port = 20000 + static_cast<int>(std::hash<std::string>()(dir.path() + of_second) % 10000);
    const auto rank = [&](int number, const std::string& own) {
      return mxcheck("parity run --threads 1 --ranks 2 -o run.h5 " + own + of_both,
                     fmt::format("export MASTER_ADDR=127.0.0.1 MASTER_PORT={} WORLD_SIZE=2 RANK={}; ", port, number));
    };
    Answer second;
    std::thread other([&] { second = rank(1, of_second); });
    Answer first = rank(0, of_first);
    other.join();
    return {std::move(first), std::move(second)};
  }
  [[nodiscard]] bool has(const std::string& name) const {
    const std::vector<std::string> names = dir.names();
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

// Trunks of two seeds, their branches, and what follows a branch into its trunk.
TEST_F(Parity, a_run_branches_off_from_its_trunk_and_is_followed_into_it) {
  ASSERT_EQ(run("--seeds 1,2 --keep 8 --evaluate-every 4 -o trunk_{seed}.h5").code, 0);
  const std::string branch = "parity run --data text --threads 1 --branch trunk_{seed}.h5 --seeds 1,2 ";
  const Answer made = mxcheck(branch + "--at 8 --recipe mxfp8 -o mxfp8_{seed}.h5");
  ASSERT_EQ(made.code, 0) << made.err;
  expect_contains(made.out, "mxfp8_2.h5: mxfp8, seed 2, from step 8 of trunk_2.h5 on, 12 of 12 steps, finished");
  const Answer again = mxcheck(branch + "--at 11 --recipe mxfp8 -o later_{seed}.h5");  // no checkpoint is there
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_run(dir / "later_1.h5").first_step(), 11);

  for (const char* step : {"8", "13", "19"}) {
    const Answer audit = expect_output(std::string("parity audit mxfp8_1.h5 --data text --step ") + step, 0);
    EXPECT_EQ(audit.out.find("DIFFERS"), std::string::npos) << audit.out;
  }
  expect_refused(2, "it has 8 to 19", "parity audit mxfp8_1.h5 --data text --step 7");
  expect_refused(2, "branches off from a run with SHA-256",
                 "parity audit mxfp8_1.h5 --data text --step 8 --trunk trunk_2.h5");
  const Answer verify = mxcheck("parity verify mxfp8_1.h5");
  expect_contains(verify.out, {"trunk_1.h5 after 8 steps, weights ", ": as it recorded"});
  const Answer compared = mxcheck("parity compare trunk_*.h5 mxfp8_*.h5");  // checkpoints among them
  EXPECT_EQ(compared.code, 4) << compared.out << compared.err;
  expect_contains(compared.out, "mxfp8 from 40 %");
  expect_refused(2, "no run of BF16 has its seed", "parity compare trunk_1.h5 mxfp8_1.h5 mxfp8_2.h5");

  const std::string runs = "parity compare trunk_1.h5 mxfp8_1.h5";
  const Answer beside =
      expect_output(runs + " --beside there --graded-control mxfp8", 4,
                    {"mxfp8 (graded control)", "\nbeside other experiments\n", "\n  there "},
                    "mkdir there same empty trunks; cp trunk_2.* mxfp8_2.h5 there; "
                    "cp trunk_1.h5 mxfp8_1.h5 same; cp trunk_*.h5 trunks; ");  // its kept checkpoints are left out
  expect_refused(2, "graded control 'dsv3': no judged arm has that recipe; those that are: mxfp8",
                 runs + " --graded-control mxfp8,dsv3");
  expect_refused(2, "--beside nowhere: there is no such folder; it takes folders", runs + " --beside nowhere");
  expect_refused(2, "empty: has no runs", runs + " --beside there,empty");
  expect_refused(2, "trunks: no judged arm of a recipe", runs + " --beside trunks");
  expect_refused(2, "same: mxfp8 from 40 % of seed 1 is a run of both experiments", runs + " --beside same");
  const Answer without = mxcheck("parity verify mxfp8_1.h5", "rm trunk_1.h5; ");
  expect_contains(without.out, "not beside this file, not followed");
}

TEST_F(Parity, quartet2_is_audited_and_last_layers_may_stay_in_bf16) {
  const Answer made = run("--recipe quartet2 --bf16-last 1 --seed 1 -o last.h5");
  ASSERT_EQ(made.code, 0) << made.err;
  expect_contains(made.out, "quartet2 (the last 1 of 2 layers in BF16), seed 1");
  ASSERT_EQ(run("--recipe quartet2 --seed 1 -o all.h5").code, 0);
  EXPECT_EQ(read_run(dir / "last.h5").config.bf16_last, 1);
  EXPECT_NE(read_run(dir / "last.h5").steps.back(), read_run(dir / "all.h5").steps.back());
  for (const char* file : {"last.h5", "all.h5"}) {
    const Answer audit = expect_output(std::string("parity audit --data text --step 13 ") + file, 0);
    EXPECT_EQ(audit.out.find("DIFFERS"), std::string::npos) << audit.out;
  }
  const std::string begin = "parity run --config small.json --data text -o x.h5 ";
  expect_refused(2, "bf16_last is 2 of 2 layers; 0 to 1 is needed", begin + "--recipe quartet2 --bf16-last 2");
  expect_refused(2, "bf16_last is -1 of 2 layers", begin + "--recipe quartet2 --bf16-last -1");
  expect_refused(2, "of the recipe bf16, whose layers are all in BF16", begin + "--recipe bf16 --bf16-last 1");
  expect_refused(2, "--bf16-last", begin + "--bf16-last all");
  expect_refused(2, "--resume takes the run's configuration from its journal",
                 "parity run --resume --bf16-last 1 --data text -o last.h5");
}

// A file that lies where the run would keep its state is somebody's.
TEST_F(Parity, a_run_writes_over_no_checkpoint) {
  write_file(dir / "run.h5.checkpoint", "somebody's");
  const Answer refused = run("--seed 1 -o run.h5");
  EXPECT_EQ(refused.code, 2);
  expect_contains(refused.err, "run.h5.checkpoint: is there already, and the run would write over it");
  EXPECT_EQ(read_file(dir / "run.h5.checkpoint"), "somebody's");
  EXPECT_FALSE(has("run.h5.journal"));
}

TEST_F(Parity, a_branch_that_cannot_be_is_refused) {
  ASSERT_EQ(run("--seed 1 -o trunk.h5").code, 0);
  const std::string branch = "parity run --data text --branch trunk.h5 -o branch.h5 ";
  expect_refused(2, "--branch needs --at STEP", branch);
  expect_refused(2, "--at is the step of a trunk", "parity run --data text --at 3 -o branch.h5");
  expect_refused(2, "it begins after 1 to 19 steps", branch + "--at 20");
  expect_refused(2, "a branch has its trunk's sizes", branch + "--at 3 --steps 30");
  expect_refused(2, "a branch has its trunk's sizes", branch + "--at 3 --seed 2");
  expect_refused(2, "lacks the place for it", "parity run --branch trunk.h5 --at 3 --seeds 1,2 -o b_{seed}.h5");
  std::ofstream(dir / "other") << std::string(4000, 'x');
  expect_refused(2, "was trained on other data", "parity run --data other --branch trunk.h5 --at 3 -o branch.h5");
  expect_refused(2, "none.h5: cannot be opened", "parity run --data text --branch none.h5 --at 3 -o branch.h5");
  EXPECT_FALSE(has("branch.h5") || has("branch.h5.journal"));
}

TEST_F(Parity, several_seeds_are_run_at_once) {
  ASSERT_EQ(run("--recipe mxfp8 --seed 2 --keep 10 -o alone.h5").code, 0);
  expect_contains(run("--perturb all --seed 2 -o moved.h5").out, "bf16, seed 2, all weights moved");
  const Answer made = run("--recipe mxfp8 --seeds 1,2,3 --keep 10 -o run_{seed}.h5");
  ASSERT_EQ(made.code, 0) << made.err;
  for (const char* seed : {"1", "2", "3"}) {
    const std::string name = std::string("run_") + seed;
    expect_contains(made.out, name + ".h5: mxfp8, seed " + seed + ", 20 of 20");
    EXPECT_TRUE(has(name + ".step10.h5")) << name;
  }
  EXPECT_EQ(read_run((dir / "run_2.h5")).steps, read_run((dir / "alone.h5")).steps);
  EXPECT_NE(read_run((dir / "run_1.h5")).steps, read_run((dir / "alone.h5")).steps);

  // A full disk that ends one ends neither the others nor what is said of them.
  const Answer full = run("--seeds 5,6 --keep 19 -o full_{seed}.h5",
                          "(until [ -e full_5.h5.journal ]; do :; done; until mkdir full_5.h5.checkpoint "
                          "2>/dev/null; do rm -f full_5.h5.checkpoint; done) & ");
  EXPECT_NE(full.code, 0) << full.out;
  expect_contains(full.out, "full_6.h5: bf16, seed 6, 20 of 20 steps, finished");
  expect_contains(full.err, "full_5.h5");
  expect_refused(2, "there is no folder d4", "parity run --config small.json --data text --seeds 4 -o d{seed}/run.h5");

  // One that is there already refuses all; those that were stopped go on, those that ended stay as they are.
  expect_refused(2, "run_3.h5: is there already",
                 "parity run --config small.json --data text --seeds 4,3 -o run_{seed}.h5");
  EXPECT_FALSE(has("run_4.h5") || has("run_4.h5.journal"));
  expect_output("parity run --resume --data text --seeds 1,2,3 -o run_{seed}.h5", 0,
                {"every run of these seeds has ended"});
  const Answer json = run("--seeds 7,8 --json -o more_{seed}.h5");
  EXPECT_TRUE(json.out.starts_with("[") && json.out.find("more_7.h5") != std::string::npos &&
              json.out.find("more_8.h5") != std::string::npos)
      << json.out;

  expect_refused(2, "lacks the place for it", "parity run --data text --seeds 1,2 -o run.h5");
  expect_refused(2, "--seeds has 1 twice", "parity run --data text --seeds 1,2,1 -o r_{seed}.h5");
  expect_refused(2, "--seeds has '1.5'", "parity run --data text --seeds 1.5 -o r_{seed}.h5");
  expect_refused(2, "--seed", "parity run --data text --seeds 1,2 --seed 1 -o r_{seed}.h5");
  expect_refused(2, "no run to run_9.h5 waits", "parity run --resume --seeds 1,9 -o run_{seed}.h5");
  std::filesystem::copy(dir / "run_1.h5", dir / "run_5.h5");
  expect_refused(2, "run_5.h5: is of seed 1, not of 5", "parity run --resume --seeds 1,5 -o run_{seed}.h5");
  std::ofstream(dir / "run_6.h5") << "no run";
  expect_refused(2, "run_6.h5: not an HDF5 file", "parity run --resume --seeds 1,6 -o run_{seed}.h5");
}

// Processes of this program, over sockets. Checkpoints hold no time and no name of a device.
TEST_F(Parity, ranks_make_the_run_of_one) {
  const std::string cut = "--batch 4 --microbatches 4 --keep 10 --steps 12 --recipe mxfp8 ";
  ASSERT_EQ(run(cut + "-o one.h5").code, 0);
  for (const char* ranks : {"2", "4"}) {
    const std::string out = std::string("of") + ranks;
    const Answer answer = run(cut + "--ranks " + ranks + " -o " + out + ".h5");
    ASSERT_EQ(answer.code, 0) << answer.err;
    EXPECT_EQ(read_run(dir / (out + ".h5")).steps, read_run(dir / "one.h5").steps) << ranks;
    EXPECT_EQ(mxcheck("--version", "cmp one.step10.h5 " + out + ".step10.h5 && ").code, 0) << ranks;
  }
  EXPECT_EQ(mxcheck("parity audit of4.h5 --data text --step 11").code, 0);
}

// The second rank is killed when there is a checkpoint; the answer names it, and another number of ranks goes on.
TEST_F(Parity, a_rank_that_dies_is_named_and_the_run_goes_on) {
  const std::string cut = "--batch 4 --microbatches 4 --checkpoint-every 2 --steps 300 --keep 3 --evaluate-every 300 ";
  const Answer died = run(cut + "--ranks 2 -o run.h5",
                          "(while [ ! -e run.h5.checkpoint ]; do sleep 0.02; done; for p in $(pgrep mxcheck); do "
                          "[ \"$(readlink /proc/$p/cwd)\" = \"$PWD\" ] && "
                          "tr '\\0' '\\n' < /proc/$p/environ | grep -qx RANK=1 && kill -9 $p; done) & ");
  if (has("run.h5")) GTEST_SKIP() << "the run was over before the signal came";
  EXPECT_EQ(died.code, 6) << died.out;
  expect_contains(died.err, "rank 1 was ended by signal 9");
  ASSERT_EQ(run(cut + "-o one.h5").code, 0);
  const Answer on = mxcheck("parity run --resume --data text --threads 1 --ranks 4 -o run.h5");
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(read_run(dir / "run.h5").steps, read_run(dir / "one.h5").steps);
}

TEST_F(Parity, ranks_that_disagree_are_named_before_the_first_step) {
  TrainingConfig other = read_config(dir / "small.json");
  other.model.width = 32;
  std::ofstream(dir / "other.json") << to_json(other);
  std::filesystem::copy(dir / "small.json", dir / "same.json");
  std::filesystem::copy(dir / "text", dir / "same_text");
  std::ofstream(dir / "other_text") << read_file(dir / "text") << "and a line\n";
  const std::string config = "--config small.json ", data = "--data text ", seed = "--seed 1 ";
  struct Row {
    std::string of_second, words;
  };
  for (const Row& row :
       {Row{"--config other.json " + data + seed, "(model.width is 32, but 16 on rank 0), and rank 0 has "},
        Row{config + data + "--seed 2 ", "rank 1 differs in configuration: "},
        Row{config + data + "--seed 2 ", "(seed is 2, but 1 on rank 0)"},
        Row{config + "--data other_text " + seed, "rank 1 differs in data: SHA-256 "}}) {
    const auto [first, second] = two_ranks(config + data + seed, row.of_second);
    for (const Answer* const answer : {&first, &second}) {
      EXPECT_EQ(answer->code, 2) << row.of_second << answer->err;
      expect_contains(answer->err, row.words);
    }
    EXPECT_FALSE(has("run.h5.journal")) << row.of_second;
  }
  const auto [first, second] = two_ranks(config + data + seed, config + "--data nowhere " + seed);
  EXPECT_EQ(second.code, 2);
  expect_contains(second.err, "nowhere");
  EXPECT_NE(first.code, 0);
  expect_contains(first.err, "rank 1");
  EXPECT_FALSE(has("run.h5.journal"));
  // Names of files are each rank's own.
  const auto [alike, named] = two_ranks(config + data + seed, "--config same.json --data same_text " + seed);
  EXPECT_EQ(alike.code, 0) << alike.err;
  EXPECT_EQ(named.code, 0) << named.err;
}

TEST_F(Parity, ranks_of_a_resumed_run_compare_their_data) {
  run("--batch 4 --microbatches 2 --steps 400 --evaluate-every 400 -o run.h5 & pid=$!; "
      "while [ ! -s run.h5.journal ]; do sleep 0.01; done; kill -TERM $pid; wait $pid; exit $?");
  if (has("run.h5")) GTEST_SKIP() << "the run was over before the signal came";
  std::ofstream(dir / "other_text") << read_file(dir / "text") << "and a line\n";
  const auto [first, second] = two_ranks("--resume --data text ", "--resume --data other_text ", "");
  for (const Answer* const answer : {&first, &second}) {
    EXPECT_EQ(answer->code, 2) << answer->err;
    expect_contains(answer->err, "rank 1 differs in data: SHA-256 ");
  }
  const auto [on, with] = two_ranks("--resume --data text ", "--resume --data text ", "");
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(with.code, 0) << with.err;
}

// The launcher alone gets the signal, and rank 0 ends the run.
TEST_F(Parity, ranks_end_their_run_after_a_step_when_their_launcher_gets_a_signal) {
  const std::string cut = "--batch 4 --microbatches 4 --steps 400 --evaluate-every 400 ";
  const Answer stopped = run(cut +
                             "--ranks 2 -o run.h5 & pid=$!; "
                             "while [ ! -s run.h5.journal ]; do sleep 0.01; done; kill -TERM $pid; wait $pid; exit $?");
  if (has("run.h5")) GTEST_SKIP() << "the run was over before the signal came";
  EXPECT_EQ(stopped.code, 128 + 15);
  expect_contains(stopped.out, "go on with  mxcheck parity run --resume -o run.h5");
  EXPECT_TRUE(has("run.h5.checkpoint")) << stopped.err;
  ASSERT_EQ(mxcheck("parity run --resume --data text --threads 1 --ranks 4 -o run.h5").code, 0);
  ASSERT_EQ(run(cut + "-o one.h5").code, 0);
  EXPECT_EQ(read_run(dir / "run.h5").steps, read_run(dir / "one.h5").steps);
}

TEST_F(Parity, ranks_that_cannot_share_a_run_are_refused) {
  const Answer many = run("--batch 4 --microbatches 2 --ranks 4 -o run.h5");
  EXPECT_EQ(many.code, 2);
  expect_contains(many.err,
                  "4 ranks for 2 microbatches: a power of two up to 16 that divides the microbatches is needed");
  const Answer seeds = run("--batch 4 --microbatches 2 --ranks 2 --seeds 1,2 -o run_{seed}.h5");
  EXPECT_EQ(seeds.code, 2);
  expect_contains(seeds.err, "--ranks is of one run; --seeds makes several");
  const Answer other =
      run("--batch 4 --microbatches 4 --ranks 4 -o run.h5", "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 ");
  EXPECT_EQ(other.code, 2);
  expect_contains(other.err, "--ranks is 4, and torchrun has started 2: give both the same number");
  std::ofstream(dir / "library.so") << "no library, which is found out after the GPU";
  const Answer none =
      run("--batch 4 --microbatches 2 --ranks 2 --engine ./library.so -o run.h5", "CUDA_VISIBLE_DEVICES= ");
  EXPECT_EQ(none.code, 3);
  expect_contains(none.err, " of this host finds no GPU ");
  EXPECT_FALSE(has("run.h5.journal"));
}

TEST_F(Parity, a_run_is_recorded_audited_and_verified) {
  const Answer made = run("--recipe mxfp8 --seed 4 --keep 10 -o run.h5");
  ASSERT_EQ(made.code, 0) << made.err;
  expect_contains(made.out, "run.h5: mxfp8, seed 4, 20 of 20 steps, finished");
  EXPECT_TRUE(has("run.h5") && has("run.step10.h5"));
  EXPECT_FALSE(has("run.h5.journal") || has("run.h5.checkpoint"));

  expect_output("parity audit run.h5 --step 15 --data text", 0,
                {"computed from run.step10.h5", "equal: 51 of 51 recorded facts"});
  expect_output("parity audit run.h5 --step 3 --data text --json", 0, {"\"equal\": true"});

  expect_output("parity verify run.h5", 0, {"checkpoints 10", "its contents have the hash"});
  EXPECT_EQ(mxcheck("parity verify run.h5 --json").code, 0);
}

// By SIGTERM: a shell's background jobs ignore Ctrl-C's signal.
TEST_F(Parity, a_run_that_is_interrupted_goes_on_to_the_same_bits) {
  ASSERT_EQ(run("--steps 400 --seed 4 --evaluate-every 400 -o whole.h5").code, 0);
  const Answer stopped =
      run("--steps 400 --seed 4 --evaluate-every 400 -o run.h5 & pid=$!; "
          "while [ ! -s run.h5.journal ]; do sleep 0.01; done; kill -TERM $pid; wait $pid; exit $?");
  if (has("run.h5")) GTEST_SKIP() << "the run was over before the signal came";
  EXPECT_EQ(stopped.code, 128 + 15);
  expect_contains(stopped.out, "go on with  mxcheck parity run --resume -o run.h5");
  ASSERT_TRUE(has("run.h5.journal")) << stopped.err;
  EXPECT_TRUE(has("run.h5.checkpoint"));
  expect_refused(2, "--resume", "parity run --config small.json --data text -o run.h5");
  expect_refused(2, "takes the run's configuration from its journal", "parity run --resume --seed 3 -o run.h5");
  const Answer resumed = mxcheck("parity run --resume --data text -o run.h5");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_contains(resumed.out, "in 2 sittings");
  const RunRecord whole = read_run(dir / "whole.h5");
  const RunRecord both = read_run(dir / "run.h5");
  EXPECT_EQ(both.steps, whole.steps);
  EXPECT_EQ(both.evaluations, whole.evaluations);
  EXPECT_EQ(both.witnesses, whole.witnesses);
}

// The folder as a stopped campaign leaves it.
TEST_F(Parity, a_branch_that_was_stopped_before_its_trunk_ended_is_given_its_trunk) {
  ASSERT_EQ(run("--steps 12 --keep 6 --evaluate-every 6 -o trunk.h5").code, 0);
  const Trunk trunk = read_trunk(dir / "trunk.h5");
  const Corpus corpus = corpus_at(dir / "text");
  const auto state =
      std::make_shared<const TrainingState>(read_checkpoint(kept_checkpoint_of(dir / "trunk.h5", 6)).state);
  RunRequest request{.out = dir / "branch.h5", .config = trunk.run.config, .plan = trunk.run.plan, .corpus = &corpus};
  request.config.recipe = layer_recipe_named("mxfp8");
  request.plan.kept.clear();
  request.branch = branch_under_way(trunk.file, trunk.run.config, request.config, *state);
  request.trunk = [&] { return state; };
  request.trunk_sha256 = [] { return std::optional<std::string>(); };
  EXPECT_EQ(run_training(request, *cpu_engine(request.config, 1), {}).end, RunEnd::unfinished);
  EXPECT_FALSE(has("branch.h5"));
  const Answer resumed = mxcheck("parity run --resume --data text -o branch.h5");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(read_run(dir / "branch.h5").branch.value().trunk, trunk.sha256);
  EXPECT_EQ(mxcheck("parity audit branch.h5 --data text --step 6").code, 0);
}

TEST_F(Parity, several_that_are_interrupted_go_on_together) {
  ASSERT_EQ(run("--steps 400 --seed 5 --evaluate-every 400 -o whole.h5").code, 0);
  const Answer stopped =
      run("--steps 400 --seeds 4,5 --evaluate-every 400 -o run_{seed}.h5 & pid=$!; "
          "while [ ! -s run_5.h5.journal ]; do sleep 0.01; done; kill -TERM $pid; wait $pid; exit $?");
  if (has("run_5.h5")) GTEST_SKIP() << "the run was over before the signal came";
  EXPECT_EQ(stopped.code, 128 + 15);
  const Answer resumed = mxcheck("parity run --resume --data text --seeds 4,5 -o run_{seed}.h5");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(read_run(dir / "run_5.h5").steps, read_run(dir / "whole.h5").steps);
}

TEST_F(Parity, a_full_disk_loses_nothing_that_was_recorded) {
  const Answer full = run("--steps 300 --checkpoint-every 300 --keep 299 -o run.h5", "ulimit -f 20; ");
  EXPECT_EQ(full.code, 3) << full.out << full.err;
  EXPECT_TRUE(has("run.h5.journal"));
  EXPECT_FALSE(has("run.h5"));
  expect_output("parity run --resume --data text -o run.h5", 0);
  EXPECT_EQ(mxcheck("parity audit run.h5 --step 299 --data text").code, 0);
}

TEST_F(Parity, what_makes_no_sense_is_refused_in_one_line) {
  expect_refused(2, "no preset 'huge'", "parity run --preset huge --data text -o run.h5");
  expect_refused(2, "fp16", "parity run --recipe fp16 --data text -o run.h5");
  expect_refused(2, "steps is 0", "parity run --steps 0 --data text -o run.h5");
  expect_refused(2, "--keep has 'x'", "parity run --keep x --data text -o run.h5");
  expect_refused(2, "before step 10000", "parity run --keep 10000 --data text -o run.h5");
  expect_refused(2, "an evaluation every 0", "parity run --evaluate-every 0 --data text -o run.h5");
  expect_refused(2, "none: there is no such file", "parity run --data none -o run.h5");
  expect_refused(2, "no run to run.h5 waits", "parity run --resume -o run.h5");
  expect_refused(2, "--perturb is 'x'", "parity run --perturb x --data text -o run.h5");
  expect_refused(2, "--perturb is '-1'", "parity run --perturb=-1 --data text -o run.h5");
  expect_refused(2, "none_train", "parity run --config small.json --data text --engine none -o run.h5");
  expect_refused(2, "nowhere/run.h5", "parity run --config small.json --data text -o nowhere/run.h5");
  expect_refused(2, "--output", "parity run --data text");
  expect_refused(2, "none.json", "parity run --config none.json -o run.h5");

  ASSERT_EQ(run("--keep 10 -o run.h5").code, 0);
  expect_refused(2, "is there already", "parity run --config small.json --data text -o run.h5");
  expect_refused(2, "has no step 20; it has 0 to 19", "parity audit run.h5 --step 20 --data text");
  expect_refused(2, "is of step 10, after step 9",
                 "parity audit run.h5 --step 9 --checkpoint run.step10.h5 --data text");
  expect_refused(2, "the data is not the run's", "parity audit run.h5 --step 9 --data small.json");
  ASSERT_EQ(run("--seed 5 --keep 10 -o other.h5").code, 0);
  expect_refused(2, "other.step10.h5", "parity audit run.h5 --step 12 --checkpoint other.step10.h5 --data text");
  expect_refused(2, "text", "parity verify text");
  expect_refused(2, "run.step10.h5", "parity verify run.step10.h5");
}

// A link to itself, a name and a path that are too long: a line and exit code 2, before data is read.
TEST_F(Parity, outputs_that_no_file_can_be_are_refused_in_one_line) {
  for (const char* name : {"loop", "loop.h5", "loop.html"}) std::filesystem::create_symlink(name, dir / name);
  std::ofstream(dir / "campaign.json")
      << R"({"preset": "tiny", "seeds": [1], "arms": [{"recipe": "mxfp8", "at": [50]}]})";
  std::string path = ".";
  while (path.size() < 4200) path += "/.";
  const std::string name(250, 'a');  // with what is beside it while a run is under way 255 bytes are not enough
  const std::string run = "parity run --config small.json --data text -o ";
  expect_refused(2, "loop.h5: cannot be looked up: Too many levels of symbolic links", run + "loop.h5");
  expect_refused(2, "cannot be looked up: Too many levels of symbolic links", run + "loop/run.h5");
  expect_refused(2, "File name too long; choose another path", run + name + name);
  expect_refused(2, name.substr(0, 246) + ".checkpoint: cannot be looked up: File name too long",
                 run + name.substr(0, 246));
  expect_refused(2, "File name too long; choose another path", run + path + "/run.h5");
  expect_refused(2, "loop.h5", "parity run --data none --seeds 1,2 --config small.json -o loop.h5/{seed}");
  expect_refused(2, "loop.h5", "parity run --resume --data text -o loop.h5");
  for (const std::string& folder : {std::string("loop"), name + name, path + "/none"})
    expect_refused(2, folder.substr(0, 4), "parity campaign campaign.json --data text -o " + folder);
  expect_refused(2, "no/folder: there is no folder no to make it in",
                 "parity campaign campaign.json --data text -o no/folder");
  expect_refused(2, "none: there is no", "parity campaign campaign.json --data none -o made");
  expect_refused(2, "campaign.json: cannot be made: ", "parity campaign campaign.json --data text -o campaign.json");
  for (const std::string& file : {std::string("loop"), name + name, path + "/none"})
    expect_refused(2, "cannot be written: ", "parity corpus --root . -o " + file);
  ASSERT_EQ(mxcheck(run + "run.h5").code, 0);
  for (const std::string& page : {std::string("loop.html"), name + name + ".html", path + "/x.html"})
    expect_refused(2, "cannot be written: ", "parity compare run.h5 --html " + page);
  for (const std::string& file : {std::string("loop.h5"), name + name, path + "/run.h5"}) {
    expect_refused(2, file.substr(0, 4), "parity verify " + file);
    expect_refused(2, file.substr(0, 4), "parity audit --step 1 --data text " + file);
    expect_refused(2, file.substr(0, 4), "parity audit --step 1 --data text --checkpoint " + file + " run.h5");
    expect_refused(2, file.substr(0, 4), "parity run --branch " + file + " --at 1 --data text -o branch.h5");
  }
}

// "$CONFIG" of a variable that was never set is no wish for the default.
TEST_F(Parity, options_without_a_value_are_refused) {
  for (const char* option : {"--config", "--preset", "--recipe", "--rounding", "--moments", "--perturb", "--data",
                             "--engine", "--keep", "--seeds", "--branch", "--seed", "--steps"})
    expect_refused(2, option, std::string("parity run -o run.h5 ") + option + " ''", "ulimit -t 5; ");
  for (const char* option : {"--checkpoint", "--trunk", "--data"})
    expect_refused(2, option, std::string("parity audit run.h5 --step 1 ") + option + " ''");
}

// Runs that are refused for memory, or that ask for what no machine has.
TEST_F(Parity, sizes_beyond_memory_are_refused_and_leave_nothing) {
  const auto write = [&](const char* file, auto change) {
    TrainingConfig config = preset_named("tiny");
    change(config);
    std::ofstream(dir / file) << to_json(config);
  };
  write("wide.json", [](TrainingConfig& c) { c.model.width = 1 << 24; });
  write("large.json", [](TrainingConfig& c) { c.model.width = 1024, c.model.inner = 2048, c.model.experts = 256; });
  expect_refused(2, "takes at least", "parity run --config wide.json --data text -o run.h5");
  expect_refused(2, "2^20 are needed",
                 "parity run --config small.json --validation-sequences 100000000 --data text -o run.h5");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take memory of their own
  expect_refused(3, "out of memory: a run of this configuration takes at least",
                 "parity run --config large.json --data text -o run.h5", "ulimit -v 4000000; ");
#endif
}

TEST_F(Parity, an_altered_file_is_refused) {
  ASSERT_EQ(run("--keep 10 -o run.h5").code, 0);
  std::string bytes = read_file(dir / "run.h5");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(dir / "altered.h5", std::ios::binary) << bytes;
  std::ofstream(dir / "short.h5", std::ios::binary) << bytes.substr(0, bytes.size() - 100);
  for (const char* file : {"altered.h5", "short.h5"}) {
    expect_refused(2, file, std::string("parity verify ") + file);
    expect_refused(2, file, std::string("parity audit --step 1 --data text ") + file);
  }
}

}  // namespace
}  // namespace mxcheck

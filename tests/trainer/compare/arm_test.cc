#include "trainer/compare/arm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/trainer/made_up_runs.h"

namespace mxcheck {
namespace {

using test::bits;
using test::made_up_run;
using test::MadeUp;

std::string refusal(const std::vector<NamedRun>& runs) {
  try {
    (void)arms_of(runs);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::input);
    return e.what();
  }
  return "";
}

TEST(Arm, name_says_all_that_differs_from_the_baseline) {
  const auto name = [](const MadeUp& m) { return arm_name({.config = test::made_up_config(m)}); };
  EXPECT_EQ(name({}), "bf16");
  EXPECT_EQ(name({.recipe = "mxfp8"}), "mxfp8");
  EXPECT_EQ(name({.perturb = 3}), "bf16 + one ulp");
  EXPECT_EQ(name({.perturb = kPerturbAll}), "bf16 + all weights moved");
  EXPECT_EQ(name({.perturb = kPerturbOrder}), "bf16 + columns reordered");
  EXPECT_EQ(name({.rounding = TokenRoundingRule::nr_f}), "bf16 + nr-f");
  EXPECT_EQ(name({.recipe = "mxfp8", .rounding = TokenRoundingRule::nr_f, .moments = Format::bf16}),
            "mxfp8 + nr-f + moments bf16");
  TrainingConfig c = test::made_up_config({.rounding = TokenRoundingRule::nr_f});
  c.tile = 64;
  EXPECT_EQ(arm_name({.config = c}), "bf16 + nr-f to 64");
}

TEST(Arm, name_of_a_branch_is_its_recipe_and_the_branch_point) {
  RunRecord run{.config = test::made_up_config({.recipe = "mxfp8", .moments = Format::bf16})};
  for (const auto& [step, words] : {std::pair(200, "50 %"), {50, "12.5 %"}, {133, "33.25 %"}}) {
    run.branch = RunBranch{.step = step};
    EXPECT_EQ(branch_point(step, run.config.steps), words);
    EXPECT_EQ(arm_recipe(run.config), "mxfp8 + moments bf16");
    EXPECT_EQ(arm_name(run), std::string("mxfp8 + moments bf16 from ") + words);
  }
  EXPECT_EQ(branch_point(0, 400), "scratch");
}

TEST(Arm, groups_runs_and_orders_them_by_role_and_seed) {
  std::vector<NamedRun> runs;
  for (const std::uint64_t seed : {2U, 1U}) {
    runs.push_back(made_up_run({.recipe = "mxfp8", .seed = seed}));
    runs.push_back(made_up_run({.recipe = "broken", .seed = seed}));
    runs.push_back(made_up_run({.seed = seed, .perturb = static_cast<std::int64_t>(seed)}));
    runs.push_back(made_up_run({.seed = seed}));
    runs.push_back(made_up_run({.seed = seed, .moments = Format::bf16}));
  }
  const std::vector<Arm> arms = arms_of(runs);
  ASSERT_EQ(arms.size(), 5U);
  EXPECT_EQ(arms[0].role, ArmRole::baseline);
  EXPECT_EQ(arms[1].role, ArmRole::repeat);
  EXPECT_EQ(arms[2].role, ArmRole::control);
  EXPECT_EQ(arms[3].name, "bf16 + moments bf16");
  EXPECT_EQ(arms[4].name, "mxfp8");
  for (const Arm& arm : arms) {
    ASSERT_EQ(arm.runs.size(), 2U) << arm.name;
    EXPECT_EQ(arm.runs[0]->record.config.seed, 1U) << arm.name;
  }
}

TEST(Arm, endpoint_is_the_mean_of_the_last_three_evaluations) {
  NamedRun run = made_up_run({});
  auto& e = run.record.evaluations;
  for (std::size_t i = 0; i < 3; ++i) {
    e[e.size() - 3 + i].loss_bf16 = bits(3.0 + static_cast<double>(i));
    e[e.size() - 3 + i].loss_own = bits(5.0 + static_cast<double>(i));
  }
  EXPECT_EQ(endpoint_of(run.record), 4);
  EXPECT_EQ(own_endpoint_of(run.record), 6);
}

TEST(Arm, training_endpoint_is_the_mean_of_the_last_tenth) {
  RunRecord run = made_up_run({}).record;
  run.steps.resize(25);
  for (std::size_t i = 0; i < 25; ++i) run.steps[i].loss = bits(i < 22 ? 100.0 : static_cast<double>(i));
  EXPECT_EQ(training_endpoint_of(run), 23);  // of 22, 23, 24
  run.steps.resize(1);
  EXPECT_EQ(training_endpoint_of(run), 100);
}

TEST(Arm, has_diverged_where_its_endpoint_is_no_number) {
  EXPECT_FALSE(has_diverged(made_up_run({}).record));
  NamedRun run = made_up_run({});
  run.record.evaluations.back().loss_bf16 = bits(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(has_diverged(run.record));
  EXPECT_TRUE(std::isnan(endpoint_of(run.record)));
  run = made_up_run({});
  run.record.evaluations.back().loss_own = bits(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(has_diverged(run.record));
  run = made_up_run({});
  run.record.end = RunEnd::diverged;
  EXPECT_TRUE(std::isnan(endpoint_of(run.record)));
}

TEST(Arm, refuses_runs_of_another_experiment_naming_files_and_field) {
  struct Case {
    std::string field;
    std::function<void(RunRecord&)> change;
  };
  const std::vector<Case> cases{
      {"model.layers", [](RunRecord& r) { r.config.model.layers = 3; }},
      {"model.width", [](RunRecord& r) { r.config.model.width = 128; }},
      {"model.heads", [](RunRecord& r) { r.config.model.heads = 4; }},
      {"model.experts", [](RunRecord& r) { r.config.model.experts = 4; }},
      {"model.inner", [](RunRecord& r) { r.config.model.inner = 64; }},
      {"model.top_k", [](RunRecord& r) { r.config.model.top_k = 1; }},
      {"model.length", [](RunRecord& r) { r.config.model.length = 32; }},
      {"batch", [](RunRecord& r) { r.config.batch = 5; }},
      {"balance", [](RunRecord& r) { r.config.balance = 0; }},
      {"optimizer.peak_rate", [](RunRecord& r) { r.config.optimizer.peak_rate = 2e-3F; }},
      {"optimizer.last_rate", [](RunRecord& r) { r.config.optimizer.last_rate = 0; }},
      {"optimizer.warm_up", [](RunRecord& r) { r.config.optimizer.warm_up = 7; }},
      {"optimizer.beta1", [](RunRecord& r) { r.config.optimizer.beta1 = 0.8F; }},
      {"optimizer.beta2", [](RunRecord& r) { r.config.optimizer.beta2 = 0.8F; }},
      {"optimizer.epsilon", [](RunRecord& r) { r.config.optimizer.epsilon = 1e-6F; }},
      {"optimizer.decay", [](RunRecord& r) { r.config.optimizer.decay = 0; }},
      {"optimizer.clip", [](RunRecord& r) { r.config.optimizer.clip = 2; }},
      {"optimizer.skips_non_finite", [](RunRecord& r) { r.config.optimizer.skips_non_finite = true; }},
      {"training_sha256", [](RunRecord& r) { r.training_sha256 = "other"; }},
      {"validation_sha256", [](RunRecord& r) { r.validation_sha256 = "other"; }},
      {"validation_sequences", [](RunRecord& r) { r.plan.validation_sequences = 1; }},
      {"evaluations are after other steps", [](RunRecord& r) { r.evaluations[4].step += 1; }},
      {"evaluations are after other steps", [](RunRecord& r) { r.evaluations.pop_back(); }},
  };
  for (const Case& c : cases) {
    std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
    c.change(runs[1].record);
    const std::string text = refusal(runs);
    for (const std::string& part : {c.field, runs[0].file, runs[1].file})
      EXPECT_NE(text.find(part), std::string::npos) << c.field << ": " << text;
  }
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
  runs[1].record.config.steps = 300;
  runs[1].record.steps.resize(300);
  EXPECT_NE(refusal(runs).find("bf16_1.h5 and mxfp8_1.h5: steps differs, 400 and 300"), std::string::npos);
}

TEST(Arm, takes_runs_of_other_engines_machines_and_versions) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
  runs[1].record.engine = "sm90";
  runs[1].record.device = "another";
  runs[1].record.mxcheck = "2.0";
  EXPECT_EQ(refusal(runs), "");
}

TEST(Arm, takes_the_beginning_of_the_evaluations_of_a_run_that_diverged) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
  runs[1].record.end = RunEnd::diverged;
  runs[1].record.evaluations.resize(2);
  runs[1].record.steps.resize(45);
  EXPECT_EQ(refusal(runs), "");
  runs[1].record.evaluations[1].step = 41;
  EXPECT_NE(refusal(runs), "");
}

TEST(Arm, refuses_a_run_that_is_not_whole) {
  std::vector<NamedRun> runs{made_up_run({})};
  runs[0].record.end = RunEnd::unfinished;
  EXPECT_NE(refusal(runs).find("bf16_1.h5: unfinished, 400 of 400 steps"), std::string::npos);
  runs = {made_up_run({})};
  runs[0].record.steps.pop_back();
  EXPECT_NE(refusal(runs).find("finished with 399 steps"), std::string::npos);
  runs = {made_up_run({})};
  runs[0].record.evaluations.resize(2);
  EXPECT_NE(refusal(runs).find("2 evaluations"), std::string::npos);
}

TEST(Arm, refuses_a_seed_twice_and_one_without_a_partner) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"}), made_up_run({.recipe = "mxfp8"})};
  runs[2].file = "again.h5";
  EXPECT_NE(refusal(runs).find("mxfp8_1.h5 and again.h5: both are seed 1 of mxfp8"), std::string::npos);
  runs = {made_up_run({}), made_up_run({.recipe = "mxfp8", .seed = 2})};
  EXPECT_NE(refusal(runs).find("mxfp8_2.h5: no run of BF16 has its seed, 2"), std::string::npos);
}

TEST(Arm, refuses_runs_without_a_baseline) {
  EXPECT_NE(refusal({made_up_run({.recipe = "mxfp8"})}).find("no run of the baseline"), std::string::npos);
  EXPECT_NE(refusal({made_up_run({.perturb = 1})}).find("no run of the baseline"), std::string::npos);
  EXPECT_NE(refusal({}).find("no run of the baseline"), std::string::npos);
}

TEST(Arm, refuses_two_recipes_of_one_name_and_a_baseline_that_quantizes) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.seed = 2}), made_up_run({.recipe = "mxfp8"}),
                             made_up_run({.recipe = "mxfp8_floor", .seed = 2})};
  runs[3].record.config.recipe.name = "mxfp8";
  EXPECT_NE(refusal(runs).find("recipe differs, though both call it 'mxfp8'"), std::string::npos);
  runs = {made_up_run({.recipe = "mxfp8"})};
  runs[0].record.config.recipe.name = "bf16";
  EXPECT_NE(refusal(runs).find("recipe 'bf16' quantizes"), std::string::npos);
}

}  // namespace
}  // namespace mxcheck

#include "trainer/record/run_check.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/trainer/record/run_samples.h"

namespace mxcheck {
namespace {

// tests/trainer/record/run_file_test.cc has what is wrong with entries, one by one.

TEST(RunCheck, finds_nothing_wrong_with_a_run_that_is_right) {
  EXPECT_EQ(objection(test::sample_run()), "");
  EXPECT_EQ(objection(test::sample_head()), "");
  EXPECT_EQ(objection_to_head(test::sample_head()), "");
}

TEST(RunCheck, counts_tensors_as_the_model_lists_them) {
  for (const std::int64_t layers : {1, 2, 5}) {
    ModelShape model = test::sample_config().model;
    model.layers = layers;
    EXPECT_EQ(parameter_tensors(model), std::ssize(parameters_of(model)));
  }
}

TEST(RunCheck, refuses_plans_and_times_that_cannot_be) {
  const auto wrong = [](auto change) {
    RunRecord run = test::sample_run();
    change(run);
    return objection(run);
  };
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.observe_every = 0; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.validation_sequences = 0; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.kept = {3, 3}; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.kept = {12}; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.kept = {-1}; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.seconds = std::numeric_limits<double>::quiet_NaN(); }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.seconds = -1; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.validation_sha256[5] = 'A'; }), "");
  EXPECT_EQ(wrong([](RunRecord& r) { r.plan.kept = {}; }), "");
}

// An attribute of the run's file holds neither.
TEST(RunCheck, refuses_texts_that_a_file_cannot_hold) {
  for (std::string RunRecord::*text :
       {&RunRecord::corpus, &RunRecord::mxcheck, &RunRecord::engine, &RunRecord::device, &RunRecord::started}) {
    RunRecord run = test::sample_head();
    run.*text = std::string(64 << 10, 'a');
    EXPECT_EQ(objection_to_head(run), "");
    run.*text += 'a';
    EXPECT_NE(objection_to_head(run), "");
    run.*text = std::string("a\0b", 3);
    EXPECT_NE(objection_to_head(run), "");
  }
}

TEST(RunCheck, quotes_names_on_one_line) {
  RunRecord run = test::sample_run();
  for (LayerObservation& layer : run.observations[0].layers) layer.operands[0].name = "a\nb";
  run.observations.resize(1);
  run.observations[0].layers[0].operands[0].saturated = -1;
  EXPECT_EQ(objection(run), R"(observation of step 0: operand 'a\x0Ab' has counts that cannot be)");
}

}  // namespace
}  // namespace mxcheck

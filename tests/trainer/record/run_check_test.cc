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

}  // namespace
}  // namespace mxcheck

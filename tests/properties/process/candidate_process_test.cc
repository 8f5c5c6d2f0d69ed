#include "properties/process/candidate_process.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "kernels/candidate.h"
#include "properties/core/check.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

std::unique_ptr<Problem> some_problem() {
  return make_problem(parse_case(
      "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact pad=0 x=bf16 rows=9 cols=70 data=normal seed=1"));
}

TEST(CandidateProcess, knows_what_the_library_says_and_what_its_file_is) {
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  EXPECT_EQ(process.info().path, MXCHECK_TOY);
  EXPECT_EQ(process.info().name, "toy");
  EXPECT_EQ(process.info().digest.size(), 16U);
  EXPECT_FALSE(process.info().cuda);
  ASSERT_NE(process.operation("quantize"), nullptr);
  EXPECT_EQ(process.operation("dequantize"), nullptr);
  const Policy policy = some_problem()->call().policy;
  EXPECT_TRUE(process.supports("quantize", policy, Format::bf16));
  EXPECT_FALSE(process.supports("quantize", policy, Format::fp32));
}

TEST(CandidateProcess, runs_a_call) {
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const std::unique_ptr<Problem> problem = some_problem();
  const Outcome outcome = process.run(problem->call());
  EXPECT_EQ(outcome.kind, OutcomeKind::returned);
  EXPECT_EQ(outcome.status, MXCHECK_OK) << outcome.message;
  EXPECT_EQ(outcome.outputs.at(0), problem->answer().at(0).bytes);
}

// The calls of a burst that were looked at, with what is wrong with each.
struct Burst {
  Outcome all;
  std::vector<std::uint32_t> numbers;
  std::vector<Outcome> outcomes;
};
Burst burst(const char* mode, std::uint32_t calls) {
  const test::Toy toy(mode);
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const std::unique_ptr<Problem> problem = some_problem();
  const std::vector<ExpectedTensor> answer = problem->answer();
  Burst b;
  b.all = process.run_burst(problem->call(), calls, {answer.at(0).bytes, answer.at(1).bytes},
                            [&](std::uint32_t number, Outcome&& outcome) {
                              b.numbers.push_back(number), b.outcomes.push_back(std::move(outcome));
                            });
  return b;
}

TEST(CandidateProcess, a_burst_shows_the_calls_that_are_not_as_expected_and_no_others) {
  const Burst right = burst("", 64);
  EXPECT_EQ(right.all.kind, OutcomeKind::returned);
  EXPECT_TRUE(right.numbers.empty());
  const Burst wrong = burst("forgetful", 20);
  EXPECT_EQ(wrong.numbers, (std::vector<std::uint32_t>{6, 13}));
  EXPECT_NE(wrong.outcomes.at(0).outputs.at(0), some_problem()->answer().at(0).bytes);
  EXPECT_EQ(wrong.outcomes.at(0).outputs.at(1), some_problem()->answer().at(1).bytes);
  const Burst past = burst("writes_past", 2);
  ASSERT_EQ(past.numbers.size(), 2U);
  EXPECT_EQ(past.outcomes.at(1).out_of_bounds, "before output 1");
  const Burst refused = burst("multiples", 3);
  ASSERT_EQ(refused.numbers.size(), 3U);
  EXPECT_EQ(refused.outcomes.at(2).status, MXCHECK_INVALID);
  EXPECT_EQ(refused.outcomes.at(2).message, "not a multiple");
  EXPECT_TRUE(refused.outcomes.at(2).outputs_untouched);
  const Burst workspace = burst("past_its_workspace", 2);
  ASSERT_EQ(workspace.numbers.size(), 2U);
  EXPECT_EQ(workspace.outcomes.at(0).out_of_bounds, "past its workspace");
}

TEST(CandidateProcess, a_burst_that_crashes_is_an_outcome_of_all_its_calls) {
  const Burst crash = burst("crashes_once", 9);
  EXPECT_EQ(crash.all.kind, OutcomeKind::crashed);
  EXPECT_EQ(crash.all.signal, SIGABRT);
  EXPECT_TRUE(crash.numbers.empty());
  EXPECT_THROW((void)burst("", 0), Error);
  EXPECT_THROW((void)burst("", 65), Error);
}

TEST(CandidateProcess, a_crash_is_an_outcome_and_the_next_call_has_a_fresh_process) {
  const test::Toy toy("crashes_once");  // at its fifth call
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const std::unique_ptr<Problem> problem = some_problem();
  for (int call = 1; call <= 9; ++call) {
    const Outcome outcome = process.run(problem->call());
    EXPECT_EQ(outcome.kind, call == 5 ? OutcomeKind::crashed : OutcomeKind::returned) << call;
    EXPECT_EQ(outcome.signal, call == 5 ? SIGABRT : 0) << call;
  }
}

TEST(CandidateProcess, restart_forgets_the_calls_before) {
  const test::Toy toy("crashes_once");
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const std::unique_ptr<Problem> problem = some_problem();
  for (int call = 1; call <= 12; ++call) {
    if (call % 4 == 0) process.restart();
    EXPECT_EQ(process.run(problem->call()).kind, OutcomeKind::returned) << call;
  }
}

TEST(CandidateProcess, a_hang_is_an_outcome_unless_the_user_interrupts_it) {
  const test::Toy toy("hangs");
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::milliseconds(300));
  const std::unique_ptr<Problem> problem = some_problem();
  EXPECT_EQ(process.run(problem->call()).kind, OutcomeKind::timed_out);
  const std::atomic<bool> interrupted = true;
  process.watch(&interrupted);
  EXPECT_THROW((void)process.run(problem->call()), Interrupted);
}

}  // namespace
}  // namespace mxcheck

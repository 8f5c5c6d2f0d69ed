#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/candidate.h"
#include "properties/core/check.h"
#include "properties/core/policy.h"
#include "properties/process/candidate_process.h"
#include "properties/process/first_calls.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

std::unique_ptr<Problem> nine_rows() {
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
  const Policy policy = nine_rows()->call().policy;
  EXPECT_EQ(process.supports("quantize", {{policy, Format::bf16}, {policy, Format::fp32}}),
            (std::vector<bool>{true, false}));
  EXPECT_EQ(process.supports("dequantize", {{policy, Format::bf16}}), std::vector<bool>{false});
}

// More than go with one exchange.
TEST(CandidateProcess, answers_as_many_questions_as_it_is_asked) {
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const Policy policy = nine_rows()->call().policy;
  std::vector<Question> questions;
  std::vector<bool> expected;
  for (int i = 0; i < 777; ++i) {
    expected.push_back(i % 5 < 2);
    questions.push_back({policy, expected.back() ? Format::bf16 : Format::fp32});
  }
  EXPECT_EQ(process.supports("quantize", questions), expected);
  EXPECT_EQ(process.supports("quantize", {}), std::vector<bool>{});
}

TEST(CandidateProcess, runs_a_call) {
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const std::unique_ptr<Problem> problem = nine_rows();
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
  const std::unique_ptr<Problem> problem = nine_rows();
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
  EXPECT_NE(wrong.outcomes.at(0).outputs.at(0), nine_rows()->answer().at(0).bytes);
  EXPECT_EQ(wrong.outcomes.at(0).outputs.at(1), nine_rows()->answer().at(1).bytes);
  const Burst past = burst("writes_past", 2);
  ASSERT_EQ(past.numbers.size(), 2U);
  EXPECT_EQ(past.outcomes.at(1).out_of_bounds, "past the end of output 0");
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
  const std::unique_ptr<Problem> problem = nine_rows();
  for (int call = 1; call <= 9; ++call) {
    const Outcome outcome = process.run(problem->call());
    EXPECT_EQ(outcome.kind, call == 5 ? OutcomeKind::crashed : OutcomeKind::returned) << call;
    EXPECT_EQ(outcome.signal, call == 5 ? SIGABRT : 0) << call;
  }
}

TEST(CandidateProcess, restart_forgets_the_calls_before) {
  const test::Toy toy("crashes_once");
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const std::unique_ptr<Problem> problem = nine_rows();
  for (int call = 1; call <= 12; ++call) {
    if (call % 4 == 0) process.restart();
    EXPECT_EQ(process.run(problem->call()).kind, OutcomeKind::returned) << call;
  }
}

TEST(CandidateProcess, a_hang_is_an_outcome_unless_the_user_interrupts_it) {
  const test::Toy toy("hangs");
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::milliseconds(300));
  const std::unique_ptr<Problem> problem = nine_rows();
  EXPECT_EQ(process.run(problem->call()).kind, OutcomeKind::timed_out);
  const std::atomic<bool> interrupted = true;
  process.watch(&interrupted);
  EXPECT_THROW((void)process.run(problem->call()), Interrupted);
}

wire::Message call_of(std::int64_t rows, std::int64_t cols, const char* recipe = "te", std::uint64_t offset = 4096) {
  mxcheck_policy policy{};
  policy.format = "e4m3", policy.recipe = recipe;
  policy.block_rows = 1, policy.block_cols = 32, policy.rows = rows, policy.cols = cols;
  wire::Message message;
  message.policy = pack(policy);
  message.num_inputs = 1, message.num_outputs = 1;
  for (int i = 0; i < 2; ++i) {
    wire::Tensor& t = message.tensors[i];
    t.ndim = 2, t.shape[0] = rows, t.shape[1] = cols, t.offset = offset;
    t.dtype_code = i == 0 ? kDLBfloat : kDLUInt, t.dtype_bits = i == 0 ? 16 : 8;
  }
  return message;
}

TEST(FirstCalls, are_those_of_another_class_of_shapes) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
  EXPECT_FALSE(calls.is_first("quantize", call_of(3, 65), false));
  EXPECT_FALSE(calls.is_first("quantize", call_of(5, 99), false));
  for (const auto& [rows, cols] : {std::pair{3, 64}, {1, 65}, {0, 65}, {16, 65}, {3, 1}})
    EXPECT_TRUE(calls.is_first("quantize", call_of(rows, cols), false)) << rows << " x " << cols;
}

TEST(FirstCalls, are_those_of_another_policy_operation_type_or_alignment) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65, "rceil"), false));
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65, "te", 4098), false));
  EXPECT_TRUE(calls.is_first("cast", call_of(3, 65), false));
  wire::Message other = call_of(3, 65);
  other.tensors[0].dtype_code = kDLFloat, other.tensors[0].dtype_bits = 32;
  EXPECT_TRUE(calls.is_first("quantize", other, false));
}

TEST(FirstCalls, are_those_of_each_shape_where_shapes_are_static) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), true));
  EXPECT_TRUE(calls.is_first("quantize", call_of(5, 99), true));
  EXPECT_FALSE(calls.is_first("quantize", call_of(5, 99), true));
}

TEST(FirstCalls, begin_again_in_a_fresh_process) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
  calls.forget();
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
}

TEST(FirstCalls, are_counted_with_the_longest_by_name) {
  FirstCalls calls;
  (void)calls.is_first("quantize", call_of(3, 65), false);
  calls.took(std::chrono::milliseconds(500));
  (void)calls.is_first("quantize", call_of(16, 64), false);
  calls.took(std::chrono::milliseconds(1500));
  FirstCallCount sum;
  sum.add(0.25, "of another process");
  sum.add(calls.count());
  EXPECT_EQ(sum.calls, 3);
  EXPECT_DOUBLE_EQ(sum.seconds, 2.25);
  EXPECT_DOUBLE_EQ(sum.longest, 1.5);
  EXPECT_EQ(sum.longest_kind, "quantize e4m3 te 1x32, bf16 16 x 64");
}

}  // namespace
}  // namespace mxcheck

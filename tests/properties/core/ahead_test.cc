#include "properties/core/ahead.h"

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "properties/core/check.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

std::vector<Case> some_cases(int count) {
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i)
    cases.push_back(parse_case("op=quantize block=1x32 rows=" + std::to_string(1 + i % 7) +
                               " cols=" + std::to_string(31 + i) + " data=normal seed=" + std::to_string(i)));
  return cases;
}

TEST(AnswersAhead, are_those_that_are_computed_in_turn) {
  const std::vector<Case> cases = some_cases(60);
  for (const int threads : {1, 3, 8}) {
    AnswersAhead ahead(cases, threads);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (i % 5 == 2) continue;  // passed over: a case that was not asked for
      ahead.go_to(i);
      const std::unique_ptr<Posed> posed = ahead.take(cases[i]);
      ASSERT_TRUE(posed) << i;
      const Posed now = pose(cases[i]);
      EXPECT_EQ(posed->problem->c, cases[i]);
      ASSERT_EQ(posed->answer.size(), now.answer.size());
      for (std::size_t n = 0; n < now.answer.size(); ++n) EXPECT_EQ(posed->answer[n].bytes, now.answer[n].bytes);
    }
  }
}

TEST(AnswersAhead, are_of_the_case_that_is_next_and_given_once) {
  const std::vector<Case> cases = some_cases(3);
  AnswersAhead ahead(cases, 2);
  EXPECT_FALSE(ahead.take(cases[1]));
  ahead.go_to(1);
  EXPECT_FALSE(ahead.take(cases[0]));
  EXPECT_TRUE(ahead.take(cases[1]));
  EXPECT_FALSE(ahead.take(cases[1]));
  ahead.go_to(3);
  EXPECT_FALSE(ahead.take(cases[2]));
}

TEST(AnswersAhead, end_with_cases_that_nobody_took) {
  for (int i = 0; i < 20; ++i) {
    AnswersAhead ahead(some_cases(30), 4);
    ahead.go_to(static_cast<std::size_t>(i));
  }
}

TEST(AnswersAhead, throw_where_the_answer_is_taken) {
  std::vector<Case> cases = some_cases(2);
  cases[1].variant.operation = "no operation";
  AnswersAhead ahead(cases, 2);
  EXPECT_TRUE(ahead.take(cases[0]));
  ahead.go_to(1);
  EXPECT_THROW(ahead.take(cases[1]), Error);
}

TEST(OneThreadEach, is_of_its_own_thread_and_ends_with_its_scope) {
  const std::int64_t machine = thread_count(0);
  {
    const OneThreadEach one;
    EXPECT_EQ(thread_count(0), 1);
    EXPECT_EQ(thread_count(3), 3);
    std::int64_t other = 0;
    std::thread([&] { other = thread_count(0); }).join();
    EXPECT_EQ(other, machine);
  }
  EXPECT_EQ(thread_count(0), machine);
}

}  // namespace
}  // namespace mxcheck

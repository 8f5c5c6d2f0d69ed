#include "tools/gate/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "properties/gate/gate.h"

namespace mxcheck {
namespace {

std::vector<const Statement*> named(const std::vector<std::string>& names) {
  std::vector<const Statement*> all;
  for (const std::string& name : names) all.push_back(statements_named(name).front());
  return all;
}

TEST(Workload, has_figures_of_statements_that_there_are) {
  for (const UsualWork& usual : usual_works()) {
    EXPECT_EQ(statements_named(std::string(usual.statement)).size(), 1U) << usual.statement;
    for (const UsualWork::Amount& amount : {usual.quick, usual.full}) {
      EXPECT_GT(amount.seconds, 0) << usual.statement;
      EXPECT_GE(amount.cases, 1) << usual.statement;
    }
  }
}

TEST(Workload, counts_statements_by_the_time_they_take_and_their_cases) {
  const auto statements = named({"route_round_equals_the_reference", "permuting_blocks_permutes_results"});
  Workload work(statements, {});
  EXPECT_EQ(work.share(), 0);
  work.end(*statements[1]);  // 0.2 s of 10.2 s
  EXPECT_NEAR(work.share(), 0.2 / 10.2, 1e-9);
  for (int i = 0; i < 15325 / 2; ++i) work.count(*statements[0]);
  EXPECT_NEAR(work.share(), 5.2 / 10.2, 1e-3);
  for (int i = 0; i < 20000; ++i) work.count(*statements[0]);
  EXPECT_NEAR(work.share(), 1, 1e-9) << "more cases than were expected";
  work.end(*statements[0]);
  work.end(*statements[0]);
  EXPECT_NEAR(work.share(), 1, 1e-9);
}

TEST(Workload, follows_the_number_of_cases_that_is_asked_for) {
  const auto statements = named({"route_round_equals_the_reference", "permuting_blocks_permutes_results"});
  Workload work(statements, {.suite = Suite::quick, .cases = 100});
  for (int i = 0; i < 100; ++i) work.count(*statements[0]);
  const double of_first = 10 / 15325.0, of_second = 0.2 / 430;
  EXPECT_NEAR(work.share(), of_first / (of_first + of_second), 1e-6);
}

TEST(Workload, of_the_full_suite_has_figures_of_its_own) {
  const auto statements = named({"the_thread_count_changes_nothing", "route_equals_the_reference"});
  Workload quick(statements, {}), full(statements, {.suite = Suite::full});
  quick.end(*statements[0]), full.end(*statements[0]);
  EXPECT_NEAR(quick.share(), 1.3 / 4.1, 1e-9);
  EXPECT_NEAR(full.share(), 145.0 / 157, 1e-9);
}

TEST(Workload, of_nothing_has_no_share_and_ignores_other_statements) {
  Workload nothing;
  nothing.count(all_statements().front());
  nothing.end(all_statements().front());
  EXPECT_EQ(nothing.share(), 0);
}

}  // namespace
}  // namespace mxcheck

#include "tools/gate/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "properties/gate/gate.h"

namespace mxcheck {
namespace {

std::vector<const Statement*> named(const std::vector<std::string>& names) {
  std::vector<const Statement*> all;
  for (const std::string& name : names) all.push_back(statements_named(name).front());
  return all;
}

const UsualWork& usual(std::string_view name) { return *std::ranges::find(usual_works(), name, &UsualWork::statement); }

std::int64_t cost(const UsualWork::Amount& amount, double share) {
  return static_cast<std::int64_t>(1e6 * amount.cost * share);
}

constexpr const char* kLong = "swiglu_backward_equals_the_reference";
constexpr const char* kOther = "swiglu_equals_the_reference";
constexpr const char* kLaw = "permuting_blocks_permutes_results";

TEST(Workload, has_figures_of_statements_that_there_are) {
  for (const UsualWork& usual : usual_works()) {
    EXPECT_EQ(statements_named(std::string(usual.statement)).size(), 1U) << usual.statement;
    for (const UsualWork::Amount& amount : {usual.quick, usual.full}) {
      EXPECT_GT(amount.seconds, 0) << usual.statement;
      EXPECT_GT(amount.cost, 0) << usual.statement;
    }
  }
}

TEST(Workload, a_statement_advances_by_the_cost_of_its_cases) {
  const auto statements = named({kLong});
  const UsualWork::Amount amount = usual(kLong).quick;
  Workload work(statements, {});
  EXPECT_NEAR(work.left(0), amount.seconds, 1e-6);
  EXPECT_EQ(work.share(0), 0);
  work.begin(*statements[0], 0);
  for (int i = 0; i < 1000; ++i) work.count(*statements[0], 1000);  // the small cases that come first
  EXPECT_NEAR(work.left(amount.seconds / amount.cost), amount.seconds * (1 - 1 / amount.cost), 0.1);
  work.count(*statements[0], cost(amount, 0.5) - 1'000'000);
  EXPECT_NEAR(work.left(amount.seconds / 2), amount.seconds / 2, 0.1);
  EXPECT_NEAR(work.share(amount.seconds / 2), 0.5, 0.01);
  work.end(*statements[0], amount.seconds);
  EXPECT_EQ(work.left(amount.seconds), 0);
  EXPECT_EQ(work.share(amount.seconds), 1);
}

TEST(Workload, a_library_that_quantizes_no_mxfp8_has_shorter_statements_about_all_operations) {
  constexpr const char* kThreads = "the_thread_count_changes_nothing";
  const Workload::Run full{.suite = Suite::full};
  const double with = Workload(named({kThreads, "quantize_equals_the_reference"}), full).left(0);
  EXPECT_NEAR(with, usual(kThreads).full.seconds + usual("quantize_equals_the_reference").full.seconds, 1e-6);
  EXPECT_LT(Workload(named({kThreads, kLong}), full).left(0),
            (usual(kThreads).full.seconds + usual(kLong).full.seconds) / 1.4);
}

TEST(Workload, a_slow_machine_needs_longer_for_statements_to_come_too) {
  const auto statements = named({kOther, kLong});
  const double first = usual(kOther).quick.seconds, second = usual(kLong).quick.seconds;
  Workload work(statements, {});
  work.begin(*statements[0], 0);
  work.end(*statements[0], 3 * first);
  const double left = work.left(3 * first);
  EXPECT_GT(left, 2 * second) << "a second of the first may be chance";
  EXPECT_LT(left, 3 * second);
}

TEST(Workload, statements_without_figures_have_a_pace_of_their_own) {
  const auto statements = named({kLaw, kLong});
  Workload work(statements, {});
  const double law = work.left(0) - usual(kLong).quick.seconds;
  EXPECT_GT(law, 0);
  work.begin(*statements[0], 0);
  work.end(*statements[0], 100 * law);
  EXPECT_NEAR(work.left(100 * law), usual(kLong).quick.seconds, 1e-6);
}

TEST(Workload, one_long_statement_leaves_the_other_job_idle) {
  const auto statements = named({kOther, kLaw, kLong});
  const UsualWork::Amount amount = usual(kLong).quick;
  Workload work(statements, {.jobs = 2, .both_ends = true});
  EXPECT_NEAR(work.left(0), amount.seconds, 0.5) << "the long one is taken first, from the end";
  Workload from_front(statements, {.jobs = 2});
  EXPECT_GT(from_front.left(0), amount.seconds) << "and last here";
  work.begin(*statements[2], 0);
  work.begin(*statements[0], 0);
  const double first = usual(kOther).quick.seconds;
  work.end(*statements[0], first);
  work.begin(*statements[1], first);
  work.end(*statements[1], first + 0.1);
  work.count(*statements[2], cost(amount, first / amount.seconds));
  EXPECT_NEAR(work.left(first + 0.1), amount.seconds - first, 0.2);
}

TEST(Workload, a_job_goes_on_from_the_end_that_it_began_at) {
  const auto statements = named({kLaw, kOther, kLong, "the_sign_changes_codes_and_nothing_else"});
  Workload work(statements, {.jobs = 2, .both_ends = true});
  work.begin(*statements[0], 0);
  work.begin(*statements[3], 0);
  work.end(*statements[3], 0.01);  // its job takes kLong, not kOther
  const double left = work.left(0.01);
  EXPECT_NEAR(left, usual(kLong).quick.seconds, 1);
}

TEST(Workload, the_share_never_becomes_smaller) {
  const auto statements = named({kOther, kLong});
  Workload work(statements, {});
  work.begin(*statements[0], 0);
  work.count(*statements[0], cost(usual(kOther).quick, 0.9));
  const double before = work.share(1);
  EXPECT_LE(before, work.share(60)) << "sixty seconds for what takes six: there is much more to come";
  work.count(*statements[0], cost(usual(kOther).quick, 5));
  EXPECT_LT(work.share(60), 1) << "more cases than were expected: it has not ended";
}

TEST(Workload, follows_the_suite_the_number_of_cases_and_the_shards) {
  const auto statements = named({kLong});
  const double quick = Workload(statements, {}).left(0);
  const double full = Workload(statements, {.suite = Suite::full}).left(0);
  EXPECT_NEAR(full, usual(kLong).full.seconds, 1e-6);
  EXPECT_GT(Workload(statements, {.suite = Suite::exhaustive}).left(0), full);
  EXPECT_NEAR(Workload(statements, {.shards = 4}).left(0), quick / 4, 1e-6);
  const double few = Workload(statements, {.cases = 100}).left(0);
  EXPECT_LT(few, quick / 10);
  EXPECT_NEAR(Workload(statements, {.cases = 1000}).left(0), 10 * few, 1e-6);
}

TEST(Workload, of_nothing_has_nothing_left_and_ignores_other_statements) {
  Workload nothing;
  nothing.begin(all_statements().front(), 1);
  nothing.count(all_statements().front(), 1);
  nothing.end(all_statements().front(), 2);
  EXPECT_EQ(nothing.left(2), 0);
}

}  // namespace
}  // namespace mxcheck

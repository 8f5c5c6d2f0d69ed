#include "properties/gate/gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::kQuantize;
using test::result_of;
using test::Toy;
using test::toy_options;

GateReport soak_toy(const char* mode, double minutes, bool fail_fast = true) {
  const Toy toy(mode);
  GateOptions options = toy_options("*", 0);
  options.soak_minutes = minutes, options.fail_fast = fail_fast, options.jobs = 1;
  return run_soak(options, [](const StatementResult&, bool) {});
}

TEST(Soak, bound_is_the_rule_of_three) {
  EXPECT_EQ(rule_of_three(0), 1);
  EXPECT_EQ(rule_of_three(2), 1);
  for (const std::int64_t n : {3, 10, 1000, 1'000'000}) {
    const double exact = 1 - std::pow(0.05, 1.0 / static_cast<double>(n));
    EXPECT_GT(rule_of_three(n), exact) << n;
    EXPECT_LT(rule_of_three(n), 1.6 * exact) << n;
  }
  EXPECT_EQ(rule_of_three(1'000'000), 3e-6);
}

TEST(Soak, of_a_right_library_holds_and_counts_what_it_compared) {
  for (const char* mode : {"", "no_experts", "limits", "multiples"}) {
    const GateReport r = soak_toy(mode, 0.01);
    EXPECT_EQ(exit_code(r), 0) << mode;
    ASSERT_TRUE(r.soak);
    EXPECT_GT(r.soak->calls, 100) << mode;
    EXPECT_EQ(r.soak->failures, 0) << mode;
    EXPECT_EQ(result_of(r, kQuantize).calls, r.soak->calls);
    EXPECT_EQ(result_of(r, kQuantize).variants, 1);
    EXPECT_EQ(result_of(r, kQuantize).options_not_offered > 0, std::string(mode) == "no_experts");
    EXPECT_GT(r.seconds, 0.6);
    EXPECT_EQ(result_of(r, "cast_equals_the_reference").verdict, Verdict::not_offered);
  }
}

// By the number of the calls: a soak of 0.2 minutes that has made too few to meet it fails here.
TEST(Soak, meets_one_wrong_call_in_500_and_a_state_that_goes_wrong) {
  for (const char* mode : {"one_call_in_500_is_wrong", "one_call_in_20000_is_wrong", "wrong_from_call_3000"}) {
    const GateReport r = soak_toy(mode, 0.5);
    EXPECT_EQ(exit_code(r), 1) << mode;
    const std::optional<Counterexample>& e = result_of(r, kQuantize).counterexample;
    ASSERT_TRUE(e) << mode << ": " << r.soak->calls << " calls";
    EXPECT_NE(e->finding.summary.find("codes differ from the reference; "), std::string::npos) << e->finding.summary;
    EXPECT_EQ(e->finding.difference->count, 1);
    EXPECT_GE(r.soak->failures, 1);
    ASSERT_TRUE(e->reproduction);
    EXPECT_FALSE(e->reproduction->reproduced && e->reproduction->after.empty()) << "not of the case alone";
  }
}

TEST(Soak, goes_on_after_a_failure_so_that_their_rate_is_known) {
  const GateReport r = soak_toy("forgetful", 0.01, false);
  EXPECT_GT(r.soak->failures, 3);
  EXPECT_GT(r.soak->calls, 3 * r.soak->failures);
}

TEST(Soak, sees_what_a_call_does_beside_its_outputs) {
  struct Row {
    const char* mode;
    FindingKind kind;
    int code;
  };
  for (const Row& row : {Row{"writes_past", FindingKind::out_of_bounds, 1},
                         {"writes_its_input", FindingKind::out_of_bounds, 1},
                         {"past_its_workspace", FindingKind::out_of_bounds, 1},
                         {"crashes_once", FindingKind::fault, 6},
                         {"exits", FindingKind::fault, 6},
                         {"foreign_text", FindingKind::refused, 1}}) {
    const GateReport r = soak_toy(row.mode, 0.1);
    EXPECT_EQ(exit_code(r), row.code) << row.mode;
    const std::optional<Counterexample>& e = result_of(r, kQuantize).counterexample;
    ASSERT_TRUE(e) << row.mode;
    EXPECT_EQ(e->finding.kind, row.kind) << row.mode;
  }
}

TEST(Soak, of_a_library_that_offers_nothing_is_inconclusive) {
  EXPECT_EQ(exit_code(soak_toy("supports_nothing", 0.001)), 4);
}

TEST(Soak, is_told_what_it_cannot_do) {
  const Toy toy("");
  GateOptions options = toy_options("padding_*");
  options.soak_minutes = 0.001;
  test::expect_error(ErrorKind::usage, "a soak repeats only those",
                     [&] { (void)run_soak(options, [](auto&, bool) {}); });
  options.only = "no_such_*";
  test::expect_error(ErrorKind::usage, "selects no statement", [&] { (void)run_soak(options, [](auto&, bool) {}); });
}

}  // namespace
}  // namespace mxcheck

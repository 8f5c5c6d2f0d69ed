#include "properties/gate/preceding.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::kQuantize;
using test::result_of;
using test::Toy;
using test::toy_options;

constexpr const char* kVariant = "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 ";

Case case_of(int rows, int cols) {
  return parse_case(kVariant + ("rows=" + std::to_string(rows)) + " cols=" + std::to_string(cols) +
                    " data=normal seed=1");
}

TEST(Preceding, text_and_parse_are_inverse) {
  const Statement& of = *find_statement(kQuantize);
  const Statement& other = *find_statement("padding_has_no_influence");
  for (const Preceding& p :
       {Preceding{&of, case_of(3, 40), 1}, {&of, case_of(3, 40), 17}, {&other, case_of(1, 1), 2}}) {
    const Preceding again = parse_preceding(to_text(p, of), of);
    EXPECT_EQ(again.statement, p.statement);
    EXPECT_EQ(again.c, p.c);
    EXPECT_EQ(again.times, p.times);
  }
  EXPECT_EQ(to_text({&other, case_of(1, 1), 2}, of).rfind("2 x padding_has_no_influence: op=quantize ", 0), 0U);
}

TEST(Preceding, what_cannot_be_parsed_is_refused) {
  const Statement& of = *find_statement(kQuantize);
  const std::string one = to_text(case_of(1, 1));
  for (const auto& [text, message] :
       std::vector<std::pair<std::string, std::string>>{{"0 x " + one, "'0 x ...': a number of times from 1 to 10000"},
                                                        {"10001 x " + one, "a number of times"},
                                                        {"99999999999 x " + one, "a number of times"},
                                                        {"no_statement: " + one, "no statement 'no_statement'"},
                                                        {"", "a case without op="},
                                                        {"2 x", "case"}}) {
    test::expect_error(ErrorKind::usage, message, [&, text = text] { (void)parse_preceding(text, of); });
  }
}

TEST(History, keeps_the_last_cases_that_are_not_too_large) {
  const Statement& s = *find_statement(kQuantize);
  History history;
  for (int i = 1; i <= 100; ++i) history.add(s, case_of(i, 1));
  history.add(s, case_of(1 << 20, 1 << 10));
  const std::vector<Preceding> kept = history.kept();
  ASSERT_EQ(kept.size(), History::kMost);
  EXPECT_EQ(kept.front().c.rows, 37);
  EXPECT_EQ(kept.back().c.rows, 100);
}

// The counterexample of the toy in this mode, and what the same toy does with its command.
struct Met {
  Counterexample example;
  int again = 0;  // exit code of the case with what precedes it
  int alone = 0;  // and without
};
Met meet(const char* mode) {
  const Toy toy(mode);
  GateOptions options = toy_options(kQuantize);
  const GateReport r = run_gate(options, [](const StatementResult&, bool) {});
  Met met;
  const std::optional<Counterexample>& found = result_of(r, kQuantize).counterexample;
  if (!found) return met;
  met.example = *found;
  const std::string line = std::string(kQuantize) + ": " + to_text(found->minimal);
  met.alone = exit_code(reproduce(options, line));
  for (const Preceding& p : found->reproduction->after) options.after.push_back(to_text(p, *find_statement(kQuantize)));
  met.again = exit_code(reproduce(options, line));
  return met;
}

TEST(Reproduction, of_a_failure_after_a_refusal_names_the_case_that_was_refused) {
  const Met met = meet("wrong_after_a_refusal,no_experts");
  ASSERT_TRUE(met.example.reproduction && met.example.reproduction->reproduced);
  ASSERT_EQ(met.example.reproduction->after.size(), 1U);
  EXPECT_FALSE(met.example.reproduction->after[0].c.experts.empty());
  EXPECT_EQ(met.alone, 0);
  EXPECT_EQ(met.again, 1);
}

TEST(Reproduction, of_a_failure_from_the_fifth_call_on_repeats_the_case) {
  const Met met = meet("wrong_from_call_5");
  ASSERT_TRUE(met.example.reproduction && met.example.reproduction->reproduced);
  ASSERT_EQ(met.example.reproduction->after.size(), 1U);
  EXPECT_EQ(met.example.reproduction->after[0].c, met.example.minimal);
  EXPECT_EQ(met.example.reproduction->after[0].times, 2);  // a check is two calls
  EXPECT_EQ(met.alone, 0);
  EXPECT_EQ(met.again, 1);
}

TEST(Reproduction, of_a_failure_after_a_wide_call_names_one_wide_case) {
  const Met met = meet("wrong_after_256_columns");
  ASSERT_TRUE(met.example.reproduction && met.example.reproduction->reproduced);
  ASSERT_EQ(met.example.reproduction->after.size(), 1U);
  EXPECT_EQ(met.example.reproduction->after[0].c.cols, 257);  // the smallest
  EXPECT_EQ(met.example.reproduction->after[0].c.rows, 1);
  EXPECT_EQ(met.alone, 0);
  EXPECT_EQ(met.again, 1);
}

TEST(Reproduction, of_a_case_that_fails_by_itself_has_nothing_before_it) {
  const Met met = meet("column_33_is_wrong");
  ASSERT_TRUE(met.example.reproduction);
  EXPECT_TRUE(met.example.reproduction->reproduced);
  EXPECT_TRUE(met.example.reproduction->after.empty());
  EXPECT_EQ(met.alone, 1);
}

// Neither the case nor the last 64 before it are enough: the library counts to 3000.
TEST(Reproduction, that_did_not_succeed_says_how_often_it_was_tried) {
  const Toy toy("wrong_from_call_3000");
  GateOptions options = toy_options(kQuantize, 3000);
  const GateReport r = run_gate(options, [](const StatementResult&, bool) {});
  const std::optional<Counterexample>& e = result_of(r, kQuantize).counterexample;
  ASSERT_TRUE(e && e->reproduction);
  EXPECT_FALSE(e->reproduction->reproduced);
  EXPECT_TRUE(e->reproduction->after.empty());
  EXPECT_EQ(e->reproduction->seen, 0);
  EXPECT_EQ(e->reproduction->of, 64);
}

TEST(Reproduction, refuses_cases_before_it_that_the_candidate_does_not_offer) {
  const Toy toy("");
  GateOptions options = toy_options();
  options.after = {"op=quantize format=e5m2 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 cols=1 data=zeros"};
  test::expect_error(ErrorKind::usage, "does not offer",
                     [&] { (void)reproduce(options, std::string(kQuantize) + ": " + to_text(case_of(1, 1))); });
}

}  // namespace
}  // namespace mxcheck

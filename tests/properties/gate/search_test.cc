#include "properties/gate/search.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "properties/core/operation.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {
namespace {

Case draw(Draw& words) {
  Case c;
  c.variant.operation = "quantize", blocks_of(c.variant).block = {1, 32};
  c.rows = words.between(1, 300), c.cols = words.between(1, 300);
  c.seed = words.word() >> 16, c.data = Data::normal;
  if (words.chance(30)) c.stride = c.cols + 3;
  if (words.chance(50)) c.experts = {0, c.rows / 2, c.rows};
  c.threads = static_cast<int>(words.below(4));
  return c;
}

std::vector<Case> simpler_cases(const Case& c, const Finding& finding) {
  return operation_named(c.variant.operation).simpler(c, finding);
}

// Fails where a kernel that breaks off after 33 columns would.
std::optional<Finding> wrong_past_column_33(const Case& c) {
  if (c.cols <= 33 || c.rows < 5) return std::nullopt;
  Finding f;
  f.summary = "wrong";
  return f;
}

SearchResult run(const CheckCase& check, SearchLimits limits = {}, std::uint64_t seed = 7) {
  return search("a_test", seed, limits, draw, check, simpler_cases);
}

TEST(Search, shrinks_to_the_smallest_case_that_fails) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SearchResult r = run(wrong_past_column_33, {}, seed);
    ASSERT_TRUE(r.minimal);
    EXPECT_EQ(r.minimal->rows, 5) << to_text(*r.minimal);
    EXPECT_EQ(r.minimal->cols, 34) << to_text(*r.minimal);
    EXPECT_TRUE(r.minimal->experts.empty());
    EXPECT_EQ(r.minimal->stride, 0);
    EXPECT_EQ(r.minimal->threads, 0);
    EXPECT_EQ(r.minimal->data, Data::zeros);
    EXPECT_EQ(r.minimal->seed, 1U);
    EXPECT_GT(r.original->elements(), r.minimal->elements());
    EXPECT_FALSE(r.shrink_budget_spent);
    EXPECT_EQ(r.finding->summary, "wrong");
    EXPECT_LE(r.shrink_tries, 200);
  }
}

TEST(Search, a_threshold_far_away_is_found_in_few_tries) {
  const auto large = [](Draw&) { return parse_case("op=quantize block=1x32 rows=539325 cols=32 data=zeros seed=1"); };
  for (const std::int64_t threshold : {2, 32767, 524289, 539324}) {
    int repeated = 0;
    std::set<std::string> seen;
    const CheckCase check = [&](const Case& c) -> std::optional<Finding> {
      repeated += seen.insert(to_text(c)).second ? 0 : 1;
      return c.rows >= threshold ? std::optional<Finding>(Finding{}) : std::nullopt;
    };
    const SearchResult r = search("a_test", 1, {}, large, check, simpler_cases);
    ASSERT_TRUE(r.minimal);
    EXPECT_EQ(r.minimal->rows, threshold);
    EXPECT_EQ(r.minimal->cols, 1);
    EXPECT_LE(r.shrink_tries, 80);
    EXPECT_EQ(repeated, 0);
  }
}

TEST(Search, neighbours_that_lead_back_do_not_keep_it_from_ending) {
  const auto start = [](Draw&) { return parse_case("op=quantize block=1x32 rows=8 cols=8 data=zeros seed=1"); };
  const CheckCase fails = [](const Case&) { return std::optional<Finding>(Finding{}); };
  const SimplerCases round_and_round = [](const Case& c, const Finding&) {
    Case itself = c, other = c;
    other.rows = c.rows == 8 ? 4 : 8;
    return std::vector<Case>{itself, other};
  };
  const SearchResult r = search("a_test", 1, {}, start, fails, round_and_round);
  ASSERT_TRUE(r.minimal);
  EXPECT_EQ(r.minimal->rows, 4);
  EXPECT_EQ(r.shrink_tries, 1);
  EXPECT_FALSE(r.shrink_budget_spent);
}

TEST(Search, a_case_that_cannot_shrink_is_its_own_minimum) {
  const SearchResult r = run([](const Case& c) {
    static std::optional<Case> only;
    if (!only) only = c;
    return c == *only ? std::optional<Finding>(Finding{}) : std::nullopt;
  });
  ASSERT_TRUE(r.minimal);
  EXPECT_EQ(*r.minimal, *r.original);
}

TEST(Search, nothing_is_found_where_nothing_fails_and_every_case_is_counted) {
  int calls = 0;
  const SearchResult r = run([&](const Case&) { return ++calls, std::nullopt; }, {.cases = 123});
  EXPECT_EQ(r.cases, 123);
  EXPECT_EQ(calls, 123);
  EXPECT_FALSE(r.minimal);
  EXPECT_EQ(r.gave_up, "");
}

TEST(Search, says_when_the_budget_was_spent) {
  const SearchResult few = run(wrong_past_column_33, {.shrink_tries = 2});
  EXPECT_TRUE(few.shrink_budget_spent);
  EXPECT_EQ(few.shrink_tries, 2);
  ASSERT_TRUE(few.minimal);
  EXPECT_TRUE(wrong_past_column_33(*few.minimal));
  const SearchResult none = run(wrong_past_column_33, {.shrink_tries = 0});
  EXPECT_FALSE(none.shrink_budget_spent);  // none was asked for
  EXPECT_EQ(*none.minimal, *none.original);
  const SearchResult no_time = run(wrong_past_column_33, {.shrink_time = std::chrono::seconds(0)});
  EXPECT_TRUE(no_time.shrink_budget_spent);
  EXPECT_LT(no_time.shrink_tries, 3);
}

TEST(Search, exceptions_of_the_check_pass_through_and_end_it) {
  int calls = 0;
  EXPECT_THROW(run([&](const Case&) -> std::optional<Finding> {
                 if (++calls == 10) throw std::runtime_error("broken");
                 return std::nullopt;
               }),
               std::runtime_error);
  EXPECT_EQ(calls, 10);
  calls = 0;
  EXPECT_THROW(run([&](const Case& c) -> std::optional<Finding> {  // while shrinking, too
                 if (calls > 0) throw std::runtime_error("broken");
                 std::optional<Finding> f = wrong_past_column_33(c);
                 calls += f ? 1 : 0;
                 return f;
               }),
               std::runtime_error);
}

TEST(Search, the_seed_decides_the_cases) {
  const auto cases_of = [](std::uint64_t seed) {
    std::vector<Case> cases;
    run([&](const Case& c) { return cases.push_back(c), std::nullopt; }, {.cases = 50}, seed);
    return cases;
  };
  EXPECT_EQ(cases_of(3), cases_of(3));
  EXPECT_NE(cases_of(3), cases_of(4));
}

}  // namespace
}  // namespace mxcheck

#include "properties/gate/coverage/covering.h"

#include <gtest/gtest.h>

#include "properties/process/candidate_process.h"
#include "tests/properties/drawn.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

// Three axes of 4, 3 and 5 bins; the last bins of the first two exclude one another.
class SmallDomain final : public Domain {
 public:
  SmallDomain() {
    rows_ = add("rows", extent_bins(std::vector<std::int64_t>{0, 1, 2, 3}, 3));
    cols_ = add("cols", extent_bins(std::vector<std::int64_t>{0, 1, 2}, 2));
    threads_ = add_option("threads", extent_bins(std::vector<std::int64_t>{0, 1, 2, 3, 4}, 4));
  }
  [[nodiscard]] std::int64_t small_work() const override { return 100; }
  [[nodiscard]] std::int64_t most_work(Suite) const override { return 100; }

 protected:
  [[nodiscard]] std::vector<std::int64_t> values_of(const Case& c) const override {
    return {c.rows, c.cols, c.threads};
  }
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return c.elements(); }
  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t, int, Draw& draw) const override {
    Case c;
    c.rows = draw_value(wanted, rows_, draw), c.cols = draw_value(wanted, cols_, draw);
    c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    if (c.rows == 3 && c.cols == 2) return std::nullopt;
    return c;
  }

 private:
  int rows_, cols_, threads_;
};

TEST(Covering, few_cases_meet_every_pair_that_can_be_met) {
  const SmallDomain domain;
  Covering covering("small", domain, true, 100);
  Draw draw(1);
  const std::vector<Case> singles = covering.cases(false, draw);
  EXPECT_GE(singles.size(), 5U);  // the longest axis
  EXPECT_LE(singles.size(), 7U);
  const std::vector<Case> cases = covering.cases(true, draw);
  EXPECT_GE(singles.size() + cases.size(), 20U);  // the two longest axes
  EXPECT_LE(singles.size() + cases.size(), 30U);
  for (const Case& c : singles) covering.count(c, CaseFate::checked);
  for (const Case& c : cases) covering.count(c, CaseFate::checked);
  const CoverageReport r = covering.report();
  EXPECT_TRUE(r.missed.empty());
  EXPECT_EQ(r.pairs.possible, 4 * 3 + 4 * 5 + 3 * 5 - 1);
  EXPECT_EQ(r.pairs.checked, r.pairs.possible);
  EXPECT_EQ(r.pairs.excluded, 1);
}

TEST(Covering, what_no_case_met_is_named) {
  const SmallDomain domain;
  Covering covering("small", domain, true, 100);
  Draw draw(1);
  std::vector<Case> cases = covering.cases(false, draw);
  for (Case& c : covering.cases(true, draw)) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    if (c.threads != 4) covering.count(c, c.rows == 2 ? CaseFate::refused : CaseFate::checked);
  }
  const CoverageReport r = covering.report();
  ASSERT_FALSE(r.missed.empty());
  EXPECT_EQ(r.missed[0], "threads 4");
  EXPECT_GT(r.pairs.refused, 0);
  EXPECT_EQ(r.axes[0].bins[2].checked, 0);
  EXPECT_GT(r.axes[0].bins[2].refused, 0);
}

// A library that refuses one bin: what it offers is met without it.
TEST(Covering, what_was_refused_is_tried_again_alone) {
  const SmallDomain domain;
  Covering covering("small", domain, true, 100);
  Draw draw(1);
  const auto run = [&](const std::vector<Case>& cases) {
    for (const Case& c : cases) covering.count(c, c.threads == 4 ? CaseFate::refused : CaseFate::checked);
  };
  run(covering.cases(false, draw));
  run(covering.again(false, draw));
  const std::vector<Case> pairs = covering.cases(true, draw);
  for (const Case& c : pairs) EXPECT_NE(c.threads, 4);  // it would be refused
  run(pairs);
  run(covering.again(true, draw));
  const CoverageReport r = covering.report();
  EXPECT_TRUE(r.missed.empty());
  EXPECT_EQ(r.axes[2].bins[4].checked, 0);
  EXPECT_EQ(r.pairs.refused, 4 + 3);  // those with it
}

// The design over the domain of quantize: nothing is left out within the library's limits, whatever the seed.
TEST(Covering, of_quantize_meets_everything_for_every_seed) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const Statement& s = test::statement_named("quantize_equals_the_reference");
  const auto domain = operation_named("quantize").domain({s, test::three_variants(), process});
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    Covering covering("quantize", *domain, true, domain->most_work(Suite::quick));
    Draw draw(seed);
    std::int64_t elements = 0;
    for (const bool pairs : {false, true}) {
      for (const Case& c : covering.cases(pairs, draw)) {
        covering.count(c, CaseFate::checked);
        elements += c.elements();
      }
    }
    const CoverageReport r = covering.report();
    EXPECT_TRUE(r.missed.empty()) << r.missed.front();
    EXPECT_GT(r.pairs.possible, 8000);
    EXPECT_LT(r.pairs.excluded, r.pairs.possible / 5);
    EXPECT_LT(elements, 300'000'000);
  }
}

}  // namespace
}  // namespace mxcheck

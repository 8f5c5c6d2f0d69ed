#include "properties/gate/coverage/triple_covering.h"

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

// Four axes of 4, 3, 5 and 2 bins, of which the first three interact; rows of 3 and columns of 2 exclude one another,
// and so do rows of 2, columns of 1 and 4 threads, which no pair says.
class FourAxes final : public Domain {
 public:
  FourAxes() {
    rows_ = add("rows", extent_bins(std::vector<std::int64_t>{0, 1, 2, 3}, 3));
    cols_ = add("cols", extent_bins(std::vector<std::int64_t>{0, 1, 2}, 2));
    threads_ = add_option("threads", extent_bins(std::vector<std::int64_t>{0, 1, 2, 3, 4}, 4));
    gather_ = add_option("index", extent_bins(std::vector<std::int64_t>{0, 1}, 1));
    interact({threads_, rows_, cols_, -1});
  }
  [[nodiscard]] std::int64_t small_work() const override { return 100; }
  [[nodiscard]] std::int64_t most_work(Suite) const override { return 100; }

 protected:
  [[nodiscard]] std::vector<std::int64_t> values_of(const Case& c) const override {
    return {c.rows, c.cols, c.threads, c.gather};
  }
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return c.elements(); }
  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t, int, Draw& draw) const override {
    Case c;
    c.rows = draw_value(wanted, rows_, draw), c.cols = draw_value(wanted, cols_, draw);
    c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    c.gather = is_wanted(wanted, gather_) ? draw_value(wanted, gather_, draw) : draw.between(0, 1);
    if (c.rows == 3 && c.cols == 2) return std::nullopt;
    if (c.rows == 2 && c.cols == 1 && c.threads == 4) return std::nullopt;
    return c;
  }

 private:
  int rows_, cols_, threads_, gather_;
};

struct Designs {
  FourAxes domain;
  Covering covering{"small", domain, true, 100};
  TripleCovering triples{domain, covering};
  Draw draw{1};

  // What refuses says of each case whether it is refused.
  template <class Refuses>
  void run(const std::vector<Case>& cases, Refuses refuses) {
    for (const Case& c : cases) {
      const CaseFate fate = refuses(c) ? CaseFate::refused : CaseFate::checked;
      covering.count(c, fate), triples.count(c, fate);
    }
  }
  CoverageReport report() const {
    CoverageReport r;
    triples.report(r);
    return r;
  }
};

TEST(TripleCovering, every_triple_that_can_be_met_is_and_others_are_excluded) {
  Designs d;
  const auto nothing = [](const Case&) { return false; };
  d.run(d.covering.cases(false, d.draw), nothing);
  d.run(d.covering.cases(true, d.draw), nothing);
  const std::vector<Case> cases = d.triples.cases(d.draw);
  EXPECT_LE(cases.size(), 60U);
  d.run(cases, nothing);
  const CoverageReport r = d.report();
  EXPECT_TRUE(r.missed.empty());
  EXPECT_EQ(r.triples.possible, 4 * 3 * 5 - 5 - 1);  // the axis beside has no part in it
  EXPECT_EQ(r.triples.checked, r.triples.possible);
  EXPECT_EQ(r.triples.excluded, 5 + 1);
}

TEST(TripleCovering, what_no_case_met_is_named) {
  Designs d;
  for (const Case& c : d.triples.cases(d.draw)) {
    if (c.rows != 1 || c.cols != 1 || c.threads != 3) d.triples.count(c, CaseFate::checked);
  }
  const CoverageReport r = d.report();
  ASSERT_EQ(r.missed.size(), 1U);
  EXPECT_EQ(r.missed[0], "rows 1 with cols 1 with threads 3");
}

// A library that refuses an index beside: what it refused with one is tried without.
TEST(TripleCovering, what_was_refused_is_tried_again_without_options) {
  Designs d;
  const auto refuses = [](const Case& c) { return c.gather != 0 || c.threads == 2; };
  d.run(d.covering.cases(false, d.draw), refuses);
  d.run(d.covering.again(false, d.draw), refuses);
  d.run(d.covering.cases(true, d.draw), refuses);
  const std::vector<Case> cases = d.triples.cases(d.draw);
  for (const Case& c : cases) EXPECT_NE(c.threads, 2) << "it is refused throughout";
  d.run(cases, refuses);
  EXPECT_GT(d.report().triples.refused, 11);
  d.run(d.triples.again(d.draw), refuses);
  const CoverageReport r = d.report();
  EXPECT_TRUE(r.missed.empty());
  EXPECT_EQ(r.triples.refused, 4 * 3 - 1);  // those with 2 threads
  EXPECT_EQ(r.triples.checked, r.triples.possible - r.triples.refused);
}

}  // namespace
}  // namespace mxcheck

#include <algorithm>

#include <gtest/gtest.h>

#include "properties/gate/coverage/coverage.h"
#include "properties/gate/coverage/covering.h"
#include "properties/gate/coverage/parts.h"
#include "properties/process/candidate_process.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/drawn.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

// Three axes of 4, 3 and 5 bins; the last bins of the first two exclude one another.
class SmallDomain : public Domain {
 public:
  SmallDomain() {
    const std::int64_t starts[] = {0, 1, 2, 3, 4};
    rows_ = add("rows", extent_bins(std::span(starts).first(4), 3), [](const Case& c) { return c.rows; });
    cols_ = add("cols", extent_bins(std::span(starts).first(3), 2), [](const Case& c) { return c.cols; });
    threads_ = add_option("threads", extent_bins(starts, 4), [](const Case& c) { return c.threads; });
  }
  [[nodiscard]] std::int64_t small_work() const override { return 100; }
  [[nodiscard]] std::int64_t most_work(Suite) const override { return 100; }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return c.elements(); }
  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t, int, Draw& draw) const override {
    Case c;
    c.rows = draw_value(wanted, rows_, draw), c.cols = draw_value(wanted, cols_, draw);
    c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    if (c.rows == 3 && c.cols == 2) return std::nullopt;
    return c;
  }

  int rows_, cols_, threads_;
};

TEST(Covering, few_cases_meet_every_pair_that_can_be_met) {
  const SmallDomain domain;
  Covering covering("small", domain, true, 100, 100);
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
  EXPECT_EQ(r.without_case, std::vector<std::string>{"rows 3 with cols 2"});
}

TEST(Covering, pairs_beyond_the_usual_work_have_a_case_of_their_own) {
  const SmallDomain domain;
  Covering covering("small", domain, true, 2, 100);
  Draw draw(1);
  std::vector<Case> cases = covering.cases(false, draw);
  for (Case& c : covering.cases(true, draw)) cases.push_back(std::move(c));
  for (const Case& c : cases) covering.count(c, CaseFate::checked);
  EXPECT_EQ(covering.report().pairs.excluded, 1);
  // Cases of rows and columns 2 and 2, and 3 and 1.
  EXPECT_EQ(std::ranges::count_if(cases, [](const Case& c) { return c.elements() > 2; }), 2);
}

TEST(Covering, what_no_case_met_is_named) {
  const SmallDomain domain;
  Covering covering("small", domain, true, 100, 100);
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
  Covering covering("small", domain, true, 100, 100);
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
    Covering covering("quantize", *domain, true, domain->usual_work(Suite::quick), domain->most_work(Suite::quick));
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

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{{"f", Format::bf16}, {"f", Format::fp32}, {"f", Format::fp16}};
  return all;
}

// Layers of 5, 7 and again 5 rows, of the last of which one use cannot be; two families of variants.
class ThreeLayers final : public Domain {
 public:
  ThreeLayers() {
    add_of_variant("x", variants(), [](const Variant& v) { return std::string(spec(v.dtype).name); });
    const std::int64_t starts[] = {0, 1};
    threads_ = add_option("threads", extent_bins(starts, 1), [](const Case& c) { return c.threads; });
    for (const char* layer : {"a", "b", "c"}) {
      add_layer_use(layer, "rows");
      add_layer_use(layer, "all");
    }
    set_variants(variants());
  }
  [[nodiscard]] std::int64_t small_work() const override { return 100; }
  [[nodiscard]] std::int64_t most_work(Suite) const override { return 100; }
  [[nodiscard]] std::string family_of(const Variant& v) const override {
    return v.dtype == Format::fp32 ? "wide" : "narrow";
  }
  [[nodiscard]] bool is_of_layer(std::size_t use, const Case& c) const override {
    return c.rows == rows_of(use) && (use % 2 == 0 || c.cols == 8);
  }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return c.elements(); }
  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t, int, Draw& draw) const override {
    Case c;
    c.variant = *draw_variant_in(wanted, draw);
    c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    return c;
  }
  [[nodiscard]] std::optional<Case> at_layer(std::size_t use, Case drawn, std::int64_t, Draw&) const override {
    if (use == 5) return std::nullopt;  // another router than the variants'
    drawn.rows = rows_of(use), drawn.cols = use % 2 == 0 ? 1 : 8;
    return drawn;
  }

 private:
  static std::int64_t rows_of(std::size_t use) { return use / 2 == 1 ? 7 : 5; }
  int threads_;
};

CoverageReport report_of(const LayerCovering& layers) {
  CoverageReport r;
  layers.report(r);
  return r;
}

TEST(LayerCovering, each_use_is_met_and_equal_ones_share_a_case) {
  const ThreeLayers domain;
  LayerCovering layers(domain, variants(), 100, 100);
  Draw draw(1);
  const std::vector<Case> cases = layers.cases(draw);
  EXPECT_EQ(cases.size(), 4U * 2);
  for (const Case& c : cases) layers.count(c, CaseFate::checked);
  const CoverageReport r = report_of(layers);
  EXPECT_TRUE(r.missed.empty());
  EXPECT_EQ(r.layer_uses.checked, 12);  // that of c's that cannot be made is a's, and met
  ASSERT_EQ(r.layers.bins.size(), 3U);
  EXPECT_EQ(r.layers.bins[0].label, "a");
  EXPECT_GT(r.layers.bins[1].checked, 0);
  EXPECT_EQ(r.layers.bins[0].checked, r.layers.bins[2].checked);  // of the same rows
}

TEST(LayerCovering, what_was_not_met_is_named_and_what_was_refused_is_tried_without_options) {
  const ThreeLayers domain;
  LayerCovering layers(domain, variants(), 100, 100);
  Draw draw(1);
  EXPECT_EQ(layers.again(draw).size(), 0U);
  const std::vector<Case> cases = layers.cases(draw);
  EXPECT_FALSE(report_of(layers).missed.empty());
  EXPECT_TRUE(report_of(layers).missed[0].starts_with("layer a, rows with ")) << report_of(layers).missed[0];
  for (const Case& c : cases) layers.count(c, CaseFate::refused);
  EXPECT_TRUE(report_of(layers).missed.empty());
  EXPECT_EQ(report_of(layers).layer_uses.checked, 0);
  for (const Case& c : layers.again(draw)) {
    EXPECT_EQ(c.threads, 0);
    layers.count(c, CaseFate::checked);
  }
  EXPECT_EQ(report_of(layers).layer_uses.refused, 0);
}

// Four axes of 4, 3, 5 and 2 bins, of which the first three interact; rows of 3 and columns of 2 exclude one another,
// and so do rows of 2, columns of 1 and 4 threads, which no pair says.
class FourAxes final : public SmallDomain {
 public:
  FourAxes() {
    const std::int64_t starts[] = {0, 1};
    gather_ = add_option("index", extent_bins(starts, 1), [](const Case& c) { return c.gather; });
    interact({threads_, rows_, cols_, -1});
  }

 protected:
  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t most, int tries,
                                            Draw& draw) const override {
    std::optional<Case> c = SmallDomain::attempt(wanted, most, tries, draw);
    if (!c || (c->rows == 2 && c->cols == 1 && c->threads == 4)) return std::nullopt;
    c->gather = is_wanted(wanted, gather_) ? draw_value(wanted, gather_, draw) : draw.between(0, 1);
    return c;
  }

 private:
  int gather_;
};

struct Designs {
  FourAxes domain;
  Covering covering{"small", domain, true, 100, 100};
  TripleCovering triples{domain, covering};
  Draw draw{1};

  // Counts the cases; `refuses` says of each whether it is refused.
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

using test::expect_error;

TEST(TupleState, states_are_written_and_read) {
  EXPECT_EQ(states_text({}), "");
  EXPECT_EQ(states_text({0, 0, 0, kChecked, kChecked | kPlanned}), "?3CD");
  std::vector<std::uint8_t> all;
  for (int state = 0; state < 64; ++state)
    all.insert(all.end(), static_cast<std::size_t>(1 + state % 12), static_cast<std::uint8_t>(state));
  EXPECT_EQ(states_from(states_text(all)), all);
  EXPECT_EQ(states_from(""), std::vector<std::uint8_t>{});
}

TEST(TupleState, what_is_no_list_of_states_is_refused) {
  for (const char* text : {"3", "?0", "!", "\x7f", "?99999999999999999999", "?16777217", "? 3"})
    expect_error(ErrorKind::input, "the coverage of a domain: ", [&] { (void)states_from(text); });
}

TEST(TupleState, states_of_another_domain_are_not_added) {
  std::vector<std::uint8_t> states{kChecked, 0};
  add_to(states, {kPlanned, kRefused});
  EXPECT_EQ(states, (std::vector<std::uint8_t>{kChecked | kPlanned, kRefused}));
  expect_error(ErrorKind::input, "3 states where this mxcheck has 2", [&] { add_to(states, {0, 0, 0}); });
}

TEST(TupleState, bins_are_added_by_their_labels) {
  AxisCount axis{"rows", {{"0", 1, 2, 3}, {"1", 4, 5, 6}}};
  add_to(axis, {"rows", {{"1", 10, 20, 30}}});
  EXPECT_EQ(axis.bins[0].checked, 1);
  EXPECT_EQ(axis.bins[1].checked, 14);
  EXPECT_EQ(axis.bins[1].refused, 25);
  EXPECT_EQ(axis.bins[1].not_applicable, 36);
  expect_error(ErrorKind::input, "no bin '7' of rows", [&] { add_to(axis, {"rows", {{"7", 1, 0, 0}}}); });
}

}  // namespace
}  // namespace mxcheck

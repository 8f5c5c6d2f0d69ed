// Random cases of routers, how often they are drawn among others, and simpler ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "properties/gate/variants.h"
#include "properties/operations/router/operation.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "tests/properties/operations/router/some_cases.h"

namespace mxcheck {
namespace {

// Stands for a library that offers everything, of any shape.
class Everything final : public CandidateRunner {
 public:
  Everything() {
    for (const char* operation : test::kRouteOperations) info_.operations.push_back({operation, "exact", 0, 0, 1, 1});
  }
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call&) override { return {}; }
  void restart() override {}

 private:
  CandidateInfo info_;
};

// Of each operation in turn.
Case random_case(std::uint64_t seed) {
  static const Everything everything;
  static const Statement kStatement = [] {
    Statement s;
    s.data = {Data::codes, Data::normal, Data::boundaries, Data::slots, Data::specials, Data::bits, Data::zeros};
    return s;
  }();
  static const std::vector<std::unique_ptr<Domain>> kDomains = [] {
    std::vector<std::unique_ptr<Domain>> all;
    for (const char* operation : test::kRouteOperations) {
      static std::map<std::string, std::vector<Variant>> variants;
      all.push_back(route_domain({kStatement, variants[operation] = askable_routes(operation), everything}));
    }
    return all;
  }();
  Draw draw(seed);
  const Domain& domain = *kDomains[seed % kDomains.size()];
  for (;;) {
    if (auto c = domain.make(Bins(domain.axes().size(), kAnyBin), domain.small_work(), draw)) return *c;
  }
}

TEST(SimplerRoutes, survives_the_way_to_text_and_back) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Case c = random_case(seed);
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
  }
}

TEST(SimplerRoutes, thousands_of_variants_do_not_crowd_out_others) {
  Variant quantize{"quantize"};
  blocks_of(quantize).block = {1, 32};
  std::vector<Variant> variants(300, quantize);
  EXPECT_EQ(VariantWeights(variants).total(), 300U);
  variants.insert(variants.end(), test::all_route_variants().begin(), test::all_route_variants().end());
  EXPECT_EQ(VariantWeights(variants).total(), 460U);
  Draw draw(1);
  const VariantWeights weights(variants);
  std::map<std::string, int> drawn;
  for (int i = 0; i < 4600; ++i) ++drawn[weights.draw(draw).operation];
  // Four standard deviations of a share of 4600 draws: n p (1 - p).
  const std::pair<const char*, int> expected[] = {
      {"quantize", 3000}, {"route", 400}, {"route_round", 800}, {"route_metadata", 200}, {"route_backward", 200}};
  for (const auto& [operation, count] : expected) {
    EXPECT_NEAR(drawn[operation], count, 4 * std::sqrt(count * (1 - count / 4600.0))) << operation;
  }
}

TEST(SimplerRoutes, simpler_cases_are_possible_smaller_and_never_the_same) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Case c = random_case(seed);
    Finding finding;
    if (c.rows > 0 && reads_logits(c.variant)) finding.relevant = {{c.rows - 1, c.cols - 1, 0x3F80}};
    for (const Case& n : simpler_routes(c, finding)) {
      ASSERT_NE(n, c);
      ASSERT_NO_THROW(ASSERT_EQ(parse_case(to_text(n)), n) << to_text(n)) << to_text(n);
      ASSERT_LE(n.rows * n.cols * std::max<std::int64_t>(1, route_case(n).top_k),
                c.rows * c.cols * std::max<std::int64_t>(1, route_case(c).top_k) +
                    (route_case(c).top_k == 0 ? c.elements() : 0))
          << to_text(n);
    }
  }
}

TEST(SimplerRoutes, shrinks_to_the_threshold_from_which_a_case_fails) {
  Case c = parse_case(
      "op=route_round variant=sigmoid x=fp32 nan=refuse bias=0 limited=0 rule=up weights=raw rows=400 cols=40 k=6 "
      "tile=64 data=normal seed=99");
  const auto fails = [](const Case& n) {
    return n.rows >= 13 && n.cols >= 7 && route_case(n).top_k >= 2 && route_case(n).tile >= 5;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (const Case& n : simpler_routes(c, {})) {
      if (!fails(n)) continue;
      c = n, moved = true;
      break;
    }
  }
  EXPECT_EQ(c.rows, 13);
  EXPECT_EQ(c.cols, 7);
  EXPECT_EQ(route_case(c).top_k, 2);
  EXPECT_EQ(route_case(c).tile, 5);
  EXPECT_EQ(c.data, Data::zeros);
  EXPECT_EQ(c.seed, 1U);
}

}  // namespace
}  // namespace mxcheck

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "properties/identify/reveal.h"

namespace mxcheck {
namespace {

using Terms = std::vector<float>;
using Sum = std::function<float(const Terms&)>;

// A box whose products are rounded to FP32, then added up as `sum` does.
ProductBox adding(const Sum& sum) {
  return [sum](const ProductCall& call) {
    std::vector<std::uint32_t> d;
    for (std::int64_t i = 0; i < call.m * call.n; ++i) {
      Terms terms;
      for (std::int64_t k = 0; k < call.k; ++k) {
        const double a = decode(call.a_format, call.a[static_cast<std::size_t>(i / call.n * call.k + k)]);
        const double b = decode(call.b_format, call.b[static_cast<std::size_t>(i % call.n * call.k + k)]);
        terms.push_back(static_cast<float>(a * b));
      }
      d.push_back(encode(call.output, sum(terms), Rounding::nearest_even, Overflow::non_saturate));
    }
    return d;
  };
}

float in_tree(const SumTree& t, const Terms& x) {
  if (t.leaf()) return x[static_cast<std::size_t>(t.term)];
  return in_tree(t.children[0], x) + in_tree(t.children[1], x);
}

SumTree random_tree(std::vector<int> terms, Draw& draw) {
  if (terms.size() == 1) return leaf(terms.front());
  std::vector<int> sides[2];
  for (int term : terms) sides[draw.below(2)].push_back(term);
  for (auto& side : sides) {
    if (side.empty()) return random_tree(std::move(terms), draw);
  }
  return node({random_tree(sides[0], draw), random_tree(sides[1], draw)});
}

SumTree odd_even(int n) { return strided(n, 2, false); }

SumTree random_of(int n, std::uint64_t seed) {
  std::vector<int> all;
  for (int i = 0; i < n; ++i) all.push_back(i);
  Draw draw(seed);
  return random_tree(all, draw);
}

// Blocks of 8, each pairwise, their sums descending.
SumTree two_levels(int n) {
  std::optional<SumTree> sum;
  for (int first = n - 8; first >= 0; first -= 8) {
    std::vector<SumTree> fours;
    for (int i = first; i < first + 8; i += 4) {
      fours.push_back(node({node({leaf(i), leaf(i + 1)}), node({leaf(i + 2), leaf(i + 3)})}));
    }
    SumTree block = node(fours);
    sum = sum ? node({*sum, block}) : block;
  }
  return *sum;
}

struct PlantedOrder {
  const char* name;
  SumTree tree;
  std::optional<std::string> shape;
};

TEST(Reveal, twelve_planted_orders_are_recovered_exactly) {
  const int n = 48;
  const PlantedOrder all[] = {{"ascending", ascending(n), "ascending"},
                              {"descending", descending(n), "descending"},
                              {"pairwise", pairwise(n), "pairwise"},
                              {"strided by 4", strided(n, 4, false), "strided by 4, the lanes added ascending"},
                              {"8 lanes", strided(n, 8, true), "strided by 8, the lanes added pairwise"},
                              {"split-k of 3", split(n, 3), "3 parts of 16, each ascending, added ascending"},
                              {"blocks of 4", split(n, 12), "12 parts of 4, each ascending, added ascending"},
                              {"odd and even", odd_even(n), "strided by 2, the lanes added ascending"},
                              {"two levels", two_levels(n), std::nullopt},
                              {"random 1", random_of(n, 1), std::nullopt},
                              {"random 2", random_of(n, 2), std::nullopt},
                              {"random 3", random_of(n, 3), std::nullopt}};
  for (const PlantedOrder& p : all) {
    const ProductBox box = adding([&](const Terms& x) { return in_tree(p.tree, x); });
    const TreeReport r = reveal_order({Format::e4m3, Format::e4m3, Format::fp32, n}, box);
    ASSERT_TRUE(r.tree) << p.name << ": " << r.why_not;
    EXPECT_EQ(*r.tree, p.tree) << p.name << ": " << r.tree->text();
    EXPECT_EQ(r.shape, p.shape) << p.name;
    EXPECT_EQ(r.masks, n * (n - 1) / 2);
    ASSERT_FALSE(r.arithmetic.empty()) << p.name;
    EXPECT_EQ(r.arithmetic.front(), "FP32, products rounded first") << p.name;
    EXPECT_FALSE(r.keeps_more);
  }
}

TEST(Reveal, blocks_of_sixteen_with_fused_multiply_adds_are_told_from_rounded_products) {
  const ProductBox box = [](const ProductCall& call) {
    std::vector<std::uint32_t> d;
    for (std::int64_t i = 0; i < call.m * call.n; ++i) {
      float sum = 0;
      for (std::int64_t first = 0; first < call.k; first += 16) {
        float block = 0;
        for (std::int64_t k = first; k < first + 16; ++k) {
          block = std::fma(
              static_cast<float>(decode(call.a_format, call.a[static_cast<std::size_t>(i / call.n * call.k + k)])),
              static_cast<float>(decode(call.b_format, call.b[static_cast<std::size_t>(i % call.n * call.k + k)])),
              block);
        }
        sum += block;
      }
      d.push_back(encode(call.output, sum, Rounding::nearest_even, Overflow::non_saturate));
    }
    return d;
  };
  // FP32 operands: products of narrower ones are exact in FP32, and the two are the same.
  const TreeReport r = reveal_order({Format::fp32, Format::fp32, Format::fp32, 48}, box);
  ASSERT_TRUE(r.tree) << r.why_not;
  EXPECT_EQ(*r.tree, split(48, 3));
  EXPECT_EQ(r.arithmetic, std::vector<std::string>{"FP32 fused multiply-adds"}) << r.closest << r.closest_equal;
}

TEST(Reveal, an_fp16_accumulator_is_named) {
  const ProductBox box = adding([](const Terms& x) {
    double sum = 0;
    for (float term : x) {
      const auto rounded = [](double v) {
        return decode(Format::fp16, encode(Format::fp16, v, Rounding::nearest_even, Overflow::non_saturate));
      };
      sum = rounded(sum + rounded(term));
    }
    return static_cast<float>(sum);
  });
  const TreeReport r = reveal_order({Format::e4m3, Format::e4m3, Format::fp32, 32}, box);
  ASSERT_TRUE(r.tree) << r.why_not;
  EXPECT_EQ(*r.tree, ascending(32));
  ASSERT_FALSE(r.arithmetic.empty());
  EXPECT_EQ(r.arithmetic.front(), "FP16, products rounded first");
}

TEST(Reveal, a_compensated_sum_is_no_plain_sum_of_its_tree) {
  const ProductBox box = adding([](const Terms& x) {
    float sum = 0;
    float lost = 0;
    for (float term : x) {  // Kahan
      const float y = term - lost;
      const float t = sum + y;
      lost = (t - sum) - y;
      sum = t;
    }
    return sum;
  });
  const TreeReport r = reveal_order({Format::bf16, Format::bf16, Format::fp32, 64}, box);
  EXPECT_TRUE(r.arithmetic.empty());
  EXPECT_TRUE(r.keeps_more) << (r.tree ? r.tree->text() : r.why_not);
}

TEST(Reveal, an_order_that_depends_on_the_values_is_no_tree_or_no_sum_of_it) {
  const ProductBox box = adding([](Terms x) {
    std::ranges::sort(x);
    float sum = 0;
    for (float term : x) sum += term;
    return sum;
  });
  const TreeReport r = reveal_order({Format::bf16, Format::bf16, Format::fp32, 16}, box);
  EXPECT_TRUE(!r.tree || r.arithmetic.empty());
}

TEST(Reveal, pairs_that_are_checked_show_a_tree_that_holds_for_others_alone) {
  const ProductBox box = adding([](Terms x) {
    if (std::abs(x[7]) > 1e6F && std::abs(x[9]) > 1e6F) std::ranges::reverse(x);
    float sum = 0;
    for (float term : x) sum += term;
    return sum;
  });
  const ProductSpace space{Format::bf16, Format::bf16, Format::fp32, 16};
  EXPECT_EQ(reveal_order(space, box, 0).why_not, "");
  const TreeReport r = reveal_order(space, box, 1000);
  EXPECT_FALSE(r.tree);
  EXPECT_NE(r.why_not.find("by the other pairs above"), std::string::npos) << r.why_not;
}

TEST(Reveal, an_exact_sum_and_formats_without_room_say_why_there_is_no_tree) {
  const ProductBox exact = adding([](const Terms& x) {
    double sum = 0;  // of masks 2^34 apart: 53 bits hold them all
    for (float term : x) sum += term;
    return static_cast<float>(sum);
  });
  const TreeReport r = reveal_order({Format::e4m3, Format::e4m3, Format::fp32, 16}, exact);
  EXPECT_FALSE(r.tree);
  EXPECT_EQ(r.why_not, "no mask loses a unit: the sum is exact, or wider than the masks reach");
  EXPECT_EQ(reveal_order({Format::e4m3, Format::e4m3, Format::fp32, 16}, exact, 5).why_not, r.why_not);
  const TreeReport narrow = reveal_order({Format::e2m1, Format::e2m1, Format::fp32, 16}, exact);
  EXPECT_FALSE(narrow.tree);
  EXPECT_NE(narrow.why_not.find("no room"), std::string::npos);
}

// Scripts and the Python package read this report: members are added, none is renamed.
TEST(ReportJson, of_a_match_has_these_members) {
  Match match;
  match.declared = "sm90_fp8";
  match.closest = {{"sm90_fp8", 63, {"d.npy", "D", 1, 2, Format::fp32, 0x3f800000, 0x3f800001}, {"e"}}};
  match.not_declared = match.closest.front();
  match.compared = 64, match.probes = 1, match.tried = 72;
  const std::string difference =
      R"({"name":"sm90_fp8","equal":63,"first":{"probe":"d.npy","part":"D","row":1,"column":2,)"
      R"("expected":"0x3f800000","observed":"0x3f800001",)"
      R"("expected_text":"0x3f800000 = 0.01111111.00000000000000000000000 = 0x1p+0 = 1",)"
      R"("observed_text":"0x3f800001 = 0.01111111.00000000000000000000001 = 0x1.000002p+0 = 1.00000012"},"probes":["e"]})";
  EXPECT_EQ(
      to_text(to_json(match, std::nullopt), {-1}),
      R"({"explained":false,"explaining":[],"also":[],"slips":[],"remarks":[],"declared":{"name":"sm90_fp8","holds":false,"difference":)" +
          difference + R"(},"closest":[)" + difference + R"(],"compared":64,"probes":1,"tried":72,"order":null})");
  match.closest.front().first = {"e", "experts", 0, 0, std::nullopt, 3, 0xFFFFFFFF};
  EXPECT_NE(to_text(to_json(match), {-1}).find(R"("expected":"3","observed":"-1")"), std::string::npos);
}

TEST(ReportJson, of_an_order_has_these_members) {
  TreeReport order;
  order.tree = pairwise(4), order.shape = "pairwise", order.arithmetic = {"FP32, products rounded first"};
  order.closest = order.arithmetic.front(), order.closest_equal = order.compared = 288, order.masks = 6;
  EXPECT_EQ(
      to_text(to_json(order), {-1}),
      R"-({"tree":"((0 1) (2 3))","why_not":"","shape":"pairwise","arithmetic":["FP32, products rounded first"],)-"
      R"("closest":"FP32, products rounded first","closest_equal":288,"compared":288,"keeps_more":false,"masks":6})");
  EXPECT_NE(to_text(to_json(TreeReport{}), {-1}).find(R"("tree":null)"), std::string::npos);
}

}  // namespace
}  // namespace mxcheck

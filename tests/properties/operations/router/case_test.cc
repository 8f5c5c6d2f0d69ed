// Descriptors of routers: the way to text and back, what is refused, what they are counted for, and smaller ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "properties/gate/variants.h"
#include "properties/operations/router/problem.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

constexpr const char* kExample =
    "op=route_round variant=softmax-topk x=bf16 nan=last bias=1 limited=1 rule=sr-f weights=raw rows=300 cols=16 k=4 "
    "groups=8 kept=2 tile=32 scale=2.5 step=4294967299 layer=1 stride=20 data=slots seed=7 plant=0,3:7f80 threads=2";

constexpr const char* kOperations[] = {"route", "route_round", "route_metadata", "route_backward"};

// Stands for a library that offers everything, of any shape.
class Everything final : public CandidateRunner {
 public:
  Everything() {
    for (const char* operation : kOperations) info_.operations.push_back({operation, "exact", 0, 0, 1, 1});
  }
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call&) override { return {}; }
  void restart() override {}

 private:
  CandidateInfo info_;
};

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> variants;
    for (const char* operation : kOperations) {
      for (Variant& v : askable_routes(operation)) variants.push_back(std::move(v));
    }
    return variants;
  }();
  return all;
}

Case random_case(std::uint64_t seed, std::span<const Variant> variants) {
  static const Everything everything;
  Statement s;
  s.data = {Data::codes, Data::normal, Data::boundaries, Data::slots, Data::specials, Data::bits, Data::zeros};
  Draw draw(seed);
  return draw_case(s, variants, everything, draw);
}

TEST(RouteCase, reads_an_example_with_every_field) {
  const Case c = parse_case(kExample);
  EXPECT_EQ(c.variant.operation, "route_round");
  EXPECT_EQ(c.variant.recipe, "softmax-topk");
  EXPECT_TRUE(c.variant.nan_last && c.variant.bias && c.variant.limited && !c.variant.renormalize);
  EXPECT_EQ(c.variant.rule, "sr-f");
  EXPECT_EQ(c.top_k, 4);
  EXPECT_EQ(c.groups, 8);
  EXPECT_EQ(c.groups_kept, 2);
  EXPECT_EQ(c.tile, 32);
  EXPECT_EQ(c.scale, 2.5F);
  EXPECT_EQ(c.step, 4294967299U);
  EXPECT_EQ(c.layer, 1U);
  EXPECT_EQ(to_text(c), kExample);
  const Case ragged = parse_case("op=route_metadata rows=5 cols=3 k=0 tile=8 drops=10 data=codes seed=1");
  EXPECT_EQ(ragged.top_k, 0);
  EXPECT_EQ(ragged.drops, 10);
}

TEST(RouteCase, survives_the_way_to_text_and_back) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Case c = random_case(seed, all_variants());
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
  }
  for (const Variant& v : all_variants()) ASSERT_EQ(parse_variant(to_text(v)), v) << to_text(v);
}

TEST(RouteCase, variants_are_all_different_and_all_asked_for) {
  std::set<std::string> texts;
  for (const Variant& v : all_variants()) texts.insert(to_text(v));
  EXPECT_EQ(texts.size(), all_variants().size());
  EXPECT_EQ(askable_routes("route").size(), 9U * 2 * 2 * 4);
  EXPECT_EQ(askable_routes("route_round").size(), 9U * 2 * 2 * 4 * (2 * 10 + 1));
  EXPECT_EQ(askable_routes("route_metadata").size(), 1U);
  EXPECT_EQ(askable_routes("route_backward").size(), 9U * 2 * 2);
}

TEST(RouteCase, refuses_what_no_call_can_pose) {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"op=route variant=best rows=1 cols=1 k=1", "best"},
      {"op=route rows=1 cols=1 k=1", "variant is missing"},
      {"op=route variant=sigmoid x=fp16 rows=1 cols=1 k=1", "fp32 or bf16"},
      {"op=route variant=sigmoid nan=first rows=1 cols=1 k=1", "case field nan=first is not refuse or last"},
      {"op=route variant=sigmoid bias=2 rows=1 cols=1 k=1", "case field bias=2 is not 0 or 1"},
      {"op=route variant=sigmoid rows=1 cols=4", "k is 1 to the number of experts"},
      {"op=route variant=sigmoid rows=1 cols=4 k=5", "k is 1 to the number of experts"},
      {"op=route variant=sigmoid rows=1 cols=4 k=-1", "k is 1 to the number of experts"},
      {"op=route variant=sigmoid rows=1 cols=4 k=2 groups=2 kept=1", "groups and kept go with limited=1"},
      {"op=route variant=sigmoid limited=1 rows=1 cols=4 k=2", "groups and kept go with limited=1"},
      {"op=route variant=sigmoid limited=1 rows=1 cols=4 k=2 groups=3 kept=1", "groups divide the experts"},
      {"op=route variant=sigmoid limited=1 rows=1 cols=4 k=3 groups=2 kept=1", "those kept hold k of them"},
      {"op=route variant=sigmoid rule=up rows=1 cols=4 k=1", "rule goes with route_round"},
      {"op=route variant=sigmoid scale=inf rows=1 cols=4 k=1", "scale is a number"},
      {"op=route variant=sigmoid experts=0,1 rows=1 cols=4 k=1", "no expert offsets"},
      {"op=route variant=sigmoid gather=2 rows=1 cols=4 k=1", "no gathered rows"},
      {"op=route variant=sigmoid rows=1073741824 cols=2 k=2", "more rows than int32"},
      {"op=route_round variant=sigmoid rows=1 cols=4 k=1", "rule goes with route_round"},
      {"op=route_round variant=sigmoid rule=nearest rows=1 cols=4 k=1", "nearest"},
      {"op=route_round variant=sigmoid rule=up weights=all rows=1 cols=4 k=1", "is not raw or renorm"},
      {"op=route_round variant=sigmoid rule=up tile=0 rows=1 cols=4 k=1", "tile is at least 1"},
      {"op=route_round variant=sigmoid rule=up tile=2097152 rows=1 cols=4 k=1", "at most 2^20"},
      {"op=route_round variant=sigmoid rule=up capacity=-1 rows=1 cols=4 k=1", "capacity at least 0"},
      {"op=route_metadata rows=1 cols=0 k=1", "there is an expert"},
      {"op=route_metadata rows=1 cols=1 k=-1", "k is 0 or more"},
      {"op=route_metadata rows=1 cols=1 k=1 drops=101", "drops a percentage"},
      {"op=route_metadata rows=1 cols=1 k=1 plant=0,0:0", "neither plants nor a stride"},
      {"op=route_metadata rows=1073741824 cols=1 k=2", "more slots or rows than int32"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    test::expect_error(ErrorKind::usage, row.message, [&] { (void)parse_case(row.text); });
  }
}

TEST(RouteCase, is_counted_for_what_it_exercises) {
  const std::vector<std::string> all = classes_of(parse_case(kExample));
  for (const char* name : {"route_round", "x bf16", "variant softmax-topk", "nan last", "bias", "group-limited",
                           "rule sr-f", "weights raw", "data slots", "row stride", "scale", "shape with a cut tile"}) {
    EXPECT_EQ(std::count(all.begin(), all.end(), name), 1) << name;
  }
  const std::vector<std::string> other = classes_of(parse_case("op=route_metadata rows=0 cols=1 k=0 drops=5"));
  for (const char* name : {"route_metadata", "shape empty", "shape ragged tokens", "dropped routes"})
    EXPECT_EQ(std::count(other.begin(), other.end(), name), 1) << name;
}

TEST(RouteCase, thousands_of_variants_do_not_crowd_out_others) {
  std::vector<Variant> variants(300, {"quantize", Format::e4m3, "rceil", {1, 32}, 0, Format::bf16});
  EXPECT_EQ(weight_of(variants), 300U);
  variants.insert(variants.end(), all_variants().begin(), all_variants().end());
  EXPECT_EQ(weight_of(variants), 460U);
  Draw draw(1);
  std::map<std::string, int> drawn;
  for (int i = 0; i < 4600; ++i) ++drawn[draw_variant(variants, draw).operation];
  // Four standard deviations of a share of 4600 draws: n p (1 - p).
  const std::pair<const char*, int> expected[] = {
      {"quantize", 3000}, {"route", 400}, {"route_round", 800}, {"route_metadata", 200}, {"route_backward", 200}};
  for (const auto& [operation, count] : expected) {
    EXPECT_NEAR(drawn[operation], count, 4 * std::sqrt(count * (1 - count / 4600.0))) << operation;
  }
}

TEST(RouteCase, simpler_cases_are_possible_smaller_and_never_the_same) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Case c = random_case(seed, all_variants());
    Finding finding;
    if (c.rows > 0 && reads_logits(c.variant)) finding.culprits = {{c.rows - 1, c.cols - 1, 0x3F80}};
    for (const Case& n : simpler_cases(c, finding)) {
      ASSERT_NE(n, c);
      ASSERT_NO_THROW(ASSERT_EQ(parse_case(to_text(n)), n) << to_text(n)) << to_text(n);
      ASSERT_LE(n.rows * n.cols * std::max<std::int64_t>(1, n.top_k),
                c.rows * c.cols * std::max<std::int64_t>(1, c.top_k) + (c.top_k == 0 ? c.elements() : 0))
          << to_text(n);
    }
  }
}

TEST(RouteCase, shrinks_to_the_threshold_from_which_a_case_fails) {
  Case c = parse_case(
      "op=route_round variant=sigmoid x=fp32 nan=refuse bias=0 limited=0 rule=up weights=raw rows=400 cols=40 k=6 "
      "tile=64 data=normal seed=99");
  const auto fails = [](const Case& n) { return n.rows >= 13 && n.cols >= 7 && n.top_k >= 2 && n.tile >= 5; };
  for (bool moved = true; moved;) {
    moved = false;
    for (const Case& n : simpler_cases(c, {})) {
      if (!fails(n)) continue;
      c = n, moved = true;
      break;
    }
  }
  EXPECT_EQ(c.rows, 13);
  EXPECT_EQ(c.cols, 7);
  EXPECT_EQ(c.top_k, 2);
  EXPECT_EQ(c.tile, 5);
  EXPECT_EQ(c.data, Data::zeros);
  EXPECT_EQ(c.seed, 1U);
}

}  // namespace
}  // namespace mxcheck

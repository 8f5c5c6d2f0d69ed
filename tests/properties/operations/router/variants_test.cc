// What routers can be asked for, descriptors of their cases, and what those are counted for.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "properties/operations/router/operation.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/operations/router/some_cases.h"

namespace mxcheck {
namespace {

constexpr const char* kExample =
    "op=route_round variant=softmax-topk x=bf16 nan=last bias=1 limited=1 rule=sr-f weights=raw rows=300 cols=16 k=4 "
    "groups=8 kept=2 tile=32 scale=2.5 step=4294967299 layer=1 stride=20 data=slots seed=7 plant=0,3:7f80 threads=2";

TEST(RouteCase, reads_an_example_with_every_field) {
  const Case c = parse_case(kExample);
  EXPECT_EQ(c.variant.operation, "route_round");
  const RouteVariant& v = route_of(c.variant);
  EXPECT_EQ(v.router, "softmax-topk");
  EXPECT_TRUE(v.nan_last && v.bias && v.limited && !v.renormalize);
  EXPECT_EQ(v.rule, "sr-f");
  EXPECT_EQ(route_case(c).top_k, 4);
  EXPECT_EQ(route_case(c).groups, 8);
  EXPECT_EQ(route_case(c).groups_kept, 2);
  EXPECT_EQ(route_case(c).tile, 32);
  EXPECT_EQ(route_case(c).scale, 2.5F);
  EXPECT_EQ(route_case(c).step, 4294967299U);
  EXPECT_EQ(route_case(c).layer, 1U);
  EXPECT_EQ(to_text(c), kExample);
  const Case ragged = parse_case("op=route_metadata rows=5 cols=3 k=0 tile=8 drops=10 data=codes seed=1");
  EXPECT_EQ(route_case(ragged).top_k, 0);
  EXPECT_EQ(route_case(ragged).drops, 10);
}

TEST(RouteCase, variants_are_all_different_and_all_asked_for) {
  for (const Variant& v : test::all_route_variants()) ASSERT_EQ(parse_variant(to_text(v)), v) << to_text(v);
  std::set<std::string> texts;
  for (const Variant& v : test::all_route_variants()) texts.insert(to_text(v));
  EXPECT_EQ(texts.size(), test::all_route_variants().size());
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
      {"op=route variant=sigmoid nan=first rows=1 cols=1 k=1", "case field nan=first is not one of refuse, last"},
      {"op=route variant=sigmoid bias=2 rows=1 cols=1 k=1", "case field bias=2 is not one of 0, 1"},
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
      {"op=route_round variant=sigmoid rule=up weights=all rows=1 cols=4 k=1", "is not one of raw, renorm"},
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

}  // namespace
}  // namespace mxcheck

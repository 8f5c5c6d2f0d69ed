// The keys of the kinds about routers, as suite_routes.cc reads them.

#include <gtest/gtest.h>

#include <array>

#include "goldens/make/suite.h"
#include "tests/goldens/make/route_specs.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::golden_of;
using test::kTies;
using test::suite_with;
using test::ties;

TEST(RouteSuites, keep_every_field) {
  const GoldenSuite s = parse_suite(
      suite_with(golden_of("route_round", ties(R"("top_k": 3, "variant": "sigmoid", "groups": 4, "groups_kept": 2,
        "nan": "last", "scale": "40000000", "bias": ["3f800000"], "rules": ["sr-f", "capacity-order"], "tile": 16,
        "capacity": 5, "weights": "raw", "seed": 7, "layer": 8, "step": 9)"))),
      "t");
  const RouteSpec& r = s.goldens.at(0).route;
  EXPECT_EQ(r.router.top_k, 3);
  EXPECT_EQ(r.router.groups, 4);
  EXPECT_EQ(r.router.groups_kept, 2);
  EXPECT_EQ(r.router.nan, NanLogits::last);
  EXPECT_EQ(r.router.scale, 2.0F);
  EXPECT_EQ(r.bias, std::vector<float>{1});
  ASSERT_EQ(r.variants.size(), 1U);
  EXPECT_EQ(r.variants[0]->name, "sigmoid");
  EXPECT_EQ(r.rules, (std::vector{TokenRoundingRule::sr_f, TokenRoundingRule::capacity_order}));
  EXPECT_EQ(r.token_rounding.tile, 16);
  EXPECT_EQ(r.token_rounding.capacity, 5);
  EXPECT_FALSE(r.token_rounding.renormalize);
  EXPECT_EQ(r.token_rounding.seed, 7U);
  EXPECT_EQ(r.token_rounding.layer, 8U);
  EXPECT_EQ(r.token_rounding.step, 9U);
}

TEST(RouteSuites, refuse_what_cannot_be_meant_and_say_where) {
  const std::string round = ties(R"("top_k": 2, "variant": "sigmoid", "tile": 4, "rules": )");
  const std::string slots = R"("experts": 3, "tile": 1, "slots": )";
  const std::vector<std::array<std::string, 3>> table{
      {"route", "", "lacks \"input\""},
      {"route", kTies, "lacks \"top_k\""},
      {"route", ties(R"("top_k": 0)"), "top_k: "},
      {"route", ties(R"("top_k": 1, "variants": [])"), "variants: are at least one"},
      {"route", ties(R"("top_k": 1, "variants": ["softmax"])"), "variants: "},
      {"route", ties(R"("top_k": 1, "variants": [1])"), "variants: "},
      {"route", ties(R"("top_k": 1, "variants": ["sigmoid", "sigmoid"])"), "variants: 'sigmoid' is there twice"},
      {"route", ties(R"("top_k": 1, "variant": "sigmoid")"), "has \"variant\", which means nothing"},
      {"route", ties(R"("top_k": 1, "nan": "first")"), "nan: must be refuse or last"},
      {"route", ties(R"("top_k": 1, "scale": 1)"), "scale: bits are strings"},
      {"route", ties(R"("top_k": 1, "bias": [])"), "bias: has one number an expert"},
      {"route", ties(R"("top_k": 1, "bias": ["123456789"])"), "bias: bits are strings"},
      {"route", ties(R"("top_k": 1, "groups": 2)"), "lacks \"groups_kept\""},
      {"route", ties(R"("top_k": 1, "groups": 0, "groups_kept": 1)"), "groups: "},
      {"route_round", ties(R"("top_k": 2, "tile": 4)"), "lacks \"variant\""},
      {"route_round", ties(R"("top_k": 2, "variant": "sigmoid", "tile": 0)"), "tile: "},
      {"route_round", ties(R"("top_k": 2, "variant": "sigmoid", "tile": 4)"), "lacks \"capacity\""},
      {"route_round", round + "[]", "rules: are at least one"},
      {"route_round", round + R"(["up", "up"])", "rules: 'up' is there twice"},
      {"route_round", round + R"(["nearest"])", "rules: "},
      {"route_round", round + R"(["sr-f"])", "lacks \"seed\""},
      {"route_round", round + R"(["up"], "seed": 1)", "has \"seed\", which means nothing"},
      {"route_round", round + R"(["up"], "capacity": 1)", "has \"capacity\", which means nothing"},
      {"route_round", round + R"(["sr-f"], "seed": 1, "layer": 4294967296, "step": 0)", "layer: "},
      {"route_round", round + R"(["up"], "weights": "sum")", "weights: must be renorm or raw"},
      {"route_metadata", slots + "[3], \"width\": 1", "slots: are integers from -1 to 2"},
      {"route_metadata", slots + "[-2], \"width\": 1", "slots: are integers from -1 to 2"},
      {"route_metadata", slots + "[0]", "width: or token_offsets is needed"},
      {"route_metadata", slots + "[0], \"width\": 1, \"token_offsets\": [0, 1]", "width: or token_offsets is needed"},
      {"route_metadata", slots + "[], \"token_offsets\": []", "token_offsets: are at least one"},
      {"route_losses", ties(R"("top_k": 1, "variant": "sigmoid")"), "lacks \"coefficient\""},
      {"route_losses", ties(R"("top_k": 1, "variant": "sigmoid", "coefficient": "7f800000")"), "must be finite"},
      {"route", R"("top_k": 1, "input": {"ties": "fp16", "rows": 1, "cols": 1})", "ties: 'fp16' is none of"},
      {"route", R"("top_k": 1, "input": {"ties": "fp32", "rows": 1048577, "cols": 1})", "rows: "},
      {"route", R"("top_k": 1, "input": {"ties": "fp32", "rows": 1024, "cols": 1025})", "over 1048576 elements"},
      {"route", R"("top_k": 1, "input": {"loads": [], "dtype": "fp32"})", "loads: are at least one"},
      {"route", R"("top_k": 1, "input": {"loads": [-1], "dtype": "fp32"})", "loads: are integers from 0"},
      {"route", R"("top_k": 1, "input": {"loads": [1048576, 1], "dtype": "fp32"})", "over 1048576 elements"},
      {"route", R"("top_k": 1, "input": {"loads": [1], "ties": "fp32"})", "takes exactly one of"},
  };
  for (const auto& [kind, more, message] : table) {
    const std::string text = suite_with(golden_of(kind, more));
    SCOPED_TRACE(text);
    expect_error(ErrorKind::usage, message, [&] { (void)parse_suite(text, "t"); });
  }
}

}  // namespace
}  // namespace mxcheck

#include "properties/identify/report_json.h"

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

// What scripts and the Python package read: members are added, none is renamed.
TEST(ReportJson, of_a_match_has_these_members) {
  Match match;
  match.declared = "sm90_fp8";
  match.closest = {{"sm90_fp8", 63, {"d.npy", "D", 1, 2, Format::fp32, 0x3f800000, 0x3f800001}, {"e"}}};
  match.not_declared = match.closest.front();
  match.compared = 64, match.probes = 1, match.tried = 72;
  EXPECT_EQ(
      to_text(to_json(match, std::nullopt), {-1}),
      R"({"explained":false,"explaining":[],"also":[],"declared":{"name":"sm90_fp8","holds":false,)"
      R"("difference":{"name":"sm90_fp8","equal":63,"first":{"probe":"d.npy","part":"D","row":1,"column":2,)"
      R"("expected":"0x3f800000","observed":"0x3f800001"},"probes":["e"]}},"closest":[{"name":"sm90_fp8","equal":63,)"
      R"("first":{"probe":"d.npy","part":"D","row":1,"column":2,"expected":"0x3f800000",)"
      R"("observed":"0x3f800001"},"probes":["e"]}],"compared":64,"probes":1,"tried":72,"order":null})");
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

#include "tools/route/report.h"

#include <gtest/gtest.h>

#include <array>

namespace mxcheck {
namespace {

TEST(PaddingOf, counts_rows_up_to_whole_tiles) {
  const std::array<std::int64_t, 4> loads{0, 1, 8, 9};
  EXPECT_EQ(padding_of(loads, 8).rows, 32);
  EXPECT_EQ(padding_of(loads, 8).padding, 14);
  EXPECT_EQ(padding_of(loads, 1).padding, 0);
  EXPECT_EQ(padding_of({}, 8).rows, 0);
}

// Three tokens, two of three experts each; then token 0 loses expert 1, token 1 loses both, token 2 gains expert 0.
RouteReport sample() {
  Routes before;
  before.tokens = 3, before.top_k = 2;
  before.experts = {1, 0, 2, 1, 1, 2};
  RoundedTokens after;
  after.tokens = 3, after.experts = 3;
  after.chosen = {1, 3, 2};
  after.offsets = {0, 2, 3, 4};
  after.token_offsets = {0, 1, 1, 4};
  after.token_rows = {0, 1, 2, 3};
  return report_of(before, after, 2);
}

TEST(RouteReport, counts_pairs_that_one_side_alone_has) {
  const RouteReport r = sample();
  EXPECT_EQ(r.chosen, (std::vector<std::int64_t>{1, 3, 2}));
  EXPECT_EQ(r.kept, (std::vector<std::int64_t>{2, 1, 1}));
  EXPECT_EQ(r.added, 1);
  EXPECT_EQ(r.dropped, 3);
  EXPECT_EQ(r.without_expert, 1);
  EXPECT_EQ(r.most_experts, 3);
}

TEST(RouteReport, says_the_same_to_people_and_machines) {
  EXPECT_EQ(to_text(sample(), false),
            "chosen    min 1, mean 2.0, max 3; 0 experts without tokens\n"
            "kept      min 1, mean 1.3, max 2; 0 experts without tokens\n"
            "experts   by tokens kept: 1: 2, 2: 1\n"
            "padding   to tiles of 2: 2 of 8 rows (25.0 %) before, 2 of 6 rows (33.3 %) after\n"
            "changed   pairs added 1, dropped 3; tokens without an expert 1, most experts of a token 3\n");
  const Json json = to_json(sample());
  EXPECT_EQ(to_text(*json.find("before"), {-1}), R"({"rows":8,"padding":2})");
  EXPECT_EQ(to_text(*json.find("kept"), {-1}), "[2,1,1]");
  EXPECT_EQ(json.find("z_loss"), nullptr);
}

}  // namespace
}  // namespace mxcheck

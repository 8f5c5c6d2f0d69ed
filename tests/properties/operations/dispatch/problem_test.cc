// Routes drawn from a case, and cases that no call could pose.

#include "properties/operations/dispatch/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "properties/operations/dispatch/operation.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/operations/dispatch/some_routed.h"

namespace mxcheck {
namespace {

Case drawn(const std::string& fields) {
  return parse_case("op=dispatch x=bf16 rows=200 cols=2 ranks=0,50,50,200 num=12 k=4 data=slots seed=9 " + fields);
}

TEST(DispatchProblem, the_experts_of_a_token_differ) {
  const DrawnRoutes routes = expand_routes(drawn("hot=50"));
  for (std::size_t t = 0; t + 1 < routes.token_offsets.size(); ++t) {
    const auto first = routes.slot_experts.begin();
    const std::set<std::int32_t> experts(first + routes.token_offsets[t], first + routes.token_offsets[t + 1]);
    EXPECT_EQ(std::ssize(experts), routes.token_offsets[t + 1] - routes.token_offsets[t]);
  }
}

TEST(DispatchProblem, tokens_have_the_same_slots_however_many_there_are) {
  const Case all = drawn("drops=20");
  Case fewer = all;
  fewer.rows = 60;
  fit_routed(fewer);
  EXPECT_EQ(dispatch_case(fewer).ranks, (std::vector<std::int64_t>{0, 50, 50, 60}));
  const DrawnRoutes some = expand_routes(fewer);
  const DrawnRoutes whole = expand_routes(all);
  EXPECT_TRUE(std::equal(some.slot_experts.begin(), some.slot_experts.end(), whole.slot_experts.begin()));
}

TEST(DispatchProblem, routes_are_what_the_fields_say) {
  const auto count = [](const DrawnRoutes& r, std::int32_t expert) {
    return std::count(r.slot_experts.begin(), r.slot_experts.end(), expert);
  };
  const DrawnRoutes dropped = expand_routes(drawn("drops=100"));
  EXPECT_EQ(count(dropped, -1), std::ssize(dropped.slot_experts));
  const DrawnRoutes hot = expand_routes(drawn("hot=100"));
  std::int64_t most = 0;
  for (std::int32_t e = 0; e < 12; ++e) most = std::max<std::int64_t>(most, count(hot, e));
  EXPECT_GE(most, 180);  // of 200 tokens, a few of which have no slot
  EXPECT_EQ(expand_routes(drawn("homes=blocks")).expert_rank,
            (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(expand_routes(drawn("homes=turns")).expert_rank,
            (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  const std::vector<std::int32_t> one = expand_routes(drawn("homes=one")).expert_rank;
  EXPECT_EQ(std::count(one.begin(), one.end(), one.front()), 12);
}

TEST(DispatchProblem, cases_that_no_call_can_pose_are_refused) {
  const auto refuses = [](const std::string& fields, const std::string& why) {
    test::expect_error(ErrorKind::usage, why,
                       [&] { check_routed(parse_case("op=combine x=bf16 rows=4 cols=2 " + fields)); });
  };
  refuses("num=2 k=3 data=zeros seed=1", "k is 0 to num");
  refuses("num=0 k=0 data=zeros seed=1", "num is 1 to 4096");
  refuses("ranks=0,3 num=2 k=1 data=zeros seed=1", "ranks are ascending offsets from 0 to rows");
  refuses("ranks=0,3,1,4 num=2 k=1 data=zeros seed=1", "ranks are ascending offsets from 0 to rows");
  refuses("ranks=0 num=2 k=1 data=zeros seed=1", "1 to 1024 ranks");
  refuses("num=2 k=1 drops=101 data=zeros seed=1", "percentages");
  refuses("num=2 k=1 capacity=-1 data=zeros seed=1", "capacity times num");
  refuses("homes=nowhere num=2 k=1 data=zeros seed=1", "blocks");
}

}  // namespace
}  // namespace mxcheck

#include "benchmarks/sm90/moe/routes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mxcheck::bench {
namespace {

constexpr MoeShape kRoutedShape{600, 64, 64, 16, 4};

TEST(MoeRoutes, are_routes_of_every_token_without_a_dropped_one) {
  for (const auto& load : kRouteLoads) {
    const LayerRoutes r = draw_moe_routes(kRoutedShape, load.value, 3);
    check(r, kRoutedShape.tokens, kRoutedShape.experts);
    EXPECT_EQ(r.offsets.back(), kRoutedShape.rows());
    EXPECT_EQ(std::ranges::count(r.token_rows, -1), 0);
  }
}

TEST(MoeRoutes, have_an_experts_tokens_in_ascending_order) {
  const LayerRoutes r = draw_moe_routes(kRoutedShape, RouteLoad::skewed, 3);
  for (std::size_t e = 0; e + 1 < r.offsets.size(); ++e) {
    EXPECT_TRUE(std::is_sorted(r.row_token.begin() + r.offsets[e], r.row_token.begin() + r.offsets[e + 1])) << e;
  }
}

TEST(MoeRoutes, load_experts_as_asked) {
  const double uniform = busiest_expert(draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3));
  const double skewed = busiest_expert(draw_moe_routes(kRoutedShape, RouteLoad::skewed, 3));
  EXPECT_GE(uniform, 1);
  EXPECT_LT(uniform, 1.3);
  EXPECT_GT(skewed, 1.5);
}

TEST(MoeRoutes, depend_on_the_seed_alone) {
  const LayerRoutes first = draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3);
  EXPECT_EQ(first.row_token, draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3).row_token);
  EXPECT_NE(first.row_token, draw_moe_routes(kRoutedShape, RouteLoad::uniform, 4).row_token);
}

}  // namespace
}  // namespace mxcheck::bench

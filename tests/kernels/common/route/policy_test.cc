// Names of router variants and of rules of token rounding, and the errors for unknown ones.

#include "kernels/common/route/policy.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels {
namespace {

template <class Find>
std::string refusal_of(const Find& find, mxcheck_status status) {
  try {
    find();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.status(), status) << refusal.what();
    return refusal.what();
  }
  return "found";
}

TEST(RoutePolicy, has_every_rule_of_token_rounding_in_its_class) {
  for (const char* name : {"nr-f", "sr-f", "nr-s", "balance-f", "up", "down", "nr-even"}) {
    EXPECT_TRUE(rounds_to_tiles(token_rounding_rule_named(name))) << name;
    EXPECT_FALSE(has_capacity(token_rounding_rule_named(name))) << name;
  }
  for (const char* name : {"expert-choice", "capacity-order", "capacity-score"}) {
    EXPECT_FALSE(rounds_to_tiles(token_rounding_rule_named(name))) << name;
    EXPECT_TRUE(has_capacity(token_rounding_rule_named(name))) << name;
  }
  EXPECT_EQ(token_rounding_rule_named("none"), TokenRoundingRule::none);
  EXPECT_FALSE(rounds_to_tiles(TokenRoundingRule::none) || has_capacity(TokenRoundingRule::none));
}

TEST(RoutePolicy, lists_what_is_offered_to_a_name_that_is_not) {
  EXPECT_EQ(refusal_of([] { token_rounding_rule_named("nr"); }, MXCHECK_UNSUPPORTED),
            "rule nr is not offered: offered are none, nr-f, sr-f, nr-s, balance-f, up, down, nr-even, expert-choice, "
            "capacity-order, capacity-score");
  EXPECT_EQ(refusal_of([] { token_rounding_rule_named(nullptr); }, MXCHECK_INVALID).substr(0, 41),
            "policy.rule is null: must be one of none,");
}

TEST(RoutePolicy, offers_packed_order_where_the_library_has_it) {
  EXPECT_TRUE(router_variant_named("topk-softmax-packed", true).packed);
  const std::string said = refusal_of([] { router_variant_named("topk-softmax-packed", false); }, MXCHECK_UNSUPPORTED);
  EXPECT_EQ(said.substr(0, said.find(',')), "variant topk-softmax-packed is not offered: offered are topk-softmax");
  EXPECT_EQ(said.find("packed", 30), std::string::npos) << said;
}

}  // namespace
}  // namespace mxcheck_kernels

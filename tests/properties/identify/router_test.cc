// Every variant of a router is told from calls alone, and slips of one of them.

#include "properties/identify/router.h"

#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "reference/router/router.h"

namespace mxcheck {
namespace {

RouteBox routing(const RouterVariant& variant) {
  return [&variant](const RouteCall& call) {
    Router router;
    router.variant = &variant, router.top_k = call.top_k, router.nan = NanLogits::last;
    const bool narrow = call.dtype == Format::bf16;
    std::vector<std::uint16_t> bf16;
    for (float x : call.logits) bf16.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
    const std::byte* data =
        narrow ? std::as_bytes(std::span(bf16)).data() : std::as_bytes(std::span(call.logits)).data();
    Routes r = route(router, {call.dtype, data, call.tokens, call.experts, call.experts});
    return RouteAnswer{r.experts, r.weights};
  };
}

TEST(IdentifyRouter, every_variant_is_identified_alone) {
  for (const RouterVariant& variant : all_router_variants()) {
    const Match m = identify_router({32, 4}, routing(variant));
    EXPECT_EQ(m.explaining, std::vector<std::string>{std::string(variant.name)}) << to_text(m);
    EXPECT_EQ(m.compared, 7 * 2 * 64 * 4);
  }
}

TEST(IdentifyRouter, every_variant_is_identified_alone_by_logits_of_bf16) {
  for (const RouterVariant& variant : all_router_variants()) {
    const Match m = identify_router({32, 4, Format::bf16}, routing(variant), std::string(variant.name));
    EXPECT_TRUE(m.holds()) << to_text(m);
    EXPECT_EQ(m.explaining.size(), 1) << to_text(m);
  }
}

TEST(IdentifyRouter, ties_to_the_larger_index_are_told) {
  const RouteBox right = routing(router_variant_named("topk-softmax"));
  const Match m = identify_router({8, 2}, [&](const RouteCall& call) {
    RouteCall turned = call;
    for (std::int64_t t = 0; t < call.tokens; ++t) {
      for (std::int64_t e = 0; e < call.experts; ++e) {
        turned.logits[static_cast<std::size_t>(t * call.experts + e)] =
            call.logits[static_cast<std::size_t>((t + 1) * call.experts - 1 - e)];
      }
    }
    RouteAnswer a = right(turned);
    for (std::int32_t& e : a.experts) e = static_cast<std::int32_t>(call.experts) - 1 - e;
    return a;
  });
  EXPECT_EQ(m.slips, std::vector<std::string>{"topk-softmax with ties that go to the larger index"});
  EXPECT_FALSE(m.explained());
  ASSERT_FALSE(m.closest.empty());
  EXPECT_EQ(m.closest.front().name, "topk-softmax");
  EXPECT_EQ(m.closest.front().first.part, "experts");
}

TEST(IdentifyRouter, a_fault_that_no_slip_explains_leaves_the_closest_variant) {
  const RouteBox right = routing(router_variant_named("sigmoid"));
  const Match m = identify_router({8, 2}, [&](const RouteCall& call) {
    RouteAnswer a = right(call);
    a.weights[5] = std::nextafter(a.weights[5], 2.0F);
    return a;
  });
  EXPECT_FALSE(m.explained());
  ASSERT_FALSE(m.closest.empty());
  EXPECT_EQ(m.closest.front().name, "sigmoid");
  EXPECT_GT(m.tried, all_router_variants().size());
}

TEST(IdentifyRouter, top_k_beyond_the_experts_is_refused) {
  EXPECT_THROW(identify_router({4, 5}, routing(router_variant_named("topk-softmax"))), Error);
}

}  // namespace
}  // namespace mxcheck

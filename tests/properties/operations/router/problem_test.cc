// Calls of routers: shapes, sizes, the way from a call back to its problem.

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "kernels/candidate_route.h"
#include "numerics/bytes.h"
#include "properties/operations/router/operation.h"
#include "properties/operations/router/problem.h"
#include "properties/records/record.h"

namespace mxcheck {
namespace {

TEST(RouteProblems, the_policy_says_what_the_case_says) {
  const Case c = parse_case(
      "op=route_round variant=sigmoid x=fp32 nan=last bias=1 limited=1 rule=capacity-score weights=raw rows=9 cols=8 "
      "k=2 groups=4 kept=3 tile=2 capacity=5 scale=0.5 step=3 layer=4 data=normal seed=7 threads=2");
  const Policy packed = operation_named(c.variant.operation).policy(c);
  const auto p = read<mxcheck_route_policy>(packed);
  EXPECT_EQ(p.policy.size, sizeof(mxcheck_route_policy));
  EXPECT_STREQ(p.policy.recipe, "sigmoid");
  EXPECT_STREQ(p.rule, "capacity-score");
  EXPECT_STREQ(p.policy.format, "");
  EXPECT_EQ(p.policy.block_rows + p.policy.block_cols + p.policy.layout, 0);
  EXPECT_EQ(p.policy.rows, 9);
  EXPECT_EQ(p.policy.cols, 8);
  EXPECT_EQ(p.top_k, 2);
  EXPECT_EQ(p.groups, 4);
  EXPECT_EQ(p.groups_kept, 3);
  EXPECT_EQ(p.tile, 2);
  EXPECT_EQ(p.capacity, 5);
  EXPECT_EQ(p.scale, 0.5F);
  EXPECT_EQ(p.seed, 7U);
  EXPECT_EQ(p.step, 3U);
  EXPECT_EQ(p.layer, 4U);
  EXPECT_EQ(p.nan, 1);
  EXPECT_EQ(p.bias, 1);
  EXPECT_EQ(p.renormalize, 0);
  EXPECT_EQ(p.policy.threads, 2);
  const Policy question = operation_named(c.variant.operation).question(c.variant);
  const auto q = read<mxcheck_route_policy>(question);
  EXPECT_EQ(q.policy.rows + q.policy.cols + q.top_k + q.groups_kept + q.tile + q.capacity, 0);
  EXPECT_EQ(q.seed + q.step + q.layer, 0U);
  EXPECT_EQ(q.groups, 1);
  EXPECT_EQ(q.scale, 1);
}

TEST(RouteProblems, bf16_gradients_are_rounded_to_nearest_even) {
  const Case c = parse_case("op=route_backward variant=sigmoid-raw x=bf16 rows=40 cols=6 k=2 data=normal seed=3");
  const GradientProblem p(c);
  const auto words = values_in<std::uint16_t>(p.answer()[0].bytes);
  const std::vector<float> exact = route_backward(p.router(), p.input.view(), p.routes, p.gradient, 2);
  for (std::size_t i = 0; i < words.size(); ++i)
    EXPECT_EQ(words[i], nearest_bits(Format::bf16, static_cast<double>(exact[i])));
}

TEST(RouteProblems, nan_is_made_equal_in_weights_and_minus_one_stays_in_integers) {
  std::vector<std::byte> bytes(4, std::byte{0xFF});
  const auto ones = bytes;
  CallTensor index;
  index.is_index = true;
  make_nans_equal(bytes, index);
  EXPECT_EQ(bytes, ones);
  make_nans_equal(bytes, CallTensor{});
  EXPECT_EQ(values_in<std::uint32_t>(bytes)[0], 0x7FC00000U);
  EXPECT_TRUE(nans_are_equal("route_round"));
}

}  // namespace

// Logits and what goes with them: what each distribution is for, and what a router that refuses NaN is never given.

namespace {

Case make_case(const char* text) { return parse_case(text); }

std::vector<float> row_of(const Input& x, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(x.cols));
  x.view().read_row(row, values);
  return values;
}

TEST(ExpandRoute, slots_give_every_expert_the_load_that_was_told) {
  for (const std::int64_t tile : {1, 2, 5, 8, 16}) {
    for (const char* variant : {"topk-softmax", "softmax-topk", "sigmoid"}) {
      Case c = make_case("op=route_round variant=sigmoid x=bf16 rule=nr-f rows=1 cols=1 k=1 data=slots");
      route_of(c.variant).router = variant;
      c.rows = 3 * tile + 1;
      const std::int64_t top_k =
          ((tile + 1) * (2 * tile + 1) + c.rows - 1) / c.rows;  // 0 + 1 + ... + (2 tile + 1) slots
      route_case(c).tile = tile, route_case(c).top_k = top_k;
      c.cols = 2 * tile + 2 + top_k;
      for (const bool bias : {false, true}) {
        route_of(c.variant).bias = bias;
        const RoundingProblem p(c);
        const RoundedTokens a = round_tokens(p.router(), p.token_rounding(), p.input.view());
        for (std::int64_t e = 0; e < 2 * tile + 2; ++e)
          EXPECT_EQ(a.chosen[static_cast<std::size_t>(e)], e) << variant << " tile " << tile;
      }
    }
  }
}

TEST(ExpandRoute, slots_with_too_few_tokens_still_give_every_token_its_k) {
  for (const char* text :
       {"op=route_round variant=softmax-topk rule=up rows=5 cols=9 k=9 tile=8 data=slots seed=3",
        "op=route_round variant=softmax-topk rule=up rows=2 cols=40 k=7 tile=64 data=slots seed=70",
        "op=route_round variant=softmax-topk rule=up rows=300 cols=4 k=3 tile=2 data=slots seed=1"}) {
    const Case c = make_case(text);
    const Input x = expand_logits(c);
    for (std::int64_t t = 0; t < c.rows; ++t) {
      const std::vector<float> row = row_of(x, t);
      EXPECT_EQ(std::count_if(row.begin(), row.end(), [](float v) { return v > 0; }), route_case(c).top_k) << text;
    }
  }
}

TEST(ExpandRoute, what_a_router_refuses_is_never_drawn) {
  for (const Variant& v : askable_routes("route")) {
    const bool packed = route_of(v).router == "topk-softmax-packed";
    for (int data = 0; data < static_cast<int>(std::size(kDataNames)); ++data) {
      if (data == static_cast<int>(Data::every_bf16)) continue;
      const Case c = route_corner(v, 60, 12, 3, static_cast<Data>(data), 0xFF00);
      const ChoiceProblem p(c);
      for (std::int64_t t = 0; t < c.rows; ++t) {
        for (std::size_t e = 0; e < 12; ++e) {
          const float x = row_of(p.input, t)[e];
          const float key = x + (route_of(v).bias ? p.bias[e] : 0.0F);
          if (!route_of(v).nan_last) {
            ASSERT_FALSE(std::isnan(x) || std::isnan(key)) << to_text(c);
          }
          if (packed) {
            ASSERT_TRUE(std::isfinite(x) && std::isfinite(key)) << to_text(c);
          }
        }
      }
      EXPECT_NO_THROW((void)p.answer()) << to_text(c);
    }
  }
}

TEST(ExpandRoute, special_rows_hold_every_kind_of_value_and_codes_every_kind_of_tie) {
  Case c = make_case("op=route variant=sigmoid x=fp32 nan=last rows=400 cols=9 k=2 data=specials seed=5");
  int nan = 0, infinite = 0, all_nan = 0, minus_zero = 0, subnormal = 0, largest = 0;
  for (std::int64_t t = 0; t < c.rows; ++t) {
    const std::vector<float> row = row_of(expand_logits(c), t);
    all_nan += std::all_of(row.begin(), row.end(), [](float v) { return std::isnan(v); }) ? 1 : 0;
    for (const float v : row) {
      nan += std::isnan(v), infinite += std::isinf(v), minus_zero += v == 0 && std::signbit(v);
      subnormal += std::fpclassify(v) == FP_SUBNORMAL, largest += std::fabs(v) > 3.4e38F && !std::isinf(v);
    }
  }
  for (const int count : {nan, infinite, all_nan, minus_zero, subnormal, largest}) EXPECT_GT(count, 5);
  c.data = Data::codes;
  std::set<std::uint32_t> seen;
  for (std::int64_t t = 0; t < c.rows; ++t) {
    for (const float v : row_of(expand_logits(c), t)) seen.insert(std::bit_cast<std::uint32_t>(v));
  }
  EXPECT_EQ(seen, (std::set<std::uint32_t>{0, 0x80000000, 0x3F800000, 0xBF800000, 0x40000000, 0x3F800001, 0xBF800001,
                                           0x3F7FFFFF, 0xBF7FFFFF}));
}

TEST(ExpandRoute, near_ties_lie_within_an_ulp_or_within_the_low_bits) {
  for (const char* type : {"bf16", "fp32"}) {
    const Case c = make_case(
        (std::string("op=route variant=sigmoid x=") + type + " rows=100 cols=20 k=2 data=boundaries seed=5").c_str());
    const Input x = expand_logits(c);
    int low = 0;
    for (std::int64_t t = 0; t < c.rows; ++t) {
      std::set<std::uint32_t> bits;
      for (const float v : row_of(x, t)) bits.insert(std::bit_cast<std::uint32_t>(v));
      const std::uint32_t spread = *bits.rbegin() - *bits.begin();
      const std::uint32_t ulp = c.variant.dtype == Format::fp32 ? 1 : 0x10000;
      EXPECT_LE(spread, c.variant.dtype == Format::fp32 ? 0xFFFU : 2 * ulp);
      low += spread > 2 * ulp ? 1 : 0;
      EXPECT_GT(bits.size(), 1U);
    }
    EXPECT_EQ(low > 20, c.variant.dtype == Format::fp32);
  }
}

TEST(ExpandRoute, every_row_is_every_row) {
  for (const char* nan : {"last", "refuse"}) {
    Case c = make_case(
        (std::string("op=route variant=sigmoid x=bf16 nan=") + nan + " rows=1 cols=3 k=2 data=every_row").c_str());
    const auto size = static_cast<std::int64_t>(small_alphabet(c.variant).size());
    EXPECT_EQ(size, route_of(c.variant).nan_last ? 7 : 6);
    c.rows = size * size * size;
    const Input x = expand_logits(c);
    std::set<std::vector<std::uint16_t>> rows;
    for (std::int64_t t = 0; t < c.rows; ++t)
      rows.insert(values_in<std::uint16_t>(std::span(x.bytes).subspan(static_cast<std::size_t>(6 * t), 6)));
    EXPECT_EQ(static_cast<std::int64_t>(rows.size()), c.rows);
  }
}

TEST(ExpandRoute, the_gap_behind_a_row_holds_nan_and_plants_are_planted) {
  const Case c = make_case("op=route variant=sigmoid x=bf16 rows=3 cols=4 k=1 stride=6 data=normal plant=1,2:3f81");
  const Input x = expand_logits(c);
  const auto words = values_in<std::uint16_t>(x.bytes);
  ASSERT_EQ(words.size(), 18U);
  for (const std::size_t gap : {4U, 5U, 10U, 11U, 16U, 17U}) EXPECT_EQ(words[gap], 0x7FC0);
  EXPECT_EQ(words[8], 0x3F81);
}

TEST(ExpandRoute, experts_of_a_token_are_different_and_gradients_of_none_are_nan) {
  const Case c = make_case("op=route_backward variant=sigmoid x=bf16 rows=200 cols=7 k=5 drops=30 data=normal seed=4");
  const GradientProblem p(c);
  int dropped = 0;
  for (std::size_t t = 0; t < 200; ++t) {
    std::set<std::int32_t> seen;
    for (std::size_t n = 5 * t; n < 5 * t + 5; ++n) {
      EXPECT_EQ(p.routes[n] < 0, std::isnan(p.gradient[n]));
      dropped += p.routes[n] < 0 ? 1 : 0;
      const bool is_new = p.routes[n] < 0 || (p.routes[n] < 7 && seen.insert(p.routes[n]).second);
      EXPECT_TRUE(is_new);
    }
  }
  EXPECT_NEAR(dropped, 300, 60);  // 30 % of 1000: four times sqrt(1000 * 0.3 * 0.7) = 14.5
}

TEST(ExpandRoute, counts_are_those_of_their_loads_and_logits_of_losses_are_finite) {
  const auto counts_of = [](const char* loads, std::int64_t tokens) {
    Case c = make_case((std::string("op=route_balance_loss rows=1 cols=40 data=zeros seed=5 loads=") + loads).c_str());
    c.rows = tokens;
    return LossProblem(c).counts;
  };
  EXPECT_EQ(counts_of("equal", 9), std::vector<std::int32_t>(40, 6));
  const std::vector<std::int32_t> one = counts_of("one", 9);
  EXPECT_EQ(std::count(one.begin(), one.end(), 9), 1);
  EXPECT_EQ(std::count(one.begin(), one.end(), 0), 39);
  const std::vector<std::int32_t> drawn = counts_of("drawn", 300);
  EXPECT_GT(std::count(drawn.begin(), drawn.end(), 0), 3);
  EXPECT_GT(std::set<std::int32_t>(drawn.begin(), drawn.end()).size(), 20U);
  for (const std::int32_t count : counts_of("large", 1)) EXPECT_GT(count, 2'000'000'000);
  EXPECT_EQ(counts_of("one", 0), std::vector<std::int32_t>(40, 0));
  for (const Variant& v : askable_routes("route_z_loss")) {
    for (int data = 0; data < static_cast<int>(std::size(kDataNames)); ++data) {
      const LossProblem p(route_corner(v, 60, 12, 0, static_cast<Data>(data), 0xFF00));
      for (std::int64_t t = 0; t < 60; ++t) {
        for (const float x : row_of(p.input, t)) ASSERT_TRUE(std::isfinite(x)) << to_text(p.c);
      }
    }
  }
}

TEST(ExpandRoute, slots_of_metadata_run_through_loads_and_ragged_tokens_through_widths) {
  const Case c = make_case("op=route_metadata rows=400 cols=12 k=0 tile=4 data=slots seed=0");
  const MetadataProblem p(c);
  ASSERT_EQ(p.token_offsets.size(), 401U);
  std::set<std::int64_t> widths, loads;
  for (std::size_t t = 0; t < 400; ++t) widths.insert(p.token_offsets[t + 1] - p.token_offsets[t]);
  EXPECT_EQ(widths, (std::set<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  std::int64_t run = 1;
  for (std::size_t i = 1; i < p.routes.size(); ++i) {
    if (p.routes[i] == p.routes[i - 1]) {
      ++run;
    } else {
      loads.insert(run), run = 1;
    }
  }
  for (std::int64_t load = 1; load <= 9; ++load) EXPECT_TRUE(loads.count(load) == 1) << load;
}

}  // namespace
}  // namespace mxcheck

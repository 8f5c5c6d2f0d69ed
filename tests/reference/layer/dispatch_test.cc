// Dispatch and combine by small cases that are written out, and by what holds for any routes.

#include "reference/layer/dispatch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "numerics/bytes.h"
#include "reference/layer/aggregate.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using Ends = std::vector<std::int64_t>;
using RowNumbers = std::vector<std::int32_t>;
using Words = std::vector<std::uint16_t>;

// Routes that own their tensors.
struct OwnRoutes {
  Ends rank_tokens;
  RowNumbers expert_rank;
  Ends token_offsets;
  RowNumbers slot_experts;
  std::int64_t capacity = 0;
  [[nodiscard]] RankedRoutes view() const { return {rank_tokens, expert_rank, token_offsets, slot_experts, capacity}; }
  [[nodiscard]] DispatchPlan plan() const { return plan_dispatch(view()); }
};

// Two ranks with three tokens and one; experts 1 and 2 live on rank 0, 0 and 3 on rank 1. Token 0 goes to 3 and 1,
// token 1 to 1 and nowhere, token 2 to 0 and 3, token 3 to 1 and 0.
OwnRoutes two_ranks() { return {{0, 3, 4}, {1, 0, 0, 1}, {0, 2, 4, 6, 8}, {3, 1, 1, -1, 0, 3, 1, 0}}; }

TEST(Dispatch, places_the_rows_of_ranks_by_expert_and_slot) {
  const DispatchPlan plan = two_ranks().plan();
  // Rank 0: expert 1 has slots 1, 2, 6; expert 2 none. Rank 1: expert 0 has slots 4, 7; expert 3 slots 0, 5.
  EXPECT_EQ(plan.row_token, (RowNumbers{0, 1, 3, 2, 3, 0, 2}));
  EXPECT_EQ(plan.slot_rows, (RowNumbers{5, 0, 1, -1, 3, 6, 2, 4}));
  EXPECT_EQ(plan.first_row, (Ends{3, 0, 3, 5}));
  EXPECT_EQ(plan.counts, (Ends{1, 2, 0, 2,     // of rank 0's tokens
                               1, 1, 0, 0}));  // of rank 1's
}

TEST(Dispatch, drops_the_last_slots_of_an_expert_that_is_full) {
  OwnRoutes routes = two_ranks();
  routes.capacity = 2;
  const DispatchPlan plan = routes.plan();
  // Experts 1, 2, 0, 3 have two rows each: slot 6 is dropped, and expert 2's rows have no token.
  EXPECT_EQ(plan.row_token, (RowNumbers{0, 1, -1, -1, 2, 3, 0, 2}));
  EXPECT_EQ(plan.slot_rows, (RowNumbers{6, 0, 1, -1, 4, 7, -1, 5}));
  EXPECT_EQ(plan.first_row, (Ends{4, 0, 2, 6}));
  EXPECT_EQ(plan.counts, (Ends{1, 2, 0, 2, 1, 0, 0, 0}));
}

TEST(Dispatch, has_ranks_without_tokens_and_without_experts) {
  const OwnRoutes routes{{0, 0, 2, 2}, {2, 2}, {0, 1, 2}, {1, 0}};
  const DispatchPlan plan = routes.plan();
  EXPECT_EQ(plan.row_token, (RowNumbers{1, 0}));
  EXPECT_EQ(plan.counts, (Ends{0, 0, 1, 1, 0, 0}));
  const OwnRoutes nobody{{0, 0}, {0}, {0}, {}, 3};
  EXPECT_EQ(nobody.plan().row_token, (RowNumbers{-1, -1, -1}));
}

TEST(Dispatch, has_the_experts_of_a_rank_in_ascending_order_however_many_there_are) {
  OwnRoutes routes{{0, 1, 1}, {}, {0, 40}, {}};
  RowNumbers rows;
  for (std::int32_t expert = 0; expert < 40; ++expert) {
    routes.expert_rank.push_back(expert % 2), routes.slot_experts.push_back(expert);
    rows.push_back(expert / 2 + expert % 2 * 20);
  }
  EXPECT_EQ(routes.plan().slot_rows, rows);
}

TEST(Dispatch, moves_the_bytes_of_rows_and_their_scales) {
  const DispatchPlan plan = two_ranks().plan();
  const Words x{0x0001, 0x7FC1, 0x0100, 0xFFFF, 0x0002, 0x8000, 0x1234, 0x7F80};  // two columns
  EXPECT_EQ(values_in<std::uint16_t>(dispatched(plan, to_bytes(x), 4)),
            (Words{0x0001, 0x7FC1, 0x0100, 0xFFFF, 0x1234, 0x7F80, 0x0002, 0x8000, 0x1234, 0x7F80, 0x0001, 0x7FC1,
                   0x0002, 0x8000}));
  const std::vector<std::uint8_t> scales{10, 11, 12, 13};
  EXPECT_EQ(values_in<std::uint8_t>(dispatched(plan, to_bytes(scales), 1)),
            (std::vector<std::uint8_t>{10, 11, 13, 12, 13, 10, 12}));
  OwnRoutes full = two_ranks();
  full.capacity = 2;
  EXPECT_EQ(values_in<std::uint8_t>(dispatched(full.plan(), to_bytes(scales), 1)),
            (std::vector<std::uint8_t>{10, 11, 0, 0, 12, 13, 10, 12}));
}

// BF16 of small numbers.
constexpr std::uint16_t kOne = 0x3F80;
constexpr std::uint16_t kTwo = 0x4000;
constexpr std::uint16_t kThree = 0x4040;
constexpr std::uint16_t kHuge = 0x4F80;       // 2^32
constexpr std::uint16_t kMinusHuge = 0xCF80;  // -2^32

TEST(Combine, adds_the_rows_of_a_token_in_the_order_of_its_slots) {
  // Token 0's slots go to experts 2, 0, 1, with rows 2, 0, 1: 2^32 - 2^32 + 1, which by rows would be 0.
  const OwnRoutes routes{{0, 1}, {0, 0, 0}, {0, 3}, {2, 0, 1}};
  const Words y{kMinusHuge, kOne, kHuge};
  EXPECT_EQ(combine(routes.plan(), routes.view(), {y, 1, {}}), Words{kOne});
  const OwnRoutes by_rows{{0, 1}, {0, 0, 0}, {0, 3}, {0, 1, 2}};
  EXPECT_EQ(combine(by_rows.plan(), by_rows.view(), {y, 1, {}}), Words{0});
}

TEST(Combine, weights_are_of_slots_and_those_of_dropped_ones_are_not_read) {
  OwnRoutes routes = two_ranks();
  routes.capacity = 2;
  // By row: slots 1, 2, none, none, 4, 7, 0, 5.
  const Words y{kOne, kTwo, 0x7FC0, 0x7FC0, kThree, kOne, kTwo, kOne};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weights{0.5F, 1, 2, nan, 1, -1, nan, 4};
  // 0.5 * 2 + 1 * 1, 2 * 2, 1 * 3 - 1 * 1, 4 * 1
  EXPECT_EQ(combine(routes.plan(), routes.view(), {y, 1, weights}), (Words{kTwo, 0x4080, kTwo, 0x4080}));
}

TEST(Combine, rows_have_the_weights_of_their_slots_and_rows_of_none_have_one) {
  OwnRoutes routes = two_ranks();
  routes.capacity = 2;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weights{0.5F, 8, 2, nan, 3, -1, nan, 4};
  EXPECT_EQ(weights_of_rows(routes.plan(), weights), (std::vector<float>{8, 2, 1, 1, 3, 4, 0.5F, -1}));
  EXPECT_TRUE(weights_of_rows(routes.plan(), {}).empty());
}

TEST(Combine, a_token_without_rows_has_zero) {
  const OwnRoutes routes{{0, 2}, {0}, {0, 0, 1}, {-1}};
  EXPECT_EQ(combine(routes.plan(), routes.view(), {{}, 2, {}}), (Words{0, 0, 0, 0}));
}

// Routes of a token to some experts, from a word.
OwnRoutes drawn(std::uint64_t seed, std::int64_t experts, std::int64_t tokens) {
  OwnRoutes routes;
  routes.token_offsets = {0};
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t e = 0; e < experts; ++e) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      if (seed >> 62 == 0) routes.slot_experts.push_back(static_cast<std::int32_t>((e * 5 + t) % experts));
    }
    routes.token_offsets.push_back(std::ssize(routes.slot_experts));
  }
  routes.rank_tokens = {0, tokens};
  routes.expert_rank.assign(static_cast<std::size_t>(experts), 0);
  return routes;
}

// Rows as experts return them: every other expert changes the sign.
Words as_experts(const DispatchPlan& plan, const OwnRoutes& routes, Words rows) {
  for (std::size_t slot = 0; slot < plan.slot_rows.size(); ++slot) {
    if (plan.slot_rows[slot] >= 0 && routes.slot_experts[slot] % 2 == 1)
      rows[static_cast<std::size_t>(plan.slot_rows[slot])] ^= 0x8000;
  }
  return rows;
}

TEST(Combine, neither_placement_nor_the_number_of_ranks_changes_a_bit) {
  for (const std::int64_t capacity : {0, 3}) {
    const std::int64_t tokens = 23;
    OwnRoutes routes = drawn(7, 8, tokens);
    routes.capacity = capacity;
    Words x;
    for (std::int64_t t = 0; t < tokens; ++t) x.push_back(static_cast<std::uint16_t>(0x3E00 + 77 * t));
    const auto through = [&](const OwnRoutes& r) {
      const DispatchPlan plan = r.plan();
      const Words y = as_experts(plan, r, values_in<std::uint16_t>(dispatched(plan, to_bytes(x), 2)));
      return combine(plan, r.view(), {y, 1, {}});
    };
    const Words one_rank = through(routes);
    EXPECT_NE(std::count(one_rank.begin(), one_rank.end(), 0), tokens);
    routes.rank_tokens = {0, 0, 5, 21, 21, 23};
    routes.expert_rank = {4, 0, 3, 3, 1, 0, 4, 1};
    EXPECT_EQ(through(routes), one_rank);
  }
}

TEST(Dispatch, every_kept_slot_has_a_row_of_its_own) {
  const OwnRoutes routes = drawn(3, 9, 31);
  const DispatchPlan plan = routes.plan();
  RowNumbers rows = plan.slot_rows;
  std::sort(rows.begin(), rows.end());
  ASSERT_EQ(plan.rows(), std::ssize(routes.slot_experts));
  for (std::int64_t row = 0; row < plan.rows(); ++row) EXPECT_EQ(rows[static_cast<std::size_t>(row)], row);
}

// Errors.

void expect_refused(ErrorKind kind, const std::string& text, const OwnRoutes& routes) {
  test::expect_error(kind, text, [&] { (void)routes.plan(); });
}

TEST(Dispatch, names_what_is_wrong_with_routes) {
  OwnRoutes routes = two_ranks();
  routes.rank_tokens[1] = 5;
  expect_refused(ErrorKind::input, "rank_tokens[1] is 5: offsets ascend from 0 to 4", routes);
  for (const Ends& ends : {Ends{0, 3, 5}, Ends{0, 3, 3}, Ends{0, 4, 2}, Ends{0, 4, 1, 4}}) {
    routes = two_ranks();
    routes.rank_tokens = ends;
    expect_refused(ErrorKind::input, "rank_tokens[2] is " + std::to_string(ends[2]), routes);
  }
  for (const std::int64_t first : {-1, 1}) {
    routes = two_ranks();
    routes.token_offsets[0] = first;
    expect_refused(ErrorKind::input, "token_offsets[0] is " + std::to_string(first), routes);
  }
  routes = two_ranks();
  routes.token_offsets[2] = 1;
  expect_refused(ErrorKind::input, "token_offsets[2] is 1: offsets ascend", routes);
  expect_refused(ErrorKind::usage, "token_offsets is empty", {{0, 0}, {0}, {}, {}});
  routes = two_ranks();
  routes.token_offsets.back() = 7;
  expect_refused(ErrorKind::input, "token_offsets[4] is 7", routes);
  routes = two_ranks();
  routes.expert_rank[2] = 2;
  expect_refused(ErrorKind::input, "expert_rank[2] is 2: must be 0 to 1", routes);
  routes = two_ranks();
  routes.slot_experts[3] = -2;
  expect_refused(ErrorKind::input, "slot_experts[3] is -2: must be -1 to 3", routes);
  routes = two_ranks();
  routes.capacity = -1;
  expect_refused(ErrorKind::usage, "capacity is negative", routes);
  expect_refused(ErrorKind::usage, "at least one rank", {{0}, {0}, {0}, {}});
  expect_refused(ErrorKind::usage, "one expert", {{0, 0}, {}, {0}, {}});
  for (const int power : {29, 40, 62}) {  // of four experts together: 2^31 rows, and more
    routes.capacity = std::int64_t{1} << power;
    expect_refused(ErrorKind::usage, "2^31 - 1 rows", routes);
  }
  const OwnRoutes right = two_ranks();
  test::expect_error(ErrorKind::usage, "as many as there are slots",
                     [&] { (void)weights_of_rows(right.plan(), std::vector<float>(3)); });
  test::expect_error(ErrorKind::usage, "as many as there are slots",
                     [&] { (void)weights_of_rows(right.plan(), std::vector<float>(9)); });
  test::expect_error(ErrorKind::usage, "fewer rows", [&] { (void)dispatched(right.plan(), {}, 2); });
}

}  // namespace
}  // namespace mxcheck

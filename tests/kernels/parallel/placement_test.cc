#include "kernels/parallel/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/parallel/ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

using Ints = std::vector<int>;
using Counts = std::vector<std::int64_t>;

TEST(Placement, of_each_kind) {
  EXPECT_EQ(place_experts("contiguous", 5, 3), (Ints{0, 0, 1, 1, 2}));
  EXPECT_EQ(place_experts("contiguous", 2, 3), (Ints{0, 1}));
  EXPECT_EQ(place_experts("strided", 5, 3), (Ints{0, 1, 2, 0, 1}));
  EXPECT_EQ(place_experts("one", 3, 4), (Ints{3, 3, 3}));
  EXPECT_EQ(place_experts("2,0,0,1", 4, 3), (Ints{2, 0, 0, 1}));
  EXPECT_EQ(place_experts("seed:7", 64, 4), place_experts("seed:7", 64, 4));
  EXPECT_NE(place_experts("seed:7", 64, 4), place_experts("seed:8", 64, 4));
}

TEST(Placement, other_texts_are_refused_with_the_right_ones) {
  const auto refusal = [](const std::string& how) -> std::string {
    try {
      (void)place_experts(how, 3, 2);
    } catch (const ParallelError& e) {
      return e.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(refusal("0,1"), "placement '0,1' has 2 ranks: there are 3 experts");
  EXPECT_EQ(
      refusal("0,1,2"),
      "placement '0,1,2': '2' is no rank from 0 to 1; placements are contiguous, strided, one, seed:N, or the rank "
      "of each expert as 0,0,1,1");
  EXPECT_EQ(refusal("seed:-1"), "placement 'seed:-1': seed:N needs a number from 0 to 2^64 - 1");
  EXPECT_EQ(refusal(""), "placement '' has 0 ranks: there are 3 experts");
}

TEST(HomeRows, have_the_order_of_experts_and_then_of_tokens) {
  const HomeSlots slots{2, {1, 0, 0, -1, 1, 2}, {0.5F, 0.25F, 1, 9, 2, 3}};
  const HomeRows rows = home_rows(slots, 3, 0, Counts{0, 0, 0});
  EXPECT_EQ(rows.offsets, (Counts{0, 2, 4, 5}));
  EXPECT_EQ(rows.row_token, (std::vector<std::int32_t>{0, 1, 0, 2, 2}));
  EXPECT_EQ(rows.row_weight, (std::vector<float>{0.25F, 1, 0.5F, 2, 3}));
  EXPECT_EQ(rows.row_slot, (Counts{1, 2, 0, 4, 5}));
  EXPECT_EQ(rows.token_rows, (std::vector<std::int32_t>{2, 0, 1, -1, 3, 4}));
  EXPECT_EQ(rows.token_offsets, (Counts{0, 2, 4, 6}));
}

TEST(HomeRows, a_capacity_keeps_the_first_slots_of_all_ranks) {
  const HomeSlots slots{1, {0, 0, 0, 1}, {1, 2, 3, 4}};
  const HomeRows rows = home_rows(slots, 2, 4, Counts{2, 5});  // the ranks before have 2 and 5
  EXPECT_EQ(rows.offsets, (Counts{0, 2, 2}));
  EXPECT_EQ(rows.token_rows, (std::vector<std::int32_t>{0, 1, -1, -1}));
}

// Rows of every pair of ranks match, and at an expert they are in the order of all tokens.
TEST(Rows, both_ends_of_every_piece_match) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const int chunks : {1, 2, 5}) {
      const std::int64_t experts = 9;
      Placement placement{ranks, 100, place_experts("seed:" + std::to_string(ranks), experts, ranks)};
      std::vector<Counts> counts;
      for (int r = 0; r < ranks; ++r) {
        counts.emplace_back();
        for (int e = 0; e < experts; ++e) counts.back().push_back((r * 5 + e * 3) % 4);
      }
      std::vector<Rows> rows;
      for (int r = 0; r < ranks; ++r) rows.emplace_back(placement, r, chunks, counts);
      for (int c = 0; c < chunks; ++c) {
        std::map<std::pair<int, int>, Counts> sent, received;  // sizes, by source and expert's rank
        for (int r = 0; r < ranks; ++r) {
          for (const Rows::Piece& p : rows[static_cast<std::size_t>(r)].home(c)) sent[{r, p.peer}].push_back(p.rows);
          std::int64_t next = rows[static_cast<std::size_t>(r)].chunks()[static_cast<std::size_t>(c)].first_row;
          for (const Rows::Piece& p : rows[static_cast<std::size_t>(r)].expert(c)) {
            EXPECT_EQ(p.first_row, next);
            next += p.rows;
            received[{p.peer, r}].push_back(p.rows);
          }
          EXPECT_EQ(next, rows[static_cast<std::size_t>(r)].chunks()[static_cast<std::size_t>(c)].last_row);
        }
        EXPECT_EQ(sent, received) << ranks << " ranks, chunk " << c << " of " << chunks;
      }
    }
  }
}

}  // namespace
}  // namespace mxcheck_kernels::parallel

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

// ---- Tokens that travel ----

// Routes of all ranks, drawn: `width` slots a token, some of them dropped.
HomeSlots drawn_slots(std::int64_t tokens, std::int64_t width, std::int64_t experts, unsigned seed) {
  HomeSlots slots{width, {}, {}};
  for (std::int64_t i = 0; i < tokens * width; ++i) {
    seed = seed * 1664525U + 1013904223U;
    slots.experts.push_back(static_cast<std::int32_t>((seed >> 8) % static_cast<unsigned>(experts + 1)) - 1);
    slots.weights.push_back(1);
  }
  return slots;
}

// The row that each rank has at each place: (rank, token) of its own and of those that come, as the ranks send them.
using Held = std::vector<std::pair<int, std::int32_t>>;

Held held_at(const Placement& placement, int rank, int chunks, const std::vector<SentTokens>& sent,
             const Arrivals& arrivals) {
  Held held(static_cast<std::size_t>(arrivals.tokens()), {-1, -1});
  for (std::int64_t t = 0; t < arrivals.own(); ++t)
    held[static_cast<std::size_t>(t)] = {rank, static_cast<std::int32_t>(t)};
  const auto ranks = static_cast<std::size_t>(placement.ranks);
  for (std::size_t source = 0; source < ranks; ++source) {
    std::size_t next = 0;
    for (int c = 0; c < chunks; ++c) {
      for (std::size_t to = 0; to < ranks; ++to) {
        const std::int64_t count = sent[source].counts[static_cast<std::size_t>(c) * ranks + to];
        const Rows::Piece& piece = arrivals.chunk(c).pieces[source];
        if (static_cast<int>(to) == rank) {
          EXPECT_EQ(piece.rows, count);
        }
        for (std::int64_t i = 0; i < count; ++i, ++next) {
          if (static_cast<int>(to) != rank) continue;
          held[static_cast<std::size_t>(piece.first_row + i)] = {static_cast<int>(source), sent[source].tokens[next]};
        }
      }
    }
  }
  return held;
}

TEST(SentTokens, a_token_goes_once_to_each_rank_that_needs_it_and_rows_find_it) {
  constexpr std::int64_t kExperts = 9, kWidth = 3;
  for (const int ranks : {1, 2, 3, 7}) {
    for (const int chunks : {1, 2, 5}) {
      const Placement placement{ranks, 100, place_experts("seed:" + std::to_string(ranks), kExperts, ranks)};
      std::vector<HomeRows> home;
      std::vector<SentTokens> sent;
      std::vector<Counts> counts;
      for (int r = 0; r < ranks; ++r) {
        const std::int64_t tokens = placement.token_begin(r + 1) - placement.token_begin(r);
        home.push_back(home_rows(drawn_slots(tokens, kWidth, kExperts, static_cast<unsigned>(r)), kExperts, 0,
                                 Counts(kExperts, 0)));
        sent.push_back(sent_tokens(placement, r, chunks, home.back()));
        counts.push_back(sent.back().counts);
      }
      const std::vector<Counts> rows_of(static_cast<std::size_t>(ranks), Counts(kExperts, 1));
      std::vector<Held> held;
      for (int r = 0; r < ranks; ++r) {
        held.push_back(held_at(placement, r, chunks, sent, Arrivals(placement, r, chunks, counts)));
        Held sorted = held.back();
        std::sort(sorted.begin(), sorted.end());
        EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << "a token came twice";
      }
      for (int r = 0; r < ranks; ++r) {
        const HomeRows& mine = home[static_cast<std::size_t>(r)];
        const auto places = places_of_rows(placement, r, chunks, mine, sent[static_cast<std::size_t>(r)], counts);
        std::map<int, std::map<std::int32_t, bool>> needed;  // tokens by rank
        for (std::size_t e = 0; e < kExperts; ++e) {
          const int there = placement.expert_rank[e];
          for (std::int64_t row = mine.offsets[e]; row < mine.offsets[e + 1]; ++row) {
            const std::int32_t token = mine.row_token[static_cast<std::size_t>(row)];
            const std::int32_t place = places[static_cast<std::size_t>(row)];
            EXPECT_EQ(held[static_cast<std::size_t>(there)].at(static_cast<std::size_t>(place)),
                      (std::pair<int, std::int32_t>{r, token}));
            if (there == r) continue;
            needed[there][token] = true;
            const std::vector<Rows::Chunk> at = Rows(placement, there, chunks, rows_of).chunks();
            const auto own = placement.experts_of(there);
            const auto number = std::find(own.begin(), own.end(), static_cast<std::int64_t>(e)) - own.begin();
            for (int c = 0; c < chunks; ++c) {
              if (number < at[static_cast<std::size_t>(c)].first_expert) break;
              if (number >= at[static_cast<std::size_t>(c)].last_expert) continue;
              EXPECT_LT(place, Arrivals(placement, there, chunks, counts).chunk(c).last) << "a token came too late";
            }
          }
        }
        std::size_t all = 0;
        for (const auto& [rank, tokens] : needed) all += tokens.size();
        EXPECT_EQ(sent[static_cast<std::size_t>(r)].tokens.size(), all) << "a token went where nobody needs it";
      }
    }
  }
}

TEST(Rows, results_of_a_chunk_for_one_rank_are_contiguous_on_both_sides) {
  const Placement placement{2, 8, {0, 1, 0}};
  // Rank 0 has 1, 2 and 3 rows of its own for the three experts; rank 1 has 4, 5 and 6.
  const Rows rows(placement, 0, 2, {{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(rows.rows(), 1 + 4 + 3 + 6);
  EXPECT_EQ(rows.results(), rows.rows() + 2);
  // Chunk 0 is expert 0: results 0 of rank 0, 1 to 4 of rank 1; chunk 1 is expert 2: 5 to 7 of rank 0; expert 1 is at
  // rank 1.
  EXPECT_EQ(rows.result_of_home_row(), (std::vector<std::int32_t>{0, 14, 15, 5, 6, 7}));
  ASSERT_EQ(rows.back(0).size(), 1U);
  EXPECT_EQ(rows.back(0)[0].first_row, 14);
  EXPECT_EQ(rows.back(0)[0].rows, 2);
  EXPECT_TRUE(rows.back(1).empty());

  // In one chunk rank 0's rows of both experts come before rank 1's.
  const Rows whole(placement, 0, 1, {{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(whole.result_of_row(), (std::vector<std::int32_t>{0, 4, 5, 6, 7, 1, 2, 3, 8, 9, 10, 11, 12, 13}));
  for (std::size_t row = 0; row < whole.result_of_row().size(); ++row) {
    EXPECT_EQ(whole.row_of_result()[static_cast<std::size_t>(whole.result_of_row()[row])],
              static_cast<std::int32_t>(row));
  }
  EXPECT_EQ(whole.result_of_home_row(), (std::vector<std::int32_t>{0, 14, 15, 1, 2, 3}));
  std::vector<std::pair<std::int64_t, std::int64_t>> leaving;
  for (const Rows::Piece& p : whole.leaving(0)) leaving.emplace_back(p.first_row, p.rows);
  EXPECT_EQ(leaving, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {1, 3}, {4, 4}, {8, 6}}));
}

}  // namespace
}  // namespace mxcheck_kernels::parallel

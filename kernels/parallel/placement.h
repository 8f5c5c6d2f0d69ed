#pragma once
// Where experts and rows are: the one table that all ranks make alike, and the rows that travel between them.
//
// Tokens. Rank r has the tokens token_begin(r) to token_begin(r + 1): contiguous ranges in the order of the ranks, of
// sizes that differ by one at most.
//
// Rows at home. A rank's own rows, one a slot that is kept, in the order of experts, and tokens ascending within one.
//
// Rows at the expert. Those of a rank's experts in ascending order; of an expert those of rank 0's tokens, then rank
// 1's, and so on: tokens ascend, as in a layer of one rank. So rows of one rank and one expert are contiguous on both
// sides, and travel as one piece.
//
// Chunks. The experts of each rank are cut into as many contiguous groups, the first of them the larger: rows of a
// chunk are contiguous at the expert.
//
// Tokens that travel. A token goes to each other rank that has an expert of its routes, once, with the first chunk that
// needs it; of a chunk those for one rank are contiguous, tokens ascending. At their rank they lie behind its own
// tokens: those of chunk 0, of rank 0, 1, and so on, then those of chunk 1. A row finds its token there by a number,
// its place.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/parallel/mesh.h"

namespace mxcheck_kernels::parallel {

struct Placement {
  int ranks = 1;
  std::int64_t tokens = 0;       // of all ranks
  std::vector<int> expert_rank;  // of each expert
  [[nodiscard]] std::int64_t token_begin(int rank) const { return tokens * rank / ranks; }
  [[nodiscard]] std::vector<std::int64_t> experts_of(int rank) const;  // ascending
};

// "contiguous", "strided", "one", "seed:N" (drawn), "0,0,1,1" (the rank of each expert). ParallelError{configuration}
// for another text, a list of another length, and a rank that there is not.
std::vector<int> place_experts(const std::string& how, std::int64_t experts, int ranks);

// The routes of a rank's tokens, and its rows.
struct HomeRows {
  std::vector<std::int64_t> offsets;    // [experts + 1] of its rows
  std::vector<std::int32_t> row_token;  // of each row, counted from the rank's first
  std::vector<float> row_weight;
  std::vector<std::int64_t> row_slot;       // of each row, counted from the rank's first
  std::vector<std::int64_t> token_offsets;  // [tokens + 1] of slots
  std::vector<std::int32_t> token_rows;     // [slots]; -1: dropped
  [[nodiscard]] std::int64_t rows() const { return offsets.back(); }
};

// Slots of a rank's tokens, `width` each. -1: no expert.
struct HomeSlots {
  std::int64_t width = 0;
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

// Each rank's slots of each expert: what the ranks tell one another.
std::vector<std::int64_t> count_slots(const HomeSlots& slots, std::int64_t experts);

// capacity: rows that an expert has at most, the first of all ranks' slots in their order; 0: any number. before: for
// each expert, the slots of ranks before this one.
HomeRows home_rows(const HomeSlots& slots, std::int64_t experts, std::int64_t capacity,
                   std::span<const std::int64_t> before);

// Rows of each rank and expert that are kept, and what follows for this rank.
class Rows {
 public:
  // counts: [rank][expert], of rows that are kept.
  Rows(const Placement& placement, int rank, int chunks, std::vector<std::vector<std::int64_t>> counts);

  struct Chunk {
    std::int64_t first_expert = 0, last_expert = 0;  // among the rank's own
    std::int64_t first_row = 0, last_row = 0;        // at the expert
    std::vector<std::int64_t> offsets;               // of its experts' rows, from 0
  };
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }  // at the expert
  [[nodiscard]] const std::vector<std::int64_t>& experts() const { return experts_; }

  // A piece: rows of one rank's tokens and one of another rank's experts.
  struct Piece {
    int peer = 0;
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
  };
  // A chunk's rows at home that go to experts, and rows at this rank's experts that come. In the same order on both
  // sides of each pair of ranks.
  [[nodiscard]] const std::vector<Piece>& home(int chunk) const { return home_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] const std::vector<Piece>& expert(int chunk) const { return expert_[static_cast<std::size_t>(chunk)]; }

  // Results have another order, in which all that goes from one rank to another in a chunk is contiguous on both sides:
  // first those of rows at this rank's experts, by chunk, rank of the token, expert, row; behind all of them those that
  // come back, by chunk, rank of the expert, expert, row. Of one expert both orders are the same.
  //
  // leaving(): expert() in this order, own rows too; back(): home() in it, without own rows.
  [[nodiscard]] const std::vector<Piece>& leaving(int chunk) const { return leaving_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] const std::vector<Piece>& back(int chunk) const { return back_[static_cast<std::size_t>(chunk)]; }
  // For each row at this rank's experts, counted from its chunk's first; and the row of each of these results.
  [[nodiscard]] const std::vector<std::int32_t>& result_of_row() const { return result_of_row_; }
  [[nodiscard]] const std::vector<std::int32_t>& row_of_result() const { return row_of_result_; }
  [[nodiscard]] const std::vector<std::int32_t>& result_of_home_row() const { return result_of_home_row_; }
  [[nodiscard]] std::int64_t results() const { return results_; }

 private:
  void number_results(int rank, int ranks);
  std::vector<std::int64_t> experts_;
  std::int64_t rows_ = 0, results_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<Piece>> home_, expert_, leaving_, back_;
  std::vector<std::int32_t> result_of_row_, row_of_result_, result_of_home_row_;
};

// This rank's tokens that travel, in the order in which they do: by chunk, rank, token.
struct SentTokens {
  std::vector<std::int32_t> tokens;     // counted from the rank's first
  std::vector<std::int64_t> counts;     // [chunk][rank]; none for this rank itself
  std::vector<std::int32_t> row_order;  // of each row at home: its token's number among those of its chunk and rank
  std::vector<int> row_chunk;           // and that chunk; -1 where the row stays
};
SentTokens sent_tokens(const Placement& placement, int rank, int chunks, const HomeRows& home);

// Tokens at a rank: its own, and those that come to its experts.
class Arrivals {
 public:
  // sent: counts of SentTokens of every rank.
  Arrivals(const Placement& placement, int rank, int chunks, const std::vector<std::vector<std::int64_t>>& sent);

  struct Chunk {
    std::int64_t first = 0, last = 0;  // places of the tokens that come with it
    std::vector<Rows::Piece> pieces;   // one for each other rank
  };
  [[nodiscard]] std::int64_t own() const { return own_; }
  [[nodiscard]] std::int64_t tokens() const { return chunks_.empty() ? own_ : chunks_.back().last; }
  [[nodiscard]] const Chunk& chunk(int number) const { return chunks_[static_cast<std::size_t>(number)]; }
  // The place of the first token of this rank and chunk.
  [[nodiscard]] std::int64_t place_of(int source, int chunk) const;

 private:
  std::int64_t own_ = 0;
  std::vector<Chunk> chunks_;
};

// The place of each row's token at the rank of the row's expert.
std::vector<std::int32_t> places_of_rows(const Placement& placement, int rank, int chunks, const HomeRows& home,
                                         const SentTokens& mine, const std::vector<std::vector<std::int64_t>>& sent);

}  // namespace mxcheck_kernels::parallel

#pragma once
// How many rows each expert has, and what whole tiles make of them.
//
//   const Load load = load_of({.kind = LoadKind::random}, 16384, 128, 4);
//   load.tile_rows / load.rows - 1          // the padding's share of the rows
//
// random: each token chooses top_k experts at random, so an expert's rows have the binomial distribution; figures are
// expectations. balanced: as even as whole rows allow. zipf: expert i has rows in proportion to i^-exponent, at most
// one of each token. counts: of each expert, as given; they need not add up to tokens x top_k (tokens were dropped or
// rounded).
//
// Errors: Error{usage} says which number cannot be, and what would be right.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

enum class LoadKind : std::uint8_t { random, balanced, zipf, counts };

struct LoadSpec {
  LoadKind kind = LoadKind::random;
  double exponent = 0;                 // of zipf
  std::vector<std::int64_t> counts{};  // of counts: one an expert
};

inline constexpr std::int64_t kTileRows = 128;  // rows of a tile of a GEMM
inline constexpr std::int64_t kTokenStep = 64;  // tokens of a step of a weight's gradient
inline constexpr std::int64_t kMostExperts = std::int64_t{1} << 16;

struct Load {
  double rows = 0;       // of all experts
  double tile_rows = 0;  // in whole tiles
  double step_rows = 0;  // in whole steps along tokens
  double busiest = 0;    // rows of the expert that has most; of a random load an estimate
  double used = 0;       // experts with a row
  double imbalance = 1;  // rows of the busiest of `groups` GPUs over their mean
};

// groups: GPUs, each with as many consecutive experts; counts are of `tokens` too.
Load load_of(const LoadSpec& spec, std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
             std::int64_t groups = 1);

// "random", "balanced", "zipf:0.5".
std::string to_text(const LoadSpec& spec);

// The numbers of a file of counts, separated by white space or commas; `where` is its name.
std::vector<std::int64_t> parse_counts(std::string_view text, const std::string& where);

}  // namespace mxcheck

#pragma once
// Tokens ranked for each expert: those that chose it first, then larger scores, then smaller indices. -0 equals +0;
// scores are neither negative nor NaN.
//
// Nothing is sorted in full: keys that are distinct numbers, and a selection. No errors: the
// caller sees to the arguments.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/router/metadata.h"

namespace mxcheck {

class TokenRanks {
 public:
  // chosen: the metadata of token choice, tile 1, which must outlive this. scores: tokens x experts.
  TokenRanks(const RouteMetadata& chosen, std::span<const float> scores, std::int64_t tokens, int threads);

  // The tokens that chose the expert, ascending.
  [[nodiscard]] std::span<const std::int32_t> chosen(std::int64_t expert) const;

  // The tokens of ranks 1 to count, ascending. By scores alone, ignoring who chose the expert. count <= tokens.
  [[nodiscard]] std::vector<std::int32_t> first(std::int64_t expert, std::int64_t count) const;
  [[nodiscard]] std::vector<std::int32_t> first_by_score(std::int64_t expert, std::int64_t count) const;

  // The scores of ranks begin + 1 to end, in the order of ranks, where begin <= those that chose it <= end <= tokens.
  [[nodiscard]] std::vector<float> scores_around_chosen(std::int64_t expert, std::int64_t begin,
                                                        std::int64_t end) const;

 private:
  [[nodiscard]] std::vector<std::uint64_t> keys_of_chosen(std::int64_t expert) const;
  [[nodiscard]] std::vector<std::uint64_t> keys_of_others(std::int64_t expert) const;
  [[nodiscard]] std::uint64_t key(std::int64_t expert, std::int64_t token) const;

  const RouteMetadata& metadata_;
  std::int64_t tokens_;
  std::vector<float> scores_;  // experts x tokens
};

}  // namespace mxcheck

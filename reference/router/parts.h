#pragma once
// Code that token choice, its gradient and the losses share. For reference/router/*.cc alone. docs/router.md has
// the formulas. Errors: Error{usage} and Error{input} of check_router, Error{input} of read_logits.

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "reference/router/metadata.h"
#include "reference/router/router.h"

namespace mxcheck::router_parts {

inline constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();  // rows are counted in int32

// Error{usage} for a router that does not fit the logits, Error{input} for a NaN in its bias where it refuses them.
void check_router(const Router& router, const MatrixView& logits);

// One row; Error{input} for what the router refuses, naming the first.
void read_logits(const Router& router, const MatrixView& logits, std::int64_t row, std::span<float> values);

// Scores. `values` may hold NaN, whose score is +0.
float sigmoid(float x);
float sqrtsoftplus(float x);
void scores_of(RouterScore score, std::span<const float> values, std::span<float> scores);

// Stores m + log(S), of the row's maximum m and sum S, if log_sum_exp is not null.
void softmax(std::span<const float> values, std::span<float> scores, float* log_sum_exp = nullptr);

// The order. A key is larger the earlier its value comes; keys of different indices differ, and none is 0. The upper
// half ascends with the value: negative numbers with all bits flipped lie below positive ones with the sign set, -Inf
// at 0x007FFFFF above NaN at 0, and -0 is +0. Below it the index is flipped.
inline std::uint64_t order_key(float value, std::int64_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(value == 0 ? 0.0F : value);
  const std::uint32_t sign = static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31);
  const std::uint32_t upper = value != value ? 0 : bits ^ (sign | 0x80000000);
  return std::uint64_t{upper} << 32 | static_cast<std::uint32_t>(~index);
}
inline std::int64_t index_of(std::uint64_t key) { return static_cast<std::uint32_t>(~key); }

// The largest keys, descending: as many as `first` takes. scratch is for reuse.
void first_in_order(std::span<const std::uint64_t> keys, std::span<std::uint64_t> first,
                    std::vector<std::uint64_t>& scratch);

// Packed order: the low `bits` of a value replaced by its index, and cleared.
int packed_bits(std::int64_t experts);
float packed(float value, std::int64_t index, int bits);
float cleared(float value, int bits);

// Weights before `scale`, of the kept logits (softmax_of_kept) or scores in the order in which they are given. Returns
// what scores were divided by: 1 where it is nothing.
float kept_weights(const Router& router, std::span<const float> kept, std::span<float> weights);

// Tokens ranked for each expert: those that chose it first, then larger scores, then smaller indices. -0 equals +0;
// scores are neither negative nor NaN.
//
// Nothing is sorted in full: keys that are distinct numbers, and a selection. No errors: the
// caller sees to the arguments.

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

}  // namespace mxcheck::router_parts

#pragma once
// Tokens ranked for one expert: larger score first, then the smaller token. Scores are +0 or more and never NaN, so
// that their bits have their order; with the token below them all keys differ.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace mxcheck_kernels::cpu {

// Scratch memory for ranking, a thread's own.
struct RankSpace {
  explicit RankSpace(std::int64_t tokens)
      : values(static_cast<std::size_t>(tokens)), keys(static_cast<std::size_t>(tokens)), buckets(kBuckets) {}

  static constexpr int kBucketShift = 18;  // sign, exponent and five bits of the mantissa are left
  static constexpr std::size_t kBuckets = std::size_t{1} << (32 - kBucketShift);

  std::vector<std::uint32_t> values;
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> buckets;
};

class TokenRanks {
 public:
  // The expert's score of every token, and the tokens that chose it, ascending.
  TokenRanks(const float* scores, std::int64_t tokens, std::span<const std::int32_t> chosen, RankSpace& space)
      : scores_(scores),
        tokens_(tokens),
        chosen_(chosen),
        values_(space.values.data()),
        keys_(space.keys.data()),
        buckets_(space.buckets) {}

  // The scores at ranks down + 1 to f of those that chose the expert, added up, against those of the best that did not,
  // `below` of them: whether the latter's sum is smaller.
  [[nodiscard]] bool gains_less_than_it_loses(std::int64_t down, std::int64_t below) {
    const std::int64_t f = collect_chosen();
    std::nth_element(keys_, keys_ + down, keys_ + f, std::greater<>());
    const float lost = sum_in_order(keys_ + down, keys_ + f);
    load(Load::others);
    const std::uint64_t least = key_at(below);
    std::int64_t n = 0;
    each_kept(least, [&](std::int32_t t) {
      if (values_[t] != 0) keys_[n++] = key(t);
    });
    return sum_in_order(keys_, keys_ + n) < lost;
  }

  // The best `count` in the order "chose it, then score", ascending by token.
  void keep(std::int64_t count, std::int32_t* to) {
    const std::int64_t f = static_cast<std::int64_t>(chosen_.size());
    if (count == f) {
      std::copy(chosen_.begin(), chosen_.end(), to);
    } else if (count > f) {
      load(Load::others);
      each_kept(key_at(count - f), [&](std::int32_t t) { *to++ = t; });
    } else if (count > 0) {
      const std::int64_t n = collect_chosen();
      std::nth_element(keys_, keys_ + (count - 1), keys_ + n, std::greater<>());
      const std::uint64_t least = keys_[count - 1];
      std::copy_if(chosen_.begin(), chosen_.end(), to, [&](std::int32_t t) { return key_of(scores_[t], t) >= least; });
    }
  }

  // The best `count` of all tokens.
  void keep_of_all(std::int64_t count, std::int32_t* to) {
    if (count == 0) return;
    load(Load::all);
    each_kept(key_at(count), [&](std::int32_t t) { *to++ = t; });
  }

 private:
  // A score's value is one more than its bits; 0 is left for tokens that are not ranked.
  static std::uint32_t value_of(float score) { return std::bit_cast<std::uint32_t>(score) + 1; }
  static std::uint64_t key_of(std::uint32_t value, std::int32_t token) {
    return std::uint64_t{value} << 32 | static_cast<std::uint32_t>(~token);
  }
  static std::uint64_t key_of(float score, std::int32_t token) { return key_of(value_of(score), token); }
  [[nodiscard]] std::uint64_t key(std::int32_t token) const { return key_of(values_[token], token); }

  std::int64_t collect_chosen() {
    return std::transform(chosen_.begin(), chosen_.end(), keys_,
                          [&](std::int32_t t) { return key_of(scores_[t], t); }) -
           keys_;
  }

  enum class Load : std::uint8_t { all, others };  // others: those that did not choose the expert
  void load(Load which) {
    std::transform(scores_, scores_ + tokens_, values_, value_of);
    if (which == Load::all) return;
    for (const std::int32_t t : chosen_) values_[t] = 0;
  }

  // The key at rank `count`, from 1, of those loaded: first its bucket of like values, then its place there. Tokens
  // that are not ranked come after all others.
  [[nodiscard]] std::uint64_t key_at(std::int64_t count) {
    constexpr int kShift = RankSpace::kBucketShift;
    std::fill(buckets_.begin(), buckets_.end(), 0);
    for (std::int64_t t = 0; t < tokens_; ++t) ++buckets_[values_[t] >> kShift];
    std::uint32_t bucket = static_cast<std::uint32_t>(buckets_.size() - 1);
    for (; count > buckets_[bucket]; --bucket) count -= buckets_[bucket];
    std::int64_t n = 0;
    for (std::int32_t t = 0; t < tokens_; ++t) {
      if (values_[t] >> kShift == bucket) keys_[n++] = key(t);
    }
    std::nth_element(keys_, keys_ + (count - 1), keys_ + n, std::greater<>());
    return keys_[count - 1];
  }

  // visit(token) for tokens whose key is `least` or more, and for those that are not ranked.
  template <class Visit>
  void each_kept(std::uint64_t least, Visit visit) const {
    const std::uint32_t least_bits = static_cast<std::uint32_t>(least >> 32) - 1;
    for (std::int32_t t = 0; t < tokens_; ++t) {
      const std::uint32_t bits = values_[t] - 1;  // of 0 more than any score's
      if (bits < least_bits) continue;
      if (bits > least_bits || key(t) >= least) visit(t);
    }
  }

  static float sum_in_order(std::uint64_t* begin, std::uint64_t* end) {
    std::sort(begin, end, std::greater<>());
    float sum = 0;
    for (; begin != end; ++begin) sum += std::bit_cast<float>(static_cast<std::uint32_t>(*begin >> 32) - 1);
    return sum;
  }

  const float* scores_;
  std::int64_t tokens_;
  std::span<const std::int32_t> chosen_;
  std::uint32_t* values_;
  std::uint64_t* keys_;
  std::vector<std::uint32_t>& buckets_;
};

}  // namespace mxcheck_kernels::cpu

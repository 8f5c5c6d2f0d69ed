#include "kernels/cpu/route/rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/partition.h"
#include "kernels/cpu/route/policy.h"
#include "kernels/cpu/route/sort.h"

namespace mxcheck_kernels::cpu {

// Tokens ranked for one expert: larger score first, then the smaller token. Scores are +0 or more and never NaN, so
// that their bits have their order; with the token below them all keys differ.

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

// How many tokens an expert gets: its count, rounded to tiles by a rule, or limited to a capacity.

// Word 0 of Philox4x32-10.
inline std::uint32_t philox_first(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter[0];
}

// A count between two multiples of the tile, both of which the tokens can fill.
struct Between {
  std::int64_t down;
  std::int64_t above;  // count - down, > 0
  std::int64_t below;  // up - count, > 0
};

// Counts for one expert after the other; balance-f remembers what was added so far.
class CountRounder {
 public:
  CountRounder(const mxcheck_route_policy& policy, TokenRoundingRule rule, std::int64_t tokens)
      : policy_(policy), rule_(rule), tokens_(tokens) {}

  // False where the count stays, or can go down alone.
  bool has_choice(std::int64_t count, Between& between) const {
    const std::int64_t above = count % policy_.tile;
    between = {count - above, above, policy_.tile - above};
    return above != 0 && policy_.tile <= tokens_ - between.down;
  }

  // up_by_scores: of nr-s, whether what would be gained is less than what would be lost.
  std::int64_t operator()(std::int64_t expert, std::int64_t count, bool up_by_scores) {
    if (!rounds_to_tiles(rule_)) return limited(count);
    Between between{};
    const bool up = has_choice(count, between) && goes_up(expert, between, up_by_scores);
    const std::int64_t rounded = between.down + (up ? policy_.tile : 0);
    added_ += rounded - count;
    return rounded;
  }

 private:
  [[nodiscard]] std::int64_t limited(std::int64_t count) const {
    if (rule_ == TokenRoundingRule::expert_choice) return policy_.capacity < tokens_ ? policy_.capacity : tokens_;
    const bool limits = rule_ != TokenRoundingRule::none && policy_.capacity != 0 && policy_.capacity < count;
    return limits ? policy_.capacity : count;
  }

  [[nodiscard]] bool goes_up(std::int64_t expert, const Between& b, bool up_by_scores) const {
    const auto magnitude = [](std::int64_t v) { return v < 0 ? -v : v; };
    switch (rule_) {
      case TokenRoundingRule::nr_f: return b.below < b.above;
      case TokenRoundingRule::nr_even:
        return b.below < b.above || (b.below == b.above && b.down / policy_.tile % 2 == 1);
      case TokenRoundingRule::nr_s: return up_by_scores;
      case TokenRoundingRule::balance_f: return magnitude(added_ + b.below) < magnitude(added_ - b.above);
      case TokenRoundingRule::up: return true;
      case TokenRoundingRule::sr_f: {  // the tile is at most the number of tokens here, and that an int32
        const std::uint32_t word = philox_first(
            policy_.seed, {static_cast<std::uint32_t>(expert), policy_.layer, static_cast<std::uint32_t>(policy_.step),
                           static_cast<std::uint32_t>(policy_.step >> 32)});
        return std::uint64_t{word} * static_cast<std::uint64_t>(policy_.tile) < static_cast<std::uint64_t>(b.above)
                                                                                    << 32;
      }
      default: return false;
    }
  }

  const mxcheck_route_policy& policy_;
  TokenRoundingRule rule_;
  std::int64_t tokens_;
  std::int64_t added_ = 0;
};
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

class TokenRounder {
 public:
  explicit TokenRounder(const TokenRoundingJob& job)
      : job_(job),
        tokens_(job.policy->policy.rows),
        experts_(job.policy->policy.cols),
        threads_(job.policy->policy.threads),
        sort_(job.choices, tokens_ * job.policy->top_k, experts_, threads_) {}

  void run() {
    if (job_.plan.rule == TokenRoundingRule::none) {
      keep_choices();
      return;
    }
    take_memory();
    by_expert();
    by_token();
    fill_rest(job_.offsets[experts_]);
  }

 private:
  void put_chosen() const {
    std::transform(sort_.counts().begin(), sort_.counts().end(), job_.chosen,
                   [](std::int64_t n) { return static_cast<std::int32_t>(n); });
  }

  // Token choice as it is: each slot is a row.
  void keep_choices() {
    put_chosen();
    job_.offsets[0] = 0;
    for (std::int64_t e = 0; e < experts_; ++e) job_.offsets[e + 1] = job_.offsets[e] + sort_.counts()[size(e)];
    const std::int64_t k = job_.policy->top_k;
    sort_.place(job_.offsets, [&](std::int64_t slot, std::int32_t, std::int64_t row) {
      job_.row_token[row] = static_cast<std::int32_t>(slot / k);
      job_.row_weight[row] = job_.weights[slot];
      job_.token_rows[slot] = static_cast<std::int32_t>(row);
    });
    for_each_part(tokens_, token_parts(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        job_.token_offsets[t] = t * k;
        std::sort(job_.token_rows + t * k, job_.token_rows + (t + 1) * k);  // rows ascend with experts
      }
    });
    job_.token_offsets[tokens_] = tokens_ * k;
  }

  [[nodiscard]] std::int64_t token_parts() const {
    return part_count(tokens_, tokens_ * job_.policy->top_k * 8, threads_);
  }
  [[nodiscard]] std::int64_t expert_parts() const { return part_count(experts_, tokens_ * experts_ * 8, threads_); }

  void take_memory() {
    chosen_by_.resize(size(tokens_ * job_.policy->top_k));
    first_chosen_.resize(size(experts_ + 1));
    up_by_scores_.resize(size(experts_));
    for (std::int64_t i = 0; i < expert_parts(); ++i) spaces_.emplace_back(tokens_);
    sums_.resize(size(tokens_));
    next_.resize(size(tokens_));
  }

  template <class Work>  // work(ranks, expert), from several threads
  void each_expert(const Work& work) {
    std::atomic<std::size_t> taken{0};
    for_each_part(experts_, expert_parts(), [&](std::int64_t begin, std::int64_t end) {
      RankSpace& space = spaces_[taken++];
      for (std::int64_t e = begin; e < end; ++e) {
        TokenRanks ranks(job_.scores + e * job_.score_stride, tokens_, chosen(e), space);
        work(ranks, e);
      }
    });
  }

  [[nodiscard]] std::span<const std::int32_t> chosen(std::int64_t e) const {
    return {chosen_by_.data() + first_chosen_[size(e)], chosen_by_.data() + first_chosen_[size(e + 1)]};
  }

  // Counts, and the tokens of each expert.
  void by_expert() {
    const std::vector<std::int64_t>& counts = sort_.counts();
    for (std::int64_t e = 0; e < experts_; ++e) first_chosen_[size(e + 1)] = first_chosen_[size(e)] + counts[size(e)];
    sort_.place(first_chosen_.data(), [&](std::int64_t slot, std::int32_t, std::int64_t row) {
      chosen_by_[size(row)] = static_cast<std::int32_t>(slot / job_.policy->top_k);
    });
    CountRounder round(*job_.policy, job_.plan.rule, tokens_);
    if (job_.plan.rule == TokenRoundingRule::nr_s) {
      each_expert([&](TokenRanks& ranks, std::int64_t e) {
        Between b{};
        if (!round.has_choice(counts[size(e)], b)) return;
        up_by_scores_[size(e)] = ranks.gains_less_than_it_loses(b.down, b.below) ? 1 : 0;
      });
    }
    put_chosen();
    job_.offsets[0] = 0;
    for (std::int64_t e = 0; e < experts_; ++e) {
      job_.offsets[e + 1] = job_.offsets[e] + round(e, counts[size(e)], up_by_scores_[size(e)] != 0);
    }
    each_expert([&](TokenRanks& ranks, std::int64_t e) {
      const std::int64_t count = job_.offsets[e + 1] - job_.offsets[e];
      std::int32_t* const to = job_.row_token + job_.offsets[e];
      switch (job_.plan.rule) {
        case TokenRoundingRule::expert_choice: ranks.keep_of_all(count, to); break;
        case TokenRoundingRule::capacity_order: std::copy_n(chosen(e).begin(), count, to); break;
        default: ranks.keep(count, to);
      }
    });
  }

  // visit(expert, row) for the rows of the tokens [begin, end), experts ascending.
  template <class Visit>
  void each_row(std::int64_t begin, std::int64_t end, const Visit& visit) const {
    for (std::int64_t e = 0; e < experts_; ++e) {
      const std::int32_t* const last = job_.row_token + job_.offsets[e + 1];
      const std::int32_t* const first = job_.row_token + job_.offsets[e];
      const std::int32_t* row = std::lower_bound(first, last, begin);
      for (; row != last && *row < end; ++row) visit(e, row - job_.row_token);
    }
  }

  // Weights, and the rows of each token.
  void by_token() {
    const bool renormalizes = job_.policy->renormalize != 0;
    for_each_part(tokens_, token_parts(), [&](std::int64_t begin, std::int64_t end) {
      each_row(begin, end, [&](std::int64_t e, std::int64_t row) {
        const std::int32_t t = job_.row_token[row];
        sums_[size(t)] += job_.scores[e * job_.score_stride + t];
        ++next_[size(t)];
      });
    });
    job_.token_offsets[0] = 0;
    for (std::int64_t t = 0; t < tokens_; ++t) {
      job_.token_offsets[t + 1] = job_.token_offsets[t] + next_[size(t)];
      next_[size(t)] = job_.token_offsets[t];
    }
    for_each_part(tokens_, token_parts(), [&](std::int64_t begin, std::int64_t end) {
      each_row(begin, end, [&](std::int64_t e, std::int64_t row) {
        const std::int32_t t = job_.row_token[row];
        const float score = job_.scores[e * job_.score_stride + t];
        const float sum = sums_[size(t)];
        const float weight = !renormalizes ? score : sum == 0 ? 0.0F : score / sum;
        job_.row_weight[row] = weight * job_.plan.scale;
        job_.token_rows[next_[size(t)]++] = static_cast<std::int32_t>(row);
      });
    });
  }

  void fill_rest(std::int64_t rows) const {
    std::fill(job_.row_token + rows, job_.row_token + job_.capacity, -1);
    std::fill(job_.row_weight + rows, job_.row_weight + job_.capacity, 0.0F);
    std::fill(job_.token_rows + rows, job_.token_rows + job_.capacity, -1);
  }

  const TokenRoundingJob& job_;
  const std::int64_t tokens_;
  const std::int64_t experts_;
  const std::int32_t threads_;
  ExpertSort sort_;
  std::vector<std::int32_t> chosen_by_;     // tokens by the expert that they chose
  std::vector<std::int64_t> first_chosen_;  // [experts + 1] into these
  std::vector<std::uint8_t> up_by_scores_;  // of nr-s
  std::vector<RankSpace> spaces_;           // one for each thread
  std::vector<float> sums_;                 // of each token's kept scores
  std::vector<std::int64_t> next_;          // each token's number of rows, then its next place in token_rows
};

}  // namespace

void round_tokens(const TokenRoundingJob& job) { TokenRounder(job).run(); }

}  // namespace mxcheck_kernels::cpu

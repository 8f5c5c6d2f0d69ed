#include "kernels/cpu/route/rows.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "kernels/cpu/partition.h"
#include "kernels/cpu/route/counts.h"
#include "kernels/cpu/route/ranks.h"
#include "kernels/cpu/route/sort.h"

namespace mxcheck_kernels::cpu {
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

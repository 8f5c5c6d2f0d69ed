#pragma once
// The cases that a soak repeats: which there are, one in hand with the reference's answer, and what its calls returned.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "properties/core/check.h"
#include "properties/core/domain/domain.h"
#include "properties/core/operation.h"

namespace mxcheck {

// A variant, and the statement that its cases are of.
struct SoakTarget {
  std::size_t statement = 0;
  std::size_t number = 0;  // of the variant, in the domain
  std::shared_ptr<const Domain> domain;
};
std::vector<SoakTarget> soak_targets(const std::vector<const Statement*>& statements,
                                     const std::vector<Variant>& offered, const CandidateRunner& process);

// Counts of calls by outcome: compared with the answer, refused, failed.
struct SoakTally {
  std::int64_t compared = 0;
  std::int64_t refused = 0;  // as an option that is not offered
  std::int64_t failures = 0;
  std::int64_t faults = 0;  // among them
};

class SoakCase {
 public:
  // calls: until another case takes its place.
  SoakCase(std::size_t target, const Case& c, int calls) : target_(target), left_(calls) { take_up(c); }

  [[nodiscard]] std::size_t target() const { return target_; }
  [[nodiscard]] const Case& descriptor() const { return problem_->c; }
  [[nodiscard]] bool is_done() const { return left_ <= 0; }
  [[nodiscard]] const std::optional<Finding>& finding() const { return finding_; }  // of the first call that failed
  // The answer's outputs; pointers into this.
  [[nodiscard]] const std::vector<std::span<const std::byte>>& expected() const { return expected_; }

  // The next call, over a poison, a workspace and in a stream of its own; and how many in a row.
  [[nodiscard]] Call call(bool cuda, Draw& draw) const;
  [[nodiscard]] std::uint32_t calls_in_row(const Call& call, Draw& draw) const;
  void look_at(Outcome&& outcome, SoakTally& tally);
  // So many calls were made. Options that were refused are not asked for again; a case that crashes or hangs neither.
  void count(std::uint32_t calls, const SoakTally& tally);

 private:
  void take_up(const Case& c);

  std::size_t target_;
  std::unique_ptr<Problem> problem_;
  std::vector<ExpectedTensor> answer_;
  std::vector<std::span<const std::byte>> expected_;
  int left_;
  std::int64_t right_ = 0;
  std::optional<Finding> finding_;
};

// Every variant once, in an order that the seed gives, with few calls of each; then a statement by chance and one of
// its variants, with many: few routers have as many variants as all else together. The cases follow from the seed.
class SoakSampler {
 public:
  SoakSampler(std::vector<SoakTarget> targets, std::uint64_t seed);
  [[nodiscard]] const std::vector<SoakTarget>& targets() const { return targets_; }
  // Any thread may call it. Nothing where the variant's limits leave no case, or chance found none.
  std::optional<SoakCase> deal();

 private:
  std::vector<SoakTarget> targets_;
  std::vector<std::size_t> first_round_;                    // of targets
  std::vector<std::vector<std::size_t>> of_one_statement_;  // targets; none of them is empty
  std::uint64_t seed_;
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace mxcheck

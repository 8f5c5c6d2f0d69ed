#include "properties/gate/soak_cases.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace mxcheck {
namespace {

constexpr std::uint64_t kMostInRow = 32;                      // calls of one case
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 25;  // of their tensors
constexpr std::int64_t kShortCalls = 16;  // so much less work than a drawn case has: three cases of four
constexpr int kDrawTries = 20;
constexpr int kCallsOfFirstRound = 32;
constexpr int kCallsOfCase = 256;

}  // namespace

std::vector<SoakTarget> soak_targets(const std::vector<const Statement*>& statements,
                                     const std::vector<Variant>& offered, const CandidateRunner& process) {
  std::vector<SoakTarget> all;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    std::vector<std::vector<Variant>> by_operation;
    for (const Variant& v : offered) {
      if (!statements[i]->applies(v, offered)) continue;
      if (by_operation.empty() || by_operation.back().back().operation != v.operation) by_operation.emplace_back();
      by_operation.back().push_back(v);
    }
    for (const std::vector<Variant>& variants : by_operation) {
      const std::shared_ptr<const Domain> domain =
          operation_named(variants.front().operation).domain({*statements[i], variants, process});
      for (std::size_t n = 0; n < variants.size(); ++n) all.push_back({i, n, domain});
    }
  }
  return all;
}

void SoakCase::take_up(const Case& c) {
  problem_ = make_problem(c);
  answer_ = problem_->answer();
  expected_.clear();
  for (const ExpectedTensor& t : answer_) expected_.emplace_back(t.bytes);
}

Call SoakCase::call(bool cuda, Draw& draw) const {
  Call call = problem_->call();
  call.poison = kPoisons[draw.below(std::size(kPoisons))];
  call.workspace = {static_cast<std::uint8_t>(draw.word()), static_cast<std::uint8_t>(draw.chance(20) ? 1 : 0)};
  call.misaligned = descriptor().misaligned;
  call.byte_offset = draw.chance(50) ? 256 : 0;
  constexpr StreamMode kModes[] = {StreamMode::own, StreamMode::legacy, StreamMode::crowded};
  if (cuda) call.stream = kModes[draw.below(std::size(kModes))];
  return call;
}

std::uint32_t SoakCase::calls_in_row(const Call& call, Draw& draw) const {
  std::uint64_t bytes = 1;
  for (const CallTensor& t : call.inputs) bytes += t.bytes;
  for (const CallTensor& t : call.outputs) bytes += t.bytes;
  const std::uint64_t most = std::min({kMostInRow, kMostBytes / bytes + 1, static_cast<std::uint64_t>(left_)});
  return static_cast<std::uint32_t>(1 + draw.below(most));
}

void SoakCase::look_at(Outcome&& outcome, SoakTally& tally) {
  Ran ran = judged(std::move(outcome), descriptor());
  if (!ran.finding && !ran.outcome) return void(++tally.refused);
  std::optional<Finding> finding = std::move(ran.finding);
  if (!finding) finding = first_difference(*problem_, answer_, ran.outcome->outputs, " from the reference");
  if (!finding) return;  // equal, or another NaN where any will do
  ++tally.failures;
  tally.faults += finding->kind == FindingKind::fault ? 1 : 0;
  if (finding_) return;
  finding->summary += right_ == 0 ? "; in the first calls of this case"
                                  : fmt::format("; {} calls of this case before it were right", right_);
  finding_ = std::move(finding);
}

void SoakCase::count(std::uint32_t calls, const SoakTally& tally) {
  left_ -= static_cast<int>(calls);
  right_ += std::max<std::int64_t>(0, tally.compared - tally.failures);
  if (tally.faults > 0) left_ = 0;
  if (tally.refused == 0) return;
  const Case plain = operation_named(descriptor().variant.operation).without_options(descriptor());
  if (plain == descriptor()) {
    left_ = 0;
  } else {
    take_up(plain);
  }
}

SoakDeck::SoakDeck(std::vector<SoakTarget> targets, std::uint64_t seed)
    : targets_(std::move(targets)), first_round_(targets_.size()), seed_(seed) {
  std::iota(first_round_.begin(), first_round_.end(), std::size_t{0});
  Draw order(derived_seed(seed_, "soak round"));
  for (std::size_t i = first_round_.size(); i > 1; --i) std::swap(first_round_[i - 1], first_round_[order.below(i)]);
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    if (i == 0 || targets_[i].statement != targets_[i - 1].statement) of_one_statement_.emplace_back();
    of_one_statement_.back().push_back(i);
  }
}

std::optional<SoakCase> SoakDeck::deal() {
  const std::uint64_t number = next_++;
  Draw draw(random_word(derived_seed(seed_, "soak case"), number));
  const bool first = number < first_round_.size();
  const std::size_t chosen =
      first ? first_round_[number] : draw.pick(of_one_statement_[draw.below(of_one_statement_.size())]);
  const SoakTarget& target = targets_[chosen];
  for (int i = 0; i < kDrawTries; ++i) {
    const bool is_short = i < kDrawTries / 2 && draw.chance(75);
    const std::int64_t most = target.domain->small_work() / (is_short ? kShortCalls : 1);
    const std::optional<Case> c = target.domain->make(target.domain->of_variant(target.number), most, draw);
    if (c) return SoakCase(chosen, *c, first ? kCallsOfFirstRound : kCallsOfCase);
  }
  return std::nullopt;
}

}  // namespace mxcheck

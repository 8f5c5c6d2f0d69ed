
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/domain/domain.h"
#include "properties/core/operation.h"
#include "properties/gate/gate.h"
#include "properties/gate/gpus.h"

namespace mxcheck {

// The cases that a soak repeats: which there are, one in hand with the reference's answer, and what its calls returned.

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
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kInHand = 16;  // cases between which calls switch

class Soak {
 public:
  Soak(const GateOptions& options, const std::vector<const Statement*>& statements, const GateReport& begun,
       const CandidateRunner& process)
      : options_(options),
        begun_(begun),
        deck_(soak_targets(statements, begun.variants, process), options.seed),
        jobs_(jobs_of(options, begun.candidate)) {
    count_.minutes = options.soak_minutes;
    for (const Statement* s : statements) results_.emplace_back().statement = s;
    end_ = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(60 * count_.minutes));
  }

  void run(CandidateProcess& process) {
    std::vector<std::thread> others;
    for (int i = 1; i < jobs_ && !deck_.targets().empty(); ++i) {
      others.emplace_back([this, i] {
        guarded([this, i] {
          CandidateProcess own(options_.tool, options_.library, options_.time_limit, options_.gpu_model,
                               options_.claims, gpus_of_job(begun_.candidate.gpus, i));
          own.watch(options_.interrupted);
          work(own);
        });
      });
    }
    guarded([&] {
      if (deck_.targets().empty()) return;
      if (begun_.candidate.gpus.size() > 1) process.spread_over(gpus_of_job(begun_.candidate.gpus, 0));
      work(process);
    });
    for (std::thread& other : others) other.join();
    if (failed_) std::rethrow_exception(failed_);
    count_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  }

  void finish(GateReport& report) {
    for (std::size_t i = 0; i < results_.size(); ++i) judge(i);
    report.statements = std::move(results_), report.soak = count_,
    report.ends = texts_of_ends(ends_, begun_.candidate.gpus, jobs_);
  }

 private:
  [[nodiscard]] bool stop() const { return options_.interrupted != nullptr && options_.interrupted->load(); }
  [[nodiscard]] bool is_over() const { return over_ || stop() || Clock::now() >= end_; }

  template <class Run>
  void guarded(const Run& run) {
    try {
      run();
    } catch (const Interrupted&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_) failed_ = std::current_exception();
      over_ = true;
    }
  }

  void work(CandidateProcess& process) {
    Draw draw(random_word(derived_seed(options_.seed, "soak order"), begun_jobs_++));
    std::vector<SoakCase> hand;
    while (!is_over()) {
      if (hand.size() < kInHand) {
        if (std::optional<SoakCase> dealt = deck_.deal()) hand.push_back(*std::move(dealt));
        if (hand.size() < kInHand / 2) continue;
      }
      SoakCase& one = hand[draw.below(hand.size())];
      call_some(process, one, draw);
      if (!one.is_done()) continue;
      std::swap(one, hand.back());
      hand.pop_back();
    }
    if (stop()) return;
    if (const std::string problem = process.end_in_order(); !problem.empty()) {
      const std::lock_guard lock(mutex_);
      ends_.emplace_back(problem, process.gpus().own);
    }
  }

  void call_some(CandidateProcess& process, SoakCase& one, Draw& draw) {
    const auto begin = Clock::now();
    const bool cuda = process.info().cuda;
    const Call call = one.call(cuda, draw);
    const std::uint32_t calls = cuda ? 1 : one.calls_in_row(call, draw);
    SoakTally tally;
    if (cuda) {
      one.look_at(process.run(call), tally);
      tally.compared = tally.refused == 0 ? 1 : 0;
    } else {
      Outcome all = process.run_burst(call, calls, one.expected(), [&](std::uint32_t, Outcome&& outcome) {
        one.look_at(std::move(outcome), tally);
      });
      const bool returned = all.kind == OutcomeKind::returned;
      if (returned) tally.compared = calls - tally.refused;
      if (!returned || all.conduct) one.look_at(std::move(all), tally);
    }
    one.count(calls, tally);
    add(one, tally, std::chrono::duration<double>(Clock::now() - begin).count());
    if (tally.failures > 0 && is_first(one)) look_for_state(process, one.descriptor(), result_of(one));
  }

  StatementResult& result_of(const SoakCase& one) { return results_[deck_.targets()[one.target()].statement]; }

  void add(const SoakCase& one, const SoakTally& tally, double seconds) {
    const std::lock_guard lock(mutex_);
    StatementResult& r = result_of(one);
    r.calls += tally.compared, r.failures += tally.failures, r.seconds += seconds;
    r.options_not_offered += tally.refused > 0 ? 1 : 0;
    count_.calls += tally.compared, count_.failures += tally.failures;
    if (tally.compared == 0) return;
    met_.insert(one.target());
    r.cases += one.is_done() ? 1 : 0;
  }

  // The statement's first counterexample. Nothing is shrunk: what fails once in many calls would have to be met again
  // at every step.
  bool is_first(const SoakCase& one) {
    const std::lock_guard lock(mutex_);
    std::optional<Counterexample>& example = result_of(one).counterexample;
    if (example) return false;
    example.emplace();
    example->minimal = example->original = one.descriptor();
    example->finding = *one.finding();
    over_ = over_ || options_.fail_fast;
    return true;
  }

  void look_for_state(CandidateProcess& process, const Case& c, StatementResult& r) {
    CheckContext context{process, begun_.variants};
    Reproduction reproduction = reproduction_of(context, {r.statement, c, 1}, {}, [this] { return stop(); });
    process.restart();
    if (stop()) return;
    Counterexample& example = *r.counterexample;
    const auto fails = [&] { return r.statement->check(context, c).has_value(); };
    const FailingGpus gpus = reproduction.reproduced && reproduction.after.empty() ? where_it_fails(process, fails)
                                                                                   : where_it_failed(process);
    example.finding.summary += gpus.text, example.gpu = gpus.uuid;
    example.reproduction = std::move(reproduction);
  }

  void judge(std::size_t i) {
    StatementResult& r = results_[i];
    std::int64_t offered = 0;
    for (std::size_t n = 0; n < deck_.targets().size(); ++n) {
      if (deck_.targets()[n].statement != i) continue;
      ++offered;
      r.variants += met_.contains(n) ? 1 : 0;
    }
    r.cases = std::max(r.cases, r.variants);  // those still in hand are not counted
    if (r.counterexample) {
      r.verdict = Verdict::failed;
    } else if (offered == 0) {
      r.verdict = Verdict::not_offered, r.reason = "the candidate offers none of its variants";
    } else if (r.variants < offered) {
      r.verdict = Verdict::inconclusive;
      r.reason = fmt::format("{} of {} variants were not called before the time was up", offered - r.variants, offered);
    }
  }

  const GateOptions& options_;
  const GateReport& begun_;
  SoakSampler deck_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point end_;
  std::vector<StatementResult> results_;
  std::set<std::size_t> met_;  // targets of which a call was compared
  SoakCount count_;
  std::vector<std::pair<std::string, std::size_t>> ends_;
  const int jobs_;
  std::atomic<std::uint64_t> begun_jobs_{0};
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::exception_ptr failed_;
};

}  // namespace

double rule_of_three(std::int64_t calls) { return calls < 3 ? 1 : 3 / static_cast<double>(calls); }

GateReport run_soak(const GateOptions& options, const StatementWatch& watch) {
  const auto start = Clock::now();
  std::vector<const Statement*> selected = statements_named(options.only);
  std::erase_if(selected, [](const Statement* s) { return !s->covers_pairs || s->data.empty() || !s->repeats_bits; });
  if (selected.empty()) {
    throw Error(ErrorKind::usage,
                "--only '" + options.only +
                    "' selects no statement that compares outputs with the reference; a soak repeats only those");
  }
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model, options.claims);
  keep_those_about(process.info(), options.only, selected);
  GateReport report = begin_report(options, process);
  process.watch(options.interrupted);
  Soak soak(options, selected, report, process);
  soak.run(process);
  soak.finish(report);
  for (const StatementResult& r : report.statements) watch(r, true);
  report.interrupted = options.interrupted != nullptr && options.interrupted->load();
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

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
  CallVerdict ran = judged(std::move(outcome), descriptor());
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

SoakSampler::SoakSampler(std::vector<SoakTarget> targets, std::uint64_t seed)
    : targets_(std::move(targets)), first_round_(targets_.size()), seed_(seed) {
  std::iota(first_round_.begin(), first_round_.end(), std::size_t{0});
  Draw order(derived_seed(seed_, "soak round"));
  for (std::size_t i = first_round_.size(); i > 1; --i) std::swap(first_round_[i - 1], first_round_[order.below(i)]);
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    if (i == 0 || targets_[i].statement != targets_[i - 1].statement) of_one_statement_.emplace_back();
    of_one_statement_.back().push_back(i);
  }
}

std::optional<SoakCase> SoakSampler::deal() {
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

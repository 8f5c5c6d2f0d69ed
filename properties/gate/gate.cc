#include "properties/gate/gate.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "numerics/error.h"
#include "properties/gate/selection.h"
#include "properties/gate/statement_run.h"
#include "properties/records/recording.h"

namespace mxcheck {
namespace {

void require_about(const Statement& s, const Variant& v, const CandidateProcess& process,
                   const std::vector<Variant>& offered) {
  if (std::find(offered.begin(), offered.end(), v) == offered.end())
    throw Error(ErrorKind::usage, "the candidate does not offer " + to_text(v));
  if (!is_about(s, process.info()) || !s.applies(v, offered))
    throw Error(ErrorKind::usage, "statement " + std::string(s.name) + " is not about " + to_text(v));
}

// The CPU library of this tree, for CUDA candidates' large tensors.
std::unique_ptr<CandidateProcess> cpu_library(const GateOptions& options, const CandidateInfo& candidate) {
  if (!candidate.cuda) return nullptr;
  try {
    return std::make_unique<CandidateProcess>(options.tool, find_candidate_library("cpu", options.tool),
                                              options.time_limit);
  } catch (const Error&) {
    return nullptr;  // the statement says that it was not offered
  }
}

// The selected statements, side by side in as many threads as there are jobs, each with a process of the candidate.
// What one finds depends on the seed and its name alone, not on the others.
class Statements {
 public:
  Statements(const GateOptions& options, const std::vector<const Statement*>& selected,
             const std::vector<Variant>& variants, const Progress& progress)
      : options_(options), variants_(variants), progress_(progress), selected_(selected), results_(selected.size()) {}

  void run(CandidateProcess& process) {
    std::vector<std::thread> others;
    for (int i = 1; i < jobs(process.info()); ++i) {
      others.emplace_back([this] {
        guarded([this] {
          CandidateProcess own(options_.tool, options_.library, options_.time_limit, options_.gpu_model);
          own.watch(options_.interrupted);
          work(own, nullptr);
        });
      });
    }
    guarded([&] {
      RecordingRunner recording(process);
      work(process, options_.record ? &recording : nullptr);
      if (options_.record) record_ = recording.take();
    });
    for (std::thread& other : others) other.join();
    if (failed_) std::rethrow_exception(failed_);
  }

  // Those that were begun, in order.
  std::vector<StatementResult> take_results() {
    std::vector<StatementResult> all;
    for (auto& result : results_) {
      if (result) all.push_back(*std::move(result));
    }
    return all;
  }
  std::vector<std::string> take_ends() { return std::move(ends_); }
  [[nodiscard]] const FirstCallCount& first_calls() const { return first_calls_; }
  std::optional<Record> take_record() { return std::move(record_); }

 private:
  // A record has the calls in the order of the statements.
  [[nodiscard]] int jobs(const CandidateInfo& candidate) const {
    if (options_.record) return 1;
    return std::clamp(jobs_of(options_, candidate), 1, static_cast<int>(selected_.size()));
  }

  template <class Run>
  void guarded(const Run& run) {
    try {
      run();
    } catch (const Interrupted&) {  // between cases: while the candidate's process starts or ends
      over_ = true;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_) failed_ = std::current_exception();
      over_ = true;
    }
  }

  void work(CandidateProcess& process, RecordingRunner* recording) {
    const std::unique_ptr<CandidateProcess> cpu = cpu_library(options_, process.info());
    History history;  // of this process
    for (std::size_t i = next_++; i < selected_.size(); i = next_++) {
      if (over_ || (options_.interrupted != nullptr && options_.interrupted->load())) break;
      const Statement& s = *selected_[i];
      const bool records = recording != nullptr && s.recorded;
      StatementRun run(s, options_, records ? static_cast<CandidateRunner&>(*recording) : process, cpu.get(), variants_,
                       records ? recording : nullptr, &history);
      {
        const std::lock_guard lock(mutex_);
        progress_(run.result(), false);
      }
      run.run();
      if (options_.fail_fast && run.result().verdict == Verdict::failed) over_ = true;
      finish(i, std::move(run.result()));
    }
    {
      const std::lock_guard lock(mutex_);
      first_calls_.add(process.first_calls());
    }
    // After all that it was called for: a heap that a call damaged may show only now.
    if (over_ || (options_.interrupted != nullptr && options_.interrupted->load())) return;
    if (const std::string problem = process.end_in_order(); !problem.empty()) {
      const std::lock_guard lock(mutex_);
      ends_.push_back(problem);
    }
  }

  // Told in the order of the statements: as soon as all before it have ended.
  void finish(std::size_t i, StatementResult result) {
    const std::lock_guard lock(mutex_);
    results_[i] = std::move(result);
    for (; told_ < results_.size() && results_[told_]; ++told_) progress_(*results_[told_], true);
  }

  const GateOptions& options_;
  const std::vector<Variant>& variants_;
  const Progress& progress_;
  std::vector<const Statement*> selected_;
  std::vector<std::optional<StatementResult>> results_;
  std::optional<Record> record_;
  std::vector<std::string> ends_;
  FirstCallCount first_calls_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::size_t told_ = 0;
  std::exception_ptr failed_;
};

}  // namespace

GateReport run_gate(const GateOptions& options, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<const Statement*> selected = statements_named(options.only);
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model);
  keep_those_about(process.info(), options.only, selected);
  GateReport report = begin_report(options, process);
  process.watch(options.interrupted);
  Statements statements(options, selected, report.variants, progress);
  statements.run(process);
  report.statements = statements.take_results();
  report.ends = statements.take_ends();
  report.first_calls = statements.first_calls();
  report.record = statements.take_record();
  report.interrupted = options.interrupted != nullptr && options.interrupted->load();
  if (report.record) {
    report.record->suite = report.suite, report.record->seed = report.seed;
    report.record->variants = report.variants;
    report.record->mxcheck = report.machine.front().second;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

StatementResult run_statement(const Statement& statement, const GateOptions& options) {
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model);
  const GateReport report = begin_report(options, process);
  const std::unique_ptr<CandidateProcess> cpu = cpu_library(options, process.info());
  StatementRun run(statement, options, process, cpu.get(), report.variants);
  run.run();
  return std::move(run.result());
}

GateReport reproduce(const GateOptions& options, std::string_view statement_and_case) {
  const std::size_t colon = statement_and_case.find(": ");
  if (colon == std::string_view::npos)
    throw Error(ErrorKind::usage, "--reproduce takes 'STATEMENT: CASE', as a report prints it");
  const std::string_view name = statement_and_case.substr(0, colon);
  const Case c = parse_case(statement_and_case.substr(colon + 2));
  const Statement* s = find_statement(name);
  if (s == nullptr)
    throw Error(ErrorKind::usage, "no statement '" + std::string(name) + "'; mxcheck gate --list prints them");
  std::vector<Preceding> after;
  for (const std::string& text : options.after) after.push_back(parse_preceding(text, *s));
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model);
  GateReport report = begin_report(options, process);
  report.one_case = true;
  require_about(*s, c.variant, process, report.variants);
  const std::unique_ptr<CandidateProcess> cpu = cpu_library(options, process.info());
  for (const Preceding& p : after) require_about(*p.statement, p.c.variant, process, report.variants);
  History history;
  StatementRun run(*s, options, process, cpu.get(), report.variants, nullptr, &history);
  process.restart();  // as it is when the gate looks for what a failure depends on: no question was asked of it
  for (const Preceding& p : after) run.call_before(p);
  run.check_one(c, false);
  run.judge_one();
  report.first_calls = process.first_calls();
  report.statements.push_back(run.result());
  return report;
}

int exit_code(const GateReport& report) {
  bool fault = !report.ends.empty();
  bool failed = false;
  bool inconclusive = report.interrupted;
  std::int64_t cases = 0;
  for (const StatementResult& r : report.statements) {
    cases += r.cases;
    failed = failed || r.verdict == Verdict::failed;
    fault = fault || (r.counterexample && r.counterexample->finding.kind == FindingKind::fault);
    inconclusive = inconclusive || r.verdict == Verdict::inconclusive;
  }
  if (fault) return 6;
  if (failed) return 1;
  if (!report.unwritten.empty()) return 3;
  if (inconclusive || !report.missing_shards.empty()) return 4;
  return cases > 0 || (!report.shard.is_whole() && report.shard.may_be_empty) ? 0 : 4;
}

}  // namespace mxcheck

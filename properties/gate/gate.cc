#include "properties/gate/gate.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "properties/core/operation.h"
#include "properties/core/phases.h"
#include "properties/core/rng.h"
#include "properties/gate/gpus.h"
#include "properties/gate/statement_run.h"
#include "properties/process/candidate_process.h"
#include "properties/process/candidate_table.h"
#include "properties/records/record.h"
#include "reference/common/parallel.h"

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
// The result of a statement depends on the seed and its name alone, not on the others.
class Statements {
 public:
  Statements(const GateOptions& options, const std::vector<const Statement*>& selected, const GateReport& begun,
             const StatementWatch& watch)
      : options_(options),
        variants_(begun.variants),
        gpus_(options.record ? std::vector<Gpu>{} : begun.candidate.gpus),
        watch_(watch),
        selected_(selected),
        dealing_(options.shard, options.suite, options.cases, selected, begun.variants),
        results_(selected.size()) {
    timings_.jobs = std::clamp(jobs_of(options, begun.candidate), 1, static_cast<int>(selected.size()));
    timings_.gpus = std::clamp(static_cast<int>(gpus_.size()), 1, timings_.jobs);
  }

  void run(CandidateProcess& process) {
    std::vector<std::thread> others;
    for (int i = 1; i < timings_.jobs; ++i) {
      others.emplace_back([this, i] {
        std::optional<PhaseClock> clock;
        if (options_.timings) clock.emplace(Phase::start_up);
        guarded([this, i] {
          CandidateProcess own(options_.tool, options_.library, options_.time_limit, options_.gpu_model,
                               options_.claims, gpus_of_job(gpus_, i));
          own.watch(options_.interrupted);
          work(own, nullptr, i % 2 == 1 && !options_.fail_fast);
        });
        const std::lock_guard lock(mutex_);
        if (clock) timings_.phases.add(clock->times());
      });
    }
    guarded([&] {
      if (gpus_.size() > 1) process.spread_over(gpus_of_job(gpus_, 0));
      RecordingRunner recording(process);
      work(process, options_.record ? &recording : nullptr, false);
      if (options_.record) record_ = recording.take();
    });
    {
      const InPhase waiting(Phase::idle);
      for (std::thread& other : others) other.join();
    }
    if (failed_) std::rethrow_exception(failed_);
    for (; told_ < results_.size(); ++told_) {  // behind some that an interruption left out
      if (results_[told_]) watch_(*results_[told_], true);
    }
  }

  // The results of the statements that were begun, in order.
  std::vector<StatementResult> take_results() {
    std::vector<StatementResult> all;
    for (auto& result : results_) {
      if (result) all.push_back(*std::move(result));
    }
    return all;
  }
  [[nodiscard]] std::vector<const Statement*> not_begun() const {
    std::vector<const Statement*> all;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (!results_[i]) all.push_back(selected_[i]);
    }
    return all;
  }
  [[nodiscard]] std::vector<std::string> ends() const { return texts_of_ends(ends_, gpus_, timings_.jobs); }
  [[nodiscard]] const FirstCallCount& first_calls() const { return first_calls_; }
  std::optional<Record> take_record() { return std::move(record_); }
  GateTimings take_timings() { return std::move(timings_); }

 private:
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

  // Every second job begins with the last statements: those that take longest stand at both ends, and one that begins
  // last keeps a job busy alone.
  std::optional<std::size_t> take(bool last) {
    const std::lock_guard lock(mutex_);
    if (next_ == end_) return std::nullopt;
    return last ? --end_ : next_++;
  }

  void work(CandidateProcess& process, RecordingRunner* recording, bool last_first) {
    // Where each core has a statement, drawing and the reference keep to its thread: further ones would only take
    // turns.
    std::optional<OneThreadEach> one;
    if (timings_.jobs >= static_cast<int>(std::thread::hardware_concurrency())) one.emplace();
    const std::unique_ptr<CandidateProcess> cpu = cpu_library(options_, process.info());
    History history;  // of this process
    while (const std::optional<std::size_t> i = take(last_first)) {
      if (over_ || (options_.interrupted != nullptr && options_.interrupted->load())) break;
      const Statement& s = *selected_[*i];
      const bool records = recording != nullptr && s.recorded;
      StatementRun run(s, options_, records ? static_cast<CandidateRunner&>(*recording) : process, cpu.get(), variants_,
                       records ? recording : nullptr, &history, &dealing_);
      {
        const std::lock_guard lock(mutex_);
        watch_(run.result(), false);
      }
      const PhaseTimes::Seconds before = seconds_of_thread();
      run.run();
      keep_time(run.result(), before);
      if (options_.fail_fast && run.result().verdict == Verdict::failed) over_ = true;
      finish(*i, std::move(run.result()));
      if (options_.ended) options_.ended(s);
    }
    {
      const std::lock_guard lock(mutex_);
      first_calls_.add(process.first_calls());
    }
    const InPhase ending(Phase::start_up);
    // After all that it was called for: a heap that a call damaged may show only now.
    if (over_ || (options_.interrupted != nullptr && options_.interrupted->load())) return;
    if (const std::string problem = process.end_in_order(); !problem.empty()) {
      const std::lock_guard lock(mutex_);
      ends_.emplace_back(problem, process.gpus().own);
    }
  }

  static PhaseTimes::Seconds seconds_of_thread() {
    PhaseClock* const clock = PhaseClock::of_this_thread();
    return clock == nullptr ? PhaseTimes::Seconds{} : clock->times().sum();
  }
  void keep_time(const StatementResult& r, PhaseTimes::Seconds before) {
    const PhaseTimes::Seconds now = seconds_of_thread();
    const std::lock_guard lock(mutex_);
    timings_.statements.push_back({r.statement, {now.wall - before.wall, now.cpu - before.cpu}, r.cost});
  }

  // Told in the order of the statements: as soon as all before it have ended.
  void finish(std::size_t i, StatementResult result) {
    const std::lock_guard lock(mutex_);
    results_[i] = std::move(result);
    for (; told_ < results_.size() && results_[told_]; ++told_) watch_(*results_[told_], true);
  }

  const GateOptions& options_;
  const std::vector<Variant>& variants_;
  const std::vector<Gpu> gpus_;
  const StatementWatch& watch_;
  std::vector<const Statement*> selected_;
  Dealing dealing_;
  std::vector<std::optional<StatementResult>> results_;
  std::optional<Record> record_;
  std::vector<std::pair<std::string, std::size_t>> ends_;
  FirstCallCount first_calls_;
  GateTimings timings_;
  std::size_t next_ = 0, end_ = selected_.size();  // of those that no job has taken
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::size_t told_ = 0;
  std::exception_ptr failed_;
};

MachineUse use_since(const CpuSeconds& before, double wall) {
  const CpuSeconds now = cpu_seconds();
  const double own = now.own - before.own;
  return {wall, own, std::max(0.0, now.machine - before.machine - own),
          std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
}

}  // namespace

GateReport run_gate(const GateOptions& options, const StatementWatch& watch) {
  const auto start = std::chrono::steady_clock::now();
  const CpuSeconds cpu_before = cpu_seconds();
  std::optional<PhaseClock> clock;
  if (options.timings) clock.emplace(Phase::start_up);
  std::vector<const Statement*> selected = statements_named(options.only);
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model, options.claims);
  keep_those_about(process.info(), options.only, selected);
  GateReport report = begin_report(options, process, selected.size());
  for (const Variant& v : report.variants) {
    if (!options.record || promises_bits(v)) continue;
    throw Error(ErrorKind::usage, "--record keeps what a replay computes again, and " + v.operation +
                                      " promises no bits: leave --record out");
  }
  process.watch(options.interrupted);
  Statements statements(options, selected, report, watch);
  statements.run(process);
  report.interrupted = options.interrupted != nullptr && options.interrupted->load();
  if (report.interrupted) report.not_begun = statements.not_begun();
  report.statements = statements.take_results();
  prefer_common_causes(report.statements);
  report.ends = statements.ends();
  report.first_calls = statements.first_calls();
  report.record = statements.take_record();
  if (report.record) {
    report.record->suite = report.suite, report.record->seed = report.seed;
    report.record->variants = report.variants;
    report.record->mxcheck = report.machine.front().second;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.use = use_since(cpu_before, report.seconds);
  if (clock) {
    report.timings = statements.take_timings();
    report.timings->phases.add(clock->times());
  }
  return report;
}

StatementResult run_statement(const Statement& statement, const GateOptions& options) {
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model, options.claims);
  const GateReport report = begin_report(options, process);
  const std::unique_ptr<CandidateProcess> cpu = cpu_library(options, process.info());
  StatementRun run(statement, options, process, cpu.get(), report.variants);
  run.run();
  return std::move(run.result());
}

namespace {

// A case cut off at its end would have defaults in place of what failed, and might pass.
void require_whole(const Case& c, std::string_view text) {
  std::string missing;
  const std::string whole = to_text(c);
  for (const std::string_view word : split(whole, ' ')) {
    const std::string_view name = word.substr(0, word.find('=') + 1);
    if (!name.empty() && (" " + std::string(text)).find(" " + std::string(name)) == std::string::npos)
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (!missing.empty())
    throw Error(ErrorKind::usage,
                "--reproduce: the case lacks " + missing + ": give the whole case that a report prints");
}

}  // namespace

GateReport reproduce(const GateOptions& options, std::string_view statement_and_case) {
  const std::size_t colon = statement_and_case.find(": ");
  if (colon == std::string_view::npos)
    throw Error(ErrorKind::usage, "--reproduce takes 'STATEMENT: CASE', as a report prints it");
  const std::string_view name = statement_and_case.substr(0, colon);
  const Case c = parse_case(statement_and_case.substr(colon + 2));
  const Statement* s = &statement_named(name);
  require_whole(c, statement_and_case.substr(colon + 2));
  std::vector<Preceding> after;
  for (const std::string& text : options.after) after.push_back(parse_preceding(text, *s));
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model, options.claims);
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
  if (!report.unwritten.empty()) return spec(ErrorKind::environment).exit_code;
  if (inconclusive || !report.missing_shards.empty()) return 4;
  return cases > 0 || (!report.shard.is_whole() && report.shard.may_be_empty) ? 0 : 4;
}

namespace {

// Options by the fields that a case has for them.
std::string option_name(const std::string& field) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"experts", "expert offsets"},        {"stride", "row strides"},
      {"col_stride", "column strides"},     {"gather", "row indices"},
      {"misaligned", "unaligned matrices"}, {"c", "a matrix C"}};
  for (const auto& [name, text] : kNames) {
    if (name == field) return std::string(text);
  }
  return "the option " + field;
}

// A statement of which no case was checked has not held: in words, why.
std::string why_no_case(const StatementResult& r, const Shard& shard) {
  if (r.options_not_offered > 0) {
    const std::string cases =
        r.options_not_offered == 1 ? "its one case" : fmt::format("each of {} cases", r.options_not_offered);
    if (r.refused_options && !r.refused_options->empty()) {
      const auto all = *r.refused_options;
      return fmt::format("the candidate refused {}, which {} needs",
                         join(std::vector(all.begin(), all.end()), " and ", option_name), cases);
    }
    return fmt::format("the candidate refused an option (expert offsets, row strides, row indices, ...) of {}", cases);
  }
  if (r.not_applicable > 0) return "the statement applies to no shape within the candidate's limits";
  if (!shard.is_whole()) return std::string(kNoCaseOfShard);
  return "this suite has no case for what the candidate offers";
}

}  // namespace

void keep_common(std::optional<std::set<std::string>>& options, const std::optional<std::set<std::string>>& others) {
  if (!others) return;
  if (!options) return void(options = others);
  std::erase_if(*options, [&](const std::string& one) { return !others->contains(one); });
}

void judge(StatementResult& r, const std::string& not_checked, const std::string& never, const Shard& shard) {
  if (!not_checked.empty()) {  // what other cases showed does not stand for these
    r.verdict = never.empty() ? Verdict::inconclusive : Verdict::not_offered;
    r.reason = not_checked;
    return;
  }
  if (r.cases == 0) {
    r.verdict = Verdict::not_offered, r.reason = why_no_case(r, shard);
    return;
  }
  if (!shard.is_whole()) return;
  for (const CoverageReport& coverage : r.coverage) {
    if (coverage.missed.empty()) continue;
    r.verdict = Verdict::inconclusive;
    r.reason = "within the candidate's limits, and not met: " + join(coverage.missed, "; ");
  }
}

namespace {

constexpr int kHostJobs = 16;
constexpr int kCudaJobs = 4;  // processes that share a GPU

// The options with which a run is made again.
std::string arguments_of(const GateOptions& options) {
  std::string text = options.soak_minutes > 0 ? fmt::format("--soak {}", options.soak_minutes)
                                              : fmt::format("--suite {}", to_text(options.suite));
  text += fmt::format(" --seed {}", options.seed);
  if (options.only != "*") text += fmt::format(" --only '{}'", options.only);
  if (options.cases != 0) text += fmt::format(" --cases {}", options.cases);
  return options.jobs != 0 ? text + fmt::format(" --jobs {}", options.jobs) : text;
}

}  // namespace

std::vector<const Statement*> statements_named(const std::string& only) {
  std::vector<const Statement*> selected;
  for (const Statement& s : all_statements()) {
    if (fnmatch(only.c_str(), std::string(s.name).c_str(), 0) == 0) selected.push_back(&s);
  }
  if (!selected.empty()) return selected;
  throw Error(ErrorKind::usage, "--only '" + only + "' selects no statement; mxcheck gate --list prints them" +
                                    did_you_mean(only, names_in(all_statements())));
}

bool is_about(const Statement& s, const CandidateInfo& candidate) {
  if (s.of_the_interface && candidate.adapted) return false;
  return s.device == Statement::Device::any || (s.device == Statement::Device::cuda) == candidate.cuda;
}

void keep_those_about(const CandidateInfo& candidate, const std::string& only,
                      std::vector<const Statement*>& statements) {
  std::erase_if(statements, [&](const Statement* s) { return !is_about(*s, candidate); });
  if (!statements.empty()) return;
  throw Error(ErrorKind::usage,
              "--only '" + only + "' selects no statement about " + (candidate.cuda ? "CUDA" : "host") + " libraries");
}

int jobs_of(const GateOptions& options, const CandidateInfo& candidate) {
  if (options.record) return 1;
  if (options.jobs > 0) return options.jobs;
  const int gpus = std::max(1, static_cast<int>(candidate.gpus.size()));
  return std::max(1, std::min(candidate.cuda ? kCudaJobs * gpus : kHostJobs,
                              static_cast<int>(std::thread::hardware_concurrency())));
}

GateReport begin_report(const GateOptions& options, CandidateProcess& process, std::size_t planned) {
  GateReport report;
  report.arguments = arguments_of(options);
  report.candidate = process.info();
  report.suite = options.soak_minutes > 0 ? "soak" : to_text(options.suite);
  report.seed = options.seed;
  report.shard = options.shard;
  report.random_cases = options.cases;
  report.selective = options.only != "*";
  report.machine = build_and_machine(report.candidate);
  report.variants = offered_variants(process);
  report.planned = planned;
  if (options.begun) options.begun(report);
  return report;
}

namespace {

// Variants that a library with a contract of its own can be asked is asked under a claim too, and nothing else.
std::vector<Variant> askable(const Operation& operation, const OperationInfo& info) {
  std::vector<Variant> variants;
  if (!info.listed.empty() && operation.has_contracts()) {
    try {
      variants = operation.askable(operation.variant_name(info.listed));
    } catch (const Error&) {  // a contract that mxcheck does not know
    }
  }
  if (variants.empty()) return operation.askable_under(info.name, info.contract);
  for (Variant& v : variants) v.operation = info.name;
  return variants;
}

}  // namespace

std::vector<Variant> offered_variants(CandidateProcess& process) {
  std::vector<Variant> offered;
  for (const Operation* operation : all_operations()) {
    for (const OperationInfo& info : process.info().operations) {
      if (find_operation(info.name) != operation) continue;
      for (Variant& v : supported_of(process, *operation, askable(*operation, info))) offered.push_back(std::move(v));
    }
  }
  return offered;
}

VariantWeights::VariantWeights(std::span<const Variant> variants) {
  for (const Operation* operation : all_operations()) {
    const auto is_it = [&](const Variant& v) { return find_operation(v.operation) == operation; };
    const auto begin = std::find_if(variants.begin(), variants.end(), is_it);
    const std::span<const Variant> mine(begin, std::find_if_not(begin, variants.end(), is_it));
    if (mine.empty()) continue;
    const auto fixed = operation->fixed_weight();
    parts_.push_back({mine, fixed.value_or(mine.size()), fixed.has_value()});
    total_ += parts_.back().weight;
  }
}

const Variant& VariantWeights::draw(Draw& draw) const {
  std::uint64_t at = draw.below(total_);
  for (const Part& part : parts_) {
    if (at < part.weight) return part.variants[part.fixed ? draw.below(part.variants.size()) : at];
    at -= part.weight;
  }
  return parts_.back().variants.back();
}

}  // namespace mxcheck

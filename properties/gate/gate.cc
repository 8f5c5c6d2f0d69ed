#include "properties/gate/gate.h"

#include <fnmatch.h>

#include <algorithm>
#include <memory>
#include <set>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/limits.h"
#include "properties/gate/search.h"
#include "properties/gate/variants.h"
#include "properties/process/machine.h"
#include "properties/records/recording.h"

namespace mxcheck {
namespace {

int random_cases(const Statement& s, const GateOptions& options, std::span<const Variant> variants) {
  if (s.data.empty()) return 0;
  if (options.cases > 0) return options.cases;
  const int factor = options.suite == Suite::quick ? 1 : options.suite == Suite::full ? 10 : 100;
  return factor * std::max(600, s.cases_per_variant * static_cast<int>(weight_of(variants)));
}

class StatementRun {
 public:
  StatementRun(const Statement& s, const GateOptions& options, CandidateRunner& process, CandidateRunner* cpu,
               const std::vector<Variant>& offered, RecordingRunner* recording = nullptr)
      : options_(options), context_{process, offered, cpu}, recording_(recording) {
    result_.statement = &s;
    for (const Variant& v : offered) {
      if (s.applies(v, offered)) variants_.push_back(v);
    }
    result_.variants = static_cast<std::int64_t>(variants_.size());
  }

  StatementResult& result() { return result_; }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    if (variants_.empty()) {
      result_.verdict = Verdict::not_offered;
      result_.reason = "no operation of the candidate";
      return;
    }
    const Statement& s = *result_.statement;
    for (const Variant& v : variants_) {
      if (!s.corners || result_.counterexample) break;
      for (Case& c : s.corners(v, options_.suite)) {
        if (stop() || result_.counterexample || none_can_be_checked()) break;
        check_one(within_limits(std::move(c), limits_of(v)));
      }
    }
    const int count = random_cases(s, options_, variants_);
    if (!result_.counterexample && count > 0 && !stop()) run_random(count);
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (result_.counterexample) return;
    if (stop()) {
      result_.verdict = Verdict::inconclusive, result_.reason = "interrupted before all of its cases had run";
    } else {
      judge_coverage();
    }
  }

  // One given case, shrunk if it fails and shrinking is asked for.
  void check_one(const Case& c, bool shrink = true) {
    const std::optional<Finding> finding = check(c);
    if (!finding) return;
    SearchLimits limits{1};
    if (!shrink) limits.shrink_tries = 0;
    const std::uint64_t seed = derived_seed(options_.seed, "corner");
    keep(search(
             std::string(result_.statement->name), seed, limits, [&](Draw&) { return c; },
             [&](const Case& n) { return check_uncounted(n); }, simpler()),
         c, *finding);
  }

  // The verdict of a single case: silence is not consent.
  void judge_one() {
    if (result_.counterexample || result_.cases > 0) return;
    result_.verdict = Verdict::inconclusive;
    if (!not_checked_.empty()) return void(result_.reason = not_checked_);
    result_.reason = result_.options_not_offered > 0 ? "the candidate does not offer this case's experts or row stride"
                                                     : "the statement says nothing about this case";
  }

 private:
  // The first could not: operands of the others would be drawn for nothing.
  [[nodiscard]] bool none_can_be_checked() const { return !not_checked_.empty() && result_.cases == 0; }

  [[nodiscard]] bool stop() const { return options_.interrupted != nullptr && options_.interrupted->load(); }

  [[nodiscard]] const OperationInfo& limits_of(const Variant& v) const {
    return *context_.process.operation(v.operation);
  }

  [[nodiscard]] SimplerCases simpler() const {
    return [this](const Case& c, const Finding& finding) {
      std::vector<Case> cases = operation_named(c.variant.operation).simpler(c, finding);
      for (Case& n : cases) {
        const OperationInfo& limits = limits_of(n.variant);  // before n is moved from
        n = within_limits(std::move(n), limits);
      }
      std::erase(cases, c);
      return cases;
    };
  }

  void run_random(int count) {
    const Statement& s = *result_.statement;
    SearchLimits limits;
    limits.cases = count;
    bool failed = false;
    const SearchResult found = search(
        std::string(s.name), derived_seed(options_.seed, s.name), limits,
        [&](Draw& draw) { return draw_case(s, variants_, context_.process, draw); },
        [&](const Case& c) -> std::optional<Finding> {
          if (stop()) return std::nullopt;
          if (failed) return check_uncounted(c);
          std::optional<Finding> finding = check(c);
          failed = finding.has_value();
          return finding;
        },
        simpler());
    if (!found.gave_up.empty()) result_.verdict = Verdict::inconclusive, result_.reason = found.gave_up;
    if (found.minimal) keep(found, *found.original, *found.finding);
  }

  std::optional<Finding> check_uncounted(const Case& c) {
    context_.not_offered = context_.nothing_claimed = false;
    context_.not_checked.clear();
    if (!stop()) {
      try {
        return result_.statement->check(context_, c);
      } catch (const Interrupted&) {
      }
    }
    context_.nothing_claimed = true;
    return std::nullopt;
  }

  std::optional<Finding> check(const Case& c) {
    if (recording_ != nullptr) recording_->begin_case();
    std::optional<Finding> finding = check_uncounted(c);
    if (!context_.not_checked.empty()) {
      if (not_checked_.empty()) not_checked_ = context_.not_checked;
    } else if (context_.not_offered) {
      ++result_.options_not_offered;
      // A refusal is about an option only if the case has no other.
      const bool options[] = {!c.experts.empty(), c.stride > c.cols, c.gather != 0};
      static constexpr const char* kNames[] = {"experts", "row stride", "gathered rows"};
      if (options[0] + options[1] + options[2] == 1) {
        for (int i = 0; i < 3; ++i) {
          if (options[i]) refused_.insert(kNames[i]);
        }
      }
    } else if (context_.nothing_claimed) {
      ++result_.nothing_claimed;
    } else {
      ++result_.cases;
      if (recording_ != nullptr) recording_->keep_case(std::string(result_.statement->name), c);
      for (const std::string& name : classes_of(c)) ++result_.classes[name];
    }
    return finding;
  }

  // A small case matches many recipes by accident: those that the case as found matches too are the ones to name.
  void keep_matches_of(const Case& original, const Case& minimal, std::vector<std::string>& matches) {
    if (matches.empty() || original == minimal) return;
    context_.thorough = true;
    const std::optional<Finding> larger = check_uncounted(original);
    context_.thorough = false;
    if (!larger) return;
    std::erase_if(matches, [&](const std::string& name) {
      return std::find(larger->matches.begin(), larger->matches.end(), name) == larger->matches.end();
    });
  }

  void keep(const SearchResult& found, const Case& original, const Finding& first) {
    Counterexample example;
    example.original = original;
    example.minimal = found.minimal.value_or(original);
    example.shrink_tries = found.shrink_tries;
    example.shrink_budget_spent = found.shrink_budget_spent;
    context_.thorough = true;
    std::optional<Finding> finding = check_uncounted(example.minimal);
    context_.thorough = false;
    if (!finding && stop()) finding = found.finding.value_or(first);
    if (!finding) {
      finding = found.finding.value_or(first);
      finding->summary =
          "the case failed and then passed: results depend on something other than the call; when it failed, " +
          finding->summary;
    } else if (finding->kind == FindingKind::mismatch && !stop()) {
      keep_matches_of(original, example.minimal, finding->matches);
      context_.process.restart();
      if (!check_uncounted(example.minimal)) finding->summary += "; not in a fresh process: state of earlier calls";
    }
    example.finding = std::move(*finding);
    result_.counterexample = std::move(example);
    result_.verdict = Verdict::failed;
  }

  void judge_coverage() {
    if (!not_checked_.empty()) {  // what other cases showed does not stand for these
      const bool never = !context_.process.why_no_model().empty();
      result_.verdict = never ? Verdict::not_offered : Verdict::inconclusive;
      result_.reason = not_checked_;
      return;
    }
    if (result_.cases == 0 && result_.statement->data.empty()) {
      result_.verdict = Verdict::not_offered;
      result_.reason = "this suite has no case of it for what the candidate offers";
      return;
    }
    if (result_.cases == 0 && result_.options_not_offered > 0) {  // every case asks for an option
      result_.verdict = Verdict::not_offered;
      result_.reason = "the candidate does not offer the options that every case asks for: " +
                       (refused_.empty() ? std::string("expert offsets and row strides") : join(refused_));
      return;
    }
    const std::int64_t bar = std::min<std::int64_t>(30, (result_.cases + 99) / 100);
    for (const std::string& name : required_classes(*result_.statement, variants_, context_.process, refused_)) {
      if (options_.cases > 0 && options_.cases < 200)
        break;  // the user asked for fewer cases than the bar is meant for
      const auto found = result_.classes.find(name);
      const std::int64_t seen = found == result_.classes.end() ? 0 : found->second;
      if (seen < std::max<std::int64_t>(1, is_variant_class(name) ? 1 : bar)) {
        result_.verdict = Verdict::inconclusive;
        result_.reason = "class '" + name + "' was reached by " + std::to_string(seen) + " of " +
                         std::to_string(result_.cases) + " cases; at least " + std::to_string(bar) + " are needed";
      }
    }
  }

  // Recipes, formats and blocks are as many as the candidate offers: each must be reached, not each by 1 %.
  static bool is_variant_class(const std::string& name) {
    return !name.starts_with("data ") && !name.starts_with("shape ") && !name.starts_with("experts") &&
           name != "row stride";
  }

  const GateOptions& options_;
  CheckContext context_;
  RecordingRunner* recording_;  // or null
  std::vector<Variant> variants_;
  std::string not_checked_;        // why the first case that could not be checked was not
  std::set<std::string> refused_;  // options that the candidate does not offer: the beginnings of their classes
  StatementResult result_;
};

bool is_about(const Statement& s, const CandidateInfo& candidate) {
  return s.device == Statement::Device::any || (s.device == Statement::Device::cuda) == candidate.cuda;
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

GateReport begin_report(const GateOptions& options, CandidateProcess& process) {
  GateReport report;
  report.candidate = process.info();
  report.suite = to_text(options.suite);
  report.seed = options.seed;
  report.variants = offered_variants(process);
  if (options.begun) options.begun(report);
  return report;
}

}  // namespace

GateReport run_gate(const GateOptions& options, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<const Statement*> selected;
  for (const Statement& s : all_statements()) {
    if (fnmatch(options.only.c_str(), std::string(s.name).c_str(), 0) == 0) selected.push_back(&s);
  }
  if (selected.empty()) {
    throw Error(ErrorKind::usage,
                "--only '" + options.only + "' selects no statement; mxcheck gate --list prints them");
  }
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model);
  std::erase_if(selected, [&](const Statement* s) { return !is_about(*s, process.info()); });
  if (selected.empty()) {
    throw Error(ErrorKind::usage, "--only '" + options.only + "' selects no statement about " +
                                      (process.info().cuda ? "CUDA" : "host") + " libraries");
  }
  GateReport report = begin_report(options, process);
  process.watch(options.interrupted);
  const std::unique_ptr<CandidateProcess> cpu = cpu_library(options, process.info());
  RecordingRunner recording(process);
  for (const Statement* s : selected) {
    if (options.interrupted != nullptr && options.interrupted->load()) break;
    const bool records = options.record && s->recorded;
    StatementRun run(*s, options, records ? static_cast<CandidateRunner&>(recording) : process, cpu.get(),
                     report.variants, records ? &recording : nullptr);
    progress(run.result(), false);
    run.run();
    progress(run.result(), true);
    report.statements.push_back(run.result());
    if (options.fail_fast && run.result().verdict == Verdict::failed) break;
  }
  report.interrupted = options.interrupted != nullptr && options.interrupted->load();
  if (options.record) {
    report.record = recording.take();
    report.record->suite = report.suite, report.record->seed = report.seed;
    report.record->variants = report.variants;
    report.record->mxcheck = build_and_machine(process.info()).front().second;
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
  const auto& all = all_statements();
  const auto s =
      std::find_if(all.begin(), all.end(), [&](const Statement& candidate) { return candidate.name == name; });
  if (s == all.end())
    throw Error(ErrorKind::usage, "no statement '" + std::string(name) + "'; mxcheck gate --list prints them");
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model);
  GateReport report = begin_report(options, process);
  if (std::find(report.variants.begin(), report.variants.end(), c.variant) == report.variants.end()) {
    throw Error(ErrorKind::usage, "the candidate does not offer " + to_text(c.variant));
  }
  if (!is_about(*s, process.info()) || !s->applies(c.variant, report.variants)) {
    throw Error(ErrorKind::usage, "statement " + std::string(name) + " is not about " + to_text(c.variant));
  }
  const std::unique_ptr<CandidateProcess> cpu = cpu_library(options, process.info());
  StatementRun run(*s, options, process, cpu.get(), report.variants);
  run.check_one(c, false);
  run.judge_one();
  report.statements.push_back(run.result());
  return report;
}

int exit_code(const GateReport& report) {
  bool fault = false;
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
  return inconclusive || cases == 0 ? 4 : 0;
}

}  // namespace mxcheck

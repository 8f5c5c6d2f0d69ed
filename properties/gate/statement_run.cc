#include "properties/gate/statement_run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/ahead.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/operation.h"
#include "properties/core/phases.h"
#include "properties/gate/gpus.h"

namespace mxcheck {
namespace {

constexpr int kRandomCases = 400;

int random_cases(const Statement& s, const GateOptions& options, const VariantWeights& variants) {
  if (s.data.empty()) return 0;
  if (options.cases > 0) return options.cases;
  const int factor = options.suite == Suite::quick ? 1 : options.suite == Suite::full ? 10 : 100;
  return factor * std::max(kRandomCases, s.cases_per_variant * static_cast<int>(variants.total()));
}

// Three quarters of the cores, at most 12: the others are the candidate's and other statements'. None where there are
// few.
int threads_ahead() {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores < 4 ? 0 : std::min(12, cores * 3 / 4);
}

}  // namespace

StatementRun::StatementRun(const Statement& s, const GateOptions& options, CandidateRunner& process,
                           CandidateRunner* cpu, const std::vector<Variant>& offered, RecordingRunner* recording,
                           History* history, const Dealing* dealing)
    : options_(options), context_{process, offered, cpu}, recording_(recording), history_(history), dealing_(dealing) {
  result_.statement = &s;
  if (s.tally) context_.tally = s.tally();
  for (std::size_t i = 0; i < offered.size(); ++i) {
    if (!s.applies(offered[i], offered)) continue;
    numbers_[to_text(offered[i])] = variants_.size();
    variants_.push_back(offered[i]);
    result_.by_variant.push_back({i});
  }
  result_.variants = static_cast<std::int64_t>(variants_.size());
  parts_ = parts_of(s, variants_, options_.suite, covers_pairs(), process);
}

bool StatementRun::owns_operation(const std::string& operation) const {
  return dealing_ == nullptr || dealing_->owns_group(*result_.statement, operation);
}

// Where there is no domain, each corner is dealt by itself: nothing depends on how another one ended.
bool StatementRun::owns_case(const Case& c) const {
  if (result_.statement->tally) return owns_operation(c.variant.operation);
  return dealing_ == nullptr || dealing_->owns_case(fmt::format("{}: {}", result_.statement->name, to_text(c)));
}

void StatementRun::run() {
  const InPhase drawing(Phase::cases);
  const auto start = std::chrono::steady_clock::now();
  if (variants_.empty()) {
    result_.verdict = Verdict::not_offered;
    result_.reason = "the candidate offers none of its variants";
    return;
  }
  run_corners();
  run_covering();
  run_triples();
  run_layers();
  // Last: no other case depends on how these ended, so that they can be dealt to shards one by one.
  run_random();
  for (const Part& part : parts_) {
    // A shard says nothing of what it has no case of: of a thousand, most have none of most parts.
    if (!part.is_met && !owns_operation(part.operation())) continue;
    result_.coverage.push_back(part.report());
    if (!options_.shard.is_whole()) result_.states.push_back(states_of(part));
  }
  result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (result_.counterexample) return;
  if (stop()) {
    result_.verdict = Verdict::inconclusive, result_.reason = "interrupted before all of its cases had run";
  } else {
    judge();
    if (context_.tally && result_.verdict == Verdict::held) conclude(*context_.tally);
  }
}

void StatementRun::conclude(const RunTally& tally) {
  RunTally::Conclusion c = tally.conclusion();
  if (c.finding) {
    Counterexample& example = result_.counterexample.emplace();
    example.minimal = example.original = std::move(c.example);
    example.finding = *std::move(c.finding);
    result_.verdict = Verdict::failed;
  } else if (!c.undecided.empty()) {
    result_.verdict = Verdict::inconclusive, result_.reason = std::move(c.undecided);
  } else {
    result_.reason = std::move(c.note);
  }
}

namespace {

// The order in which the corners of n variants are asked. The registry has the variants without options first, and
// those that differ by one option follow one another. So the first go in order, since a fault that any variant shows is
// explained best by a plain one; the others are spread, of every beginning evenly (van der Corput's sequence): a fault
// of one option in ten is met in one of the next ten or so.
std::vector<std::size_t> order_of_variants(std::size_t n) {
  constexpr std::size_t kLeastInOrder = 48;
  const std::size_t in_order = std::min(n, std::max(kLeastInOrder, n / 8));
  std::vector<std::size_t> order(in_order);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const int bits = static_cast<int>(std::bit_width(n));
  for (std::size_t i = 0; order.size() < n; ++i) {
    std::size_t reversed = 0;
    for (int b = 0; b < bits; ++b) reversed |= (i >> b & 1) << (bits - 1 - b);
    if (reversed >= in_order && reversed < n) order.push_back(reversed);
  }
  return order;
}

}  // namespace

void StatementRun::run_corners() {
  const Statement& s = *result_.statement;
  std::vector<Case> cases;
  const auto add = [&](std::vector<Case> corners) {
    for (Case& c : corners) {
      const OperationInfo& limits = limits_of(c.variant);  // before c is moved from
      cases.push_back(within_limits(std::move(c), limits));
    }
  };
  for (const std::size_t i : order_of_variants(variants_.size())) {
    if (s.corners) add(s.corners(variants_[i], options_.suite));
  }
  if (s.shared_corners) add(s.shared_corners(variants_, options_.suite));
  if (!options_.shard.is_whole())
    std::erase_if(
        cases, [&](const Case& c) { return !(parts_.empty() ? owns_case(c) : owns_operation(c.variant.operation)); });
  check_all(cases);
}

Draw StatementRun::draw_of(const char* purpose, const Part& part) const {
  return Draw(derived_seed(options_.seed, fmt::format("{} {} {}", purpose, result_.statement->name, part.operation())));
}

void StatementRun::check_all(const std::vector<Case>& cases) {
  const int threads = result_.statement->covers_pairs && !cases.empty() ? threads_ahead() : 0;
  if (threads > 0) context_.ahead = std::make_shared<ReferencePrefetcher>(cases, threads);
  for (std::size_t i = 0; i < cases.size() && !is_over(); ++i) {
    if (context_.ahead) context_.ahead->go_to(i);
    check_one(cases[i]);
  }
  context_.ahead.reset();
}

void StatementRun::run_covering() {
  for (Part& part : parts_) {
    if (!owns_operation(part.operation())) continue;
    Draw draw = draw_of("covering", part);
    // A refused case does not tell which of its options was refused.
    check_all(part.covering->cases(false, draw));
    check_all(part.covering->again(false, draw));
    if (!covers_pairs()) continue;
    check_all(part.covering->cases(true, draw));
    check_all(part.covering->again(true, draw));
  }
}

void StatementRun::run_triples() {
  for (Part& part : parts_) {
    if (!part.triples || is_over() || !owns_operation(part.operation())) continue;
    Draw draw = draw_of("triples", part);
    check_all(part.triples->cases(draw));
    check_all(part.triples->again(draw));
  }
}

void StatementRun::run_layers() {
  for (Part& part : parts_) {
    if (!part.layers || is_over() || !owns_operation(part.operation())) continue;
    Draw draw = draw_of("layers", part);
    check_all(part.layers->cases(draw));
    check_all(part.layers->again(draw));
  }
}

void StatementRun::run_random() {
  const VariantWeights weights(variants_);
  const int count = random_cases(*result_.statement, options_, weights);
  const std::uint64_t seed = derived_seed(options_.seed, result_.statement->name);
  for (int i = 0; i < count && !is_over(); ++i) {
    Draw draw(random_word(seed, static_cast<std::uint64_t>(i)));
    const Variant& v = weights.draw(draw);
    auto number = static_cast<std::size_t>(&v - variants_.data());
    auto part = parts_.begin();
    for (; number >= part->variants.size(); ++part) number -= part->variants.size();
    const std::optional<Case> c =
        part->domain->make(part->domain->of_variant(number), part->domain->small_work(), draw);
    if (c && owns_case(*c)) check_drawn(*c);
  }
}

void StatementRun::check_drawn(const Case& c) {
  const std::int64_t refused = result_.options_not_offered;
  check_one(c);
  if (result_.options_not_offered == refused || is_over()) return;
  Case plain = operation_named(c.variant.operation).without_options(c);
  if (plain != c) check_one(within_limits(std::move(plain), limits_of(c.variant)));
}

namespace {

bool is_sign_of_zero(const Difference& d) { return d.kinds == std::set{DifferenceKind::sign_of_zero}; }

// True if a smaller case may have failed by the same fault: it ends alike, in the same tensor, and not by the sign of a
// zero alone where more was wrong.
bool is_like(const Finding& smaller, const Finding& found) {
  if (smaller.kind != found.kind) return false;
  if (!smaller.difference || !found.difference) return true;
  if (smaller.difference->tensor.name != found.difference->tensor.name) return false;
  return is_sign_of_zero(*found.difference) || !is_sign_of_zero(*smaller.difference);
}

}  // namespace

void StatementRun::check_one(const Case& c, bool shrink) {
  const std::optional<Finding> finding = check(c);
  if (!finding) return;
  if (result_.counterexample) return add_other(*result_.counterexample, c, *finding);
  const InPhase shrinking(Phase::shrinking);
  SearchLimits limits{1};
  if (!shrink) limits.shrink_tries = 0;
  // A small case explains what it fails by at once: what explains this one must explain the smaller ones too.
  std::vector<std::string> names;
  if (finding->kind == FindingKind::mismatch && limits.shrink_tries != 0 &&
      operation_named(c.variant.operation).work(c) <= kMostWorkToName) {
    if (const std::optional<Finding> found = explained(c, nullptr)) {
      Causes causes;
      causes.add(found->explained_by);
      names = causes.of_every_case(true);
    }
  }
  const auto is_same = [&](const Finding& smaller, const Case&) { return is_like(smaller, *finding); };
  keep(shrunk(c, is_same, names, limits), c, *finding);
  const std::optional<Reproduction>& again = result_.counterexample->reproduction;
  const bool is_alone = again && again->reproduced && again->after.empty();  // else a state of the library decides
  if (shrink && is_alone && result_.statement->repeats_bits && !stop()) look_for_others(*result_.counterexample);
}

void StatementRun::call_before(const Preceding& p) {
  for (int i = 0; i < p.times && !stop(); ++i) {
    try {
      (void)p.statement->check(context_, p.c);
    } catch (const Interrupted&) {
    }
    if (history_ != nullptr) history_->add(*p.statement, p.c);
  }
}

SearchResult StatementRun::shrunk(const Case& c, const std::function<bool(const Finding&, const Case&)>& is_like,
                                  const std::vector<std::string>& names, const SearchLimits& limits) {
  // RapidCheck has state of its own, and statements run side by side.
  static std::mutex searching;
  const std::lock_guard lock(searching);
  return search(
      std::string(result_.statement->name), derived_seed(options_.seed, "shrinking"), limits, [&](Draw&) { return c; },
      [&](const Case& n) {
        context_.thorough = !names.empty(), context_.causes = &names;
        std::optional<Finding> finding = check_uncounted(n);
        context_.thorough = false, context_.causes = nullptr;
        if (finding && !is_like(*finding, n)) finding.reset();
        const auto is_named = [&](const Explanation& e) { return std::ranges::find(names, e.name) != names.end(); };
        if (finding && !names.empty() && finding->matched != 0 && std::ranges::none_of(finding->explained_by, is_named))
          finding.reset();
        return finding;
      },
      simpler());
}

void StatementRun::judge_one() {
  if (result_.counterexample || (result_.cases > 0 && !context_.tally)) return;
  result_.verdict = Verdict::inconclusive;
  if (result_.cases > 0) return void(result_.reason = "the verdict is of all cases together: one shows nothing");
  if (!not_checked_.empty()) return void(result_.reason = not_checked_);
  result_.reason = result_.options_not_offered > 0 ? "the candidate does not offer this case's options"
                                                   : "the statement says nothing about this case";
}

void StatementRun::judge() { mxcheck::judge(result_, not_checked_, context_.process.why_no_model(), options_.shard); }

const OperationInfo& StatementRun::limits_of(const Variant& v) const {
  return *context_.process.operation(v.operation);
}

SimplerCases StatementRun::simpler() const {
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

std::optional<Finding> StatementRun::check_uncounted(const Case& c) {
  context_.not_offered = context_.not_applicable = false;
  context_.not_checked.clear();
  if (!stop()) {
    const InPhase checking(Phase::comparison);
    try {
      return result_.statement->check(context_, c);
    } catch (const Interrupted&) {
    }
  }
  context_.not_applicable = true;
  return std::nullopt;
}

namespace {

// The fields that the case has otherwise where it asks for no option: "experts", "stride".
std::set<std::string> options_of(const Case& c) {
  const std::string own = to_text(c),
                    plain = " " + to_text(operation_named(c.variant.operation).without_options(c)) + " ";
  std::set<std::string> options;
  for (const std::string_view word : split(own, ' ')) {
    if (plain.find(" " + std::string(word) + " ") == std::string::npos) options.emplace(word.substr(0, word.find('=')));
  }
  return options;
}

}  // namespace

void StatementRun::count(const Case& c, CaseFate fate) {
  if (fate == CaseFate::refused && result_.cases == 0) keep_common(result_.refused_options, options_of(c));
  (fate == CaseFate::checked   ? result_.cases
   : fate == CaseFate::refused ? result_.options_not_offered
                               : result_.not_applicable) += 1;
  if (const auto number = numbers_.find(to_text(c.variant)); number != numbers_.end()) {
    VariantCount& variant = result_.by_variant[number->second];
    (fate == CaseFate::checked   ? variant.checked
     : fate == CaseFate::refused ? variant.refused
                                 : variant.not_applicable) += 1;
  }
  for (Part& part : parts_) {
    if (part.operation() == c.variant.operation) part.count(c, fate);
  }
}

void StatementRun::keep_if_slow(const Case& c, double seconds) {
  std::vector<SlowCase>& slowest = result_.slowest;
  if (slowest.size() == kSlowCases && seconds <= slowest.back().seconds) return;
  const auto at = std::find_if(slowest.begin(), slowest.end(), [&](const SlowCase& s) { return s.seconds < seconds; });
  slowest.insert(at, {seconds, c});
  if (slowest.size() > kSlowCases) slowest.pop_back();
}

std::optional<Finding> StatementRun::check(const Case& c) {
  if (recording_ != nullptr) recording_->begin_case();
  const auto start = std::chrono::steady_clock::now();
  std::optional<Finding> finding = check_uncounted(c);
  keep_if_slow(c, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (history_ != nullptr) history_->add(*result_.statement, c);
  result_.cost += cost_of(c);
  if (options_.checked) options_.checked(*result_.statement, c);
  if (!context_.not_checked.empty()) {
    if (not_checked_.empty()) not_checked_ = context_.not_checked;
  } else if (context_.not_offered) {
    count(c, CaseFate::refused);
  } else if (context_.not_applicable) {
    count(c, CaseFate::not_applicable);
  } else {
    count(c, CaseFate::checked);
    if (recording_ != nullptr) recording_->keep_case(std::string(result_.statement->name), c);
  }
  return finding;
}

namespace {

// The first kind that the finding shows and no counterexample does yet.
std::optional<DifferenceKind> new_kind(const Counterexample& example, const Finding& finding) {
  if (finding.kind != FindingKind::mismatch || !finding.difference) return std::nullopt;
  for (const DifferenceKind kind : kDifferenceKinds) {
    const auto shows = [&](const Finding& f) { return f.difference && f.difference->kinds.contains(kind); };
    if (shows(finding) && !shows(example.finding) &&
        std::ranges::find(example.others, kind, &OtherFault::kind) == example.others.end())
      return kind;
  }
  return std::nullopt;
}

}  // namespace

void StatementRun::add_other(Counterexample& example, const Case& c, const Finding& finding) {
  const std::optional<DifferenceKind> kind = new_kind(example, finding);
  if (!kind || stop() || is_explained_by(example.finding, c)) return;
  const InPhase shrinking(Phase::shrinking);
  // Smaller cases are of this kind alone, if there are such.
  const auto has_kind = [&](const Finding& f, const Case& n) {
    return f.difference && f.difference->kinds.contains(*kind) && !is_explained_by(example.finding, n);
  };
  const SearchResult found = shrunk(c, has_kind, {}, SearchLimits{1, 100, std::chrono::seconds{10}});
  OtherFault other{*kind, found.minimal.value_or(c), found.finding.value_or(finding)};
  name_causes(c, other.minimal, other.finding,
              other.finding.difference ? other.finding.difference->kinds : std::set{*kind});
  if (!other.finding.matches.empty() && other.finding.matches == example.finding.matches) return;  // the same fault
  other.finding.element.clear();  // lines about the first wrong element, where that is of this kind
  if (std::optional<Finding> shown = check_uncounted(other.minimal);
      shown && shown->difference && kind_of(shown->difference->tensor, shown->difference->first) == *kind)
    other.finding.element = std::move(shown->element);
  other.finding.matches_case_as_found = true;
  example.others.push_back(std::move(other));
  if (kind == DifferenceKind::value) looks_on_ = false;
}

void StatementRun::look_for_others(Counterexample& example) {
  constexpr int kMostTried = 64;
  constexpr std::int64_t kMostWork = std::int64_t{1} << 24;
  if (example.finding.kind != FindingKind::mismatch || !example.finding.difference) return;
  int tried = 0;
  std::int64_t work = 0;
  std::vector<Case> cases = cases_like(example.original, example.minimal);
  cases.insert(cases.begin(), example.original);
  for (const Case& c : cases) {
    work += operation_named(c.variant.operation).work(c);
    if (++tried > kMostTried || work > kMostWork || stop()) break;
    try {
      if (const std::optional<Finding> finding = check_uncounted(c)) add_other(example, c, *finding);
    } catch (const Error&) {  // no case of this operation
    }
  }
  const bool shows_value =
      example.finding.difference->kinds.contains(DifferenceKind::value) ||
      std::ranges::find(example.others, DifferenceKind::value, &OtherFault::kind) != example.others.end();
  looks_on_ = !shows_value && !options_.fail_fast;
}

// Where the smallest case does not fail in a fresh process, that is the library's state or chance. The cases on the way
// to the smallest one were calls too, so that the case as found is tried as well, after what came before it.
void StatementRun::look_for_state(Counterexample& example) {
  const Statement& s = *result_.statement;
  const std::function<bool()> interrupted = [this] { return stop(); };
  std::vector<Preceding> before = history_ != nullptr ? history_->kept() : std::vector<Preceding>{};
  const bool has_original = !before.empty() && before.back().c == example.original;
  example.reproduction = reproduction_of(context_, {&s, example.minimal, 1}, before, interrupted);
  if (example.reproduction->reproduced && example.reproduction->after.empty()) return;
  if (!example.reproduction->reproduced && example.original != example.minimal && has_original) {
    before.pop_back();
    Reproduction larger = reproduction_of(context_, {&s, example.original, 1}, before, interrupted);
    if (larger.reproduced) {
      example.minimal = example.original, example.finding = *larger.finding;
      example.reproduction = std::move(larger);
    }
  }
  context_.process.restart();  // how many calls that took is a matter of time: the next statement must not see it
  if (stop()) example.reproduction.reset();
}

void StatementRun::look_on_other_gpus(Counterexample& example, bool repeated) {
  if (stop() || context_.process.gpus().all.empty()) return;
  const bool fails_again =
      repeated && (example.reproduction ? example.reproduction->reproduced : example.finding.again_in_fresh_process);
  const auto fails = [&] {
    if (example.reproduction) {
      for (const Preceding& p : example.reproduction->after) {
        for (int i = 0; i < p.times && !stop(); ++i) (void)p.statement->check(context_, p.c);
      }
    }
    return check_uncounted(example.minimal).has_value();
  };
  const FailingGpus gpus = fails_again ? where_it_fails(context_.process, fails) : where_it_failed(context_.process);
  if (stop()) return;  // cases that were not tried have not passed
  example.finding.summary += gpus.text, example.gpu = gpus.uuid;
}

void StatementRun::keep(const SearchResult& found, const Case& original, const Finding& first) {
  Counterexample example;
  example.original = original;
  example.minimal = found.minimal.value_or(original);
  example.shrink_tries = found.shrink_tries;
  example.shrink_budget_spent = found.shrink_budget_spent;
  context_.thorough = true;
  std::optional<Finding> finding = check_uncounted(example.minimal);
  context_.thorough = false;
  if (!finding && stop()) finding = found.finding.value_or(first);
  const bool repeated = finding.has_value();
  if (!finding) {
    finding = found.finding.value_or(first);
    finding->summary =
        "the case failed and then passed: results depend on something other than the call; when it failed, " +
        finding->summary;
  } else if (finding->kind == FindingKind::mismatch && !stop()) {
    name_causes(original, example.minimal, *finding);
  }
  example.finding = std::move(*finding);
  if (!stop() && !example.finding.again_in_fresh_process) look_for_state(example);
  const bool alone = example.reproduction && example.reproduction->reproduced && example.reproduction->after.empty();
  if (repeated && !alone && example.finding.kind == FindingKind::mismatch)
    example.finding.summary += "; not in a fresh process: state of earlier calls";
  look_on_other_gpus(example, repeated);
  result_.counterexample = std::move(example);
  result_.verdict = Verdict::failed;
}

}  // namespace mxcheck

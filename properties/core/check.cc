#include "properties/core/check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/ahead.h"
#include "properties/core/compare.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/core/phases.h"
#include "reference/common/parallel.h"

namespace mxcheck {

std::string status_text(int status) {
  switch (status) {
    case MXCHECK_OK: return "MXCHECK_OK (0)";
    case MXCHECK_UNSUPPORTED: return "MXCHECK_UNSUPPORTED (1: this combination is not offered)";
    case MXCHECK_INVALID: return "MXCHECK_INVALID (2: the arguments are wrong)";
    case MXCHECK_NO_MEMORY: return "MXCHECK_NO_MEMORY (3)";
    case MXCHECK_DEVICE_ERROR: return "MXCHECK_DEVICE_ERROR (4)";
    case MXCHECK_FAILED: return "MXCHECK_FAILED (5)";
    default: return std::to_string(status) + ", which is no mxcheck_status";
  }
}

namespace {

std::string how_it_ended(const Outcome& outcome) {
  if (outcome.kind == OutcomeKind::timed_out) {
    return outcome.first_of_its_kind
               ? "the candidate did not return within the time limit of a first call, in which it may compile"
               : "the candidate did not return within the time limit";
  }
  if (!outcome.ended.empty()) return "the candidate's process " + outcome.ended;
  if (!outcome.device_error.empty()) return "the candidate left the device in an error: " + outcome.device_error;
  if (outcome.signal == 0) return "the candidate's process died: it exited during the call";
  return "the candidate's process died (signal " + std::to_string(outcome.signal) + ", " + strsignal(outcome.signal) +
         ")";
}

CallTensor integers(std::size_t count, const void* data, std::size_t width) {
  CallTensor t;
  t.shape = {static_cast<std::int64_t>(count)};
  t.data = static_cast<const std::byte*>(data);
  t.bytes = count * width;
  return t;
}

}  // namespace

std::unique_ptr<Problem> make_problem(const Case& c) {
  const InPhase drawing(Phase::tensors);
  return operation_named(c.variant.operation).make_problem(c);
}

CallTensor offsets_tensor(const std::vector<std::int64_t>& offsets) {
  CallTensor t = integers(offsets.size(), offsets.data(), sizeof(std::int64_t));
  t.is_offsets = true;
  return t;
}

CallTensor index_tensor(const std::vector<std::int32_t>& index) {
  CallTensor t = integers(index.size(), index.data(), sizeof(std::int32_t));
  t.is_index = true;
  return t;
}

CallVerdict run_checked(CandidateRunner& process, const Call& call, const Case& c) {
  CallVerdict ran = judged(process.run(call), c);
  if (!ran.finding || ran.finding->kind != FindingKind::fault) return ran;
  const Outcome again = process.run(call);  // in the fresh process that run starts
  Finding& finding = *ran.finding;
  finding.again_in_fresh_process = again.kind != OutcomeKind::returned;
  finding.summary += finding.again_in_fresh_process ? "; again in a fresh process"
                                                    : "; not in a fresh process: state of earlier calls";
  return ran;
}

CallVerdict judged(Outcome outcome, const Case& c) {
  Finding finding;
  if (outcome.kind != OutcomeKind::returned) {
    finding.kind = FindingKind::fault;
    finding.summary = how_it_ended(outcome);
    return {std::nullopt, finding};
  }
  if (outcome.out_of_bounds) {
    finding.kind = FindingKind::out_of_bounds;
    finding.summary = "the candidate wrote " + *outcome.out_of_bounds;
    return {std::nullopt, finding};
  }
  if (outcome.conduct) {
    finding.kind = FindingKind::refused;
    finding.summary = *outcome.conduct;
    return {std::nullopt, finding};
  }
  if (outcome.status != MXCHECK_OK) {
    const bool option = operation_named(c.variant.operation).is_option(c);
    if (outcome.status == MXCHECK_UNSUPPORTED && option && outcome.outputs_untouched) return {};
    finding.kind = FindingKind::refused;
    finding.summary = "the candidate refused a case that it claims to support: status " + status_text(outcome.status) +
                      ", \"" + outcome.message + "\"";
    return {std::nullopt, finding};
  }
  return {std::move(outcome), std::nullopt};
}

CallOutputs run_call(CheckContext& context, const Call& call, const Case& c) {
  // Statements ask about transposes, halves and padded copies of a case: not all of them need be within the limits.
  const OperationInfo* limits = context.process.operation(call.operation);
  if (limits != nullptr && !is_within_limits(c, *limits)) return {.offered = false, .outside_limits = true};
  CallVerdict ran = run_checked(context.process, call, c);
  CallOutputs got;
  got.finding = std::move(ran.finding);
  got.offered = got.finding || ran.outcome;
  if (ran.outcome) got.outputs = std::move(ran.outcome->outputs), got.are_the_answer = ran.outcome->is_the_answer;
  return got;
}

ProblemAndAnswer problem_and_answer_of(CheckContext& context, const Case& c) {
  if (context.ahead != nullptr) {
    const InPhase waiting(Phase::reference);
    if (std::unique_ptr<ProblemAndAnswer> posed = context.ahead->take(c)) return std::move(*posed);
  }
  return pose(c);
}

// Zeros and ones, small and large numbers of any type, and whatever the last call left: what a library takes for
// granted of memory that it has not cleared is wrong for one of them. The case and the poison of its outputs choose, so
// that a case that is repeated finds the same.
WorkspaceFill workspace_of(const Case& c, std::uint8_t poison) {
  constexpr std::uint8_t kFills[] = {0xC7, 0x00, 0xFF, 0x3F, 0x7F};
  const std::uint64_t shape = mix64(static_cast<std::uint64_t>(c.rows)) + static_cast<std::uint64_t>(c.cols);
  const std::uint64_t choice = random_word(c.seed ^ mix64(shape), poison) % 6;
  if (choice == std::size(kFills)) return {0, 1};
  return {kFills[choice], 0};
}

namespace {
// "wrote into input 0" becomes "wrote into input 0, x".
void say_the_name(const Problem& problem, std::string& summary) {
  const std::vector<ProblemInput> inputs = problem.inputs();
  for (const bool is_input : {true, false}) {
    for (std::size_t i = 0; i < (is_input ? inputs.size() : problem.outputs.size()); ++i) {
      std::string name = is_input ? inputs[i].info.name : problem.outputs[i].name;
      if (name.empty() && is_input && i == 0) name = "x";
      if (!name.empty() && summary.ends_with((is_input ? "input " : "output ") + std::to_string(i)))
        return void(summary += ", " + name);
    }
  }
}
}  // namespace

CallOutputs run_problem(CheckContext& context, const Problem& problem, std::uint8_t poison,
                        const std::vector<ExpectedTensor>* answer) {
  Call call = problem.call();
  call.poison = poison;
  call.answer = answer, call.brings_other_outputs_only = answer != nullptr;
  call.workspace = workspace_of(problem.c, poison);
  call.misaligned = problem.c.misaligned;
  if (poison == kPoisons[1])
    call.byte_offset = 256;  // the second run of a case is also the one that says where it starts
  CallOutputs got = run_call(context, call, problem.c);
  if (got.finding && got.finding->kind == FindingKind::out_of_bounds) say_the_name(problem, got.finding->summary);
  return got;
}

std::optional<Finding> differ(const TensorInfo& info, std::span<const std::byte> expected,
                              std::span<const std::byte> observed, const std::string& summary) {
  std::optional<Difference> difference = compare(info, expected, observed, kPoisons[0]);
  if (!difference) return std::nullopt;
  Finding finding;
  finding.kind = FindingKind::mismatch;
  finding.summary = summary;
  finding.difference = std::move(difference);
  return finding;
}

std::optional<Finding> propagate(CheckContext& context, const CallOutputs& got) {
  if (!got.offered) (got.outside_limits ? context.not_applicable : context.not_offered) = true;
  return got.finding;
}

std::optional<Finding> not_applicable(CheckContext& context) {
  context.not_applicable = true;
  return std::nullopt;
}

std::optional<Finding> first_difference(const Problem& p, const std::vector<ExpectedTensor>& expected,
                                        const std::vector<std::vector<std::byte>>& outputs, const std::string& of) {
  for (const std::size_t i : p.order()) {
    std::optional<Finding> finding =
        differ(expected[i].info, expected[i].bytes, outputs[i], expected[i].info.name + " differ" + of);
    if (!finding) continue;
    p.explain(i, *finding);
    return finding;
  }
  return std::nullopt;
}

namespace {
constexpr std::int64_t kMostToExplain = 1'000'000;  // elements of all outputs: there are hundreds of rows
constexpr std::int64_t kMostToMove = 8'000'000;     // elements that are compared with general slips of outputs alone
}  // namespace

void tell_matches(const Problem& p, const std::vector<ExpectedTensor>& expected,
                  const std::vector<std::vector<std::byte>>& outputs, Finding& finding, const Explaining& how) {
  std::vector<AnswerTensor> answers;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    answers.push_back({expected[i].info, expected[i].bytes, outputs[i], p.c.experts});
    elements += static_cast<std::int64_t>(outputs[i].size() / bytes_of_element(expected[i].info));
  }
  if (elements > kMostToMove) return;
  finding.matched = elements;
  Table table = elements <= kMostToExplain ? p.definitions(outputs) : Table();
  Table general = general_slips(p, answers, how.poison, how.among != nullptr);
  if (how.among != nullptr) keep_named(table, *how.among), keep_named(general, *how.among);
  finding.explained_by = explanations_of(answers, table, general);
  if (how.among != nullptr) {
    for (const std::string& name : *how.among) {
      const auto is_of = [&](const Definition& row) {
        return !row.derived && name.find(row.name) != std::string::npos;
      };
      if (std::ranges::none_of(table, is_of) && std::ranges::none_of(general, is_of))
        finding.explained_by.push_back({.name = name, .is_silent = true});
    }
    if (std::ranges::all_of(*how.among, [&](const std::string& name) {
          const auto of = std::ranges::find(finding.explained_by, name, &Explanation::name);
          return of != finding.explained_by.end() && of->is_silent;
        }))
      finding.matched = 0;  // nothing was compared
  }
  Causes causes;
  causes.add(finding.explained_by, elements);
  finding.matches = causes.named();
  if (!finding.matches.empty()) return;
  for (const std::size_t i : p.order()) {
    const std::optional<Difference> d = compare(answers[i].info, answers[i].expected, answers[i].observed, kPoisons[0]);
    if (!d) continue;
    finding.likely = likeliest_causes(answers[i], table, i, "element", 2);
    for (std::string& line : finding.likely)
      line += " (" + std::to_string(d->count) + " of " + std::to_string(d->total) + " elements of " + d->tensor.name +
              " differ)";
    return;
  }
}

std::vector<std::string> rows_that_change(const Problem& p, const std::vector<std::string>& among) {
  const std::vector<ExpectedTensor> expected = p.answer();
  std::vector<AnswerTensor> answers;
  std::vector<Bytes> right;
  for (const ExpectedTensor& t : expected) answers.push_back({t.info, t.bytes, t.bytes}), right.push_back(t.bytes);
  Table table = p.definitions(right);
  for (Definition& row : general_slips(p, answers, kPoisons[0], true)) table.push_back(std::move(row));
  keep_named(table, among);
  std::vector<std::string> changing;
  for (const Definition& row : table) {
    bool changes = false;
    for (std::size_t i = 0; !row.derived && !changes && i < answers.size(); ++i) {
      const Bytes bytes = bytes_of_row(row, i);
      changes = bytes.size() == right[i].size() && !same_elements(answers[i].info, bytes, right[i]);
    }
    if (changes) changing.push_back(row.name);
  }
  return changing;
}

std::optional<Finding> equals_answer(CheckContext& context, const Problem& p,
                                     const std::vector<ExpectedTensor>& expected, const EqualityOptions& options) {
  for (const std::uint8_t poison : kPoisons) {
    const std::uint8_t of_large = options.poison_of_large.value_or(kPoisons[p.c.seed & 1]);
    if (p.c.elements() > options.one_poison_above && poison != of_large) continue;
    const CallOutputs got = run_problem(context, p, poison, &expected);
    if (!got.usable()) return propagate(context, got);
    if (got.are_the_answer) continue;
    std::optional<Finding> finding = first_difference(p, expected, got.outputs, options.of);
    if (!finding) continue;
    if (context.thorough) tell_matches(p, expected, got.outputs, *finding, {poison, context.causes});
    return finding;
  }
  return std::nullopt;
}

std::optional<Finding> equals_reference(CheckContext& context, const Case& c, const EqualityOptions& options) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  return equals_answer(context, *posed.problem, posed.answer, options);
}

std::optional<Finding> equals_cpu_library(CheckContext& context, const Case& c) {
  if (context.cpu == nullptr) {
    context.not_offered = true;
    return std::nullopt;
  }
  Case plain = c;
  plain.gather = 0;
  const std::unique_ptr<Problem> p = make_problem(plain);
  const CallOutputs got = run_problem(context, *p);
  if (!got.usable()) return propagate(context, got);
  const CallVerdict cpu = run_checked(*context.cpu, p->call(), plain);
  if (!cpu.outcome) {
    context.not_offered = true;
    return std::nullopt;
  }
  for (const std::size_t i : p->order()) {
    std::optional<Finding> finding = differ(p->outputs[i], cpu.outcome->outputs[i], got.outputs[i],
                                            p->outputs[i].name + " differ from the CPU library's");
    if (!finding) continue;
    p->explain(i, *finding);
    return finding;
  }
  return std::nullopt;
}

std::int64_t to_multiple(std::int64_t extent, std::int64_t multiple, std::int64_t limit) {
  extent = (extent + multiple - 1) / multiple * multiple;
  return limit > 0 ? std::min(extent, limit / multiple * multiple) : extent;
}

void fit_experts(Case& c) {
  if (c.experts.empty()) return;
  const std::int64_t end = operation_named(c.variant.operation).experts_end(c);
  for (std::int64_t& offset : c.experts) offset = std::min(offset, end);
  c.experts.back() = end;
}

void fit_plants(Case& c) {
  if (c.elements() == 0) c.plants.clear();
  for (Plant& p : c.plants) p.row = std::min(p.row, c.rows - 1), p.col = std::min(p.col, c.cols - 1);
}

Case within_limits(Case c, const OperationInfo& limits) {
  const Case was = c;
  c.rows = to_multiple(c.rows, limits.rows_multiple, limits.max_rows);
  c.cols = to_multiple(c.cols, limits.cols_multiple, limits.max_cols);
  operation_named(c.variant.operation).fit(c);
  c.fit_strides(was);
  fit_experts(c);
  fit_plants(c);
  return c;
}

bool is_within_limits(const Case& c, const OperationInfo& limits) {
  return c.rows % limits.rows_multiple == 0 && c.cols % limits.cols_multiple == 0 &&
         (limits.max_rows <= 0 || c.rows <= limits.max_rows) && (limits.max_cols <= 0 || c.cols <= limits.max_cols);
}

std::vector<std::int64_t> smaller_extents(std::int64_t extent) {
  std::vector<std::int64_t> smaller;
  if (extent > 1) smaller.push_back(1);
  // Extents less the largest power of two below them, or less half of it: they keep a fault that remainders alone have.
  // Large cases take too long to try that as well.
  const std::int64_t half = extent < 3 || extent > kMostDrawnElements
                                ? 0
                                : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(extent - 1)) / 2);
  for (const std::int64_t by : {half * 2, half}) {
    if (by > 0 && extent - by > 1) smaller.push_back(extent - by);
  }
  for (int k = 62; k >= 0; --k) {
    const std::int64_t below = extent < 1 ? 0 : (extent - 1) >> k << k;
    if (below > 1 && std::find(smaller.begin(), smaller.end(), below) == smaller.end()) smaller.push_back(below);
  }
  return smaller;
}

std::vector<std::int32_t> draw_index(std::uint64_t seed, std::int64_t rows, std::int64_t source_rows) {
  std::vector<std::int32_t> index(static_cast<std::size_t>(rows));
  std::vector<std::int32_t> all(static_cast<std::size_t>(source_rows));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::size_t left = all.size() - i % all.size();  // a fresh permutation each time all have been used
    const std::size_t taken = static_cast<std::size_t>(random_word(seed ^ 0x6A7E, i) % left);
    index[i] = all[taken];
    std::swap(all[taken], all[left - 1]);
  }
  return index;
}

ProblemAndAnswer pose(const Case& c) {
  ProblemAndAnswer posed{make_problem(c), {}};
  const InPhase answering(Phase::reference);
  posed.answer = posed.problem->answer();
  return posed;
}

ReferencePrefetcher::ReferencePrefetcher(std::vector<Case> cases, int threads)
    : cases_(std::move(cases)), most_ahead_(static_cast<std::size_t>(threads)), slots_(cases_.size()) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ReferencePrefetcher::~ReferencePrefetcher() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReferencePrefetcher::work() {
  const OneThreadEach one;  // the cases are what is divided
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over_ || begun_ == cases_.size() || begun_ <= current_ + most_ahead_; });
    if (is_over_ || begun_ == cases_.size()) return;
    const std::size_t number = begun_++;
    lock.unlock();
    Slot slot;
    try {
      slot.posed = std::make_unique<ProblemAndAnswer>(pose(cases_[number]));
    } catch (...) {
      slot.failure = std::current_exception();
    }
    slot.is_done = true;
    lock.lock();
    if (number >= current_) slots_[number] = std::move(slot);
    changed_.notify_all();
  }
}

void ReferencePrefetcher::go_to(std::size_t number) {
  {
    const std::lock_guard lock(mutex_);
    for (; current_ < number; ++current_) slots_[current_] = {};
    begun_ = std::max(begun_, current_);  // passed over before any thread came to them
  }
  changed_.notify_all();
}

std::unique_ptr<ProblemAndAnswer> ReferencePrefetcher::take(const Case& c) {
  std::unique_lock lock(mutex_);
  if (current_ >= cases_.size() || !(cases_[current_] == c)) return nullptr;
  Slot& slot = slots_[current_];
  if (slot.is_done && slot.posed == nullptr && slot.failure == nullptr) return nullptr;  // taken before
  changed_.wait(lock, [&] { return slot.is_done; });
  if (slot.failure) std::rethrow_exception(slot.failure);
  return std::move(slot.posed);
}

}  // namespace mxcheck

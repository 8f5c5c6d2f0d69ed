// The conduct of an operation, whatever it computes: within its buffers, the same every time, and clear in its
// refusals.

#include "properties/core/statement.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/core/phases.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kLeastWork = 256;  // of a small case: less may be nothing at all

std::optional<Finding> stays_inside(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  Call call = p->call();
  call.guard_pages = true;
  const CallOutputs got = run_call(context, call, c);
  if (got.usable()) return std::nullopt;
  std::optional<Finding> finding = propagate(context, got);
  if (finding && finding->kind == FindingKind::fault) {
    finding->summary += "; every tensor ended at an inaccessible page, so an access outside is fatal";
  }
  return finding;
}

std::optional<Finding> same_outputs(const Problem& p, const CallOutputs& a, const CallOutputs& b,
                                    const std::string& summary) {
  if (!promises_bits(p.c.variant)) return std::nullopt;  // two right calls may differ
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    if (auto f = differ(p.outputs[i], a.outputs[i], b.outputs[i], p.outputs[i].name + " " + summary)) return f;
  }
  return std::nullopt;
}

std::optional<Finding> any_thread_count(CheckContext& context, const Case& c) {
  Case one = c;
  one.threads = 1;
  const std::unique_ptr<Problem> p = make_problem(one);
  const CallOutputs alone = run_problem(context, *p);
  if (!alone.usable()) return propagate(context, alone);
  for (int threads : {2, 3, 8, 0}) {
    p->c.threads = threads;
    const CallOutputs got = run_problem(context, *p);
    if (!got.usable()) return propagate(context, got);
    if (auto f = same_outputs(*p, alone, got,
                              "differ between 1 thread and " +
                                  (threads == 0 ? std::string("the library's choice") : std::to_string(threads)))) {
      return f;
    }
  }
  return std::nullopt;
}

std::optional<Finding> same_when_repeated(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  const CallOutputs first = run_problem(context, *p, kPoisons[0]);
  if (!first.usable()) return propagate(context, first);
  Case between = c;  // other data at the same addresses, another shape: what a cache or a stale buffer would keep
  between.seed = mix64(c.seed), between.plants.clear();
  between.data = Data::normal;
  const CallOutputs other = run_problem(context, *make_problem(between), kPoisons[1]);
  if (!other.usable()) return propagate(context, other);
  if (between.rows > 1) {
    operation_named(c.variant.operation).halve_rows(between);
    const CallOutputs smaller = run_problem(context, *make_problem(between), kPoisons[1]);
    if (!smaller.usable()) return propagate(context, smaller);
  }
  const CallOutputs again = run_problem(context, *p, kPoisons[1]);
  if (!again.usable()) return propagate(context, again);
  return same_outputs(*p, first, again, "differ between two runs of the same call");
}

// Fields that a later version of the interface appends to a policy. They hold anything.
constexpr std::uint32_t kLaterBytes = 64;
constexpr int kLaterFill = 0xA5;

void append_fields(Policy& policy) {
  if (policy.num_bytes + kLaterBytes > Policy::kMostBytes)
    throw Error(ErrorKind::internal, "a policy that is too large for one of a later version");
  std::memset(policy.bytes + policy.num_bytes, kLaterFill, kLaterBytes);
  policy.num_bytes += kLaterBytes;
  edit<mxcheck_policy>(policy, [&](mxcheck_policy& p) { p.size = policy.num_bytes; });
}

// The variants of which the library may be asked.
std::vector<Variant> askable_variants(const CheckContext& context, const Variant& v) {
  const Operation& operation = operation_named(v.operation);
  const OperationInfo* info = context.process.operation(v.operation);
  return info == nullptr ? operation.askable(v.operation) : operation.askable_under(v.operation, info->contract);
}

// True if the library may be asked for a variant of a larger policy: its size then says that a call has options.
bool is_told_by_size(const CheckContext& context, const Policy& policy, const Variant& v) {
  const Operation& operation = operation_named(v.operation);
  return std::ranges::any_of(askable_variants(context, v), [&](const Variant& other) {
    return operation.question(other).num_bytes > policy.num_bytes;
  });
}

std::optional<Finding> larger_policy(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  Call later = p->call();
  if (is_told_by_size(context, later.policy, c.variant)) return not_applicable(context);
  const CallOutputs now = run_problem(context, *p);
  if (!now.usable()) return propagate(context, now);
  later.answered_as = std::make_shared<const Call>(later);
  append_fields(later.policy);
  later.workspace = workspace_of(c, later.poison), later.misaligned = c.misaligned;
  CallOutputs got = run_call(context, later, c);
  const std::string how = "with a policy of a later version, which has 64 bytes more";
  if (!got.finding && !got.offered)
    got.finding = Finding{.kind = FindingKind::refused, .summary = "the candidate refused a case as UNSUPPORTED"};
  if (got.finding) {
    got.finding->summary += "; " + how;
    return got.finding;
  }
  return same_outputs(*p, now, got, "differ " + how);
}

// A case of the same variant with other data and, where the candidate takes them, half of the rows.
Case other_case(const CheckContext& context, const Case& c) {
  Case other = c;
  other.seed = mix64(c.seed), other.plants.clear();
  other.data = Data::normal;
  Case smaller = other;
  if (other.rows > 1) operation_named(c.variant.operation).halve_rows(smaller);
  const OperationInfo* limits = context.process.operation(c.variant.operation);
  return limits == nullptr || is_within_limits(smaller, *limits) ? smaller : other;
}

// The question for the variant after this one.
Call::Question other_question(const CheckContext& context, const Variant& v) {
  const std::vector<Variant> all = askable_variants(context, v);
  const auto at = std::ranges::find(all, v);
  const bool is_last = at == all.end() || std::next(at) == all.end();
  const Variant& other = all.empty() ? v : is_last ? all.front() : *std::next(at);
  return {operation_named(v.operation).question(other), other.dtype};
}

std::optional<Finding> any_question(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  const CallOutputs alone = run_problem(context, *p);
  if (!alone.usable()) return propagate(context, alone);
  const std::unique_ptr<Problem> other = make_problem(other_case(context, c));
  const CallOutputs apart = run_problem(context, *other);
  if (!apart.usable()) return propagate(context, apart);
  for (const bool is_call : {true, false}) {
    Call call = p->call();
    call.workspace = workspace_of(c, call.poison), call.misaligned = c.misaligned;
    if (is_call) {
      Call between = other->call();
      between.misaligned = c.misaligned;
      call.between = std::make_shared<const Call>(std::move(between));
    } else {
      call.asked = other_question(context, c.variant);
    }
    const std::string how = is_call ? "when another call comes between its workspace and its run"
                                    : "when supports() is asked between its workspace and its run";
    CallOutputs got = run_call(context, call, c);
    if (got.finding) {
      got.finding->summary += "; " + how;
      return got.finding;
    }
    if (!got.usable()) return propagate(context, got);
    if (auto f = same_outputs(*p, alone, got, "differ " + how)) return f;
  }
  return std::nullopt;
}

// CUDA candidates: the same call in every way in which a stream can be used.
std::optional<Finding> any_stream(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  const CallOutputs own = run_problem(context, *p);
  if (!own.usable()) return propagate(context, own);
  struct Way {
    StreamMode mode;
    const char* what;
  };
  static constexpr Way kWays[] = {
      {StreamMode::behind, "when the inputs arrive in the stream after run has returned"},
      {StreamMode::legacy, "in the default stream"},
      {StreamMode::captured, "in a graph that was captured from its stream and launched twice"},
      {StreamMode::crowded, "when three calls are in flight in three streams, at new addresses"},
  };
  for (const Way& way : kWays) {
    Call call = p->call();
    call.stream = way.mode;
    call.misaligned = c.misaligned;
    const CallOutputs got = run_call(context, call, c);
    if (got.finding) {
      Finding finding = *got.finding;
      finding.summary += std::string("; ") + way.what;
      return finding;
    }
    if (!got.usable()) return propagate(context, got);
    if (auto f = same_outputs(*p, own, got, std::string("differ ") + way.what)) return f;
  }
  return std::nullopt;
}

// The fault in the answer to an invalid call; empty where the call was refused cleanly.
std::string refusal_problem(const Outcome& outcome, bool needs_message) {
  if (!outcome.ended.empty()) return outcome.ended;
  if (outcome.kind == OutcomeKind::crashed) return "crashed (signal " + std::to_string(outcome.signal) + ")";
  if (outcome.kind != OutcomeKind::returned) return "did not return";
  if (outcome.conduct) return "misbehaved: " + *outcome.conduct;
  if (outcome.status == MXCHECK_OK) return "returned MXCHECK_OK";
  if (!outcome.outputs_untouched || outcome.out_of_bounds)
    return "refused but wrote " + outcome.out_of_bounds.value_or("to an output");
  if (outcome.status != MXCHECK_INVALID && outcome.status != MXCHECK_UNSUPPORTED)
    return "refused it with status " + status_text(outcome.status) + ", not as INVALID or UNSUPPORTED";
  return needs_message && outcome.message.empty() ? "refused without a message" : "";
}

std::optional<Finding> check_refusal(CheckContext& context, const Call& call, const std::string& how,
                                     bool needs_message) {
  const Outcome outcome = context.process.run(call);
  const std::string problem = refusal_problem(outcome, needs_message);
  if (problem.empty()) return std::nullopt;
  Finding finding;
  finding.kind = outcome.kind == OutcomeKind::returned ? FindingKind::refused : FindingKind::fault;
  finding.summary = how + ", and the candidate " + problem;
  return finding;
}

std::string text_of(const TensorPlace& place) {
  return (place.is_output ? "output " : "input ") + std::to_string(place.number);
}

// Each way to make a tensor wrong, of one tensor that the case's seed chooses for it; in every eighth case, of all.
std::optional<Finding> refuses_tensors(CheckContext& context, const Case& c, const Call& good,
                                       const std::vector<InvalidTensor>& ways) {
  const OperationInfo* info = context.process.operation(c.variant.operation);
  const std::vector<TensorPlace> places =
      tensor_places(good, operation_named(c.variant.operation), info != nullptr && info->takes_col_stride());
  const std::uint64_t drawn = mix64(c.seed);
  std::uint64_t number = drawn >> 8;
  for (const InvalidTensor& invalid : ways) {
    const std::size_t chosen = number++ % places.size();
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i != chosen && drawn % 8 != 0) continue;
      Call call = good;
      if (!invalid.make(call, tensor_at(call, places[i]), places[i])) continue;
      const std::string how = "of " + text_of(places[i]) + ": " + invalid.how;
      if (auto finding = check_refusal(context, call, how, true)) return finding;
    }
  }
  return std::nullopt;
}

std::vector<InvalidCall> invalid_calls_of(const Operation& operation, bool wrap) {
  std::vector<InvalidCall> all = common_invalid_calls();
  add_invalid(all, {operation.invalid_calls()});
  std::erase_if(all, [=](const InvalidCall& invalid) { return invalid.wraps != wrap; });
  return all;
}

std::optional<Finding> refuses_all(CheckContext& context, const Case& c, const std::vector<InvalidCall>& calls,
                                   const std::vector<InvalidTensor>& tensors) {
  if (!operation_named(c.variant.operation).has_invalid_calls(c)) return not_applicable(context);
  const std::unique_ptr<Problem> p = make_problem(c);
  for (const InvalidCall& invalid : calls) {
    Call call = p->call();
    if ((invalid.host_only && context.process.info().cuda) || !invalid.make(call)) continue;
    if (auto finding = check_refusal(context, call, invalid.how, invalid.needs_message)) return finding;
  }
  return refuses_tensors(context, c, p->call(), tensors);
}

std::optional<Finding> refuses_cleanly(CheckContext& context, const Case& c) {
  return refuses_all(context, c, invalid_calls_of(operation_named(c.variant.operation), false), invalid_tensors());
}

std::optional<Finding> refuses_what_wraps(CheckContext& context, const Case& c) {
  std::vector<InvalidCall> calls = invalid_calls_of(operation_named(c.variant.operation), true);
  add_invalid(calls, {misplaced_offsets(mix64(c.seed))});
  return refuses_all(context, c, calls, {});
}

// Where an earlier statement's refused calls have spoilt the process for good, a call is wrong before and after those
// made here. What a fresh process computes wrongly too is another statement's affair.
std::optional<Finding> spoilt_before(CheckContext& context, const Problem& p, const CallOutputs& got) {
  const std::vector<ExpectedTensor> answer = [&] {
    const InPhase answering(Phase::reference);
    return p.answer();
  }();
  std::optional<Finding> finding =
      first_difference(p, answer, got.outputs, " from the reference after the calls of other cases");
  if (!finding) return std::nullopt;
  context.process.restart();
  const CallOutputs fresh = run_problem(context, p);
  if (!fresh.usable() || first_difference(p, answer, fresh.outputs, "")) return std::nullopt;
  return finding;
}

// That the invalid call is refused is another statement's affair.
std::optional<Finding> right_after_a_refusal(CheckContext& context, const Case& c) {
  const Operation& operation = operation_named(c.variant.operation);
  if (!operation.has_invalid_calls(c)) return not_applicable(context);
  const std::unique_ptr<Problem> p = make_problem(c);
  const CallOutputs first = run_problem(context, *p);
  if (!first.usable()) return propagate(context, first);
  if (auto finding = spoilt_before(context, *p, first)) return finding;
  for (const InvalidCall& invalid : invalid_calls_of(operation, false)) {
    Call call = p->call();
    if (!invalid.make(call)) continue;
    if (context.process.run(call).kind != OutcomeKind::returned) return not_applicable(context);
    const CallOutputs again = run_problem(context, *p);
    if (!again.usable()) {
      std::optional<Finding> finding = propagate(context, again);
      if (finding) finding->summary += std::string("; after a call in which ") + invalid.how;
      return finding;
    }
    if (auto f =
            same_outputs(*p, first, again, std::string("differ from those before a call in which ") + invalid.how)) {
      return f;
    }
  }
  return std::nullopt;
}

bool is_first_of_its_operation(const Variant& v, std::span<const Variant> offered) {
  const auto first = std::find_if(offered.begin(), offered.end(),
                                  [&](const Variant& other) { return other.operation == v.operation; });
  return first != offered.end() && *first == v;
}

// One case a variant, as small as its operation makes it.
std::vector<Case> one_small_case(const Variant& v, Suite) {
  const Operation& operation = operation_named(v.operation);
  const std::vector<Case> large = operation.large_cases(v, Suite::full);
  if (large.empty()) return {};
  Case least = large.front();
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Case& c : operation.simpler(least, {})) {
      const std::int64_t work = operation.work(c);
      if (c.variant != v || work < kLeastWork || work >= operation.work(least)) continue;
      least = c, smaller = true;
      break;
    }
  }
  least.threads = 1;
  return {least};
}

// The growth that a stretch of calls may have: pages that are touched for the first time by chance. Calls of the
// in-tree library add none.
constexpr std::int64_t kChance = 64 * 1024;

// A block of 64 bytes that a call does not give back takes 80 of the heap; half of it is the limit.
constexpr std::int64_t kResidentPerCall = 40;
// Addresses are had without memory: a thread's stack or a heap for it, once. A page a call is beyond the limit.
constexpr std::int64_t kAddressesPerCall = 2048;

bool grows(std::int64_t begin, std::int64_t middle, std::int64_t end, std::int64_t limit) {
  return middle - begin > limit && end - middle > limit;
}

struct Resource {
  std::int64_t MemoryUse::*use;
  const char* name;
};
constexpr Resource kLeft[]{{&MemoryUse::files, "number of open files"},
                           {&MemoryUse::threads, "number of threads"},
                           {&MemoryUse::children, "number of children"}};
// A pool of threads may start a few at any call, and its queues may open files.
constexpr std::int64_t kFew = 8;

// The resource that the calls left taken, and how much of it in both stretches; else an empty text.
std::string left_taken(const MemoryOfCalls& m) {
  for (const Resource& one : kLeft) {
    const std::int64_t begin = m.begin.*one.use, middle = m.middle.*one.use, end = m.end.*one.use;
    if (grows(begin, middle, end, kFew))
      return std::string("the ") + one.name + " grows with every call: by " + std::to_string(end - begin) + " in " +
             std::to_string(2 * m.calls) + " calls";
  }
  if (m.most_files == 0 || m.end.files < m.most_files) return "";
  return "the number of open files grows to " + std::to_string(m.end.files) + ", all that the process may have";
}

std::optional<Finding> keeps_no_memory(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  Call call = p->call();
  call.repeat = 10'000;
  context.process.restart();  // what earlier calls have used up, mappings say, would hide what these use
  CallVerdict ran = run_checked(context.process, call, c);
  if (ran.finding) return ran.finding;
  if (!ran.outcome) {
    context.not_offered = true;
    return std::nullopt;
  }
  const MemoryOfCalls& m = ran.outcome->memory;
  Finding finding;
  finding.kind = FindingKind::refused;
  finding.summary = left_taken(m);
  if (!finding.summary.empty()) return finding;
  const bool resident =
      grows(m.begin.resident, m.middle.resident, m.end.resident, std::max(kChance, kResidentPerCall * m.calls));
  const bool addresses = grows(m.begin.address_space, m.middle.address_space, m.end.address_space,
                               std::max(kChance, kAddressesPerCall * m.calls));
  if (!resident && !addresses) return std::nullopt;
  const std::int64_t grown = resident ? m.end.resident - m.begin.resident : m.end.address_space - m.begin.address_space;
  finding.summary = std::string(resident ? "memory in use" : "address space") + " grows with every call: by " +
                    std::to_string(grown) + " bytes in " + std::to_string(2 * m.calls) + " calls, " +
                    std::to_string(grown / std::max<std::int64_t>(1, 2 * m.calls)) + " a call";
  return finding;
}

std::optional<Finding> ends_in_order(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  const CallOutputs got = run_problem(context, *p);
  if (!got.usable()) return propagate(context, got);
  const std::string problem = context.process.end_in_order();
  if (problem.empty()) return std::nullopt;
  Finding finding;
  finding.kind = FindingKind::fault;
  finding.summary = problem;
  return finding;
}

std::vector<Case> large_enough_for_threads(const Variant& v, Suite suite) {
  return operation_named(v.operation).large_cases(v, suite);
}

// A statement about every operation, on drawn cases.
Statement about_all(std::string_view name, std::string_view sentence,
                    std::optional<Finding> (*check)(CheckContext&, const Case&)) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "kernels/candidate.h";
  s.applies = [](const Variant&, std::span<const Variant>) { return true; };
  s.data = {Data::boundaries, Data::normal, Data::specials, Data::slots};
  s.check = check;
  return s;
}

}  // namespace

std::vector<Statement> conduct_statements() {
  std::vector<Statement> s{
      about_all("nothing_is_accessed_outside_the_tensors",
                "no byte outside the tensors is read or written: each tensor ends at an inaccessible page",
                stays_inside),
      about_all("the_thread_count_changes_nothing", "1, 2, 3, 8 threads and the library's choice give the same bytes",
                any_thread_count),
      about_all("the_same_call_gives_the_same_bytes",
                "a call repeated after other calls, over another poison, gives the same bytes", same_when_repeated),
      about_all("bad_arguments_are_refused_and_nothing_is_written",
                "null pointers, wrong shapes, strides, dtypes, devices, policies and offsets are refused as INVALID or "
                "UNSUPPORTED, and no output byte changes: docs/candidate.md lists the clauses",
                refuses_cleanly),
      about_all("the_stream_changes_nothing",
                "whatever the stream, what else is in flight and what was allocated before, a call gives the same "
                "bytes; it does not wait and can be captured in a graph",
                any_stream),
      about_all("a_refused_call_changes_nothing_after_it",
                "a call gives the same bytes before and after each kind of call that must be refused",
                right_after_a_refusal),
      about_all(
          "ten_thousand_calls_keep_no_memory",
          "memory, address space, open files, threads and children of the process do not grow with the number of calls",
          keeps_no_memory),
      about_all("the_process_ends_in_order",
                "after a call, exit() runs what the library registered for the end and returns status 0",
                ends_in_order),
  };
  Statement wraps =
      about_all("sizes_that_wrap_and_offsets_out_of_order_are_refused",
                "sizes that are right in 32 bits alone, or whose product overflows, offsets with high words, and lists "
                "of offsets "
                "that are out of order at any place are refused as INVALID or UNSUPPORTED, and no output byte changes",
                refuses_what_wraps);
  Statement later = about_all("a_policy_of_a_later_version_changes_nothing",
                              "a policy with fields that a later version of the interface appends gives the same bytes",
                              larger_policy);
  Statement between =
      about_all("questions_between_calls_change_nothing",
                "another call, or a question to supports(), between workspace() and run() of a call changes no byte",
                any_question);
  for (Statement* one : {&later, &between}) {
    one->data = {Data::normal}, one->of_the_interface = true;
    one->applies = [](const Variant& v, std::span<const Variant>) { return promises_bits(v); };
  }
  wraps.data = {Data::normal}, wraps.strides = false, wraps.experts = 60, wraps.of_the_interface = true;
  for (const std::size_t about_bits : {std::size_t{1}, std::size_t{2}})
    s[about_bits].applies = [](const Variant& v, std::span<const Variant>) { return promises_bits(v); };
  s[0].cases_per_variant = 2;
  s[0].col_strides = s[1].col_strides = s[2].col_strides = true;
  s[1].corners = large_enough_for_threads;
  s[1].device = Statement::Device::host;
  s[3].data = {Data::normal};
  s[3].strides = false;
  s[4].device = Statement::Device::cuda;
  s[5].data = {Data::normal};
  s[5].strides = false;
  s[3].of_the_interface = s[5].of_the_interface = true;
  for (Statement* one : {&s[6], &s[7]}) {
    one->applies = is_first_of_its_operation;
    one->corners = one_small_case;
    one->data = {};
  }
  s[6].device = Statement::Device::host;
  for (Statement* one : {&wraps, &later, &between}) s.push_back(std::move(*one));
  return s;
}

const std::vector<Statement>& all_statements() {
  static const std::vector<Statement> statements = [] {
    std::vector<Statement> all;
    for (const OperationModule& module : all_modules())
      all.insert(all.end(), module.statements.begin(), module.statements.end());
    for (Statement& s : conduct_statements()) all.push_back(std::move(s));
    return all;
  }();
  return statements;
}

}  // namespace mxcheck

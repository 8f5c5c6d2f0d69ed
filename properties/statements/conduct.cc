// The conduct of an operation, whatever it computes: within its buffers, the same every time, and clear in its
// refusals (refusals.h).

#include "properties/core/statement.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/statements/refusals.h"

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
Question other_question(const CheckContext& context, const Variant& v) {
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
// The smallest block of the heap has 32 bytes.
constexpr std::int64_t kHeapPerCall = 16;
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
  const bool heap = grows(m.begin.heap, m.middle.heap, m.end.heap, std::max(kChance, kHeapPerCall * m.calls));
  if (!resident && !heap && !addresses) return std::nullopt;
  const std::int64_t grown = resident ? m.end.resident - m.begin.resident
                             : heap   ? m.end.heap - m.begin.heap
                                      : m.end.address_space - m.begin.address_space;
  finding.summary = std::string(resident ? "memory in use"
                                : heap   ? "the heap"
                                         : "address space") +
                    " grows with every call: by " + std::to_string(grown) + " bytes in " + std::to_string(2 * m.calls) +
                    " calls, " + std::to_string(grown / std::max<std::int64_t>(1, 2 * m.calls)) + " a call";
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

// The statements that come last in reports.
std::vector<Statement> later_statements() {
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
  return {std::move(wraps), std::move(later), std::move(between)};
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
  for (Statement& one : later_statements()) s.push_back(std::move(one));
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

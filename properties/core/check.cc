#include "properties/core/check.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/candidate.h"
#include "properties/core/limits.h"

namespace mxcheck {
namespace {

std::string how_it_ended(const Outcome& outcome) {
  if (outcome.kind == OutcomeKind::timed_out) {
    return outcome.first_of_its_kind
               ? "the candidate did not return within the time limit of a first call, in which it may compile"
               : "the candidate did not return within the time limit";
  }
  if (!outcome.device_error.empty()) return "the candidate left the device in an error: " + outcome.device_error;
  return "the candidate's process died (signal " + std::to_string(outcome.signal) + ", " +
         (outcome.signal != 0 ? strsignal(outcome.signal) : "it exited") + ")";
}

CallTensor integers(std::size_t count, const void* data, std::size_t width) {
  CallTensor t;
  t.shape = {static_cast<std::int64_t>(count)};
  t.data = static_cast<const std::byte*>(data);
  t.bytes = count * width;
  return t;
}

}  // namespace

std::unique_ptr<Problem> make_problem(const Case& c) { return operation_named(c.variant.operation).make_problem(c); }

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

Ran run_checked(CandidateRunner& process, const Call& call, const Case& c) {
  Ran ran = judged(process.run(call), c);
  if (!ran.finding || ran.finding->kind != FindingKind::fault) return ran;
  const Outcome again = process.run(call);  // in the fresh process that run starts
  Finding& finding = *ran.finding;
  finding.again_in_fresh_process = again.kind != OutcomeKind::returned;
  finding.summary += finding.again_in_fresh_process ? "; again in a fresh process"
                                                    : "; not in a fresh process: state of earlier calls";
  return ran;
}

Ran judged(Outcome outcome, const Case& c) {
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
    finding.summary = "the candidate refused a case that it claims to support: status " +
                      std::to_string(outcome.status) + ", \"" + outcome.message + "\"";
    return {std::nullopt, finding};
  }
  return {std::move(outcome), std::nullopt};
}

Got run_call(CheckContext& context, const Call& call, const Case& c) {
  // Statements ask about transposes, halves and padded copies of a case: not all of them need be within the limits.
  const OperationInfo* limits = context.process.operation(call.operation);
  if (limits != nullptr && !is_within_limits(c, *limits)) return {{}, std::nullopt, false, true};
  Ran ran = run_checked(context.process, call, c);
  Got got;
  got.finding = std::move(ran.finding);
  got.offered = got.finding || ran.outcome;
  if (ran.outcome) got.outputs = std::move(ran.outcome->outputs);
  return got;
}

Posed posed_of(CheckContext& context, const Case& c) {
  if (context.ahead != nullptr) {
    if (std::unique_ptr<Posed> posed = context.ahead->take(c)) return std::move(*posed);
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

Got run_problem(CheckContext& context, const Problem& problem, std::uint8_t poison,
                const std::vector<ExpectedTensor>* answer) {
  Call call = problem.call();
  call.poison = poison;
  call.answer = answer;
  call.workspace = workspace_of(problem.c, poison);
  call.misaligned = problem.c.misaligned;
  if (poison == kPoisons[1])
    call.byte_offset = 256;  // the second run of a case is also the one that says where it starts
  return run_call(context, call, problem.c);
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

std::optional<Finding> pass_on(CheckContext& context, const Got& got) {
  if (!got.offered) (got.outside_limits ? context.nothing_claimed : context.not_offered) = true;
  return got.finding;
}

std::optional<Finding> nothing_claimed(CheckContext& context) {
  context.nothing_claimed = true;
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

std::optional<Finding> equals_answer(CheckContext& context, const Problem& p,
                                     const std::vector<ExpectedTensor>& expected, const EqualityOptions& options) {
  for (const std::uint8_t poison : kPoisons) {
    const std::uint8_t of_large = options.poison_of_large.value_or(kPoisons[p.c.seed & 1]);
    if (p.c.elements() > options.one_poison_above && poison != of_large) continue;
    const Got got = run_problem(context, p, poison, &expected);
    if (!got.usable()) return pass_on(context, got);
    std::optional<Finding> finding = first_difference(p, expected, got.outputs, options.of);
    if (!finding) continue;
    if (context.thorough && options.matches) finding->matches = options.matches(p, got.outputs);
    return finding;
  }
  return std::nullopt;
}

std::optional<Finding> equals_cpu_library(CheckContext& context, const Case& c) {
  if (context.cpu == nullptr) {
    context.not_offered = true;
    return std::nullopt;
  }
  Case plain = c;
  plain.gather = 0;
  const std::unique_ptr<Problem> p = make_problem(plain);
  const Got got = run_problem(context, *p);
  if (!got.usable()) return pass_on(context, got);
  const Ran cpu = run_checked(*context.cpu, p->call(), plain);
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

}  // namespace mxcheck

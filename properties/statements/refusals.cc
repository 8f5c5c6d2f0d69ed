#include "properties/statements/refusals.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/candidate.h"
#include "properties/core/invalid_call.h"
#include "properties/core/phases.h"

namespace mxcheck {
namespace {

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

}  // namespace

std::optional<Finding> same_outputs(const Problem& p, const CallOutputs& a, const CallOutputs& b,
                                    const std::string& summary) {
  if (!promises_bits(p.c.variant)) return std::nullopt;  // two right calls may differ
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    if (auto f = differ(p.outputs[i], a.outputs[i], b.outputs[i], p.outputs[i].name + " " + summary)) return f;
  }
  return std::nullopt;
}

std::optional<Finding> refuses_cleanly(CheckContext& context, const Case& c) {
  return refuses_all(context, c, invalid_calls_of(operation_named(c.variant.operation), false), invalid_tensors());
}

std::optional<Finding> refuses_what_wraps(CheckContext& context, const Case& c) {
  std::vector<InvalidCall> calls = invalid_calls_of(operation_named(c.variant.operation), true);
  add_invalid(calls, {misplaced_offsets(mix64(c.seed))});
  return refuses_all(context, c, calls, {});
}

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

}  // namespace mxcheck

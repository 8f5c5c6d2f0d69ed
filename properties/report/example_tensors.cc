#include "properties/report/example_tensors.h"

#include <memory>
#include <utility>

#include "properties/core/check.h"
#include "properties/report/report.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostWork = std::int64_t{1} << 34;  // multiplications: expected outputs are the reference's
constexpr std::int64_t kMostWorkOfOriginal = std::int64_t{1} << 26;
constexpr std::int64_t kMostElementsOfOriginal = std::int64_t{1} << 20;

// The calls that the failure depends on.
void call_before(const Counterexample& e, CandidateProcess& process, const std::vector<Variant>& variants) {
  if (!e.reproduction || e.reproduction->after.empty()) return;
  process.restart();  // as the gate did when it found them
  CheckContext context{process, variants};
  for (const Preceding& p : e.reproduction->after) {
    for (int i = 0; i < p.times; ++i) (void)p.statement->check(context, p.c);
  }
}

void observe(const Problem& problem, CandidateProcess& process, ExampleTensors& into) {
  Outcome outcome = process.run(problem.call());
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i)
    into.observed.push_back({problem.outputs[i], std::move(outcome.outputs[i])});
}

}  // namespace

std::optional<ExampleTensors> tensors_of_minimal(const GateReport& report, const Counterexample& e,
                                                 const GateOptions& options) {
  if (operation_named(e.minimal.variant.operation).work(e.minimal) > kMostWork) return std::nullopt;
  const std::unique_ptr<Problem> problem = make_problem(e.minimal);
  ExampleTensors tensors{problem->saved(), problem->answer(), {}};
  // What a process returns that does not fail would be taken for what was observed.
  if (e.finding.kind == FindingKind::fault || !not_reproduced(e).empty()) return tensors;
  CandidateProcess process(options.tool, options.library, options.time_limit);
  call_before(e, process, report.variants);
  observe(*problem, process, tensors);
  return tensors;
}

std::optional<ExampleTensors> tensors_of_original(const Counterexample& e, const GateOptions& options) {
  const Case& c = e.original;
  if (c == e.minimal || e.finding.kind != FindingKind::mismatch || c.elements() > kMostElementsOfOriginal)
    return std::nullopt;
  if (operation_named(c.variant.operation).work(c) > kMostWorkOfOriginal) return std::nullopt;
  const std::unique_ptr<Problem> problem = make_problem(c);
  ExampleTensors tensors{{}, problem->answer(), {}};
  CandidateProcess process(options.tool, options.library, options.time_limit);
  observe(*problem, process, tensors);
  return tensors;
}

}  // namespace mxcheck

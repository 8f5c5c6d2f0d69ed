#include "trainer/audit/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "numerics/error.h"
#include "trainer/run/branch.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

// Bits and value: two NaN with other bits differ, as they should.
std::string number(std::uint32_t bits) { return fmt::format("{:#010x} ({:.9g})", bits, std::bit_cast<float>(bits)); }
std::string digest(std::uint64_t bits) { return fmt::format("{:016x}", bits); }

void check(const AuditRequest& r) {
  const RunRecord& run = *r.run;
  if (r.step < run.first_step() || r.step >= run.steps_done()) {
    throw Error(ErrorKind::usage,
                fmt::format("the run has no step {}; it has {}", r.step,
                            run.steps.empty() ? std::string("none")
                                              : fmt::format("{} to {}", run.first_step(), run.steps_done() - 1)));
  }
  if (run.branch && !r.checkpoint && !r.trunk)
    throw Error(ErrorKind::usage, "the run is a branch; its trunk's state, or a checkpoint of its own, is needed");
  if (r.checkpoint && r.checkpoint->step > r.step) {
    throw Error(ErrorKind::usage,
                fmt::format("the checkpoint is of step {}, after step {}; one at or before it is needed",
                            r.checkpoint->step, r.step));
  }
  if (r.corpus->training_sha256 != run.training_sha256) {
    throw Error(ErrorKind::input,
                fmt::format("the data is not the run's: its training part has SHA-256 {}, the run's ({}) {}",
                            r.corpus->training_sha256, run.corpus, run.training_sha256));
  }
}

const RecordedEvaluation* evaluation_after(const RunRecord& run, std::int64_t steps) {
  const auto found = std::find_if(run.evaluations.begin(), run.evaluations.end(),
                                  [&](const RecordedEvaluation& e) { return e.step == steps; });
  return found == run.evaluations.end() ? nullptr : &*found;
}
// The evaluation after the last step has no step of its own that it comes before.
bool has_evaluation(const RunRecord& run, std::int64_t step) {
  return evaluation_after(run, step) != nullptr ||
         (step + 1 == run.config.steps && evaluation_after(run, step + 1) != nullptr);
}

void check_evaluations(const AuditRequest& r) {
  const RunRecord& run = *r.run;
  if (!has_evaluation(run, r.step)) {
    throw Error(ErrorKind::usage,
                fmt::format("the run has no evaluation before step {}; one was due every {} steps, and after the last",
                            r.step, run.plan.evaluate_every));
  }
  if (r.corpus->validation_sha256 != run.validation_sha256) {
    throw Error(ErrorKind::input, fmt::format("the data is not the run's: its validation part has SHA-256 {}, the "
                                              "run's ({}) {}",
                                              r.corpus->validation_sha256, run.corpus, run.validation_sha256));
  }
}

// An evaluation of the engine's weights is compared, if the run has one of them.
void add_evaluation(const AuditRequest& r, TrainingEngine& engine, std::vector<AuditLine>& lines) {
  const RunRecord& run = *r.run;
  const RecordedEvaluation* const was = evaluation_after(run, engine.steps_done());
  if (was == nullptr) return;
  const RecordedEvaluation is =
      evaluation_of(engine, run.config, validation_batch(*r.corpus, run.config.model, run.plan.validation_sequences));
  const std::string after = fmt::format(" after {} steps", was->step);
  lines.push_back({r.step, "validation loss" + after, number(was->loss_bf16), number(is.loss_bf16)});
  lines.push_back({r.step, "own recipe's" + after, number(was->loss_own), number(is.loss_own)});
  lines.push_back({r.step, "routes as in bf16" + after,
                   fmt::format("{} of {}", fmt::join(was->equal_routes, " "), was->routes),
                   fmt::format("{} of {}", fmt::join(is.equal_routes, " "), is.routes)});
}

void add_step(std::int64_t step, const RecordedStep& is, const RecordedStep& was, std::vector<AuditLine>& lines) {
  lines.push_back({step, "loss", number(was.loss), number(is.loss)});
  lines.push_back({step, "balance loss", number(was.balance_loss), number(is.balance_loss)});
  lines.push_back({step, "gradient norm", number(was.gradient_norm), number(is.gradient_norm)});
  lines.push_back({step, "learning rate", number(was.rate), number(is.rate)});
  lines.push_back({step, "elements not updated", std::to_string(was.skipped), std::to_string(is.skipped)});
  lines.push_back({step, "all weights", digest(was.weights), digest(is.weights)});
}

void add_digests(std::int64_t step, const std::vector<std::string>& names, const std::vector<std::uint64_t>& is,
                 const std::vector<std::uint64_t>& was, std::vector<AuditLine>& lines) {
  for (std::size_t i = 0; i < std::max(is.size(), was.size()); ++i) {
    lines.push_back({step, i < names.size() ? names[i] : fmt::format("tensor {}", i),
                     i < was.size() ? digest(was[i]) : "none", i < is.size() ? digest(is[i]) : "none"});
  }
}

// Digests of every weight tensor and every layer's output; false where the run recorded none for the step.
bool add_witness(const RunRecord& run, const RecordedWitness& is, std::vector<AuditLine>& lines) {
  const auto was = std::find_if(run.witnesses.begin(), run.witnesses.end(),
                                [&](const RecordedWitness& w) { return w.step == is.step; });
  if (was == run.witnesses.end()) return false;
  std::vector<std::string> weights, layers;
  for (const ParameterSpec& p : parameters_of(run.config.model)) weights.push_back(p.name);
  for (std::int64_t l = 0; l < run.config.model.layers; ++l) layers.push_back(fmt::format("output of layer {}", l));
  add_digests(is.step, weights, is.parameters, was->parameters, lines);
  add_digests(is.step, layers, is.layers, was->layers, lines);
  return true;
}

std::string facts_text(const OperandFacts& f) {
  return fmt::format("{} elements, {} saturated, {} flushed, {} scales of 2^{} to 2^{}", f.elements, f.saturated,
                     f.flushed, f.scales, f.least_exponent, f.largest_exponent);
}

void add_layer(std::int64_t step, const std::string& layer, const LayerObservation& is, const LayerObservation& was,
               std::vector<AuditLine>& lines) {
  lines.push_back({step, layer + ", expert loads", fmt::format("{}", fmt::join(was.expert_loads, " ")),
                   fmt::format("{}", fmt::join(is.expert_loads, " "))});
  for (std::size_t i = 0; i < std::max(is.operands.size(), was.operands.size()); ++i) {
    const bool both = i < is.operands.size() && i < was.operands.size();
    const std::string name = i < was.operands.size() ? was.operands[i].name : is.operands[i].name;
    const bool other = both && is.operands[i].name != was.operands[i].name;
    lines.push_back(
        {step, fmt::format("{}, {}", layer, name), i < was.operands.size() ? facts_text(was.operands[i]) : "none",
         i < is.operands.size() ? (other ? is.operands[i].name + ": " : "") + facts_text(is.operands[i]) : "none"});
  }
}

const RecordedObservation* observation_of(const RunRecord& run, std::int64_t step) {
  const auto found = std::find_if(run.observations.begin(), run.observations.end(),
                                  [&](const RecordedObservation& o) { return o.step == step; });
  return found == run.observations.end() ? nullptr : &*found;
}

// Loads and operands of each layer, where the run recorded them; output digests are the witness's.
void add_observation(const RecordedObservation& was, const StepOutcome& is, std::vector<AuditLine>& lines) {
  static const LayerObservation none;
  for (std::size_t l = 0; l < was.layers.size(); ++l)
    add_layer(was.step, fmt::format("layer {}", l), l < is.layers.size() ? is.layers[l] : none, was.layers[l], lines);
}

TrainingState first_state(AuditRequest& r) {
  const RunRecord& run = *r.run;
  if (r.checkpoint) return std::move(*r.checkpoint);
  if (!run.branch) return initial_state(run.config);
  TrainingState state = *r.trunk;
  check_trunk_state(state, *run.branch);
  branch_off(state, run.config);
  return state;
}

}  // namespace

bool AuditResult::passed() const {
  return std::all_of(lines.begin(), lines.end(), [](const AuditLine& line) { return line.equal(); });
}

AuditResult audit_step(AuditRequest r, TrainingEngine& engine, const AuditWatch& watch) {
  check(r);
  if (r.evaluates) check_evaluations(r);
  const auto begun = std::chrono::steady_clock::now();
  const RunRecord& run = *r.run;
  engine.load(first_state(r));
  AuditResult result;
  result.step = r.step;
  result.first = engine.steps_done();
  bool differed = false;
  for (std::int64_t step = result.first; step <= r.step; ++step) {
    if (watch) watch(step);
    if (r.evaluates && step == r.step) add_evaluation(r, engine, result.lines);
    const RecordedObservation* const observed = step == r.step ? observation_of(run, step) : nullptr;
    const StepOutcome outcome = engine.step(training_batch(*r.corpus, run.config, step), observed != nullptr);
    const RecordedStep is = recorded(outcome);
    const RecordedStep& was = run.step(step);
    const bool equal = is == was;
    if (step == r.step || (!equal && !differed)) add_step(step, is, was, result.lines);
    if (step == r.step) result.has_witness = add_witness(run, witness(step, outcome), result.lines);
    if (observed != nullptr) add_observation(*observed, outcome, result.lines);
    differed = differed || !equal;
  }
  if (r.evaluates && r.step + 1 == run.config.steps) add_evaluation(r, engine, result.lines);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return result;
}

}  // namespace mxcheck

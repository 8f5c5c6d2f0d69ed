#include "trainer/record/run_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "numerics/one_line.h"

namespace mxcheck {
namespace {

std::string of_step(const char* what, std::int64_t step) {
  return std::string(what) + " of step " + std::to_string(step) + ": ";
}

// Of a list that has one entry a tensor, a layer, an expert.
template <class List>
std::string size_objection(const char* name, const List& list, std::int64_t wanted) {
  if (std::ssize(list) == wanted) return "";
  return std::string(name) + " has " + std::to_string(list.size()) + " entries; the configuration calls for " +
         std::to_string(wanted);
}

std::string step_objection(const char* what, std::int64_t step, std::int64_t end) {
  if (step >= 0 && step < end) return "";
  return of_step(what, step) + "there are the steps 0 to " + std::to_string(end - 1);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

constexpr std::size_t kMostText = 64 << 10;  // bytes of an attribute of the run's file

bool is_attribute(const std::string& text) { return text.size() <= kMostText && text.find('\0') == std::string::npos; }

std::string objection(const OperandFacts& facts) {
  if (facts.elements < 0 || facts.scales < 0 || facts.saturated < 0 || facts.flushed < 0 ||
      facts.saturated > facts.elements || facts.flushed > facts.elements - facts.saturated) {
    return "operand '" + one_line(facts.name) + "' has counts that cannot be";
  }
  if (facts.name.empty() || facts.name.find_first_of(std::string("\n\0", 2)) != std::string::npos) {
    return "an operand's name is empty or no single line";
  }
  return "";
}

bool same_operands(const std::vector<OperandFacts>& a, const std::vector<OperandFacts>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const OperandFacts& x, const OperandFacts& y) { return x.name == y.name; });
}

std::string layer_objection(const RunRecord& run, const LayerObservation& layer, const LayerObservation& first) {
  if (std::string wrong = size_objection("expert loads", layer.expert_loads, run.config.model.experts);
      !wrong.empty()) {
    return wrong;
  }
  if (std::any_of(layer.expert_loads.begin(), layer.expert_loads.end(), [](std::int64_t n) { return n < 0; })) {
    return "an expert's load is negative";
  }
  if (!same_operands(layer.operands, first.operands)) return "its operands are not those of the first observed layer";
  for (const OperandFacts& facts : layer.operands) {
    if (std::string wrong = objection(facts); !wrong.empty()) return wrong;
  }
  return "";
}

// Each entry, and that their steps rise.
template <class Entry>
std::string list_objection(const RunRecord& run, const char* what, const std::vector<Entry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::string wrong = objection(run, entries[i]); !wrong.empty()) return wrong;
    if (i > 0 && entries[i - 1].step >= entries[i].step) {
      return of_step(what, entries[i].step) + "comes after that of step " + std::to_string(entries[i - 1].step);
    }
  }
  return "";
}

}  // namespace

std::string objection(const RunRecord& run, const RecordedStep& step) {
  static_cast<void>(run);
  return step.skipped >= 0 ? "" : "a step has " + std::to_string(step.skipped) + " skipped elements";
}

std::string objection(const RunRecord& run, const RecordedEvaluation& e) {
  const std::string place = of_step("evaluation", e.step);
  if (e.step < 0 || e.step > std::ssize(run.steps)) {
    return place + "there are " + std::to_string(run.steps.size()) + " steps";
  }
  if (std::string wrong = size_objection("equal routes", e.equal_routes, run.config.model.layers); !wrong.empty()) {
    return place + wrong;
  }
  const bool counts = std::all_of(e.equal_routes.begin(), e.equal_routes.end(),
                                  [&](std::int64_t equal) { return equal >= 0 && equal <= e.routes; });
  return e.routes >= 0 && counts ? "" : place + "equal routes are not between 0 and all routes";
}

std::string objection(const RunRecord& run, const RecordedObservation& o) {
  if (std::string wrong = step_objection("observation", o.step, std::ssize(run.steps)); !wrong.empty()) return wrong;
  const std::string place = of_step("observation", o.step);
  if (std::string wrong = size_objection("layers", o.layers, run.config.model.layers); !wrong.empty()) {
    return place + wrong;
  }
  const LayerObservation& first = run.observations.empty() ? o.layers[0] : run.observations[0].layers[0];
  for (const LayerObservation& layer : o.layers) {
    if (std::string wrong = layer_objection(run, layer, first); !wrong.empty()) return place + wrong;
  }
  return "";
}

std::string objection(const RunRecord& run, const RecordedWitness& w) {
  if (std::string wrong = step_objection("witness", w.step, std::ssize(run.steps)); !wrong.empty()) return wrong;
  std::string wrong = size_objection("parameters", w.parameters, parameter_tensors(run.config.model));
  if (wrong.empty()) wrong = size_objection("layers", w.layers, run.config.model.layers);
  return wrong.empty() ? "" : of_step("witness", w.step) + wrong;
}

std::string objection_to_head(const RunRecord& run) {
  if (!is_sha256(run.training_sha256)) return "training_sha256 is no SHA-256: 64 lower-case hexadecimal digits";
  if (!is_sha256(run.validation_sha256)) return "validation_sha256 is no SHA-256: 64 lower-case hexadecimal digits";
  for (const std::string* text : {&run.corpus, &run.mxcheck, &run.engine, &run.device, &run.started}) {
    if (!is_attribute(*text)) return "a text that says what was run has over 64 KiB or holds a zero byte";
  }
  if (run.training_bytes < 0 || run.validation_bytes < 0) {
    return "a size of the data is negative";
  }
  const RunPlan& p = run.plan;
  if (p.evaluate_every < 1 || p.observe_every < 1 || p.checkpoint_every < 1 || p.validation_sequences < 1) {
    return "an interval of the plan, or the sequences of an evaluation, are below 1";
  }
  const bool ascend = std::adjacent_find(p.kept.begin(), p.kept.end(), std::greater_equal<>()) == p.kept.end();
  if (!ascend || (!p.kept.empty() && (p.kept.front() < 0 || p.kept.back() >= run.config.steps))) {
    return "the kept checkpoints are no ascending steps of the run";
  }
  if (!(std::isfinite(run.seconds) && run.seconds >= 0)) return "seconds are no finite number of at least 0";
  return run.sittings >= 1 ? "" : "sittings are " + std::to_string(run.sittings) + "; at least 1";
}

std::string objection(const RunRecord& run) {
  if (std::string wrong = objection_to_head(run); !wrong.empty()) return wrong;
  const std::int64_t steps = std::ssize(run.steps);
  if (steps > run.config.steps || (run.end == RunEnd::finished && steps != run.config.steps)) {
    return std::to_string(steps) + " steps of a run of " + std::to_string(run.config.steps) + " that is " +
           std::string(to_text(run.end));
  }
  for (const RecordedStep& step : run.steps) {
    if (std::string wrong = objection(run, step); !wrong.empty()) return wrong;
  }
  std::string wrong = list_objection(run, "evaluation", run.evaluations);
  if (wrong.empty()) wrong = list_objection(run, "observation", run.observations);
  if (wrong.empty()) wrong = list_objection(run, "witness", run.witnesses);
  return wrong;
}

}  // namespace mxcheck

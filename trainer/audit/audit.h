#pragma once
// One step of a recorded run, computed again: what `mxcheck parity audit` does. From the initial state (of a branch,
// its trunk's), or a checkpoint at or before the step, every step up to it is computed on the CPU, and each must equal
// what was recorded.
//
//   const AuditResult result = audit_step({&record, &corpus, 5000, std::move(state)}, engine, {});
//   result.passed()
//
// Errors: Error{usage} for a step that the run does not have, a checkpoint after it, a branch without its trunk's
// state, or evaluations where the run has none; Error{input} for a corpus that is not the run's.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/corpus.h"
#include "trainer/record/run_record.h"
#include "trainer/run/engine.h"

namespace mxcheck {

struct AuditRequest {
  const RunRecord* run = nullptr;
  const Corpus* corpus = nullptr;
  std::int64_t step = 0;
  std::optional<TrainingState> checkpoint;     // its `step` at most `step`; none: the state that the run began with
  std::shared_ptr<const TrainingState> trunk;  // of a branch, where there is no checkpoint: the trunk's there
  bool evaluates = false;  // evaluations recorded before the step, and after it where it is the last, are made again
};

// One thing that was recorded and computed.
struct AuditLine {
  std::int64_t step = 0;
  std::string what;  // "loss", "layers.0.w1", "output of layer 1", "layer 0, expert loads", "layer 0, up.a", ...
  std::string recorded;
  std::string computed;
  [[nodiscard]] bool equal() const { return recorded == computed; }
};

struct AuditResult {
  std::int64_t first = 0;  // the step that was computed first
  std::int64_t step = 0;
  std::vector<AuditLine> lines;  // of the step itself, and of the first step before it that differs
  bool has_witness = false;      // digests of tensors and of layers' outputs were recorded for the step
  double seconds = 0;

  [[nodiscard]] bool passed() const;
};

// Called before each step is computed.
using AuditWatch = std::function<void(std::int64_t step)>;

AuditResult audit_step(AuditRequest request, TrainingEngine& engine, const AuditWatch& watch);

}  // namespace mxcheck

#include "trainer/record/journal_entry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "numerics/byte_stream.h"
#include "numerics/error.h"
#include "numerics/one_line.h"
#include "trainer/config/config.h"
#include "trainer/record/run_check.h"

namespace mxcheck {
namespace {

struct Put {
  ByteWriter to;

  void operator()(const JournalStep& s) {
    const RecordedStep& r = s.recorded;
    to.number(s.step);
    for (const std::uint32_t bits : {r.loss, r.balance_loss, r.gradient_norm, r.rate}) to.number(bits);
    to.number(r.weights), to.number(r.skipped), to.number(s.seconds);
  }
  void operator()(const RecordedEvaluation& e) {
    to.number(e.step), to.number(e.loss_bf16), to.number(e.loss_own), to.list(e.equal_routes), to.number(e.routes);
  }
  void operator()(const RecordedObservation& o) {
    to.number(o.step), to.number<std::uint64_t>(o.layers.size());
    for (const LayerObservation& layer : o.layers) {
      to.list(layer.expert_loads), to.number(layer.output_digest);
      to.number<std::uint64_t>(layer.operands.size());
      for (const OperandFacts& f : layer.operands) {
        to.text(f.name);
        for (const std::int64_t n : {f.elements, f.saturated, f.flushed, f.scales}) to.number(n);
        to.number(f.least_exponent), to.number(f.largest_exponent);
      }
    }
  }
  void operator()(const RecordedWitness& w) { to.number(w.step), to.list(w.parameters), to.list(w.layers); }
  void operator()(const JournalSitting& s) { to.number(s.step), to.text(s.started); }
  void operator()(const RunEnd& end) { to.text(to_text(end)); }
};

JournalStep take_step(ByteReader& from) {
  JournalStep s;
  s.step = from.number<std::int64_t>();
  RecordedStep& r = s.recorded;
  for (std::uint32_t* bits : {&r.loss, &r.balance_loss, &r.gradient_norm, &r.rate}) {
    *bits = from.number<std::uint32_t>();
  }
  r.weights = from.number<std::uint64_t>();
  r.skipped = from.number<std::int64_t>();
  s.seconds = from.number<double>();
  return s;
}

RecordedEvaluation take_evaluation(ByteReader& from) {
  RecordedEvaluation e;
  e.step = from.number<std::int64_t>();
  e.loss_bf16 = from.number<std::uint32_t>();
  e.loss_own = from.number<std::uint32_t>();
  e.equal_routes = from.list<std::int64_t>();
  e.routes = from.number<std::int64_t>();
  return e;
}

OperandFacts take_operand(ByteReader& from) {
  OperandFacts f;
  f.name = from.text();
  for (std::int64_t* n : {&f.elements, &f.saturated, &f.flushed, &f.scales}) *n = from.number<std::int64_t>();
  f.least_exponent = from.number<std::int32_t>();
  f.largest_exponent = from.number<std::int32_t>();
  return f;
}

RecordedObservation take_observation(ByteReader& from) {
  RecordedObservation o;
  o.step = from.number<std::int64_t>();
  for (std::uint64_t layers = from.length(1); layers > 0; --layers) {
    LayerObservation layer;
    layer.expert_loads = from.list<std::int64_t>();
    layer.output_digest = from.number<std::uint64_t>();
    for (std::uint64_t operands = from.length(1); operands > 0; --operands)
      layer.operands.push_back(take_operand(from));
    o.layers.push_back(std::move(layer));
  }
  return o;
}

RecordedWitness take_witness(ByteReader& from) {
  RecordedWitness w;
  w.step = from.number<std::int64_t>();
  w.parameters = from.list<std::uint64_t>();
  w.layers = from.list<std::uint64_t>();
  return w;
}

JournalSitting take_sitting(ByteReader& from) {
  JournalSitting s;
  s.step = from.number<std::int64_t>();
  s.started = from.text();
  return s;
}

JournalEntry take(std::uint32_t type, ByteReader& from) {
  switch (type) {
    case 1: return take_step(from);
    case 2: return take_evaluation(from);
    case 3: return take_observation(from);
    case 4: return take_witness(from);
    case 5: return take_sitting(from);
    case 6: return run_end_named(from.text());
    default: from.refuse("a record of type " + std::to_string(type) + "; there are 1 to 6");
  }
}

struct Add {
  RunRecord& run;
  const std::string& where;

  [[noreturn]] void refuse(const std::string& what) const { throw Error(ErrorKind::input, where + ": " + what); }
  template <class Entry>
  void check(const Entry& entry) const {
    if (const std::string wrong = objection(run, entry); !wrong.empty()) refuse(wrong);
  }
  [[noreturn]] void differs(const char* what, std::int64_t step) const {
    refuse(std::string(what) + " of step " + std::to_string(step) +
           " was computed twice, to different bits: the machine or the program is not the one it was");
  }

  void operator()(const JournalStep& s) const {
    const std::int64_t steps = std::ssize(run.steps);
    if (s.step < 0 || s.step > steps || s.step >= run.config.steps) {
      refuse("step " + std::to_string(s.step) + " after " + std::to_string(steps) + " steps of " +
             std::to_string(run.config.steps));
    }
    check(s.recorded);
    if (!(std::isfinite(run.seconds + s.seconds) && s.seconds >= 0)) {
      refuse("a step's seconds are no finite number of at least 0, or those of all steps together");
    }
    if (s.step < steps && run.steps[static_cast<std::size_t>(s.step)] != s.recorded) differs("step", s.step);
    if (s.step == steps) run.steps.push_back(s.recorded);
    run.seconds += s.seconds;
  }
  void operator()(const RecordedEvaluation& e) const { insert(run.evaluations, e, "evaluation"); }
  void operator()(const RecordedObservation& o) const { insert(run.observations, o, "observation"); }
  void operator()(const RecordedWitness& w) const { insert(run.witnesses, w, "witness"); }
  void operator()(const JournalSitting& s) const {
    if (s.step < 0 || s.step > std::ssize(run.steps)) {
      refuse("a sitting that begins at step " + std::to_string(s.step) + " after " + std::to_string(run.steps.size()) +
             " steps");
    }
    ++run.sittings;
    run.end = RunEnd::unfinished;
  }
  void operator()(const RunEnd& end) const {
    if (end == RunEnd::finished && std::ssize(run.steps) != run.config.steps) {
      refuse("finished after " + std::to_string(run.steps.size()) + " steps of " + std::to_string(run.config.steps));
    }
    run.end = end;
  }

  template <class Entry>
  void insert(std::vector<Entry>& entries, const Entry& entry, const char* what) const {
    check(entry);
    const auto at = std::lower_bound(entries.begin(), entries.end(), entry.step,
                                     [](const Entry& e, std::int64_t step) { return e.step < step; });
    if (at == entries.end() || at->step != entry.step) {
      entries.insert(at, entry);
    } else if (!(*at == entry)) {
      differs(what, entry.step);
    }
  }
};

}  // namespace

std::vector<std::byte> payload_of(const JournalEntry& entry) {
  Put put;
  std::visit(put, entry);
  return put.to.bytes();
}

JournalEntry entry_of(std::uint32_t type, std::span<const std::byte> payload, const std::string& where) {
  ByteReader from(payload, where);
  try {
    JournalEntry entry = take(type, from);
    from.finish();
    return entry;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::input) throw;
    from.refuse(one_line(e.what()));
  }
}

std::vector<std::byte> header_payload(const RunRecord& run) {
  ByteWriter to;
  to.text(to_json(run.config));
  for (const std::string* text : {&run.corpus, &run.training_sha256, &run.validation_sha256, &run.mxcheck, &run.engine,
                                  &run.device, &run.started}) {
    to.text(*text);
  }
  for (const std::int64_t n : {run.training_bytes, run.validation_bytes, run.plan.validation_sequences,
                               run.plan.evaluate_every, run.plan.observe_every, run.plan.checkpoint_every}) {
    to.number(n);
  }
  to.list(run.plan.kept);
  return to.bytes();
}

RunRecord run_of_header(std::span<const std::byte> payload, const std::string& where) {
  ByteReader from(payload, where);
  RunRecord run;
  try {
    run.config = config_from_json(from.text(), where);
  } catch (const Error& e) {
    throw Error(ErrorKind::input, e.what());
  }
  for (std::string* text : {&run.corpus, &run.training_sha256, &run.validation_sha256, &run.mxcheck, &run.engine,
                            &run.device, &run.started}) {
    *text = from.text();
  }
  for (std::int64_t* n : {&run.training_bytes, &run.validation_bytes, &run.plan.validation_sequences,
                          &run.plan.evaluate_every, &run.plan.observe_every, &run.plan.checkpoint_every}) {
    *n = from.number<std::int64_t>();
  }
  run.plan.kept = from.list<std::int64_t>();
  from.finish();
  if (const std::string wrong = objection_to_head(run); !wrong.empty()) from.refuse(wrong);
  return run;
}

void add(RunRecord& run, const JournalEntry& entry, const std::string& where) { std::visit(Add{run, where}, entry); }

}  // namespace mxcheck

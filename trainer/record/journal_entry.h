#pragma once
// The entries of a journal, a record each: a step, an evaluation, an observation, a witness, the begin of a sitting,
// the end of the run. As bytes and back, and how a run's record grows by them. docs/parity.md has the bytes.
//
//   add(run, JournalStep{run.steps.size(), recorded, seconds}, "run.h5.journal");
//
// A sitting that goes on from a checkpoint computes some steps again. What is there already must then be the same, bit
// for bit; what is not continues the run. Everything about a step comes after the step.
//
// Errors: Error{input} that begins with `where`: for bytes that are no entry, and of add for an entry that does not fit
// the run so far, or that differs from what was recorded before. The run is then as it was.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "trainer/record/run_record.h"

namespace mxcheck {

struct JournalStep {
  std::int64_t step = 0;
  RecordedStep recorded;
  double seconds = 0;  // that it took
};

// A run that was interrupted goes on.
struct JournalSitting {
  std::int64_t step = 0;  // the first that it computes
  std::string started;    // UTC, ISO 8601
};

using JournalEntry =
    std::variant<JournalStep, RecordedEvaluation, RecordedObservation, RecordedWitness, JournalSitting, RunEnd>;

// The type of an entry's record: 1 + its place in JournalEntry. 0 is the header.
inline std::uint32_t type_of(const JournalEntry& entry) { return 1 + static_cast<std::uint32_t>(entry.index()); }

std::vector<std::byte> payload_of(const JournalEntry& entry);
JournalEntry entry_of(std::uint32_t type, std::span<const std::byte> payload, const std::string& where);

// The header says what the run is about: all of a RunRecord but for its entries, seconds, sittings and end.
std::vector<std::byte> header_payload(const RunRecord& run);
RunRecord run_of_header(std::span<const std::byte> payload, const std::string& where);

void add(RunRecord& run, const JournalEntry& entry, const std::string& where);

}  // namespace mxcheck

#pragma once
// The journal of a run that is under way: a file beside the run's own to which every step is appended as it is
// computed, so that a kill, a crash or a full disk loses nothing that was recorded. docs/parity.md has the bytes.
//
//   Journal journal = Journal::create(journal_path("run.h5"), about);          // about: a RunRecord without entries
//   journal.append(JournalStep{0, recorded, seconds});  ...  journal.sync();
//
//   Journal journal = Journal::resume(journal_path("run.h5"));                 // later, by another process
//   journal.append(JournalSitting{checkpoint.state.step, now});
//   write_run("run.h5", journal.record());
//
// The file is locked (flock) while it is open: a second process, or a second Journal of this one, is refused. An append
// is one write; it is on the disk after the next sync(). One that fails leaves the file as it was before. A tail that
// is torn is dropped: by resume from the file, too. create writes the header under the journal's name with a "~"
// behind it: a kill before it is whole leaves that file, which the next create writes over.
//
// Errors: Error{usage} for a path that cannot be written, a journal that is there already (create) or not (resume), and
// one that another process has open; Error{input} for a file that is no journal, of another version, damaged, whose
// records do not fit one another, or which lacks one that its plan says must be there (it is named, with the byte of
// the record that it must come before), and of append for an entry that does not fit; Error{environment} for a full
// disk.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "trainer/record/run_record.h"

namespace mxcheck {

// --- entries
//
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

// --- frames
//
// The records of a journal as bytes: each is framed, so that one that was not written whole is told from one that was
// damaged later. Little-endian:
//
//   4 bytes  52 4A 58 4D ("MXJR" as a number)      4 bytes  type      8 bytes  length of the payload
//   8 bytes  XXH3 (64 bits) of type, length and payload               then the payload
//
//   bytes = frame_of(type, payload);                   const Frames f = frames_in(bytes, "run.h5.journal");
//
// Bytes at the end that are no whole frame are a torn tail if no whole frame follows, as a kill or a full disk leaves
// it; otherwise they are damage. A last record whose bytes were changed cannot be told from a torn one.
//
// Errors: Error{input} with the byte, for damage; Error{usage} for a payload of over kMostPayload.

inline constexpr std::uint64_t kFrameHead = 24;  // bytes before the payload
inline constexpr std::uint64_t kMostPayload = 64 << 20;

struct Frame {
  std::uint32_t type = 0;
  std::uint64_t at = 0;  // of its first byte
  std::span<const std::byte> payload;
};

struct Frames {
  std::vector<Frame> frames;
  std::uint64_t whole_bytes = 0;  // up to the end of the last whole frame; what follows is torn
};

std::vector<std::byte> frame_of(std::uint32_t type, std::span<const std::byte> payload);

// The frames of `bytes` from `begin` on; `where` is for messages.
Frames frames_in(std::span<const std::byte> bytes, std::uint64_t begin, const std::string& where);

// --- the journal

std::filesystem::path journal_path(const std::filesystem::path& run);  // "run.h5.journal"

struct JournalContents {
  RunRecord record;
  std::uint64_t whole_bytes = 0;
  std::uint64_t torn_bytes = 0;  // after them, of a record that was not written whole
};

// It reads a journal that is being written too.
JournalContents read_journal(const std::filesystem::path& path);
inline RunRecord record_of(const JournalContents& journal) { return journal.record; }

class Journal {
 public:
  static Journal create(const std::filesystem::path& path, const RunRecord& about);
  static Journal resume(const std::filesystem::path& path);
  ~Journal();
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Adds the entry to record(), then to the file; where the file fails, the entry can be appended again.
  void append(const JournalEntry& entry);
  void sync();  // everything that was appended is on the disk
  [[nodiscard]] const RunRecord& record() const { return contents_.record; }
  [[nodiscard]] std::uint64_t torn_bytes() const { return contents_.torn_bytes; }  // that resume dropped

 private:
  explicit Journal(const std::filesystem::path& path, int flags);
  void require_begun(const std::filesystem::path& path) const;
  void write(std::span<const std::byte> bytes);

  std::string path_;
  int fd_ = -1;
  JournalContents contents_;
};

}  // namespace mxcheck

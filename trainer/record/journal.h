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

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/record/journal_entry.h"

namespace mxcheck {

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

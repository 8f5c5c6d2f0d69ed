#include "trainer/record/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "tests/goldens/temporary_directory.h"
#include "tests/trainer/record/run_samples.h"
#include "trainer/record/run_file.h"

namespace mxcheck {
namespace {

using test::expect_error;

// What a sitting of the sample run appends.
std::vector<JournalEntry> entries_of(const RunRecord& run) {
  std::vector<JournalEntry> entries;
  for (std::int64_t s = 0; s < std::ssize(run.steps); ++s) {
    entries.emplace_back(JournalStep{s, run.steps[static_cast<std::size_t>(s)], 0.25});
  }
  for (const auto& e : run.evaluations) entries.emplace_back(e);
  for (const auto& o : run.observations) entries.emplace_back(o);
  for (const auto& w : run.witnesses) entries.emplace_back(w);
  if (run.end != RunEnd::unfinished) entries.emplace_back(run.end);
  return entries;
}

class JournalFile : public testing::Test {
 protected:
  JournalFile() {
    run.sittings = 1;
    run.seconds = 0.25 * 12;
  }
  Journal fill(std::size_t entries = 100) const {
    Journal journal = Journal::create(path, run);
    const std::vector<JournalEntry> all = entries_of(run);
    for (std::size_t i = 0; i < std::min(entries, all.size()); ++i) journal.append(all[i]);
    return journal;
  }
  // Whether the file reads as a journal; an Error{input} otherwise, one line with the path.
  [[nodiscard]] bool reads() const {
    try {
      static_cast<void>(read_journal(path));
      return true;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with(path)) << e.what();
      return false;
    }
  }
  test::TemporaryDirectory dir;
  std::string path = dir / "run.h5.journal";
  RunRecord run = test::sample_run();
};

TEST_F(JournalFile, lies_beside_the_run) { EXPECT_EQ(journal_path("a/run.h5"), "a/run.h5.journal"); }

TEST_F(JournalFile, gives_the_run_that_was_appended) {
  Journal journal = fill();
  journal.sync();
  EXPECT_EQ(journal.record(), run);
  EXPECT_EQ(record_of(read_journal(path)), run);
  EXPECT_EQ(read_journal(path).torn_bytes, 0U);
  write_run(dir / "run.h5", journal.record());
  EXPECT_EQ(read_run(dir / "run.h5"), run);
}

TEST_F(JournalFile, goes_on_after_a_stop_with_the_same_record) {
  { fill(6); }
  Journal journal = Journal::resume(path);
  EXPECT_EQ(journal.record().steps.size(), 6U);
  EXPECT_EQ(journal.record().end, RunEnd::unfinished);
  journal.append(JournalSitting{4, "2026-11-24T00:00:00Z"});  // from a checkpoint: steps 4 and 5 are computed again
  const std::vector<JournalEntry> all = entries_of(run);
  for (std::size_t i = 4; i < all.size(); ++i) journal.append(all[i]);
  run.sittings = 2;
  run.seconds = 0.25 * (6 + 8);
  EXPECT_EQ(journal.record(), run);
  EXPECT_EQ(record_of(read_journal(path)), run);
}

TEST_F(JournalFile, torn_anywhere_in_its_last_record_reads_up_to_the_one_before) {
  { fill(19); }
  const std::string whole = test::read_file(path);
  const JournalEntry last_entry = entries_of(run)[18];
  const std::size_t last = 24 + payload_of(last_entry).size();
  ASSERT_TRUE(std::holds_alternative<RecordedWitness>(last_entry));
  test::write_file(path, whole.substr(0, whole.size() - last));
  const RunRecord before = record_of(read_journal(path));
  for (std::size_t cut = 1; cut <= last; ++cut) {
    test::write_file(path, whole.substr(0, whole.size() - cut));
    const JournalContents contents = read_journal(path);
    ASSERT_EQ(contents.torn_bytes, last - cut);
    ASSERT_EQ(contents.record, before);
  }
  test::write_file(path, whole.substr(0, whole.size() - 1));
  Journal journal = Journal::resume(path);
  EXPECT_EQ(journal.torn_bytes(), last - 1);
  EXPECT_EQ(test::read_file(path), whole.substr(0, whole.size() - last));
  journal.append(last_entry);
  EXPECT_EQ(test::read_file(path), whole);
}

TEST_F(JournalFile, with_a_byte_changed_before_its_last_record_is_refused) {
  { fill(16); }
  const std::string whole = test::read_file(path);
  const std::size_t last = whole.size() - 24 - payload_of(entries_of(run)[15]).size();
  constexpr std::size_t kStride = 19;  // a file for every byte would take seconds
  for (std::size_t at = 0; at < whole.size(); at += kStride) {
    std::string changed = whole;
    changed[at] ^= static_cast<char>(1 << at % 8);
    test::write_file(path, changed);
    ASSERT_EQ(reads(), at >= last) << at;  // the last one's damage cannot be told from a torn write
  }
  std::string changed = whole;
  changed[last - 1] ^= 1;
  test::write_file(path, changed);
  expect_error(ErrorKind::input, "no record is there, but one follows at byte " + std::to_string(last),
               [&] { read_journal(path); });
  expect_error(ErrorKind::input, "damaged at byte", [&] { Journal::resume(path); });
  EXPECT_EQ(test::read_file(path), changed) << "resume changes nothing of what it refuses";
}

TEST_F(JournalFile, whose_records_do_not_fit_one_another_is_refused) {
  Journal journal = fill(6);
  const std::string before = test::read_file(path);
  const auto refused = [&](const std::string& text, const JournalEntry& entry) {
    expect_error(ErrorKind::input, text, [&] { journal.append(entry); });
  };
  refused("step 7 after 6 steps of 12", JournalStep{7, run.steps[7], 0});
  RecordedStep other = run.steps[3];
  other.gradient_norm ^= 1;
  refused("step of step 3 was computed twice, to different bits", JournalStep{3, other, 0});
  refused("seconds are no finite number", JournalStep{6, run.steps[6], -1});
  refused("evaluation of step 7: there are 6 steps", test::sample_evaluation(run.config, 7));
  refused("witness of step 6: there are the steps 0 to 5", test::sample_witness(run.config, 6));
  refused("a sitting that begins at step 7 after 6 steps", JournalSitting{7, ""});
  refused("finished after 6 steps of 12", RunEnd::finished);
  journal.append(test::sample_observation(run.config, 2));
  refused("operands are not those of the first observed layer", test::sample_observation(run.config, 3, 2));
  RecordedObservation changed = test::sample_observation(run.config, 2);
  changed.layers[1].output_digest ^= 1;
  refused("observation of step 2 was computed twice, to different bits", changed);
  EXPECT_TRUE(test::read_file(path).starts_with(before));
  EXPECT_EQ(record_of(read_journal(path)), journal.record());
}

TEST_F(JournalFile, is_written_by_one_process_at_a_time) {
  {
    const Journal journal = fill(3);
    expect_error(ErrorKind::usage, "another process writes this run", [&] { Journal::resume(path); });
    const pid_t id = ::fork();
    if (id == 0) {
      try {
        Journal::resume(path);
      } catch (const Error& e) {
        ::_exit(e.kind() == ErrorKind::usage ? 7 : 1);
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(id, &status, 0), id);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(read_journal(path).record.steps.size(), 3U);  // reading is no writing
  }
  EXPECT_NO_THROW(Journal::resume(path));
  expect_error(ErrorKind::usage, "there is a journal already", [&] { Journal::create(path, run); });
}

// RLIMIT_FSIZE is a disk that ends there; SIGXFSZ would end this process.
TEST_F(JournalFile, of_a_full_disk_keeps_its_whole_records_and_takes_more_when_there_is_room) {
  Journal journal = fill(5);
  const std::string before = test::read_file(path);
  const std::vector<JournalEntry> all = entries_of(run);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{before.size() + 30, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  expect_error(ErrorKind::environment, "run.h5.journal: writing failed: File too large",
               [&] { journal.append(all[5]); });
  expect_error(ErrorKind::environment, "writing failed", [&] { journal.append(all[5]); });
  EXPECT_EQ(test::read_file(path), before);
  const rlimit tiny{10, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  expect_error(ErrorKind::environment, "other.journal: writing failed",
               [&] { Journal::create(dir / "other.journal", run); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(dir.names().size(), 1U) << "a journal that could not be begun is not there";
  journal.append(all[5]);
  EXPECT_EQ(read_journal(path).record.steps.size(), 6U);
}

TEST_F(JournalFile, that_is_none_is_refused) {
  expect_error(ErrorKind::input, "run.h5.journal", [&] { read_journal(path); });
  expect_error(ErrorKind::usage, "run.h5.journal: cannot be opened: No such file", [&] { Journal::resume(path); });
  expect_error(ErrorKind::usage, "Is a directory", [&] { Journal::resume("/tmp"); });
  expect_error(ErrorKind::usage, "/dev/full: is a", [&] { Journal::resume("/dev/full"); });
  for (const char* text : {"", "mxcheck", "text"}) {
    test::write_file(path, text);
    expect_error(ErrorKind::input, "no journal of a run", [&] { read_journal(path); });
  }
  test::write_file(path, "mxcheck parity journal 2\n");
  expect_error(ErrorKind::input, "of another version; this build reads version 1", [&] { read_journal(path); });
  test::write_file(path, "mxcheck parity journal 1\nxxxxx");
  expect_error(ErrorKind::input, "holds no whole record", [&] { Journal::resume(path); });
}

}  // namespace
}  // namespace mxcheck

// Journals as files, their entries as bytes, and the frames that hold entries.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "numerics/byte_stream.h"
#include "tests/testing.h"
#include "tests/trainer/record/run_samples.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"

namespace mxcheck {
namespace {

using namespace test;

// Entries that a sitting of the sample run appends, in its order.
std::vector<JournalEntry> entries_of(const RunRecord& run) {
  std::vector<JournalEntry> entries;
  const auto put = [&](const auto& list, std::int64_t step) {
    for (const auto& entry : list) {
      if (entry.step == step) entries.emplace_back(entry);
    }
  };
  for (std::int64_t s = 0; s < std::ssize(run.steps); ++s) {
    put(run.evaluations, s);
    entries.emplace_back(JournalStep{s, run.steps[static_cast<std::size_t>(s)], 0.25});
    put(run.observations, s), put(run.witnesses, s);
  }
  put(run.evaluations, std::ssize(run.steps));
  if (run.end != RunEnd::unfinished) entries.emplace_back(run.end);
  return entries;
}

// Where a step is among them.
std::size_t place_of_step(const std::vector<JournalEntry>& entries, std::int64_t step) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto* const at = std::get_if<JournalStep>(&entries[i]);
    if (at != nullptr && at->step == step) return i;
  }
  throw Error(ErrorKind::internal, "no step " + std::to_string(step));
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
  Journal fill_up_to_step(std::int64_t step) const { return fill(place_of_step(entries_of(run), step)); }
  // True if the file reads as a journal; an Error{input} otherwise, one line with the path.
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
  TemporaryDirectory dir;
  std::string path = dir / "run.h5.journal";
  RunRecord run = sample_run();
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
  { fill_up_to_step(6); }
  Journal journal = Journal::resume(path);
  EXPECT_EQ(journal.record().steps.size(), 6U);
  EXPECT_EQ(journal.record().end, RunEnd::unfinished);
  journal.append(JournalSitting{4, "2026-11-24T00:00:00Z"});  // from a checkpoint: steps 4 and 5 are computed again
  const std::vector<JournalEntry> all = entries_of(run);
  for (std::size_t i = place_of_step(all, 4); i < all.size(); ++i) journal.append(all[i]);
  run.sittings = 2;
  run.seconds = 0.25 * (6 + 8);
  EXPECT_EQ(journal.record(), run);
  EXPECT_EQ(record_of(read_journal(path)), run);
}

TEST_F(JournalFile, torn_anywhere_in_its_last_record_reads_up_to_the_one_before) {
  { fill(20); }
  const std::string whole = read_file(path);
  const JournalEntry last_entry = entries_of(run)[19];
  const std::size_t last = 24 + payload_of(last_entry).size();
  ASSERT_TRUE(std::holds_alternative<RecordedWitness>(last_entry));
  write_file(path, whole.substr(0, whole.size() - last));
  const RunRecord before = record_of(read_journal(path));
  for (std::size_t cut = 1; cut <= last; ++cut) {
    write_file(path, whole.substr(0, whole.size() - cut));
    const JournalContents contents = read_journal(path);
    ASSERT_EQ(contents.torn_bytes, last - cut);
    ASSERT_EQ(contents.record, before);
  }
  write_file(path, whole.substr(0, whole.size() - 1));
  Journal journal = Journal::resume(path);
  EXPECT_EQ(journal.torn_bytes(), last - 1);
  EXPECT_EQ(read_file(path), whole.substr(0, whole.size() - last));
  journal.append(last_entry);
  EXPECT_EQ(read_file(path), whole);
}

TEST_F(JournalFile, with_a_byte_changed_before_its_last_record_is_refused) {
  { fill(16); }
  const std::string whole = read_file(path);
  const std::size_t last = whole.size() - 24 - payload_of(entries_of(run)[15]).size();
  constexpr std::size_t kStride = 19;  // a file for every byte would take seconds
  for (std::size_t at = 0; at < whole.size(); at += kStride) {
    std::string changed = whole;
    changed[at] ^= static_cast<char>(1 << at % 8);
    write_file(path, changed);
    ASSERT_EQ(reads(), at >= last) << at;  // the last one's damage cannot be told from a torn write
  }
  std::string changed = whole;
  changed[last - 1] ^= 1;
  write_file(path, changed);
  expect_error(ErrorKind::input, "no record is there, but one follows at byte " + std::to_string(last),
               [&] { read_journal(path); });
  expect_error(ErrorKind::input, "damaged at byte", [&] { Journal::resume(path); });
  EXPECT_EQ(read_file(path), changed) << "resume changes nothing of what it refuses";
}

TEST_F(JournalFile, whose_records_do_not_fit_one_another_is_refused) {
  Journal journal = fill_up_to_step(6);
  const std::string before = read_file(path);
  const auto refused = [&](const std::string& text, const JournalEntry& entry) {
    expect_error(ErrorKind::input, text, [&] { journal.append(entry); });
  };
  refused("step 7 after 6 steps of 12", JournalStep{7, run.steps[7], 0});
  RecordedStep other = run.steps[3];
  other.gradient_norm ^= 1;
  refused("step of step 3 was computed twice, to different bits", JournalStep{3, other, 0});
  refused("seconds are no finite number", JournalStep{6, run.steps[6], -1});
  refused("evaluation of step 7: there are 6 steps", sample_evaluation(run.config, 7));
  refused("witness of step 6: there are the steps 0 to 5", sample_witness(run.config, 6));
  refused("a sitting that begins at step 7 after 6 steps", JournalSitting{7, ""});
  refused("finished after 6 steps of 12", RunEnd::finished);
  journal.append(sample_observation(run.config, 2));
  refused("operands are not those of the first observed layer", sample_observation(run.config, 3, 2));
  RecordedObservation changed = sample_observation(run.config, 2);
  changed.layers[1].output_digest ^= 1;
  refused("observation of step 2 was computed twice, to different bits", changed);
  EXPECT_TRUE(read_file(path).starts_with(before));
  EXPECT_EQ(record_of(read_journal(path)), journal.record());
}

TEST_F(JournalFile, is_written_by_one_process_at_a_time) {
  {
    const Journal journal = fill_up_to_step(3);
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
  const std::string before = read_file(path);
  expect_error(ErrorKind::usage, "run.h5.journal: there is a journal already", [&] { Journal::create(path, run); });
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(dir.names().size(), 1U);
}

// It takes its name when it has its header: what a kill left before that is no journal, and in nobody's way.
TEST_F(JournalFile, that_a_kill_left_without_its_header_is_begun_again) {
  write_file(path + "~", "mxcheck parity journal 1\n" + std::string(100'000, 'x'));
  {
    const Journal journal = fill_up_to_step(3);
    expect_error(ErrorKind::usage, "another process writes this run", [&] { Journal::resume(path); });
  }
  EXPECT_EQ(dir.names().size(), 1U);
  EXPECT_EQ(read_journal(path).record.steps.size(), 3U);
  write_file(dir / "other.journal~", "");  // killed before its first write
  EXPECT_NO_THROW(Journal::create(dir / "other.journal", run));
}

TEST_F(JournalFile, is_not_begun_over_a_file_of_somebody_else) {
  const std::string begun = path + "~";
  write_file(begun, "a user's own");
  expect_error(ErrorKind::usage, "run.h5.journal~: is no journal that was begun", [&] { Journal::create(path, run); });
  EXPECT_EQ(read_file(begun), "a user's own");
  std::filesystem::remove(begun);
  write_file(dir / "target", "mxcheck parity journal 1\n");
  std::filesystem::create_symlink(dir / "target", begun);
  expect_error(ErrorKind::usage, "run.h5.journal~: cannot be opened", [&] { Journal::create(path, run); });
  EXPECT_EQ(read_file(dir / "target"), "mxcheck parity journal 1\n");
}

// Every record but the last, each by itself: frames and checksums are whole, and the next one tells.
TEST_F(JournalFile, that_lacks_a_record_says_which_and_where) {
  const auto names = [](const JournalEntry& entry) -> std::string {
    const auto number = [](std::int64_t n) { return std::to_string(n); };
    if (const auto* s = std::get_if<JournalStep>(&entry)) return "step " + number(s->step);
    if (const auto* e = std::get_if<RecordedEvaluation>(&entry))
      return "the evaluation after " + number(e->step) + " steps";
    if (const auto* o = std::get_if<RecordedObservation>(&entry)) return "the observation of step " + number(o->step);
    return "the witness of step " + number(std::get<RecordedWitness>(entry).step);
  };
  const std::vector<JournalEntry> all = entries_of(run);
  ASSERT_TRUE(std::holds_alternative<RunEnd>(all.back()));
  for (std::size_t left_out = 0; left_out + 1 < all.size(); ++left_out) {
    std::filesystem::remove(path);
    std::uint64_t next = 0;
    {
      const Journal journal = Journal::create(path, run);
      std::string file = read_file(path);
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (i == left_out) continue;
        // An observation lacks where the next step comes: its witness goes with it.
        const bool is_noticed = next != 0 || i < left_out || !std::holds_alternative<RecordedWitness>(all[i]) ||
                                std::holds_alternative<JournalStep>(all[left_out]);
        if (is_noticed && i > left_out && next == 0) next = file.size();
        const std::vector<std::byte> frame = frame_of(type_of(all[i]), payload_of(all[i]));
        file.append(reinterpret_cast<const char*>(frame.data()), frame.size());
      }
      write_file(path, file);
    }
    expect_error(ErrorKind::input,
                 "run.h5.journal: record at byte " + std::to_string(next) + ": the record of " + names(all[left_out]) +
                     " must come before it, and is missing",
                 [&] { read_journal(path); });
  }
}

// A step's loss of NaN is what a step that ended in a layer leaves, and a kill may come between any two records.
TEST_F(JournalFile, may_lack_what_a_step_could_not_give_or_a_kill_prevented) {
  const std::vector<JournalEntry> all = entries_of(run);
  for (std::size_t entries = 0; entries < all.size(); ++entries) {
    std::filesystem::remove(path);
    { fill(entries); }
    EXPECT_NO_THROW(read_journal(path)) << entries;
  }
  std::filesystem::remove(path);
  Journal journal = fill_up_to_step(11);
  JournalStep last{11, run.steps[11], 0.25};
  last.recorded.loss = 0x7FC00000;
  journal.append(last);
  journal.append(RunEnd::diverged);
  EXPECT_EQ(read_journal(path).record.end, RunEnd::diverged);
}

// A sitting that repeats steps, whose record is missing.
TEST_F(JournalFile, that_lacks_the_sitting_which_went_back_is_refused) {
  Journal journal = fill_up_to_step(6);
  journal.append(JournalStep{4, run.steps[4], 0.25});
  expect_error(ErrorKind::input, "the record of the sitting that goes on from step 4 must come before it",
               [&] { read_journal(path); });
}

// RLIMIT_FSIZE is a disk that ends there; SIGXFSZ would end this process.
TEST_F(JournalFile, of_a_full_disk_keeps_its_whole_records_and_takes_more_when_there_is_room) {
  Journal journal = fill_up_to_step(5);
  const std::string before = read_file(path);
  const std::vector<JournalEntry> all = entries_of(run);
  const JournalEntry& next = all[place_of_step(all, 5)];
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{before.size() + 30, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  expect_error(ErrorKind::environment, "run.h5.journal: writing failed: File too large", [&] { journal.append(next); });
  expect_error(ErrorKind::environment, "writing failed", [&] { journal.append(next); });
  EXPECT_EQ(read_file(path), before);
  const rlimit tiny{10, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  expect_error(ErrorKind::environment, "other.journal: writing failed",
               [&] { Journal::create(dir / "other.journal", run); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(dir.names().size(), 1U) << "a journal that could not be begun is not there";
  journal.append(next);
  EXPECT_EQ(read_journal(path).record.steps.size(), 6U);
}

TEST_F(JournalFile, that_is_none_is_refused) {
  expect_error(ErrorKind::input, "run.h5.journal", [&] { read_journal(path); });
  expect_error(ErrorKind::usage, "run.h5.journal: cannot be opened: No such file", [&] { Journal::resume(path); });
  expect_error(ErrorKind::usage, "Is a directory", [&] { Journal::resume("/tmp"); });
  expect_error(ErrorKind::usage, "/dev/full: is a", [&] { Journal::resume("/dev/full"); });
  for (const char* text : {"", "mxcheck", "text"}) {
    write_file(path, text);
    expect_error(ErrorKind::input, "no journal of a run", [&] { read_journal(path); });
  }
  write_file(path, "mxcheck parity journal 2\n");
  expect_error(ErrorKind::input, "of another version; this build reads version 1", [&] { read_journal(path); });
  write_file(path, "mxcheck parity journal 1\nxxxxx");
  expect_error(ErrorKind::input, "holds no whole record", [&] { Journal::resume(path); });
}

std::vector<JournalEntry> one_of_each() {
  const TrainingConfig config = sample_config();
  return {JournalStep{3, sample_step(3), 0.5},
          sample_evaluation(config, 4),
          sample_observation(config, 3),
          sample_witness(config, 3),
          JournalSitting{2, "2026-11-24T00:00:00Z"},
          RunEnd::diverged};
}

TEST(JournalEntry, comes_back_from_its_bytes) {
  std::uint32_t type = 1;
  for (const JournalEntry& entry : one_of_each()) {
    EXPECT_EQ(type_of(entry), type);
    const std::vector<std::byte> payload = payload_of(entry);
    const JournalEntry again = entry_of(type, payload, "x");
    EXPECT_EQ(again.index(), entry.index());
    EXPECT_EQ(payload_of(again), payload);
    ++type;
  }
  EXPECT_EQ(std::get<RecordedObservation>(entry_of(3, payload_of(one_of_each()[2]), "x")),
            std::get<RecordedObservation>(one_of_each()[2]));
}

TEST(JournalEntry, header_has_all_but_the_entries) {
  const RunRecord head = sample_head();
  EXPECT_EQ(run_of_header(header_payload(head), "x"), head);
  EXPECT_EQ(run_of_header(header_payload(sample_run()), "x"), head);
  RunRecord wrong = head;
  wrong.training_sha256 = "abc";
  expect_error(ErrorKind::input, "x: training_sha256 is no SHA-256",
               [&] { run_of_header(header_payload(wrong), "x"); });
}

TEST(JournalEntry, header_of_sizes_that_no_run_has_is_refused) {
  const auto refused = [](const std::string& text, auto change) {
    RunRecord run = sample_head();
    change(run);
    expect_error(ErrorKind::input, "x: " + text, [&] { run_of_header(header_payload(run), "x"); });
  };
  refused("evaluations of 100000000 sequences; 1 to 2^20 are needed",
          [](RunRecord& r) { r.plan.validation_sequences = 100'000'000; });
  refused("a run of this configuration takes at least", [](RunRecord& r) { r.config.model.width = 1 << 24; });
  refused("5000 checkpoints to keep; at most 4096", [](RunRecord& r) {
    r.config.steps = 10000;
    r.plan.kept.clear();
    for (std::int64_t s = 0; s < 5000; ++s) r.plan.kept.push_back(s);
  });
}

// The checksum has matched by then: what is refused here was never written by this program.
TEST(JournalEntry, of_any_other_bytes_is_refused_or_an_entry) {
  const auto look = [](std::uint32_t type, std::span<const std::byte> payload) {
    try {
      EXPECT_EQ(payload_of(entry_of(type, payload, "x")).size(), payload.size());
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with("x: ")) << e.what();
    }
  };
  for (const JournalEntry& entry : one_of_each()) {
    std::vector<std::byte> payload = payload_of(entry);
    for (std::size_t at = 0; at < payload.size(); ++at) {
      expect_error(ErrorKind::input, "x: ", [&] { entry_of(type_of(entry), std::span(payload).first(at), "x"); });
      for (const std::byte flip : {std::byte{1}, std::byte{0x80}, std::byte{0xFF}}) {
        payload[at] ^= flip;
        look(type_of(entry), payload);
        payload[at] ^= flip;
      }
    }
    for (const std::uint32_t other : {0U, 7U, 0xFFFFFFFFU})
      expect_error(ErrorKind::input, "x: a record of type", [&] { entry_of(other, payload, "x"); });
    payload.push_back(std::byte{0});
    expect_error(ErrorKind::input, "x: 1 bytes too many", [&] { entry_of(type_of(entry), payload, "x"); });
  }
}

TEST(JournalEntry, that_does_not_fit_leaves_the_run_as_it_was) {
  RunRecord run = sample_head();
  add(run, JournalStep{0, sample_step(0), 0.5}, "x");
  add(run, sample_evaluation(run.config, 1), "x");
  add(run, sample_evaluation(run.config, 0), "x");  // a sitting that evaluates again what was lost
  EXPECT_EQ(run.evaluations.front().step, 0);
  const RunRecord before = run;
  RecordedEvaluation other = sample_evaluation(run.config, 1);
  other.loss_own ^= 1;
  expect_error(ErrorKind::input, "x: evaluation of step 1 was computed twice", [&] { add(run, other, "x"); });
  expect_error(ErrorKind::input, "x: step 2 after 1 steps", [&] { add(run, JournalStep{2, {}, 0}, "x"); });
  expect_error(ErrorKind::input, "x: step -1 after 1 steps", [&] { add(run, JournalStep{-1, {}, 0}, "x"); });
  EXPECT_EQ(run, before);
}

// Each is a finite number, their sum is none, which no file of a run may have.
TEST(JournalEntry, whose_seconds_add_up_to_infinity_is_refused) {
  RunRecord run = sample_head();
  const double most = std::numeric_limits<double>::max();
  add(run, JournalStep{0, sample_step(0), most}, "x");
  const RunRecord before = run;
  expect_error(ErrorKind::input, "x: a step's seconds", [&] { add(run, JournalStep{1, sample_step(1), most}, "x"); });
  EXPECT_EQ(run, before);
}

TEST(JournalEntry, of_an_end_that_is_none_is_refused_on_one_line) {
  ByteWriter payload;
  payload.text("a\nb");
  expect_error(ErrorKind::input, R"(x: unknown end of a run 'a\x0Ab')", [&] { entry_of(6, payload.bytes(), "x"); });
}

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Bytes kStart = bytes_of("start");
const Bytes kOne = frame_of(3, bytes_of("payload"));
const Bytes kTwo = frame_of(4, {});

TEST(JournalFrames, have_a_mark_type_length_checksum_and_payload) {
  ASSERT_EQ(kOne.size(), kFrameHead + 7);
  const Bytes head = bytes_of(std::string_view("RJXM\3\0\0\0\7\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(Bytes(kOne.begin(), kOne.begin() + 16), head);
  EXPECT_EQ(Bytes(kOne.begin() + kFrameHead, kOne.end()), bytes_of("payload"));
}

TEST(JournalFrames, come_back_in_order) {
  const Bytes all = kStart + kOne + kTwo + kOne;
  const Frames frames = frames_in(all, kStart.size(), "x");
  ASSERT_EQ(frames.frames.size(), 3U);
  EXPECT_EQ(frames.frames[0].type, 3U);
  EXPECT_EQ(Bytes(frames.frames[0].payload.begin(), frames.frames[0].payload.end()), bytes_of("payload"));
  EXPECT_EQ(frames.frames[1].type, 4U);
  EXPECT_EQ(frames.frames[1].at, kStart.size() + kOne.size());
  EXPECT_TRUE(frames.frames[1].payload.empty());
  EXPECT_EQ(frames.whole_bytes, all.size());
  EXPECT_EQ(frames_in(kStart, kStart.size(), "x").frames.size(), 0U);
}

TEST(JournalFrames, that_are_torn_are_left_out) {
  for (std::size_t cut = 1; cut <= kOne.size(); ++cut) {
    Bytes all = kStart + kTwo + kOne;
    all.resize(all.size() - cut);
    const Frames frames = frames_in(all, kStart.size(), "x");
    EXPECT_EQ(frames.frames.size(), 1U);
    EXPECT_EQ(frames.whole_bytes, kStart.size() + kTwo.size());
  }
  EXPECT_EQ(frames_in(kStart + kOne + Bytes(4096), kStart.size(), "x").frames.size(), 1U) << "zeros of a lost page";
}

TEST(JournalFrames, before_a_whole_one_must_be_whole) {
  const std::size_t begin = kStart.size();
  for (std::size_t at = begin; at < begin + kOne.size(); ++at) {
    Bytes all = kStart + kOne + kTwo;
    all[at] ^= std::byte{0x40};
    const std::string text =
        "x: damaged at byte 5: no record is there, but one follows at byte " + std::to_string(begin + kOne.size());
    expect_error(ErrorKind::input, text, [&] { frames_in(all, begin, "x"); });
  }
  expect_error(ErrorKind::input, "damaged at byte 5", [&] { frames_in(kStart + bytes_of("?") + kTwo, begin, "x"); });
}

TEST(JournalFrames, of_more_than_64_MiB_are_refused) {
  const Bytes payload(kMostPayload + 1);
  expect_error(ErrorKind::usage, "a journal's record of 67108865 bytes; at most 67108864",
               [&] { frame_of(1, payload); });
}

// Marks that each promise all the rest: 43 GB to hash, were they all believed.
TEST(JournalFrames, a_tail_full_of_marks_is_refused_soon) {
  constexpr std::uint64_t kSize = 24 * 60000;
  ByteWriter to;
  for (std::uint64_t at = 0; at < kSize; at += kFrameHead) {
    to.number<std::uint32_t>(0x4D584A52), to.number<std::uint32_t>(1);
    to.number<std::uint64_t>(kSize - at - kFrameHead), to.number<std::uint64_t>(0);
  }
  expect_error(ErrorKind::input, "full of marks", [&] { frames_in(to.bytes(), 0, "x.journal"); });
}

}  // namespace
}  // namespace mxcheck

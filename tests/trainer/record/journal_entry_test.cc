#include "trainer/record/journal_entry.h"

#include <gtest/gtest.h>

#include <limits>

#include "numerics/byte_stream.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/trainer/record/run_samples.h"

namespace mxcheck {
namespace {

using test::expect_error;

std::vector<JournalEntry> one_of_each() {
  const TrainingConfig config = test::sample_config();
  return {JournalStep{3, test::sample_step(3), 0.5}, test::sample_evaluation(config, 4),
          test::sample_observation(config, 3),       test::sample_witness(config, 3),
          JournalSitting{2, "2026-11-24T00:00:00Z"}, RunEnd::diverged};
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
  const RunRecord head = test::sample_head();
  EXPECT_EQ(run_of_header(header_payload(head), "x"), head);
  EXPECT_EQ(run_of_header(header_payload(test::sample_run()), "x"), head);
  RunRecord wrong = head;
  wrong.training_sha256 = "abc";
  expect_error(ErrorKind::input, "x: training_sha256 is no SHA-256",
               [&] { run_of_header(header_payload(wrong), "x"); });
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
    for (const std::uint32_t other : {0U, 7U, 0xFFFFFFFFU}) {
      expect_error(ErrorKind::input, "x: a record of type", [&] { entry_of(other, payload, "x"); });
    }
    payload.push_back(std::byte{0});
    expect_error(ErrorKind::input, "x: 1 bytes too many", [&] { entry_of(type_of(entry), payload, "x"); });
  }
}

TEST(JournalEntry, that_does_not_fit_leaves_the_run_as_it_was) {
  RunRecord run = test::sample_head();
  add(run, JournalStep{0, test::sample_step(0), 0.5}, "x");
  add(run, test::sample_evaluation(run.config, 1), "x");
  add(run, test::sample_evaluation(run.config, 0), "x");  // a sitting that evaluates again what was lost
  EXPECT_EQ(run.evaluations.front().step, 0);
  const RunRecord before = run;
  RecordedEvaluation other = test::sample_evaluation(run.config, 1);
  other.loss_own ^= 1;
  expect_error(ErrorKind::input, "x: evaluation of step 1 was computed twice", [&] { add(run, other, "x"); });
  expect_error(ErrorKind::input, "x: step 2 after 1 steps", [&] { add(run, JournalStep{2, {}, 0}, "x"); });
  expect_error(ErrorKind::input, "x: step -1 after 1 steps", [&] { add(run, JournalStep{-1, {}, 0}, "x"); });
  EXPECT_EQ(run, before);
}

// Each is a finite number, their sum is none, which no file of a run may have.
TEST(JournalEntry, whose_seconds_add_up_to_infinity_is_refused) {
  RunRecord run = test::sample_head();
  const double most = std::numeric_limits<double>::max();
  add(run, JournalStep{0, test::sample_step(0), most}, "x");
  const RunRecord before = run;
  expect_error(ErrorKind::input, "x: a step's seconds", [&] {
    add(run, JournalStep{1, test::sample_step(1), most}, "x");
  });
  EXPECT_EQ(run, before);
}

TEST(JournalEntry, of_an_end_that_is_none_is_refused_on_one_line) {
  ByteWriter payload;
  payload.text("a\nb");
  expect_error(ErrorKind::input, R"(x: unknown end of a run 'a\x0Ab')", [&] { entry_of(6, payload.bytes(), "x"); });
}

}  // namespace
}  // namespace mxcheck

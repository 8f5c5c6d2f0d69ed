#include "properties/records/record.h"

#include <gtest/gtest.h>

#include <cstring>

#include "goldens/format/writer.h"
#include "properties/gate/gate.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "properties/records/replay.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

GateReport recorded(const std::string& library, const std::string& only, int cases) {
  GateOptions options;
  options.tool = MXCHECK_TOOL, options.library = library;
  options.only = only, options.cases = cases, options.seed = 5, options.record = true;
  return run_gate(options, [](const StatementResult&, bool) {});
}

ReplayReport replayed(const Record& record) {
  return replay(record, 2, [](const ReplayedStatement&) {});
}

// Both are made once: CTest runs these tests in one process.
const Record& sample() {
  static const Record record = *recorded(MXCHECK_CPU_LIBRARY, "*_equals_the_reference", 30).record;
  return record;
}

// Two statements on one variant, for what is about one case of a record and replays all of them.
const Record& short_sample() {
  static const Record record = *recorded(MXCHECK_TOY, "[qp]*", 60).record;
  return record;
}

TEST(Record, comes_back_as_it_was_written) {
  const test::TemporaryDirectory dir;
  write_record(dir / "r.h5", sample());
  const Record read = read_record(dir / "r.h5");
  EXPECT_EQ(read.suite, "quick");
  EXPECT_EQ(read.seed, 5U);
  EXPECT_EQ(read.candidate.name, "cpu");
  EXPECT_EQ(read.candidate.digest, sample().candidate.digest);
  EXPECT_EQ(read.statements, sample().statements);
  EXPECT_EQ(read.variants, sample().variants);
  ASSERT_EQ(read.cases.size(), sample().cases.size());
  for (std::size_t i = 0; i < read.cases.size(); ++i) {
    EXPECT_EQ(read.cases[i].c, sample().cases[i].c);
    ASSERT_EQ(read.cases[i].calls.size(), sample().cases[i].calls.size());
    for (std::size_t n = 0; n < read.cases[i].calls.size(); ++n) {
      EXPECT_EQ(read.cases[i].calls[n].outputs, sample().cases[i].calls[n].outputs);
    }
  }
  ASSERT_GT(read.kept.size(), 50U);
  EXPECT_EQ(read.kept.back().bytes, sample().kept.back().bytes);
}

TEST(Record, of_every_statement_replays) {
  const GateReport report = recorded(MXCHECK_CPU_LIBRARY, "*", 20);
  const ReplayReport again = replayed(*report.record);
  EXPECT_TRUE(again.equal());
  std::int64_t cases = 0;
  for (const StatementResult& r : report.statements) cases += r.cases;
  EXPECT_EQ(again.cases(), cases);
  for (const ReplayedStatement& s : again.statements) EXPECT_EQ(s.different, 0) << s.name << ": " << s.differences[0];
}

TEST(Record, with_another_digest_differs_and_names_the_case) {
  Record record = short_sample();
  RecordedCase* changed = nullptr;
  for (RecordedCase& c : record.cases) {
    if (c.c.elements() > 3000) changed = &c;  // beyond those that are kept whole
  }
  ASSERT_NE(changed, nullptr);
  changed->calls[1].outputs[0][2] ^= 1;
  const ReplayReport again = replayed(record);
  EXPECT_FALSE(again.equal());
  std::string text;
  for (const ReplayedStatement& s : again.statements) {
    for (const std::string& d : s.differences) text += d;
  }
  EXPECT_NE(text.find(to_text(changed->c)), std::string::npos) << text;
  EXPECT_NE(text.find("call 2, "), std::string::npos) << text;
}

// From 64 KiB on the answer of the statement is taken for the call's.
TEST(Record, with_another_digest_of_a_large_answer_differs) {
  Record record = sample();
  RecordedCase* changed = nullptr;
  for (RecordedCase& c : record.cases) {
    if (c.c.variant.operation == "quantize" && c.c.elements() >= 1 << 16 && c.calls[0].status == 0) changed = &c;
  }
  ASSERT_NE(changed, nullptr);
  record.cases = std::vector<RecordedCase>{*changed};
  record.kept.clear();  // what is kept is numbered over all cases
  EXPECT_TRUE(replayed(record).equal());
  record.cases[0].calls[0].outputs[0][3] ^= 1;
  EXPECT_FALSE(replayed(record).equal());
}

TEST(Record, of_an_output_that_is_kept_says_which_byte) {
  Record record = short_sample();
  KeptOutput& kept = record.kept.front();
  kept.bytes.back() ^= std::byte{0x01};
  const ReplayReport again = replayed(record);
  EXPECT_FALSE(again.equal());
  const std::string& text = again.statements.front().differences.at(0);
  EXPECT_NE(text.find("of byte " + std::to_string(kept.bytes.size() - 1)), std::string::npos) << text;
}

TEST(Record, of_a_short_run_replays) { EXPECT_TRUE(replayed(short_sample()).equal()); }

TEST(Record, with_calls_too_few_or_too_many_differs) {
  for (const bool more : {false, true}) {
    Record record = short_sample();
    std::vector<RecordedCall>& calls = record.cases.back().calls;
    more ? calls.push_back(calls.back()) : calls.pop_back();
    EXPECT_FALSE(replayed(record).equal());
  }
}

TEST(Record, with_a_refusal_that_the_statement_does_not_allow_differs) {
  Record record = short_sample();
  RecordedCall& call = record.cases.back().calls[0];
  call.status = 2, call.outputs.clear();
  EXPECT_FALSE(replayed(record).equal());
}

TEST(Record, with_a_statement_that_nobody_knows_is_not_equal) {
  Record record = short_sample();
  record.statements[0] = "all_is_well";
  const ReplayReport again = replayed(record);
  EXPECT_FALSE(again.equal());
  EXPECT_EQ(again.unknown, std::vector<std::string>{"all_is_well"});
}

TEST(Record, that_is_damaged_is_refused) {
  const test::TemporaryDirectory dir;
  write_record(dir / "r.h5", sample());
  const std::string whole = test::read_file(dir / "r.h5");
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    test::write_file(dir / "cut.h5", whole.substr(0, size));
    test::expect_error(ErrorKind::golden, "cut.h5", [&] { read_record(dir / "cut.h5"); });
  }
  test::expect_error(ErrorKind::input, "none.h5", [&] { read_record(dir / "none.h5"); });
}

TEST(Record, whose_lists_do_not_fit_is_refused) {
  const test::TemporaryDirectory dir;
  const auto expect_refused = [&](const std::string& words, const auto& damage) {
    Record record = sample();
    damage(record);
    write_record(dir / "r.h5", record);
    test::expect_error(ErrorKind::golden, words, [&] { read_record(dir / "r.h5"); });
  };
  expect_refused("is of no statement", [](Record& r) { r.cases[0].statement = 77; });
  expect_refused("keeps an output that does not exist", [](Record& r) { r.kept[0].number = 1U << 31; });
  expect_refused("an operation that makes no sense", [](Record& r) { r.candidate.operations[0].cols_multiple = 0; });
  expect_refused("case", [](Record& r) { r.cases[0].c.rows = -1; });
}

TEST(Record, of_what_no_gate_would_have_made_is_refused_or_differs) {
  const test::TemporaryDirectory dir;
  Record record = sample();
  record.candidate.operations.clear();
  write_record(dir / "r.h5", record);
  test::expect_error(ErrorKind::golden, "which is not listed", [&] { read_record(dir / "r.h5"); });
  record = sample();
  blocks_of(record.cases[0].c.variant).recipe = "gfloat";
  write_record(dir / "r.h5", record);
  test::expect_error(ErrorKind::golden, "that the candidate did not offer", [&] { read_record(dir / "r.h5"); });
  record = sample();
  record.statements[0] = "dequantize_inverts_quantize_on_representable_values";
  record.cases[0].c =
      parse_case("op=scale_layout format=e4m3 block=1x32 layout=tcgen05 x=bf16 rows=2 cols=2 data=normal");
  EXPECT_FALSE(replayed(record).equal());
}

TEST(Record, is_not_any_golden) {
  const test::TemporaryDirectory dir;
  GoldenWriter writer(dir / "g.h5", {{{"kind", "quantize"}}, {{"a", Role::output, "uint8", Format::uint8, {1}, {}}}});
  const std::byte byte{1};
  writer.append(0, {&byte, 1});
  writer.commit();
  test::expect_error(ErrorKind::golden, "is a golden, not a record", [&] { read_record(dir / "g.h5"); });
}

TEST(Record, takes_one_nan_for_another) {
  const auto of = [](std::uint32_t word) {
    std::vector<std::byte> bytes(4);
    std::memcpy(bytes.data(), &word, 4);
    make_nans_equal(bytes, Format::fp32);
    return digest_of(bytes);
  };
  EXPECT_EQ(of(0x7FFFFFFF), of(0xFFC00001));
  EXPECT_NE(of(0x7F800000), of(0x7FC00000));
  EXPECT_NE(of(0x7F800000), of(0xFF800000));
}

}  // namespace
}  // namespace mxcheck

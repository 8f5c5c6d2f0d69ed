// Shards of a run, and mxcheck merge, as a user meets them.

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr const char* kRun = "--only quantize_equals_the_reference --seed 7 --cases 60 --save '' ";

class Shards : public ToolTest {
 protected:
  Answer toy(const char* mode, const std::string& arguments, const std::string& before = "") {
    return mxcheck("gate --candidate '" MXCHECK_TOY "' " + arguments,
                   "export TOY=" + std::string(mode) + "; " + before);
  }
  void make(const char* mode, int count, const std::string& run = kRun) {
    for (int i = 1; i <= count; ++i) {
      const std::string n = std::to_string(i);
      answers.push_back(toy(mode, run + "--shard " + n + "/" + std::to_string(count) + " --report " + n + ".json"));
    }
  }
  std::vector<Answer> answers;
};

std::string cases(const std::string& text) {
  std::smatch found;
  return std::regex_search(text, found, std::regex("not offered; ([0-9]+) cases")) ? found[1].str() : "";
}

TEST_F(Shards, merged_say_what_the_whole_run_says) {
  make("right", 3);
  int sum = 0;
  for (const Answer& a : answers) {
    EXPECT_EQ(a.code, 0) << a.err;
    expect_contains(a.out,
                    "exit code 0: no case of this shard contradicts a statement; mxcheck merge makes the verdict");
    sum += std::stoi(cases(a.out));
  }
  expect_contains(answers[1].out, "seed 7  suite quick  shard 2/3\n");
  const Answer whole = toy("right", kRun);
  EXPECT_EQ(std::to_string(sum), cases(whole.out));
  const Answer a = expect_output("merge 2.json 3.json 1.json --junit m.xml --html m.html --report m.json", 0,
                                 {"exit code 0: every statement that ran held"});
  EXPECT_EQ(cases(a.out), cases(whole.out));
  expect_contains(read_file(dir / "m.html"), "HELD</strong>exit code 0");
  expect_contains(read_file(dir / "m.xml"), "<property name=\"cases\" value=\"" + cases(whole.out) + "\"/>");
  EXPECT_EQ(nlohmann::json::parse(read_file(dir / "m.json"))["exit_code"], 0);
}

TEST_F(Shards, a_missing_one_is_exit_code_4) {
  make("right", 2);
  expect_output("merge 2.json", 4, {"exit code 4: inconclusive: of the shards 1 there is no report"});
  EXPECT_EQ(nlohmann::json::parse(mxcheck("merge 2.json --json").out)["missing_shards"], std::vector<int>{1});
}

TEST_F(Shards, a_counterexample_in_one_is_that_of_the_run) {
  make("column_33_is_wrong", 2);
  EXPECT_EQ(answers[0].code + answers[1].code, 2);
  const Answer a = expect_output("merge 1.json 2.json", 1, {"  found     codes differ from the reference\n"});
  std::smatch line;
  ASSERT_TRUE(std::regex_search(a.out, line, std::regex("  again     mxcheck (gate .*)\n"))) << a.out;
  EXPECT_EQ(mxcheck(line[1].str() + " --save ''", "export TOY=column_33_is_wrong; ").code, 1);
}

TEST_F(Shards, merge_refuses_what_is_not_one_run) {
  make("right", 2);
  expect_refused(2, "1.json and 1.json are both shard 1/2", "merge 1.json 1.json");
  expect_refused(2, "none.json", "merge none.json");
  expect_refused(2, "reports", "merge");
  write_file(dir / "text.json", "no report");
  expect_refused(2, "text.json", "merge text.json 1.json");
  write_file(dir / "empty.json", "");
  expect_refused(2, "empty.json", "merge empty.json");
  expect_refused(2, "/nowhere/at/all.html", "merge 1.json 2.json --html /nowhere/at/all.html");
  EXPECT_EQ(
      toy("right", "--only quantize_equals_the_reference --seed 8 --cases 60 --shard 2/2 --report other.json").code, 0);
  expect_refused(2, "1.json and other.json are not of one run: seed '7' and '8'", "merge 1.json other.json");
  // The variants of the first report are taken for the others' only where they are the same.
  nlohmann::ordered_json more = nlohmann::ordered_json::parse(read_file(dir / "2.json"));
  more["variants"].push_back(more["variants"][0]);
  write_file(dir / "more.json", more.dump(2) + "\n");
  expect_refused(2, "1.json and more.json are not of one run: other variants are offered", "merge 1.json more.json");
  write_file(dir / "compact.json", nlohmann::ordered_json::parse(read_file(dir / "2.json")).dump());
  EXPECT_EQ(mxcheck("merge 1.json compact.json").code, 0);
  EXPECT_EQ(mxcheck("merge compact.json 1.json").code, 0);
  EXPECT_EQ(toy("right", std::string(kRun) + "--report whole.json").code, 0);
  expect_refused(2, "whole.json is the report of a whole run", "merge whole.json");
}

// A job that is started again after its result was written: it says the same, and runs nothing.
TEST_F(Shards, that_are_finished_are_not_run_again) {
  make("right", 2);
  const std::string first = read_file(dir / "1.json");
  const std::string again = std::string(kRun) + "--shard 1/2 --report 1.json --resume ";
  const Answer a = toy("column_33_is_wrong", again + "--junit 1.xml");  // a run would find it
  EXPECT_EQ(a.code, 0) << a.err;
  expect_contains(a.out, {"1.json has the finished result of this run: nothing runs again\n",
                          "held          quantize_equals_the_reference", "exit code 0"});
  EXPECT_EQ(cases(a.out), cases(answers[0].out));
  EXPECT_EQ(read_file(dir / "1.json"), first);
  expect_contains(read_file(dir / "1.xml"), "<property name=\"shard\" value=\"1/2\"/>");
  EXPECT_EQ(nlohmann::json::parse(toy("right", again + "--json").out), nlohmann::json::parse(first));
}

TEST_F(Shards, that_were_interrupted_or_are_not_there_are_run) {
  make("right", 1, std::string(kRun) + "--resume ");
  EXPECT_EQ(answers[0].code, 0) << answers[0].err;
  make("right", 2);
  nlohmann::ordered_json kept = nlohmann::ordered_json::parse(read_file(dir / "2.json"));
  kept["interrupted"] = true, kept["not_begun"] = {"quantize_equals_the_reference"};
  write_file(dir / "2.json", kept.dump());
  const Answer merged = mxcheck("merge 1.json 2.json");
  EXPECT_EQ(merged.code, 4);
  expect_contains(merged.out, "not begun     quantize_equals_the_reference\n");
  nlohmann::ordered_json wrong = kept;
  wrong["not_begun"] = {"there_is_no_such_statement"};
  write_file(dir / "3.json", wrong.dump());
  expect_refused(2, "3.json: ", "merge 1.json 3.json");
  const Answer a = toy("right", std::string(kRun) + "--shard 2/2 --report 2.json --resume");
  EXPECT_EQ(a.out.find("nothing runs again"), std::string::npos);
  EXPECT_EQ(mxcheck("merge 1.json 2.json").code, 0);
}

TEST_F(Shards, that_fail_fail_again_without_a_run) {
  make("column_33_is_wrong", 2);
  const int failed = answers[0].code == 1 ? 1 : 2;
  const std::string n = std::to_string(failed);
  const Answer a = toy("right", std::string(kRun) + "--shard " + n + "/2 --report " + n + ".json --resume");
  EXPECT_EQ(a.code, 1);
  expect_contains(a.out, {"nothing runs again", "  found     codes differ from the reference\n"});
}

TEST_F(Shards, of_another_run_are_not_taken_for_this_one) {
  make("right", 2);
  const std::string gate = "gate --candidate '" MXCHECK_TOY "' ";
  const std::string run = gate + kRun + "--resume --report 1.json ";
  expect_refused(
      2,
      "--resume: 1.json and this run are not of one run: number of shards '2' and '3'; name another file for "
      "--report, or remove it",
      run + "--shard 1/3");
  expect_refused(2, "shard '1/2' and '2/2'", run + "--shard 2/2");
  expect_refused(2, "number of shards '2' and '1'", run);
  expect_refused(2, "arguments", run + "--shard 1/2 --jobs 1");
  expect_refused(2, "seed '7' and '8'",
                 gate +
                     "--only quantize_equals_the_reference --seed 8 --cases 60 --shard 1/2 "
                     "--resume --report 1.json");
  nlohmann::ordered_json other = nlohmann::ordered_json::parse(read_file(dir / "1.json"));
  other["candidate"]["digest"] = "0123456789abcdef";
  write_file(dir / "1.json", other.dump());
  expect_refused(2, "candidate digest '0123456789abcdef'", run + "--shard 1/2");
  other = nlohmann::ordered_json::parse(read_file(dir / "2.json"));
  other["machine"]["mxcheck"] = "0.0.1";
  write_file(dir / "2.json", other.dump());
  expect_refused(2, "mxcheck '0.0.1'", gate + kRun + "--resume --report 2.json --shard 2/2");
  write_file(dir / "1.json", "{}");
  expect_refused(2, "1.json", run + "--shard 1/2");
  expect_refused(2, "--resume looks for the finished result of this run in the file of --report",
                 gate + "--resume --seed 1");
  expect_refused(2, "--resume looks for", gate + "--resume --report x.json");
  expect_refused(2, "--resume keeps a suite's result", gate + "--resume --report x.json --seed 1 --soak 1");
}

TEST_F(Shards, of_what_cannot_be_dealt_are_refused) {
  const std::string gate = "gate --candidate '" MXCHECK_TOY "' ";
  expect_refused(2, "--shard needs --seed", gate + "--shard 1/2");
  expect_refused(2, "--shard '3/2' is not I/N", gate + "--seed 1 --shard 3/2");
  expect_refused(2, "--shard splits the cases of a suite", gate + "--seed 1 --shard 1/2 --soak 1");
  expect_refused(2, "--shard splits the cases of a suite", gate + "--seed 1 --shard 1/2 --reproduce 'a: b'");
  expect_refused(2, "not a shard of one", gate + "--seed 1 --shard 1/2 --record x.h5");
  expect_refused(2, "--report", gate + "--report ''");
  expect_refused(2, "/nowhere/at/all.json", gate + "--report /nowhere/at/all.json");
}

// One corner in all: of two shards one has nothing to do.
TEST_F(Shards, an_empty_one_needs_leave_to_succeed) {
  const std::string run = "--only ten_thousand_calls_keep_no_memory --seed 7 --save '' ";
  make("right", 2, run);
  const int empty = answers[0].code == 4 ? 0 : 1;
  EXPECT_EQ(answers[static_cast<std::size_t>(empty)].code, 4);
  EXPECT_EQ(answers[static_cast<std::size_t>(1 - empty)].code, 0);
  expect_contains(answers[static_cast<std::size_t>(empty)].out, "no case of it falls to this shard");
  EXPECT_EQ(mxcheck("merge 1.json 2.json").code, 0);
  const std::string shard = "--shard " + std::to_string(empty + 1) + "/2";
  EXPECT_EQ(toy("right", run + shard + " --allow-empty-shard").code, 0);
  const std::string variables =
      "export GTEST_TOTAL_SHARDS=2 GTEST_SHARD_STATUS_FILE=status GTEST_SHARD_INDEX=" + std::to_string(empty) + "; ";
  EXPECT_EQ(toy("right", run + "--shard gtest", variables).code, 0);
  const std::vector<std::string> names = dir.names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "status"), 1);
}

}  // namespace
}  // namespace mxcheck

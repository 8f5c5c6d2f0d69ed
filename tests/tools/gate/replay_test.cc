// mxcheck gate --record and mxcheck replay, as a user types them.

#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;

class Replay : public ToolTest {
 protected:
  Answer record(const std::string& more = "") {
    return mxcheck("gate --only 'scale_layout*' --cases 200 --seed 1 --record '" + (dir / "r.h5") + "' " + more);
  }
};

TEST_F(Replay, a_record_without_sources_is_inconclusive_until_that_is_accepted) {
  ASSERT_EQ(record().code, 0);
  expect_output("replay '" + (dir / "r.h5") + "'", 4, {"the record names no sources"});
  expect_output("replay --without-sources '" + (dir / "r.h5") + "'", 0,
                {"equal     scale_layout_equals_the_reference", "0 cases differ"});
}

TEST_F(Replay, is_the_verdict_of_a_gate_that_is_asked_for_one_apart) {
  const Answer a = record("--verdict-apart");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  expect_contains(a.out, "exit code 0: every statement that ran held\n");
  const std::size_t apart = a.out.find("verdict apart: mxcheck replay --without-sources ");
  ASSERT_NE(apart, std::string::npos) << a.out;
  expect_contains(a.out.substr(apart), "equal     scale_layout_equals_the_reference");
  const Answer wrong = expect_output(
      "gate --candidate " MXCHECK_FAULTY " --only 'quantize_eq*' --seed 1 --save '' --verdict-apart --record r.h5", 1);
  EXPECT_EQ(wrong.out.find("verdict apart"), std::string::npos) << wrong.out;
}

TEST_F(Replay, json_says_the_same) {
  ASSERT_EQ(record().code, 0);
  expect_output("replay --json --without-sources '" + (dir / "r.h5") + "'", 0,
                {"\"different\": 0", "\"exit_code\": 0"});
}

TEST_F(Replay, the_committed_record_is_of_these_sources_and_refuses_others) {
  const std::string file = std::string(MXCHECK_SOURCE_DIR) + "/goldens/records/h200_quick.h5";
  namespace fs = std::filesystem;
  for (const char* name : {"kernels", "cmake"})
    fs::copy(std::string(MXCHECK_SOURCE_DIR) + "/" + name, dir / name, fs::copy_options::recursive);
  const std::string kernel = dir / "kernels/sm90/quantize/quantize.cu";
  const std::string text = read_file(kernel);
  write_file(kernel, text + "\n// a comment changes nothing\n");
  expect_output("replay '" + file + "' --root '" + dir.path() + "'", 0, {"NVIDIA H200"});
  write_file(kernel, text + "\nint one_more;\n");
  expect_output("replay '" + file + "' --root '" + dir.path() + "'", 1,
                {"source kernels/sm90/quantize/quantize.cu has changed", "it has to be made again on the device"});
}

TEST_F(Replay, a_damaged_record_is_exit_code_5) {
  write_file(dir / "x.h5", "\x89HDF\r\n\x1a\n and no more");
  const Answer a = expect_output("replay '" + (dir / "x.h5") + "'", 5);
  EXPECT_EQ(a.out, "");
}

TEST_F(Replay, a_run_that_fails_leaves_no_record) {
  const Answer a = expect_output(
      "gate --candidate " MXCHECK_FAULTY " --only 'quantize_eq*' --seed 1 --save '' --record '" + (dir / "r.h5") + "'",
      1);
  expect_contains(a.err, "no record is written");
  EXPECT_FALSE(std::filesystem::exists(dir / "r.h5"));
}

TEST_F(Replay, paths_and_options_that_cannot_be_are_refused_before_anything_runs) {
  EXPECT_EQ(mxcheck("gate --record '" + (dir / "no/such/folder.h5") + "'").code, 2);
  const Answer one = record("--reproduce 'quantize_equals_the_reference: op=quantize rows=1 cols=1'");
  EXPECT_EQ(one.code, 2);
  expect_contains(one.err, "--record keeps a run, not one case");
}

}  // namespace
}  // namespace mxcheck

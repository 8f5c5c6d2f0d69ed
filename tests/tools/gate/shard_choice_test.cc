// --shard: what schedulers and test runners set, and what makes no sense.

#include "tools/gate/shard_choice.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::read_file;
using test::TemporaryDirectory;
using test::write_file;

using Variables = std::map<std::string, std::string>;

ShardChoice choice(const std::string& text, const Variables& variables) {
  return shard_choice(text, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ShardOptions, reads_what_test_runners_set) {
  using Row = std::tuple<const char*, Variables, const char*>;
  for (const auto& [text, variables, shard] : {
           Row{"",
               {{"GTEST_TOTAL_SHARDS", "4"}, {"TEST_TOTAL_SHARDS", "4"}, {"CI_NODE_TOTAL", "4"}},
               "1/1"},  // not asked for
           Row{"3/5", {}, "3/5"},
           Row{"gtest", {{"GTEST_TOTAL_SHARDS", "4"}, {"GTEST_SHARD_INDEX", "0"}}, "1/4"},
           Row{"gtest", {{"TEST_TOTAL_SHARDS", "4"}, {"TEST_SHARD_INDEX", "0"}}, "1/1"},
           Row{"bazel", {{"TEST_TOTAL_SHARDS", "4"}, {"TEST_SHARD_INDEX", "3"}}, "4/4"},
           Row{"bazel", {}, "1/1"},  // a test without shard_count
           Row{"gitlab", {{"CI_NODE_TOTAL", "2"}, {"CI_NODE_INDEX", "2"}}, "2/2"},
           Row{"gitlab", {{"CI_NODE_TOTAL", "1"}}, "1/1"},  // a job without parallel
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "5"}, {"SLURM_ARRAY_TASK_MIN", "3"}, {"SLURM_ARRAY_TASK_COUNT", "4"}},
               "3/4"},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "30"},
                {"SLURM_ARRAY_TASK_MIN", "10"},
                {"SLURM_ARRAY_TASK_COUNT", "4"},
                {"SLURM_ARRAY_TASK_STEP", "10"}},
               "3/4"},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "3"},
                {"SLURM_ARRAY_TASK_MIN", "1"},
                {"SLURM_ARRAY_TASK_MAX", "5"},
                {"SLURM_ARRAY_TASK_COUNT", "3"},
                {"SLURM_ARRAY_TASK_STEP", "2"}},
               "2/3"},
           // Some tasks of sixteen, started again: Slurm counts these alone.
           Row{"slurm/16",
               {{"SLURM_ARRAY_TASK_ID", "7"}, {"SLURM_ARRAY_TASK_MIN", "3"}, {"SLURM_ARRAY_TASK_COUNT", "2"}},
               "7/16"},
           Row{"kubernetes/16", {{"JOB_COMPLETION_INDEX", "0"}}, "1/16"},
           Row{"kubernetes/16", {{"JOB_COMPLETION_INDEX", "15"}}, "16/16"},
       }) {
    EXPECT_EQ(to_text(choice(text, variables).shard), shard) << text;
  }
}

TEST(ShardOptions, a_status_file_lets_a_shard_be_empty) {
  const Variables variables{
      {"GTEST_TOTAL_SHARDS", "2"}, {"GTEST_SHARD_INDEX", "1"}, {"GTEST_SHARD_STATUS_FILE", "/tmp/x"}};
  EXPECT_EQ(choice("gtest", variables).status_file, "/tmp/x");
  EXPECT_TRUE(choice("gtest", variables).shard.may_be_empty);
  EXPECT_FALSE(choice("gtest", {{"GTEST_TOTAL_SHARDS", "2"}, {"GTEST_SHARD_INDEX", "1"}}).shard.may_be_empty);
  EXPECT_EQ(choice("bazel", {{"TEST_SHARD_STATUS_FILE", "/tmp/y"}}).status_file, "/tmp/y");
  EXPECT_EQ(choice("1/2", variables).status_file, "");
}

TEST(ShardOptions, refuses_what_makes_no_sense) {
  struct Row {
    const char* text;
    Variables variables;
    const char* what;
  };
  for (const Row& row : {
           Row{"half", {}, "--shard 'half' is none of I/N, slurm, slurm/N, kubernetes/N, gtest, bazel, gitlab"},
           Row{"0/2", {}, "is not I/N"},
           Row{"gtest", {{"GTEST_TOTAL_SHARDS", "2"}}, "GTEST_SHARD_INDEX is not set"},
           Row{"gtest", {{"GTEST_TOTAL_SHARDS", "2"}, {"GTEST_SHARD_INDEX", "2"}}, "shard 2, from 0, of 2 cannot be"},
           Row{"gtest", {{"GTEST_TOTAL_SHARDS", "two"}}, "GTEST_TOTAL_SHARDS is 'two'"},
           Row{"bazel", {{"TEST_TOTAL_SHARDS", "-2"}}, "TEST_TOTAL_SHARDS is '-2'"},
           Row{"gitlab", {}, "CI_NODE_TOTAL is not set"},
           Row{"gitlab", {{"CI_NODE_TOTAL", "2"}}, "CI_NODE_INDEX is not set"},
           Row{"gitlab", {{"CI_NODE_TOTAL", "2"}, {"CI_NODE_INDEX", "0"}}, "cannot be"},
           Row{"slurm", {}, "--shard slurm: SLURM_ARRAY_TASK_ID is not set: sbatch --array=1-N sets it"},
           Row{"slurm", {{"SLURM_ARRAY_TASK_ID", "1"}}, "SLURM_ARRAY_TASK_COUNT is not set"},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "7"},
                {"SLURM_ARRAY_TASK_MIN", "3"},
                {"SLURM_ARRAY_TASK_MAX", "7"},
                {"SLURM_ARRAY_TASK_COUNT", "2"},
                {"SLURM_ARRAY_TASK_STEP", "1"}},
               "SLURM_ARRAY_TASK_COUNT is 2, but tasks from 3 to 7 in steps of 1 are 5: for some tasks of an array of "
               "1 to N, "
               "give slurm/N"},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "8"},
                {"SLURM_ARRAY_TASK_MIN", "3"},
                {"SLURM_ARRAY_TASK_MAX", "7"},
                {"SLURM_ARRAY_TASK_COUNT", "5"}},
               "SLURM_ARRAY_TASK_ID 8 is no task from 3 to 7 in steps of 1"},
           Row{"slurm/16", {}, "--shard slurm/16: SLURM_ARRAY_TASK_ID is not set"},
           Row{"slurm/16", {{"SLURM_ARRAY_TASK_ID", "0"}}, "SLURM_ARRAY_TASK_ID is 0, not 1 to 16"},
           Row{"slurm/16", {{"SLURM_ARRAY_TASK_ID", "17"}}, "SLURM_ARRAY_TASK_ID is 17, not 1 to 16"},
           Row{"slurm/many", {{"SLURM_ARRAY_TASK_ID", "1"}}, "'slurm/many' does not end in the number of shards"},
           Row{"slurm/10001", {{"SLURM_ARRAY_TASK_ID", "1"}}, "from 1 to 10000"},
           Row{"kubernetes", {{"JOB_COMPLETION_INDEX", "0"}}, "kubernetes lacks the job's completions: kubernetes/N"},
           Row{"kubernetes/4", {}, "JOB_COMPLETION_INDEX is not set: jobs of completionMode Indexed have it"},
           Row{"kubernetes/4", {{"JOB_COMPLETION_INDEX", "4"}}, "shard 4, from 0, of 4 cannot be"},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_MIN", "2"}, {"SLURM_ARRAY_TASK_COUNT", "4"}},
               "is no task"},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "4"},
                {"SLURM_ARRAY_TASK_MIN", "1"},
                {"SLURM_ARRAY_TASK_COUNT", "4"},
                {"SLURM_ARRAY_TASK_STEP", "2"}},
               "is no task"},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "9"},
                {"SLURM_ARRAY_TASK_MIN", "0"},
                {"SLURM_ARRAY_TASK_COUNT", "2"},
                {"SLURM_ARRAY_TASK_STEP", "9"}},
               ""},
           Row{"slurm",
               {{"SLURM_ARRAY_TASK_ID", "7"}, {"SLURM_ARRAY_TASK_MIN", "0"}, {"SLURM_ARRAY_TASK_COUNT", "2"}},
               "cannot be"},
       }) {
    if (row.what[0] == '\0') {
      EXPECT_NO_THROW((void)choice(row.text, row.variables));
    } else {
      expect_error(ErrorKind::usage, row.what, [&] { (void)choice(row.text, row.variables); });
    }
  }
}

TEST(ShardOptions, touches_a_file_and_keeps_what_is_in_it) {
  const TemporaryDirectory dir;
  touch(dir / "new");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"new"});
  write_file(dir / "old", "text");
  touch(dir / "old");
  EXPECT_EQ(read_file(dir / "old"), "text");
  expect_error(ErrorKind::usage, "/nowhere/at/all", [] { touch("/nowhere/at/all"); });
}

}  // namespace
}  // namespace mxcheck

#include "tools/gate/shard_options.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using Variables = std::map<std::string, std::string>;

ShardChoice choice(const std::string& text, const Variables& variables) {
  return shard_choice(text, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ShardOptions, reads_what_test_runners_set) {
  struct Row {
    const char* text;
    Variables variables;
    const char* shard;
  };
  for (const Row& row : {
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
       }) {
    EXPECT_EQ(to_text(choice(row.text, row.variables).shard), row.shard) << row.text;
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
           Row{"half", {}, "--shard 'half' is none of I/N, slurm, gtest, bazel, gitlab"},
           Row{"0/2", {}, "is not I/N"},
           Row{"gtest", {{"GTEST_TOTAL_SHARDS", "2"}}, "GTEST_SHARD_INDEX is not set"},
           Row{"gtest", {{"GTEST_TOTAL_SHARDS", "2"}, {"GTEST_SHARD_INDEX", "2"}}, "shard 2, from 0, of 2 cannot be"},
           Row{"gtest", {{"GTEST_TOTAL_SHARDS", "two"}}, "GTEST_TOTAL_SHARDS is 'two'"},
           Row{"bazel", {{"TEST_TOTAL_SHARDS", "-2"}}, "TEST_TOTAL_SHARDS is '-2'"},
           Row{"gitlab", {}, "CI_NODE_TOTAL is not set"},
           Row{"gitlab", {{"CI_NODE_TOTAL", "2"}}, "CI_NODE_INDEX is not set"},
           Row{"gitlab", {{"CI_NODE_TOTAL", "2"}, {"CI_NODE_INDEX", "0"}}, "cannot be"},
           Row{"slurm", {}, "SLURM_ARRAY_TASK_ID is not set"},
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
      test::expect_error(ErrorKind::usage, row.what, [&] { (void)choice(row.text, row.variables); });
    }
  }
}

TEST(ShardOptions, touches_a_file_and_keeps_what_is_in_it) {
  const test::TemporaryDirectory dir;
  touch(dir / "new");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"new"});
  test::write_file(dir / "old", "text");
  touch(dir / "old");
  EXPECT_EQ(test::read_file(dir / "old"), "text");
  test::expect_error(ErrorKind::usage, "/nowhere/at/all", [] { touch("/nowhere/at/all"); });
}

}  // namespace
}  // namespace mxcheck

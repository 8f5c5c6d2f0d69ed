#include "properties/gate/shard.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(Shard, is_written_from_1) {
  const Shard shard = parse_shard("2/4", "--shard");
  EXPECT_EQ(shard.index, 1);
  EXPECT_EQ(shard.count, 4);
  EXPECT_EQ(to_text(shard), "2/4");
  EXPECT_TRUE(parse_shard("1/1", "--shard").is_whole());
}

TEST(Shard, refuses_what_is_none) {
  for (const char* text : {"", "2", "/", "0/4", "5/4", "-1/4", "1/0", "1/-1", "1/10001", "1/4/4", " 1/4", "1/4x",
                           "+1/4", "1.0/4", "99999999999/99999999999"}) {
    expect_error(ErrorKind::usage, "--shard '" + std::string(text) + "' is not I/N",
                 [&] { (void)parse_shard(text, "--shard"); });
  }
}

TEST(Shard, every_text_has_one_owner_and_each_owner_its_share) {
  constexpr int kTexts = 3000;
  for (const int count : {1, 2, 3, 16}) {
    std::vector<int> owned(static_cast<std::size_t>(count));
    for (int i = 0; i < kTexts; ++i) {
      int owners = 0;
      for (int index = 0; index < count; ++index) {
        if (!Shard{index, count}.owns("case " + std::to_string(i))) continue;
        ++owners, ++owned[static_cast<std::size_t>(index)];
      }
      ASSERT_EQ(owners, 1);
    }
    for (const int n : owned) {
      EXPECT_GT(n, kTexts / count * 3 / 4);
      EXPECT_LT(n, kTexts / count * 5 / 4);
    }
  }
}

// Every case that a run checks, with how often it is checked.
std::map<std::string, int> cases_of(const char* mode, Suite suite, Shard shard, const std::string& only) {
  const test::Toy toy(mode);
  std::map<std::string, int> cases;
  std::mutex mutex;
  GateOptions options = test::toy_options(only, 0);
  options.suite = suite, options.shard = shard;
  options.checked = [&](const Statement& s, const Case& c) {
    const std::lock_guard lock(mutex);
    ++cases[std::string(s.name) + ": " + to_text(c)];
  };
  (void)run_gate(options, [](const StatementResult&, bool) {});
  return cases;
}

// Also of libraries that refuse options: then the next cases depend on how the last ones ended.
TEST(Shard, the_shards_together_are_exactly_the_run) {
  struct Row {
    const char* mode;
    Suite suite;
    const char* only;
  };
  for (const Row& row :
       {Row{"", Suite::quick, "[pt]*"}, Row{"no_experts", Suite::quick, "quantize_e*"},
        Row{"limits,no_experts", Suite::full, "quantize_equals_the_reference"}, Row{"", Suite::quick, "every_amax*"}}) {
    SCOPED_TRACE(std::string(row.mode) + " " + row.only);
    const std::map<std::string, int> whole = cases_of(row.mode, row.suite, {}, row.only);
    ASSERT_FALSE(whole.empty());
    for (const int count : {2, 3}) {
      std::map<std::string, int> together;
      for (int index = 0; index < count; ++index) {
        for (const auto& [name, times] : cases_of(row.mode, row.suite, {index, count}, row.only))
          together[name] += times;
      }
      EXPECT_EQ(together, whole) << count;
    }
  }
}

TEST(Shard, of_a_run_with_hundreds_of_cases_each_has_some) {
  for (int index = 0; index < 3; ++index)
    EXPECT_GT(cases_of("", Suite::quick, {index, 3}, "quantize_equals_the_reference").size(), 50U);
}

TEST(Shard, without_a_case_is_inconclusive_unless_it_may_be_empty) {
  GateReport r;
  r.shard = {0, 2};
  EXPECT_EQ(exit_code(r), 4);
  r.shard.may_be_empty = true;
  EXPECT_EQ(exit_code(r), 0);
  r.interrupted = true;
  EXPECT_EQ(exit_code(r), 4);
  r.interrupted = false, r.shard = {}, r.shard.may_be_empty = true;
  EXPECT_EQ(exit_code(r), 4);  // a whole run in which nothing ran
}

}  // namespace
}  // namespace mxcheck

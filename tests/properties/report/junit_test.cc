#include <regex>

#include <gtest/gtest.h>

#include "properties/report/report.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::kQuantize;
using test::run_toy;

// A line as GitHub's runner reads it.
struct Command {
  std::string level, title, file, line, text;
};

std::string decoded(std::string text) {
  const std::pair<const char*, const char*> kCodes[] = {
      {"%0D", "\r"}, {"%0A", "\n"}, {"%3A", ":"}, {"%2C", ","}, {"%25", "%"}};
  for (const auto& [code, character] : kCodes) text = std::regex_replace(text, std::regex(code), character);
  return text;
}

std::vector<Command> commands(const std::string& text) {
  static const std::regex command(
      "^::(error|warning|notice) title=([^:,\n]*)(,file=([^:,\n]*))?(,line=([0-9]+))?::([^\n]*)$");
  std::vector<Command> all;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = text.find('\n', from);
    const std::string line = text.substr(from, end - from);
    std::smatch m;
    if (std::regex_match(line, m, command)) {
      all.push_back({m[1], decoded(m[2]), decoded(m[4]), m[6], decoded(m[7])});
    } else {
      ADD_FAILURE() << "no command: " << line;
    }
    from = end + 1;
  }
  return all;
}

TEST(GithubAnnotations, are_one_a_failed_statement_with_its_counterexample) {
  GateReport r = run_toy("column_33_is_wrong", "[pq]*");
  r.source = {"src/kernels, new/q:1.cu", 41};
  const std::vector<Command> all = commands(github_annotations(r));
  std::size_t i = 0;
  for (const StatementResult& s : r.statements) {
    if (!s.counterexample) continue;
    ASSERT_LT(i, all.size());
    EXPECT_EQ(all[i].level, "error");
    EXPECT_EQ(all[i].title, s.statement->name);
    EXPECT_EQ(all[i].file, "src/kernels, new/q:1.cu");
    EXPECT_EQ(all[i].line, "41");
    EXPECT_EQ(all[i].text, s.counterexample->finding.summary + counterexample_text(r, s, ""));
    ++i;
  }
  EXPECT_EQ(i, all.size());
  EXPECT_GT(i, 0U);
  r.source = {};
  EXPECT_EQ(commands(github_annotations(r))[0].file, "");
}

TEST(GithubAnnotations, are_ten_at_most_and_the_last_names_the_others) {
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  const auto failures = [&](std::size_t n) {
    r.statements.resize(1);
    for (std::size_t i = 1; i < n; ++i)
      r.statements.push_back(r.statements[0]), r.statements[i].statement = &all_statements()[i];
    return commands(github_annotations(r));
  };
  EXPECT_EQ(failures(10).size(), 10U);
  const std::vector<Command> all = failures(14);
  ASSERT_EQ(all.size(), 10U);
  EXPECT_EQ(all[9].title, "and 5 more");
  for (std::size_t i = 9; i < 14; ++i) EXPECT_NE(all[9].text.find(all_statements()[i].name), std::string::npos);
}

TEST(GithubAnnotations, tell_what_is_no_failure_by_their_level) {
  const auto of = [](const GateReport& r) { return commands(github_annotations(r)); };
  GateReport r = run_toy("", kQuantize, 20);
  ASSERT_EQ(of(r).size(), 1U);
  EXPECT_EQ(of(r)[0].level, "notice");
  EXPECT_EQ(of(r)[0].text, "exit code 0: every statement that ran held");
  r.statements[0].verdict = Verdict::inconclusive, r.statements[0].reason = "50 % not met";
  EXPECT_EQ(of(r)[0].level, "warning");
  EXPECT_EQ(of(r)[0].text, "50 % not met");
  r.ends = {"it ended with signal 6"};
  EXPECT_EQ(of(r)[0].level, "error");
  EXPECT_EQ(of(r)[0].text, "it ended with signal 6");
  r.ends.clear(), r.missing_shards = {2};
  EXPECT_EQ(of(r)[0].title, "shards are missing");
  r = run_toy("supports_nothing", kQuantize, 20);  // nothing ran
  EXPECT_EQ(of(r)[0].level, "warning");
  EXPECT_EQ(of(r)[0].text, "exit code 4: inconclusive");
}

TEST(Github, nothing_that_others_wrote_becomes_a_command_or_markup) {
  const std::string hostile =
      "x\n::error::no\r\n::add-mask::1,2:3\n```\n</details><script>a</script> [l](http://h) |c| `d` %0A";
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  r.candidate.name = r.candidate.version = r.candidate.path = r.candidate.digest = r.suite = hostile;
  r.ends = {hostile}, r.source.file = hostile;
  for (auto& [key, value] : r.machine) value = hostile;
  r.statements[0].counterexample->finding.summary = hostile;
  r.statements[0].counterexample->finding.element = {hostile};
  EXPECT_EQ(commands(github_annotations(r)).size(), 2U);
  const std::string summary = github_summary(r);
  const std::size_t fence = summary.find("````text\n");  // one more than the longest inside
  ASSERT_NE(fence, std::string::npos);
  const std::string before = summary.substr(0, fence);
  for (const char* part : {"<", "](", "`", "::", "http:", "\n```"})
    EXPECT_EQ(before.find(part), std::string::npos) << part;
  for (std::size_t at = 0; (at = before.find("\n|", at)) != std::string::npos; ++at) {
    const std::string row = before.substr(at + 1, before.find('\n', at + 1) - at - 1);
    EXPECT_TRUE(std::count(row.begin(), row.end(), '|') == 3 || std::count(row.begin(), row.end(), '|') == 6) << row;
  }
}

TEST(GithubSummary, has_verdict_facts_statements_and_counterexamples) {
  const GateReport r = run_toy("column_33_is_wrong", "[pq]*");
  const std::string text = github_summary(r);
  EXPECT_NE(text.find("**exit code 1: there is a counterexample**"), std::string::npos);
  EXPECT_NE(text.find("| digest | " + r.candidate.digest + " |"), std::string::npos);
  EXPECT_NE(text.find("| :x: **failed** | " + escaped_markdown(kQuantize) + " |"), std::string::npos);
  EXPECT_NE(text.find(counterexample_text(r, r.statements[0], "").substr(1)), std::string::npos);
  EXPECT_NE(text.find(again_command(r, r.statements[0]) + "\n```"), std::string::npos);
  EXPECT_NE(text.find("11 statements are about operations"), std::string::npos) << text;
}

TEST(GithubSummary, is_of_64_kibibytes_at_most) {
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  r.statements[0].counterexample->finding.element.assign(300, std::string(100, 'x'));
  for (std::size_t i = 1; i < 20; ++i) r.statements.push_back(r.statements[0]);
  const std::string text = github_summary(r);
  EXPECT_LE(text.size(), 65'536U);
  EXPECT_NE(text.find("There are more counterexamples than a summary holds"), std::string::npos);
}

}  // namespace
}  // namespace mxcheck

#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "properties/core/rng.h"
#include "properties/merge/merge.h"
#include "properties/report/report.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::kQuantize;
using test::Toy;

GateReport run(const std::string& only, Shard shard = {}, Suite suite = Suite::quick) {
  GateOptions options = test::toy_options(only, 0);
  options.shard = shard, options.suite = suite;
  return run_gate(options, [](const StatementResult&, bool) {});
}

// Through their files, as the tool merges them.
std::vector<ShardReport> shards_of(const std::string& only, int count, Suite suite = Suite::quick) {
  std::vector<ShardReport> shards;
  for (int index = 0; index < count; ++index) {
    const std::string name = std::to_string(index + 1) + ".json";
    shards.push_back({name, report_from_json(report_json(run(only, {index, count}, suite)), name)});
  }
  return shards;
}

// Reports of a right library in 1 to 3 shards, made once.
const std::vector<ShardReport>& right_shards(int count) {
  static std::map<int, std::vector<ShardReport>> made;
  const Toy toy("");
  if (!made.contains(count)) made[count] = shards_of(kQuantize, count);
  return made[count];
}

// A report without the times.
nlohmann::json timeless(const GateReport& report) {
  nlohmann::json j = nlohmann::json::parse(report_json(report));
  j.erase("seconds");
  for (nlohmann::json& s : j["statements"]) s.erase("seconds");
  return j;
}

TEST(Merge, gives_the_report_of_the_run_that_was_dealt) {
  struct Row {
    const char* mode;
    const char* only;
    Suite suite;
  };
  for (const Row& row : {Row{"", "[p]*", Suite::quick}, Row{"no_experts", "quantize_e*", Suite::quick},
                         Row{"supports_nothing", kQuantize, Suite::quick}}) {
    SCOPED_TRACE(row.mode);
    const Toy toy(row.mode);
    const GateReport whole = run(row.only, {}, row.suite);
    std::vector<ShardReport> shards = shards_of(row.only, 3, row.suite);
    std::swap(shards[0], shards[2]);  // in any order
    const GateReport together = merged(std::move(shards));
    EXPECT_EQ(timeless(together), timeless(whole));
    ASSERT_EQ(together.statements.size(), whole.statements.size());
    for (std::size_t i = 0; i < whole.statements.size(); ++i) {
      for (std::size_t v = 0; v < whole.statements[i].by_variant.size(); ++v)
        EXPECT_EQ(together.statements[i].by_variant[v].checked, whole.statements[i].by_variant[v].checked);
    }
  }
}

// A shard has met a part of the domain, and says nothing about the rest of it.
TEST(Merge, coverage_is_judged_here_and_not_in_a_shard) {
  const std::vector<ShardReport>& shards = right_shards(3);
  int with_gaps = 0;
  std::size_t owner = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const StatementResult& s = shards[i].report.statements[0];
    EXPECT_EQ(s.verdict, Verdict::held) << s.reason;
    EXPECT_EQ(exit_code(shards[i].report), 0);
    with_gaps += s.coverage[0].missed.empty() ? 0 : 1;
    if (s.coverage[0].missed.empty()) owner = i;
  }
  EXPECT_EQ(with_gaps, 2);
  EXPECT_EQ(merged(shards).statements[0].verdict, Verdict::held);

  std::vector<ShardReport> spoilt = shards;  // as if a planned case had not run
  std::string& states = spoilt[owner].report.statements[0].states[0].covering;
  for (char& c : states) c = c >= '?' ? '@' : c;
  const GateReport open = merged(spoilt);
  EXPECT_EQ(open.statements[0].verdict, Verdict::inconclusive);
  EXPECT_NE(open.statements[0].reason.find("within the candidate's limits, and not met: "), std::string::npos);
  EXPECT_EQ(exit_code(open), 4);
}

TEST(Merge, a_missing_shard_is_inconclusive_and_named) {
  std::vector<ShardReport> shards = right_shards(3);
  shards.erase(shards.begin() + 1);
  const GateReport r = merged(shards);
  EXPECT_EQ(exit_code(r), 4);
  EXPECT_EQ(r.missing_shards, std::vector<int>{1});
  EXPECT_EQ(r.statements[0].verdict, Verdict::inconclusive);
  EXPECT_NE(report_summary(r).find("exit code 4: inconclusive: of the shards 2 there is no report"), std::string::npos)
      << report_summary(r);
  EXPECT_EQ(nlohmann::json::parse(report_json(r))["missing_shards"], std::vector<int>{2});
}

TEST(Merge, a_failure_in_one_shard_is_the_runs) {
  const Toy toy("column_33_is_wrong");
  std::vector<ShardReport> shards = shards_of(kQuantize, 2);
  std::vector<std::int64_t> sizes;
  for (const ShardReport& s : shards) {
    ASSERT_TRUE(s.report.statements[0].counterexample);
    sizes.push_back(s.report.statements[0].counterexample->minimal.elements());
  }
  const GateReport both = merged(shards);
  EXPECT_EQ(exit_code(both), 1);
  EXPECT_EQ(both.statements[0].counterexample->minimal.elements(), std::min(sizes[0], sizes[1]));
  EXPECT_EQ(both.statements[0].reason, "in shards 1, 2");
  shards.erase(shards.begin());
  EXPECT_EQ(exit_code(merged(shards)), 1);  // also where another one is missing
}

TEST(Merge, a_crash_in_one_shard_is_the_runs) {
  std::vector<ShardReport> shards = right_shards(2);
  shards[1].report.ends = {"it ended with signal 6"};
  const GateReport r = merged(shards);
  EXPECT_EQ(exit_code(r), 6);
  EXPECT_EQ(r.ends, std::vector<std::string>{"shard 2/2: it ended with signal 6"});
}

TEST(Merge, what_is_not_of_one_run_is_refused) {
  const std::vector<ShardReport>& shards = right_shards(2);
  struct Row {
    const char* text;
    void (*spoil)(GateReport&);
  };
  const Row rows[] = {
      {"candidate digest", [](GateReport& r) { r.candidate.digest = "0123"; }},
      {"candidate 'toy", [](GateReport& r) { r.candidate.version = "2"; }},
      {"mxcheck '", [](GateReport& r) { r.machine.front().second = "0.0.1"; }},
      {"suite 'quick' and 'full'", [](GateReport& r) { r.suite = "full"; }},
      {"seed '7' and '8'", [](GateReport& r) { r.seed = 8; }},
      {"arguments", [](GateReport& r) { r.arguments += " --only x"; }},
      {"operations", [](GateReport& r) { r.candidate.operations[0].max_rows = 5; }},
      {"number of shards '2' and '3'", [](GateReport& r) { r.shard.count = 3; }},
      {"other variants are offered", [](GateReport& r) { r.variants.clear(); }},
      {"2.json is the report of a whole run", [](GateReport& r) { r.shard = {}; }},
      {"1.json and 2.json are both shard 1/2", [](GateReport& r) { r.shard.index = 0; }},
      {"states where this mxcheck has", [](GateReport& r) { r.statements[0].states[0].covering = "?3"; }},
      {"what was met is of", [](GateReport& r) { r.statements[0].states[0].operation = "cast"; }},
      {"what was met is of other operations", [](GateReport& r) { r.statements[0].states.clear(); }},
      {"what was met of quantize is not there",
       [](GateReport& r) { r.statements[0].states.clear(), r.statements[0].coverage.clear(); }},
  };
  for (const Row& row : rows) {
    std::vector<ShardReport> spoilt = shards;
    row.spoil(spoilt[1].report);
    expect_error(ErrorKind::input, row.text, [&] { (void)merged(spoilt); });
  }
  expect_error(ErrorKind::input, "no report", [] { (void)merged({}); });
}

TEST(Merge, machines_that_differ_are_all_named) {
  std::vector<ShardReport> shards = right_shards(2);
  shards[1].report.machine[2].second = "another CPU";
  EXPECT_EQ(merged(shards).machine[2].second, shards[0].report.machine[2].second + "; another CPU");
  EXPECT_EQ(merged(shards).machine[0].second, shards[0].report.machine[0].second);
}

using test::kQuantize;
using test::run_toy;
using test::Toy;

TEST(ReportReader, reads_what_the_report_writes) {
  for (const char* mode : {"", "column_33_is_wrong", "floor", "wrong_from_call_5", "no_experts", "crashes", "limits",
                           "foreign_text", "supports_nothing"}) {
    const GateReport r = run_toy(mode, "[pq]*", 40);
    const std::string text = report_json(r);
    const GateReport again = report_from_json(text, "r.json");
    EXPECT_EQ(report_json(again), text) << mode;
    EXPECT_EQ(report_header(again), report_header(r));
    EXPECT_EQ(report_summary(again), report_summary(r));
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      EXPECT_EQ(statement_line(again.statements[i]), statement_line(r.statements[i]));
      if (r.statements[i].counterexample) {
        EXPECT_EQ(counterexample_text(again, again.statements[i], ""), counterexample_text(r, r.statements[i], ""));
      }
    }
  }
}

TEST(ReportReader, reads_shards) {
  const Toy toy("");
  GateOptions options = test::toy_options(kQuantize, 0);
  options.shard = {1, 3};
  const GateReport r = run_gate(options, [](const StatementResult&, bool) {});
  const std::string text = report_json(r);
  EXPECT_EQ(report_json(report_from_json(text, "r.json")), text);
}

// The changed report is refused in one line that begins with the file's name and has `what`.
void expect_refused(const nlohmann::ordered_json& json, const std::string& what) {
  test::expect_error(ErrorKind::input, what, [&] { (void)report_from_json(json.dump(), "r.json"); });
  try {
    (void)report_from_json(json.dump(), "r.json");
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).rfind("r.json", 0), 0U) << e.what();
  }
}

TEST(ReportReader, refuses_what_is_no_report) {
  const auto good = nlohmann::ordered_json::parse(report_json(run_toy("column_33_is_wrong", kQuantize)));
  struct Row {
    const char* pointer;
    nlohmann::ordered_json value;
    const char* what;
  };
  const Row rows[] = {
      {"/schema", "mxcheck.gate/2", "is not mxcheck.gate/1"},
      {"/seed", -1, "seed"},
      {"/seed", "x", "seed"},
      {"/soak", nlohmann::ordered_json::object(), "soak"},
      {"/surprise", 1, "surprise"},
      {"/machine/gpu", 3, "gpu"},
      {"/variants/0", "op=nothing", "op"},
      {"/candidate/operations/0/name", "knit", "not an operation of this mxcheck"},
      {"/candidate/operations/0/rows_multiple", 0, "rows_multiple"},
      {"/statements/0/name", "all_is_well", "not a statement of this mxcheck: all_is_well"},
      {"/statements/0/verdict", "fine", "is not a verdict"},
      {"/statements/0/verdict", "held", "contradicts the counterexample"},
      {"/statements/0/cases", -1, "cases"},
      {"/statements/0/cases", 1e300, "cases"},
      {"/statements/0/counterexample/case", "op=quantize", "r.json"},
      {"/statements/0/counterexample/first", {1}, "is not [row, column]"},
      {"/statements/0/counterexample/kind", "odd", "is not a kind of finding"},
      {"/statements/0/counterexample/rows", 77, "are not those of the case"},
      {"/statements/0/counterexample/fresh_process/after", {"0 x op=quantize"}, "r.json"},
      {"/shard", {{"index", 3}, {"count", 2}, {"may_be_empty", false}}, "index"},
      {"/shard", {{"index", 1}, {"count", 1}, {"may_be_empty", false}}, "count"},
      {"/statements/0/to_merge",
       {{"states", nlohmann::ordered_json::array()}, {"cases_by_variant", "5:1/2/3"}},
       "unknown variant"},
      {"/statements/0/to_merge",
       {{"states", nlohmann::ordered_json::array()}, {"cases_by_variant", "0:1/2"}},
       "is not a list of"},
      {"/statements/0/to_merge",
       {{"states", nlohmann::ordered_json::array()}, {"cases_by_variant", "0:1/-2/3"}},
       "is not a list of"},
  };
  for (const Row& row : rows) {
    nlohmann::ordered_json bad = good;
    bad[nlohmann::ordered_json::json_pointer(row.pointer)] = row.value;
    SCOPED_TRACE(row.pointer);
    expect_refused(bad, row.what);
  }
  for (const char* key : {"schema", "seed", "candidate", "machine", "variants", "statements", "arguments"}) {
    nlohmann::ordered_json bad = good;
    bad.erase(key);
    expect_refused(bad, key);
  }
}

// Cut anywhere, or with any byte another, it is read or refused.
TEST(ReportReader, damage_is_refused_or_harmless) {
  const std::string good = report_json(run_toy("column_33_is_wrong", kQuantize));
  Draw draw(1);
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    const std::size_t at = draw.below(bad.size());
    if (i % 2 == 0) {
      bad.resize(at);
    } else {
      bad[at] = static_cast<char>(draw.below(256));
    }
    try {
      (void)report_json(report_from_json(bad, "r.json"));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input) << e.what();
    }
  }
}

}  // namespace
}  // namespace mxcheck

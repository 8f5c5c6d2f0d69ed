#include "properties/merge/report_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "properties/core/rng.h"
#include "properties/report/report.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::run_toy;
using test::Toy;

constexpr const char* kQuantize = "quantize_equals_the_reference";

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

// What becomes of a report in which this is otherwise: refused in one line that begins with the file's name.
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
      {"/candidate/operations/0/name", "knit", "no operation of this mxcheck"},
      {"/candidate/operations/0/rows_multiple", 0, "rows_multiple"},
      {"/statements/0/name", "all_is_well", "no statement of this mxcheck: all_is_well"},
      {"/statements/0/verdict", "fine", "is no verdict"},
      {"/statements/0/verdict", "held", "contradicts the counterexample"},
      {"/statements/0/cases", -1, "cases"},
      {"/statements/0/cases", 1e300, "cases"},
      {"/statements/0/counterexample/case", "op=quantize", "r.json"},
      {"/statements/0/counterexample/first", {1}, "is no [row, column]"},
      {"/statements/0/counterexample/kind", "odd", "is no kind of finding"},
      {"/statements/0/counterexample/rows", 77, "are not those of the case"},
      {"/statements/0/counterexample/fresh_process/after", {"0 x op=quantize"}, "r.json"},
      {"/shard", {{"index", 3}, {"count", 2}, {"may_be_empty", false}}, "index"},
      {"/shard", {{"index", 1}, {"count", 1}, {"may_be_empty", false}}, "count"},
      {"/statements/0/to_merge",
       {{"states", nlohmann::ordered_json::array()}, {"cases_by_variant", "5:1/2/3"}},
       "variant that there is not"},
      {"/statements/0/to_merge",
       {{"states", nlohmann::ordered_json::array()}, {"cases_by_variant", "0:1/2"}},
       "is no list of"},
      {"/statements/0/to_merge",
       {{"states", nlohmann::ordered_json::array()}, {"cases_by_variant", "0:1/-2/3"}},
       "is no list of"},
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

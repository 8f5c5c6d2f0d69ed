// An operation that mxcheck does not know, from its descriptor to its replay: nothing outside this folder is told of it
// but by add_module() below.

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "goldens/io/tensor_file.h"
#include "properties/gate/gate.h"
#include "properties/gate/statement_run.h"
#include "properties/records/replay.h"
#include "properties/report/report.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/drawn.h"
#include "tests/properties/toy_operation/operation.h"

namespace mxcheck {
namespace {

// Before the first look at the registry.
[[maybe_unused]] const bool kRegistered = [] {
  add_module(multiply_module);
  return true;
}();

constexpr const char* kStatement = "multiply_equals_the_reference";

// The candidate is wrong for the length of a scope.
struct Wrong {
  Wrong() { setenv("MULTIPLY_WRONG", "1", 1); }
  ~Wrong() { unsetenv("MULTIPLY_WRONG"); }
  Wrong(const Wrong&) = delete;
  Wrong& operator=(const Wrong&) = delete;
};

GateOptions options(const std::string& only) {
  GateOptions o;
  o.tool = MXCHECK_TOOL, o.library = MXCHECK_TOY_OPERATION;
  o.only = only, o.cases = 60, o.seed = 7;
  return o;
}

GateReport run(const GateOptions& o) {
  return run_gate(o, [](const StatementResult&, bool) {});
}

const StatementResult& result_of(const GateReport& report, std::string_view name) {
  for (const StatementResult& r : report.statements) {
    if (r.statement->name == name) return r;
  }
  throw Error(ErrorKind::internal, "no statement " + std::string(name));
}

TEST(ToyOperation, cases_are_written_and_read) {
  const std::string text = "op=multiply x=fp32 rows=3 cols=5 data=normal seed=7 plant=2,4:3f800000 factor=-0.75";
  const Case c = parse_case(text);
  EXPECT_EQ(multiply_case(c).factor, -0.75F);
  EXPECT_EQ(to_text(c), text);
  EXPECT_EQ(parse_variant("op=multiply x=fp32"), c.variant);
  Case other = c;
  multiply_case(other).factor = 2;
  EXPECT_NE(other, c);
  test::expect_error(ErrorKind::usage, "factor=two", [] { (void)parse_case("op=multiply factor=two"); });
  test::expect_error(ErrorKind::usage, "block=1x32 is not a field of op=multiply",
                     [] { (void)parse_case("op=multiply block=1x32"); });
  test::expect_error(ErrorKind::usage, "neither strides", [] { (void)parse_case("op=multiply cols=1 stride=2"); });
}

TEST(ToyOperation, the_candidate_offers_it_and_cases_are_drawn) {
  CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY_OPERATION, std::chrono::seconds(20));
  const std::vector<Variant> variants = offered_variants(process);
  ASSERT_EQ(variants.size(), 1U);
  EXPECT_EQ(to_text(variants[0]), "op=multiply x=fp32");
  const std::vector<Statement> statements = multiply_module().statements;
  Draw words(1);
  for (int i = 0; i < 200; ++i) {
    const Case c = test::draw_case(statements[0], variants, process, words);
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
  }
}

// Every statement: its own, and those about the conduct of every operation.
TEST(ToyOperation, a_right_candidate_holds) {
  const GateReport r = run(options("*"));
  EXPECT_EQ(exit_code(r), 0);
  for (const StatementResult& s : r.statements) {
    EXPECT_TRUE(s.verdict == Verdict::held || s.verdict == Verdict::not_offered)
        << s.statement->name << ": " << (s.counterexample ? s.counterexample->finding.summary : s.reason);
  }
  for (const char* name : {kStatement, "nothing_is_accessed_outside_the_tensors", "the_thread_count_changes_nothing",
                           "the_same_call_gives_the_same_bytes", "bad_arguments_are_refused_and_nothing_is_written"}) {
    EXPECT_EQ(result_of(r, name).verdict, Verdict::held) << name;
  }
}

TEST(ToyOperation, a_wrong_candidate_fails_with_a_minimal_case_and_every_report_tells_it) {
  const Wrong wrong;
  const GateReport r = run(options(kStatement));
  EXPECT_EQ(exit_code(r), 1);
  const StatementResult& s = result_of(r, kStatement);
  ASSERT_TRUE(s.counterexample);
  // The first wrong column is the fifth; one element is not zero.
  const Case& minimal = s.counterexample->minimal;
  EXPECT_EQ(minimal.rows, 1) << to_text(minimal);
  EXPECT_EQ(minimal.cols, 5) << to_text(minimal);
  EXPECT_EQ(minimal.data, Data::zeros) << to_text(minimal);
  EXPECT_EQ(minimal.plants.size(), 1U) << to_text(minimal);
  EXPECT_EQ(multiply_case(minimal).factor, 2) << to_text(minimal);

  EXPECT_EQ(s.counterexample->finding.matches, std::vector<std::string>{"x from the fifth column on"});

  const std::string text = counterexample_text(r, s, "");
  for (const std::string& part : {std::string("y differ from the reference"), std::string("first at (0, 4)"),
                                  std::string("input     x = 0x"), "case      " + to_text(minimal)}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = nlohmann::json::parse(report_json(r));
  EXPECT_EQ(json["statements"][0]["counterexample"]["cols"], 5);
  EXPECT_NE(report_junit(r).find("<failure type=\"mismatch\""), std::string::npos) << report_junit(r);

  const GateReport again = reproduce(options("*"), std::string(kStatement) + ": " + to_text(minimal));
  EXPECT_EQ(exit_code(again), 1);
  EXPECT_EQ(again.statements[0].counterexample->finding.summary, s.counterexample->finding.summary);

  const test::TemporaryDirectory dir;
  const SafetensorsFile file = read_safetensors(
      save_counterexample(r, s, dir / "cases", tensors_of_minimal(r, *s.counterexample, options("*"))));
  EXPECT_EQ(file.metadata.at("case"), to_text(minimal));
  std::vector<std::string> names;
  for (const Tensor& t : file.tensors) names.push_back(t.name);
  for (const char* name : {"x", "expected_y", "observed_y"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

TEST(ToyOperation, a_run_is_recorded_written_read_and_replayed) {
  GateOptions o = options("*");
  o.record = true;
  const GateReport report = run(o);
  ASSERT_TRUE(report.record);
  const test::TemporaryDirectory dir;
  write_record(dir / "r.h5", *report.record);
  Record record = read_record(dir / "r.h5");
  const ReplayReport again = replay(record, 1, [](const ReplayedStatement&) {});
  EXPECT_TRUE(again.equal());
  EXPECT_GT(again.cases(), 60);
  record.kept.front().bytes.back() ^= std::byte{0x01};  // one bit of what the candidate returned
  EXPECT_FALSE(replay(record, 1, [](const ReplayedStatement&) {}).equal());
}

}  // namespace
}  // namespace mxcheck

#include "properties/gate/gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "properties/report/coverage_text.h"
#include "properties/report/report.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::result_of;
using test::run_toy;
using test::Toy;
using test::toy_options;

constexpr const char* kQuantize = "quantize_equals_the_reference";

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nexpected: " << part;
}

TEST(Gate, a_right_candidate_holds_and_what_it_does_not_offer_is_said) {
  const GateReport r = run_toy("", "*", 100);
  EXPECT_EQ(exit_code(r), 0);
  EXPECT_EQ(r.variants.size(), 1U);
  for (const StatementResult& s : r.statements) {
    EXPECT_TRUE(s.verdict == Verdict::held || s.verdict == Verdict::not_offered) << s.statement->name << s.reason;
    EXPECT_EQ(s.verdict == Verdict::held, s.cases > 0) << s.statement->name;
  }
  EXPECT_EQ(result_of(r, kQuantize).verdict, Verdict::held);
  EXPECT_EQ(result_of(r, "dequantize_equals_the_reference").verdict, Verdict::not_offered);
  EXPECT_EQ(result_of(r, "bad_arguments_are_refused_and_nothing_is_written").verdict, Verdict::held);
  EXPECT_EQ(r.candidate.name, "toy");
  EXPECT_EQ(r.candidate.version, "1 <beta> & ?");  // what is not ASCII would break JSON and XML
}

TEST(Gate, every_way_of_being_wrong_is_caught_by_name) {
  struct Row {
    const char* mode;
    const char* statement;
    const char* summary;
    FindingKind kind;
    int code;
  };
  const Row rows[] = {
      {"column_33_is_wrong", kQuantize, "codes differ from the reference", FindingKind::mismatch, 1},
      {"floor", kQuantize, "scales differ from the reference", FindingKind::mismatch, 1},
      {"ignores_byte_offset", kQuantize, "wrote", FindingKind::out_of_bounds, 1},
      {"never_writes_scales", kQuantize, "scales differ", FindingKind::mismatch, 1},
      {"writes_past", kQuantize, "wrote before output 1", FindingKind::out_of_bounds, 1},
      {"writes_its_input", kQuantize, "wrote into input 0", FindingKind::out_of_bounds, 1},
      {"past_its_workspace", kQuantize, "past its workspace", FindingKind::out_of_bounds, 1},
      {"wants_everything", kQuantize, "could not allocate the workspace", FindingKind::refused, 1},
      {"foreign_text", kQuantize, "status 5, \"?? <caf?> & \"more\"?\"", FindingKind::refused, 1},
      {"forgetful", "the_same_call_gives_the_same_bytes", "differ between two runs", FindingKind::mismatch, 1},
      {"no_message", "bad_arguments_are_refused_and_nothing_is_written", "refused without a message",
       FindingKind::refused, 1},
      {"writes_when_refusing", "bad_arguments_are_refused_and_nothing_is_written", "refused but wrote",
       FindingKind::refused, 1},
      {"crashes", kQuantize, "died (signal 11", FindingKind::fault, 6},
      {"crashes_once", kQuantize, "died (signal 6", FindingKind::fault, 6},
      {"exits", kQuantize, "it exited", FindingKind::fault, 6},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.mode);
    const GateReport r = run_toy(row.mode, row.statement);
    const StatementResult& s = result_of(r, row.statement);
    EXPECT_EQ(exit_code(r), row.code);
    ASSERT_TRUE(s.counterexample) << s.reason;
    EXPECT_EQ(s.verdict, Verdict::failed);
    EXPECT_EQ(s.counterexample->finding.kind, row.kind);
    expect_contains(s.counterexample->finding.summary, row.summary);
  }
}

// One process for all statements: the one before has made calls that are refused.
TEST(Gate, a_library_that_a_refusal_spoils_for_good_is_caught) {
  const Toy toy("wrong_after_a_refusal");
  GateOptions options = toy_options("*_refuse*");
  options.jobs = 1;
  const GateReport r = run_gate(options, [](const StatementResult&, bool) {});
  EXPECT_EQ(result_of(r, "bad_arguments_are_refused_and_nothing_is_written").verdict, Verdict::held);
  EXPECT_EQ(result_of(r, "a_refused_call_changes_nothing_after_it").verdict, Verdict::failed);
  EXPECT_EQ(exit_code(r), 1);
}

TEST(Gate, the_minimal_case_is_minimal_and_reproduces) {
  const GateReport r = run_toy("column_33_is_wrong", kQuantize);
  const Counterexample& e = *result_of(r, kQuantize).counterexample;
  EXPECT_EQ(e.minimal.rows, 1) << to_text(e.minimal);
  EXPECT_EQ(e.minimal.cols, 34) << to_text(e.minimal);
  EXPECT_EQ(e.minimal.data, Data::zeros);
  EXPECT_EQ(e.finding.difference->first.col, 33);
  const Toy toy("column_33_is_wrong");
  const GateReport again = reproduce(toy_options(), std::string(kQuantize) + ": " + to_text(e.minimal));
  ASSERT_EQ(again.statements.size(), 1U);
  EXPECT_EQ(exit_code(again), 1);
  EXPECT_EQ(again.statements[0].counterexample->finding.summary, e.finding.summary);
  EXPECT_EQ(again.statements[0].counterexample->finding.element, e.finding.element);
  EXPECT_EQ(again.statements[0].counterexample->minimal, e.minimal) << to_text(e.minimal);
  EXPECT_FALSE(again.statements[0].counterexample->shrink_budget_spent);
}

TEST(Gate, the_likeliest_cause_is_named) {
  const GateReport r = run_toy("floor", kQuantize);
  const std::vector<std::string>& matches = result_of(r, kQuantize).counterexample->finding.matches;
  EXPECT_NE(std::find(matches.begin(), matches.end(), "recipe floor"), matches.end());
}

TEST(Gate, reproducing_a_case_that_holds_is_0_and_one_that_says_nothing_is_4) {
  const Toy toy("no_experts");
  const std::string variant = "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 ";
  const GateReport held =
      reproduce(toy_options(), std::string(kQuantize) + ": " + variant + "rows=3 cols=40 data=normal seed=1");
  EXPECT_EQ(exit_code(held), 0);
  EXPECT_EQ(held.statements[0].verdict, Verdict::held);
  const GateReport silent =
      reproduce(toy_options(), std::string(kQuantize) + ": " + variant + "rows=3 cols=40 experts=0,3 data=normal");
  EXPECT_EQ(exit_code(silent), 4);
  EXPECT_EQ(silent.statements[0].verdict, Verdict::inconclusive);
  expect_contains(silent.statements[0].reason, "does not offer");
}

TEST(Gate, reproduce_refuses_what_it_cannot_run) {
  const Toy toy("");
  const std::string variant =
      "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 cols=1 data=zeros seed=0";
  for (const auto& [line, message] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense", "takes 'STATEMENT: CASE'"},
           {"no_such_statement: " + variant, "no statement 'no_such_statement'"},
           {std::string(kQuantize) + ": rows=x", "a case without op="},
           {std::string(kQuantize) + ": op=quantize rows=x", "case field rows=x"},
           {std::string(kQuantize) + ": op=quantize format=e5m2 rows=1 cols=1", "does not offer"},
           {"dequantize_equals_the_reference: " + variant, "is not about"}}) {
    test::expect_error(ErrorKind::usage, message, [&, line = line] { (void)reproduce(toy_options(), line); });
  }
}

TEST(Gate, a_candidate_with_multiples_or_limits_is_not_called_wrong_for_them) {
  for (const char* mode : {"multiples", "limits", "no_experts"}) {
    SCOPED_TRACE(mode);
    const GateReport r = run_toy(mode, "[!el]*", 100);
    for (const StatementResult& s : r.statements) {
      EXPECT_TRUE(s.verdict == Verdict::held || s.verdict == Verdict::not_offered)
          << s.statement->name << ": " << (s.counterexample ? s.counterexample->finding.summary : s.reason);
    }
    EXPECT_EQ(exit_code(r), 0);
    EXPECT_GT(result_of(r, kQuantize).cases, 66);
  }
  EXPECT_EQ(result_of(run_toy("multiples", "every_amax_*"), "every_amax_is_scaled_as_the_reference").verdict,
            Verdict::held);
  EXPECT_EQ(result_of(run_toy("no_experts", "experts_*"), "experts_do_not_see_each_other").verdict,
            Verdict::not_offered);
}

TEST(Gate, an_error_shrinks_within_the_multiples) {
  const GateReport r = run_toy("multiples,column_33_is_wrong", kQuantize);
  ASSERT_TRUE(result_of(r, kQuantize).counterexample);
  const Case& minimal = result_of(r, kQuantize).counterexample->minimal;
  EXPECT_EQ(minimal.rows, 48) << to_text(minimal);
  EXPECT_EQ(minimal.cols, 80) << to_text(minimal);
}

TEST(Gate, a_candidate_that_offers_nothing_is_inconclusive) {
  const GateReport r = run_toy("supports_nothing");
  EXPECT_EQ(exit_code(r), 4);
  EXPECT_EQ(exit_code(GateReport{}), 4);
}

TEST(Gate, a_statement_that_says_nothing_about_any_case_has_not_held) {
  const auto& all = all_statements();
  const auto found = std::find_if(all.begin(), all.end(), [](const Statement& x) { return x.name == kQuantize; });
  ASSERT_NE(found, all.end());
  const Toy toy("");
  const GateOptions options = toy_options("*", 250);
  Statement vacuous = *found;
  vacuous.corners = {};
  vacuous.check = [](CheckContext& context, const Case& c) -> std::optional<Finding> {
    context.nothing_claimed = c.data == Data::boundaries;
    return std::nullopt;
  };
  const StatementResult r = run_statement(vacuous, options);
  EXPECT_EQ(r.verdict, Verdict::held);
  const auto data = std::find_if(r.coverage[0].axes.begin(), r.coverage[0].axes.end(),
                                 [](const AxisCount& axis) { return axis.name == "data"; });
  ASSERT_NE(data, r.coverage[0].axes.end());
  EXPECT_EQ(data->bins[0].label, "boundaries");
  EXPECT_EQ(data->bins[0].checked, 0);
  EXPECT_GT(data->bins[0].nothing_claimed, 0);
  vacuous.check = [](CheckContext& context, const Case&) -> std::optional<Finding> {
    context.nothing_claimed = true;
    return std::nullopt;
  };
  const StatementResult none = run_statement(vacuous, options);
  EXPECT_EQ(none.verdict, Verdict::not_offered);
  expect_contains(none.reason, "says nothing about any shape");
}

// One bin refused throughout is not offered by name; a statement of which every case was refused is not offered.
TEST(Gate, what_is_refused_throughout_is_named) {
  const GateReport r = run_toy("no_experts", kQuantize, 300);
  const StatementResult& s = result_of(r, kQuantize);
  EXPECT_EQ(s.verdict, Verdict::held);
  const std::vector<std::string> lines = not_offered(s);
  ASSERT_FALSE(lines.empty());
  expect_contains(lines[0], "not offered by quantize: experts 1, ..., 512 (18 bins)");
  expect_contains(statement_line(s), lines[0]);
}

TEST(Gate, exit_codes_are_ordered_by_weight) {
  const auto report_of = [](const std::vector<std::pair<Verdict, FindingKind>>& verdicts) {
    GateReport r;
    for (const auto& [verdict, kind] : verdicts) {
      StatementResult s;
      s.verdict = verdict, s.cases = 1;
      if (verdict == Verdict::failed) s.counterexample = Counterexample{{}, {}, {kind, {}, {}, {}, {}, {}}, 0, false};
      r.statements.push_back(std::move(s));
    }
    return r;
  };
  const auto m = FindingKind::mismatch;
  EXPECT_EQ(exit_code(report_of({{Verdict::held, m}, {Verdict::not_offered, m}})), 0);
  EXPECT_EQ(exit_code(report_of({{Verdict::held, m}, {Verdict::inconclusive, m}})), 4);
  EXPECT_EQ(exit_code(report_of({{Verdict::inconclusive, m}, {Verdict::failed, m}})), 1);
  EXPECT_EQ(exit_code(report_of({{Verdict::failed, FindingKind::fault}, {Verdict::failed, m}})), 6);
  GateReport interrupted = report_of({{Verdict::held, m}});
  interrupted.interrupted = true;
  EXPECT_EQ(exit_code(interrupted), 4);
}

TEST(Gate, libraries_that_are_no_candidates_are_refused_with_a_reason) {
  struct Row {
    const char* mode;
    const char* message;
    ErrorKind kind;
  };
  for (const Row& row :
       {Row{"other_version", "speaks interface version 99; this gate speaks version 1", ErrorKind::usage},
        Row{"crashes_on_load", "crashed while it was loaded (signal 11)", ErrorKind::usage},
        Row{"misspelt", "has an operation 'quantise'; known are", ErrorKind::usage},
        Row{"twice", "has operation quantize twice", ErrorKind::usage},
        Row{"wants_cuda", "needs a CUDA device", ErrorKind::environment},
        Row{"supports_crashes", "supports() of operation quantize crashes", ErrorKind::usage}}) {
    test::expect_error(row.kind, row.message, [&] { (void)run_toy(row.mode); });
  }
  GateOptions options = toy_options();
  options.library = MXCHECK_NO_CANDIDATE;
  test::expect_error(ErrorKind::usage, "has no function mxcheck_candidate",
                     [&] { (void)run_gate(options, [](auto&, bool) {}); });
  const test::TemporaryDirectory dir;
  test::write_file(dir / "text.so", "not an ELF file");
  options.library = dir / "text.so";
  test::expect_error(ErrorKind::usage, "cannot be loaded", [&] { (void)run_gate(options, [](auto&, bool) {}); });
  options = toy_options("no_such_*");
  test::expect_error(ErrorKind::usage, "selects no statement", [&] { (void)run_gate(options, [](auto&, bool) {}); });
}

bool has_children() {
  int status = 0;
  return waitpid(-1, &status, WNOHANG) >= 0 || errno != ECHILD;
}

TEST(Gate, no_process_is_left_behind) {
  for (const char* mode : {"", "crashes", "leaves_children", "other_version"}) {
    try {
      (void)run_toy(mode, kQuantize, 5);
    } catch (const Error&) {
    }
    EXPECT_FALSE(has_children()) << mode;
  }
  // Nor one that the library started. Its arguments say nothing: the environment does.
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code unreadable;
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const std::string environment = test::read_file(entry.path() / "environ");
    EXPECT_EQ(environment.find("TOY=leaves_children"), environment.npos) << "process " << name;
  }
}

// That it ends at all is what ctest's time limit sees to.
TEST(Gate, a_hang_is_a_fault_and_ends_by_the_limit) {
  // Who has closed the connection is no longer waited for, but killed.
  for (const auto& [mode, ended] :
       {std::pair{"hangs", "did not return within the time limit"}, {"closes_everything_and_hangs", "signal 9"}}) {
    const Toy toy(mode);
    GateOptions options = toy_options(kQuantize, 1);
    options.time_limit = std::chrono::milliseconds(200);
    const std::string line =
        "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 cols=1 data=zeros seed=0";
    const GateReport r = reproduce(options, std::string(kQuantize) + ": " + line);
    EXPECT_EQ(exit_code(r), 6) << mode;
    EXPECT_EQ(r.statements[0].counterexample->finding.kind, FindingKind::fault);
    expect_contains(r.statements[0].counterexample->finding.summary, ended);
    EXPECT_FALSE(has_children());
  }
}

TEST(Gate, an_interrupt_ends_a_wait_and_nothing_cut_short_has_held) {
  const Toy toy("hangs");
  std::atomic<bool> interrupted{false};
  GateOptions options = toy_options(kQuantize);
  options.time_limit = std::chrono::minutes(5);
  options.interrupted = &interrupted;
  // The interrupt comes when the call is known to hang: the toy leaves a file.
  const test::TemporaryDirectory dir;
  const std::string hangs = dir / "hangs";
  setenv("TOY_HANGS", hangs.c_str(), 1);
  std::atomic<bool> hung{false};
  std::jthread later([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!(hung = std::filesystem::exists(hangs)) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    interrupted = true;
  });
  const GateReport r = run_gate(options, [](const StatementResult&, bool) {});
  later.join();
  unsetenv("TOY_HANGS");
  EXPECT_TRUE(hung);
  EXPECT_TRUE(r.interrupted);
  EXPECT_LT(r.seconds, 300);  // a call may take that long: the wait was cut short
  EXPECT_EQ(exit_code(r), 4);
  for (const StatementResult& s : r.statements) {
    EXPECT_NE(s.verdict, Verdict::held);
  }
  EXPECT_FALSE(has_children());
}

// How many cases met each bin.
std::vector<std::int64_t> counts_of(const StatementResult& r) {
  std::vector<std::int64_t> counts;
  for (const AxisCount& axis : r.coverage.at(0).axes) {
    for (const BinCount& bin : axis.bins) counts.push_back(bin.checked);
  }
  return counts;
}

TEST(Gate, a_run_repeats_itself_for_a_seed) {
  const auto counts = [](std::uint64_t seed) {
    const Toy toy("");
    GateOptions options = toy_options("quantize_*");
    options.seed = seed;
    return counts_of(result_of(run_gate(options, [](const StatementResult&, bool) {}), kQuantize));
  };
  EXPECT_EQ(counts(1), counts(1));
  EXPECT_NE(counts(1), counts(2));
  // A filter does not change the cases of what it leaves in.
  EXPECT_EQ(counts_of(result_of(run_toy("", "[!el]*"), kQuantize)),
            counts_of(result_of(run_toy("", kQuantize), kQuantize)));
}

}  // namespace
}  // namespace mxcheck

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "properties/core/operation.h"
#include "properties/gate/gate.h"
#include "properties/gate/statement_run.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "properties/report/report.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::kQuantize;
using test::result_of;
using test::run_toy;
using test::Toy;
using test::toy_options;

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
      {"writes_past", kQuantize, "wrote past the end of output 0, codes", FindingKind::out_of_bounds, 1},
      {"writes_its_input", kQuantize, "wrote into input 0", FindingKind::out_of_bounds, 1},
      {"past_its_workspace", kQuantize, "past its workspace", FindingKind::out_of_bounds, 1},
      {"wants_everything", kQuantize, "could not allocate the workspace", FindingKind::refused, 1},
      {"foreign_text", kQuantize, "status MXCHECK_FAILED (5), \"?? <caf?> & \"more\"?\"", FindingKind::refused, 1},
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

// A NaN that any case with one meets hides no wrong value that only some rows have, and the other way round.
TEST(Gate, a_failure_of_one_kind_hides_none_of_another) {
  for (const char* mode : {"nan_with_a_sign,row_40_is_wrong", "nan_with_a_sign,column_33_is_wrong"}) {
    SCOPED_TRACE(mode);
    const GateReport r = run_toy(mode, kQuantize);
    const Counterexample& e = *result_of(r, kQuantize).counterexample;
    ASSERT_EQ(e.others.size(), 1U);
    EXPECT_NE(e.finding.difference->kinds, std::set{e.others[0].kind});
    const std::string text = counterexample_text(r, result_of(r, kQuantize), "");
    expect_contains(text, std::string("  also      ") + to_text(e.others[0].kind) + ": ");
    const Toy toy(mode);
    const GateReport again = reproduce(toy_options(), std::string(kQuantize) + ": " + to_text(e.others[0].minimal));
    EXPECT_TRUE(again.statements[0].counterexample->finding.difference->kinds.contains(e.others[0].kind));
    expect_contains(report_json(r), "\"others\"");
  }
  const GateReport apart = run_toy("nan_with_a_sign,row_40_is_wrong", kQuantize);
  expect_contains(counterexample_text(apart, result_of(apart, kQuantize), ""),
                  "cause     a NaN code with the sign set: gives every bit of ");
}

// Codes one step too far from zero are other values, and NaN in place of the largest one.
TEST(Gate, a_kind_that_the_cause_explains_is_not_told_again) {
  const GateReport r = run_toy("codes_one_too_far", kQuantize);
  const Counterexample& e = *result_of(r, kQuantize).counterexample;
  EXPECT_EQ(e.finding.matches, std::vector<std::string>{"results of codes one step too far from zero"});
  EXPECT_TRUE(e.others.empty()) << to_text(e.others[0].kind);
}

TEST(Gate, what_explains_the_first_statement_is_named_in_the_others) {
  const auto result = [](Variant v, std::vector<std::string> matches, std::vector<NamedCause> explaining) {
    StatementResult r;
    r.counterexample.emplace().minimal.variant = std::move(v);
    r.counterexample->finding.matches = std::move(matches);
    r.counterexample->finding.explaining = std::move(explaining);
    r.counterexample->finding.likely = {"something"};
    return r;
  };
  const Variant quantize = parse_variant("op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16");
  const Variant dequantize = parse_variant("op=dequantize format=e4m3 recipe=rceil block=1x32 layout=compact x=fp32");
  const NamedCause floor{"floor", "floor", 8, 80}, cut{"cut", "cut", 8, 80};
  const NamedCause in_row{"floor", "floor, only in row 3", 2, 9, true};
  std::vector<StatementResult> all{result(quantize, {"floor", "cut"}, {floor, cut}), result(quantize, {}, {in_row}),
                                   result(quantize, {"ties"}, {{"ties", "ties", 3, 7}, in_row}),
                                   result(quantize, {"ties"}, {{"ties", "ties", 3, 7}, floor}),
                                   result(dequantize, {"ties"}, {{"ties", "ties", 3, 7}, floor})};
  prefer_common_causes(all);
  const auto names = [&](std::size_t i) { return all[i].counterexample->finding.matches; };
  EXPECT_EQ(names(0), std::vector<std::string>{"floor"});
  EXPECT_EQ(names(1), std::vector<std::string>{"floor, only in row 3"});
  EXPECT_EQ(all[1].counterexample->finding.matched, 9);
  EXPECT_TRUE(all[1].counterexample->finding.likely.empty());
  EXPECT_EQ(names(2), std::vector<std::string>{"ties"});  // which needs no rule
  EXPECT_EQ(names(3), std::vector<std::string>{"floor"});
  EXPECT_EQ(names(4), std::vector<std::string>{"ties"});  // of another operation
}

TEST(Gate, a_refused_option_is_named) {
  const GateReport r = run_toy("no_experts", "experts_do_not_see_each_other");
  expect_contains(result_of(r, "experts_do_not_see_each_other").reason,
                  "the candidate refused expert offsets, which each of ");
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
  const GateReport silent = reproduce(
      toy_options(), std::string(kQuantize) + ": " + variant + "rows=3 cols=40 experts=0,3 data=normal seed=1");
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
           {std::string(kQuantize) + ": op=quantize format=e5m2 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 "
                                     "cols=1 data=zeros seed=0",
            "does not offer"},
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
    context.not_applicable = c.data == Data::boundaries;
    return std::nullopt;
  };
  const StatementResult r = run_statement(vacuous, options);
  EXPECT_EQ(r.verdict, Verdict::held);
  const auto data = std::find_if(r.coverage[0].axes.begin(), r.coverage[0].axes.end(),
                                 [](const AxisCount& axis) { return axis.name == "data"; });
  ASSERT_NE(data, r.coverage[0].axes.end());
  EXPECT_EQ(data->bins[0].label, "boundaries");
  EXPECT_EQ(data->bins[0].checked, 0);
  EXPECT_GT(data->bins[0].not_applicable, 0);
  vacuous.check = [](CheckContext& context, const Case&) -> std::optional<Finding> {
    context.not_applicable = true;
    return std::nullopt;
  };
  const StatementResult none = run_statement(vacuous, options);
  EXPECT_EQ(none.verdict, Verdict::not_offered);
  expect_contains(none.reason, "the statement applies to no shape");
}

// A verdict of all cases together: what the tally concludes.
TEST(Gate, a_statement_of_all_cases_together_is_judged_at_the_end) {
  struct Sum final : RunTally {
    mutable int concluded = 0;
    std::int64_t cases = 0;
    Case last;
    [[nodiscard]] Conclusion conclusion() const override {
      ++concluded;
      Conclusion c;
      if (cases == 1) c.undecided = "one case is none";
      if (cases > 100) c.finding.emplace().summary = std::to_string(cases) + " cases are too many";
      c.note = "some cases", c.example = last;
      return c;
    }
  };
  const auto& all = all_statements();
  Statement of_all = *std::find_if(all.begin(), all.end(), [](const Statement& x) { return x.name == kQuantize; });
  std::shared_ptr<Sum> sum;
  of_all.corners = {}, of_all.covers_pairs = false;
  of_all.tally = [&] { return sum = std::make_shared<Sum>(); };
  std::int64_t most = 0;
  of_all.check = [&](CheckContext& context, const Case& one) -> std::optional<Finding> {
    auto& tally = dynamic_cast<Sum&>(*context.tally);
    if (tally.cases == most) context.not_applicable = true;
    if (tally.cases < most) ++tally.cases, tally.last = one;
    return std::nullopt;
  };
  const Toy toy("");
  const auto run = [&](std::int64_t cases) {
    most = cases;
    return run_statement(of_all, toy_options("*", 250));
  };
  const StatementResult held = run(50);
  EXPECT_EQ(sum->concluded, 1);
  EXPECT_EQ(held.verdict, Verdict::held);
  expect_contains(statement_line(held), "some cases");
  const StatementResult undecided = run(1);
  EXPECT_EQ(undecided.verdict, Verdict::inconclusive);
  EXPECT_EQ(undecided.reason, "one case is none");
  const StatementResult failed = run(101);
  ASSERT_EQ(failed.verdict, Verdict::failed);
  EXPECT_TRUE(is_of_all_cases(failed));
  GateReport report;
  report.candidate.path = "lib.so", report.arguments = "--suite quick --seed 7";
  EXPECT_EQ(again_command(report, failed), "mxcheck gate --candidate lib.so --suite quick --seed 7");
  const std::string text = counterexample_text(report, failed, "");
  expect_contains(text, "101 cases are too many");
  EXPECT_EQ(text.find("shrunk"), std::string::npos) << text;
}

// One bin refused throughout is not offered by name; a statement of which every case was refused is not offered.
TEST(Gate, what_is_refused_throughout_is_named) {
  const GateReport r = run_toy("no_experts", kQuantize, 300);
  const StatementResult& s = result_of(r, kQuantize);
  EXPECT_EQ(s.verdict, Verdict::held);
  const std::vector<std::string> lines = not_offered(s);
  ASSERT_FALSE(lines.empty());
  expect_contains(lines[0], "not offered by quantize: experts 1, ..., 512 (18 bins)");
  expect_contains(not_offered_text(r), "refused       quantize: experts 1, ..., 512 (18 bins)");
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
  // No process that the library started is left either. Its arguments say nothing: the environment does.
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
  GateOptions options = toy_options("[qt]*");
  options.jobs = 1;
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
  ASSERT_FALSE(r.not_begun.empty());
  EXPECT_EQ(r.statements.size() + r.not_begun.size(), r.planned);
  for (const Statement* s : r.not_begun) {
    EXPECT_NE(s->name, kQuantize);
    expect_contains(report_summary(r), "not begun     " + std::string(s->name) + "\n");
  }
  EXPECT_FALSE(has_children());
}

// The number of cases that met each bin.
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

Case draw(Draw& words) {
  Case c;
  c.variant.operation = "quantize", blocks_of(c.variant).block = {1, 32};
  c.rows = words.between(1, 300), c.cols = words.between(1, 300);
  c.seed = words.word() >> 16, c.data = Data::normal;
  if (words.chance(30)) c.stride = c.cols + 3;
  if (words.chance(50)) c.experts = {0, c.rows / 2, c.rows};
  c.threads = static_cast<int>(words.below(4));
  return c;
}

std::vector<Case> simpler_cases(const Case& c, const Finding& finding) {
  return operation_named(c.variant.operation).simpler(c, finding);
}

// Fails where a kernel that breaks off after 33 columns would.
std::optional<Finding> wrong_past_column_33(const Case& c) {
  if (c.cols <= 33 || c.rows < 5) return std::nullopt;
  Finding f;
  f.summary = "wrong";
  return f;
}

SearchResult run(const CheckCase& check, SearchLimits limits = {}, std::uint64_t seed = 7) {
  return search("a_test", seed, limits, draw, check, simpler_cases);
}

TEST(Search, shrinks_to_the_smallest_case_that_fails) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SearchResult r = run(wrong_past_column_33, {}, seed);
    ASSERT_TRUE(r.minimal);
    EXPECT_EQ(r.minimal->rows, 5) << to_text(*r.minimal);
    EXPECT_EQ(r.minimal->cols, 34) << to_text(*r.minimal);
    EXPECT_TRUE(r.minimal->experts.empty());
    EXPECT_EQ(r.minimal->stride, 0);
    EXPECT_EQ(r.minimal->threads, 0);
    EXPECT_EQ(r.minimal->data, Data::zeros);
    EXPECT_EQ(r.minimal->seed, 1U);
    EXPECT_GT(r.original->elements(), r.minimal->elements());
    EXPECT_FALSE(r.shrink_budget_spent);
    EXPECT_EQ(r.finding->summary, "wrong");
    EXPECT_LE(r.shrink_tries, 200);
  }
}

TEST(Search, a_threshold_far_away_is_found_in_few_tries) {
  const auto large = [](Draw&) { return parse_case("op=quantize block=1x32 rows=539325 cols=32 data=zeros seed=1"); };
  for (const std::int64_t threshold : {2, 32767, 524289, 539324}) {
    int repeated = 0;
    std::set<std::string> seen;
    const CheckCase check = [&](const Case& c) -> std::optional<Finding> {
      repeated += seen.insert(to_text(c)).second ? 0 : 1;
      return c.rows >= threshold ? std::optional<Finding>(Finding{}) : std::nullopt;
    };
    const SearchResult r = search("a_test", 1, {}, large, check, simpler_cases);
    ASSERT_TRUE(r.minimal);
    EXPECT_EQ(r.minimal->rows, threshold);
    EXPECT_EQ(r.minimal->cols, 1);
    EXPECT_LE(r.shrink_tries, 80);
    EXPECT_EQ(repeated, 0);
  }
}

TEST(Search, neighbours_that_lead_back_do_not_keep_it_from_ending) {
  const auto start = [](Draw&) { return parse_case("op=quantize block=1x32 rows=8 cols=8 data=zeros seed=1"); };
  const CheckCase fails = [](const Case&) { return std::optional<Finding>(Finding{}); };
  const SimplerCases round_and_round = [](const Case& c, const Finding&) {
    Case itself = c, other = c;
    other.rows = c.rows == 8 ? 4 : 8;
    return std::vector<Case>{itself, other};
  };
  const SearchResult r = search("a_test", 1, {}, start, fails, round_and_round);
  ASSERT_TRUE(r.minimal);
  EXPECT_EQ(r.minimal->rows, 4);
  EXPECT_EQ(r.shrink_tries, 1);
  EXPECT_FALSE(r.shrink_budget_spent);
}

TEST(Search, a_case_that_cannot_shrink_is_its_own_minimum) {
  const SearchResult r = run([](const Case& c) {
    static std::optional<Case> only;
    if (!only) only = c;
    return c == *only ? std::optional<Finding>(Finding{}) : std::nullopt;
  });
  ASSERT_TRUE(r.minimal);
  EXPECT_EQ(*r.minimal, *r.original);
}

TEST(Search, nothing_is_found_where_nothing_fails_and_every_case_is_counted) {
  int calls = 0;
  const SearchResult r = run([&](const Case&) { return ++calls, std::nullopt; }, {.cases = 123});
  EXPECT_EQ(r.cases, 123);
  EXPECT_EQ(calls, 123);
  EXPECT_FALSE(r.minimal);
  EXPECT_EQ(r.gave_up, "");
}

TEST(Search, says_when_the_budget_was_spent) {
  const SearchResult few = run(wrong_past_column_33, {.shrink_tries = 2});
  EXPECT_TRUE(few.shrink_budget_spent);
  EXPECT_EQ(few.shrink_tries, 2);
  ASSERT_TRUE(few.minimal);
  EXPECT_TRUE(wrong_past_column_33(*few.minimal));
  const SearchResult none = run(wrong_past_column_33, {.shrink_tries = 0});
  EXPECT_FALSE(none.shrink_budget_spent);  // none was asked for
  EXPECT_EQ(*none.minimal, *none.original);
  const SearchResult no_time = run(wrong_past_column_33, {.shrink_time = std::chrono::seconds(0)});
  EXPECT_TRUE(no_time.shrink_budget_spent);
  EXPECT_LT(no_time.shrink_tries, 3);
}

TEST(Search, exceptions_of_the_check_pass_through_and_end_it) {
  int calls = 0;
  EXPECT_THROW(run([&](const Case&) -> std::optional<Finding> {
                 if (++calls == 10) throw std::runtime_error("broken");
                 return std::nullopt;
               }),
               std::runtime_error);
  EXPECT_EQ(calls, 10);
  calls = 0;
  EXPECT_THROW(run([&](const Case& c) -> std::optional<Finding> {  // while shrinking, too
                 if (calls > 0) throw std::runtime_error("broken");
                 std::optional<Finding> f = wrong_past_column_33(c);
                 calls += f ? 1 : 0;
                 return f;
               }),
               std::runtime_error);
}

TEST(Search, the_seed_decides_the_cases) {
  const auto cases_of = [](std::uint64_t seed) {
    std::vector<Case> cases;
    run([&](const Case& c) { return cases.push_back(c), std::nullopt; }, {.cases = 50}, seed);
    return cases;
  };
  EXPECT_EQ(cases_of(3), cases_of(3));
  EXPECT_NE(cases_of(3), cases_of(4));
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

// It holds for libraries that refuse options too: then the next cases depend on how the last ones ended.
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

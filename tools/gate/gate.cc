// mxcheck gate: a kernel library in, a verdict and the smallest counterexamples out.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <random>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "properties/gate/gate.h"
#include "properties/gate/soak.h"
#include "properties/report/coverage_text.h"
#include "properties/report/page/page.h"
#include "properties/report/report.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

constexpr double kNoSoak = std::numeric_limits<double>::lowest();

struct Options {
  std::string candidate = "cpu";
  std::string suite = "quick";
  std::string only = "*";
  std::string seed;
  std::string junit;
  std::string html;
  std::string reproduce;
  std::vector<std::string> after;
  double soak = kNoSoak;  // minutes
  [[nodiscard]] bool soaks() const { return soak != kNoSoak; }
  std::string record;
  std::string save = "mxcheck-cases";
  int cases = 0;
  double time_limit = 20;
  double first_call_limit = 300;
  bool verdict_apart = false;
  bool fail_fast = false;
  bool json = false;
  bool list = false;
  bool coverage = false;
  int jobs = 0;
};

std::atomic<bool> interrupted{false};
void on_signal(int) { interrupted.store(true); }

Suite parse_suite(const std::string& name) {
  for (Suite suite : {Suite::quick, Suite::full, Suite::exhaustive}) {
    if (name == to_text(suite)) return suite;
  }
  throw Error(ErrorKind::usage, "unknown suite '" + name + "'; known are quick, full, exhaustive");
}

std::uint64_t parse_seed(const std::string& text) {
  if (text.empty()) {
    std::random_device source;
    return (std::uint64_t{source()} << 16 ^ source()) & ((std::uint64_t{1} << 48) - 1);
  }
  std::size_t end = 0;
  std::uint64_t seed = 0;
  try {
    if (text[0] >= '0' && text[0] <= '9') seed = std::stoull(text, &end, 0);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end != text.size()) throw Error(ErrorKind::usage, "--seed '" + text + "' is not a number from 0 to 2^64 - 1");
  return seed;
}

int list_statements(bool json) {
  std::string out = json ? "[" : "";
  bool first = true;
  for (const Statement& s : all_statements()) {
    if (json) {
      out += fmt::format("{}\n  {{\"name\": \"{}\", \"sentence\": \"{}\", \"source\": \"{}\"}}", first ? "" : ",",
                         s.name, s.sentence, s.source);
    } else {
      out += fmt::format("{}\n  {}\n  source: {}\n", s.name, s.sentence, s.source);
    }
    first = false;
  }
  std::fputs((out + (json ? "\n]\n" : "")).c_str(), stdout);
  return 0;
}

GateOptions gate_options(const Options& o) {
  GateOptions options;
  options.tool = own_executable();
  options.library = find_candidate_library(o.candidate, options.tool);
  options.suite = parse_suite(o.suite);
  options.only = o.only;
  options.seed = parse_seed(o.seed);
  options.cases = o.cases;
  options.time_limit = std::chrono::milliseconds(static_cast<std::int64_t>(o.time_limit * 1000));
  options.time_limit.first_call = std::chrono::milliseconds(static_cast<std::int64_t>(o.first_call_limit * 1000));
  options.fail_fast = o.fail_fast;
  options.after = o.after;
  options.soak_minutes = o.soaks() ? o.soak : 0;
  options.jobs = o.jobs;
  options.record = !o.record.empty();
  options.interrupted = &interrupted;
  return options;
}

// The verdict of a process that has never run beside the candidate: exec leaves nothing of this one's memory, and all
// of the candidate's processes have ended. Sources are not looked at: the record is of the library that has just run.
[[noreturn]] void replay_apart(const std::string& record) {
  std::fputs(fmt::format("\nverdict apart: mxcheck replay --without-sources {}\n", record).c_str(), stdout);
  std::fflush(stdout);
  const std::string tool = own_executable();
  const std::string path = record.starts_with('-') ? "./" + record : record;
  execl(tool.c_str(), "mxcheck", "replay", "--without-sources", path.c_str(), static_cast<char*>(nullptr));
  throw Error(ErrorKind::environment, "mxcheck replay cannot be started as " + tool);
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void refuse(bool wrong, const char* why) {
  if (wrong) throw Error(ErrorKind::usage, why);
}

// What no parser of one option sees.
void check_options(const Options& o) {
  refuse(!(o.time_limit >= 0.1 && o.time_limit <= 86'400), "--time-limit must be from 0.1 to 86400 seconds");
  refuse(!(o.first_call_limit >= 0.1 && o.first_call_limit <= 86'400),
         "--first-call-limit must be from 0.1 to 86400 seconds");
  refuse(!o.record.empty() && !o.reproduce.empty(), "--record keeps a run, not one case");
  refuse(!o.after.empty() && o.reproduce.empty(), "--after goes with --reproduce");
  refuse(o.verdict_apart && o.record.empty(), "--verdict-apart replays what --record FILE keeps: give both");
  refuse(o.verdict_apart && o.json,
         "--verdict-apart prints two reports, and --json one: gate --json --record FILE, then replay --json FILE");
  if (!o.soaks()) return;
  refuse(!(o.soak >= 0.001 && o.soak <= 10'080), "--soak must be from 0.001 to 10080 minutes");
  refuse(!o.reproduce.empty(), "--soak repeats cases that it draws; --reproduce runs a given one: one of the two");
  refuse(!o.record.empty(), "--soak makes too many calls for --record to keep");
  refuse(o.cases != 0 || o.suite != Options().suite || o.coverage,
         "--soak ends by the time and covers no domain: --suite, --cases and --coverage say nothing to it");
}

int run_gate_command(const Options& o) {
  if (o.list) return list_statements(o.json);
  check_options(o);
  for (const std::string& path : {o.junit, o.html, o.record}) {
    if (!path.empty()) AtomicFile probe(path);  // an unwritable path is refused before anything runs
  }
  GateOptions options = gate_options(o);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  options.begun = [&](const GateReport& begun) {
    if (o.json) return;
    std::fputs(report_header(begun).c_str(), stdout);
    std::fflush(stdout);
  };
  const auto progress = [&](const StatementResult& r, bool finished) {
    if (terminal && !finished) std::fputs(fmt::format("{} ...\r", r.statement->name).c_str(), stderr);
    if (!finished) return;
    if (terminal) std::fputs("\x1b[2K", stderr);
    if (!o.json) {
      std::fputs(statement_line(r).c_str(), stdout);
      std::fflush(stdout);
    }
  };
  GateReport report = o.soaks()             ? run_soak(options, progress)
                      : o.reproduce.empty() ? run_gate(options, progress)
                                            : reproduce(options, o.reproduce);
  // What the statements gave is printed even where its files cannot be written any more; the exit code that is printed
  // is that of the process.
  std::string& unwritten = report.unwritten;
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const Error& e) {
      unwritten = e.what();
    }
  };
  if (std::ferror(stdout) != 0 && exit_code(report) == 0)
    throw Error(ErrorKind::environment, "standard output cannot be written");
  if (!o.junit.empty()) attempt([&] { write_text(o.junit, report_junit(report)); });
  if (report.record && exit_code(report) == 0) {
    attempt([&] { write_record(o.record, *report.record); });
  } else if (report.record) {
    std::fputs("mxcheck: no record is written of a run in which not every statement held\n", stderr);
  }
  if (o.json) std::fputs(report_json(report).c_str(), stdout);
  std::map<std::string, ExamplePictures> pictures;
  for (const StatementResult& r : report.statements) {
    if (!r.counterexample) continue;
    ExamplePictures& example = pictures[std::string(r.statement->name)];
    if (!o.save.empty() || !o.html.empty())
      attempt([&] { example.minimal = tensors_of_minimal(report, *r.counterexample, options); });
    if (!o.save.empty()) attempt([&] { example.saved = save_counterexample(report, r, o.save, example.minimal); });
    if (!o.html.empty()) attempt([&] { example.original = tensors_of_original(*r.counterexample, options); });
    if (!o.json) std::fputs(counterexample_text(report, r, example.saved).c_str(), stdout);
  }
  if (!o.html.empty()) attempt([&] { write_text(o.html, gate_page(report, pictures)); });
  if (!o.json) std::fputs(((o.coverage ? coverage_text(report) : "") + report_summary(report)).c_str(), stdout);
  const int code = exit_code(report);
  if (unwritten.empty() && code == 0 && o.verdict_apart) replay_apart(o.record);
  if (unwritten.empty()) return code;
  if (code == 3) throw Error(ErrorKind::environment, unwritten);
  std::fputs(fmt::format("mxcheck: error: {}\n", unwritten).c_str(), stderr);
  return code;
}

}  // namespace

void add_gate(Command& app) {
  auto options = std::make_shared<Options>();
  Command gate = app.subcommand("gate", "Compare a kernel library with the reference, bit for bit");
  gate.option("--candidate", options->candidate,
              "cpu, sm90, the path of a shared library that implements kernels/candidate.h, or python:MODULE:NAME, "
              "python:FILE.py:NAME")
      .shows_default();
  gate.option("--suite", options->suite, "quick (under a minute), full (ten times the cases), exhaustive")
      .shows_default();
  gate.option("--only", options->only, "run the statements whose names match this glob").shows_default();
  gate.option("--seed", options->seed, "root seed of the random cases; a fresh one is drawn and printed if not given");
  gate.option("--cases", options->cases, "random cases a statement instead of the suite's (200 and up)")
      .between(1, 10'000'000);
  gate.option("--soak", options->soak,
              "repeat drawn cases for so many minutes (0.1 is possible), for races and faults of one call in many");
  gate.option("--reproduce", options->reproduce, "run one case: 'STATEMENT: CASE' as a report prints it").not_empty();
  gate.option("--after", options->after, "a case that is called before that one, as its report prints it; in order");
  gate.option("--junit", options->junit, "also write the results as JUnit XML to this file").not_empty();
  gate.option("--html", options->html, "also write the results as one page, with pictures of what failed, to this file")
      .not_empty();
  gate.option("--record", options->record, "keep what every call returned in this HDF5 file, for mxcheck replay")
      .not_empty();
  gate.flag(
      "--verdict-apart", options->verdict_apart,
      "with --record: the exit code is that of mxcheck replay on it, in a process started after the candidate's end");
  gate.option("--save", options->save, "directory for counterexamples as tensors; '' saves none").shows_default();
  gate.option("--time-limit", options->time_limit, "seconds that one call may take, plus 1 for every 20 MB")
      .shows_default();
  gate.option("--first-call-limit", options->first_call_limit,
              "of functions in Python: seconds that importing them, and a call that may compile, may take")
      .shows_default();
  gate.flag("--fail-fast", options->fail_fast, "stop at the first statement that fails");
  gate.flag("--coverage,--classes", options->coverage,
            "print which bins of each operation's domain cases met, and which the candidate refused");
  gate.option("--jobs", options->jobs, "statements side by side; 0: as many as the machine has cores, 4 on a device")
      .between(0, 256);
  gate.flag("--list", options->list, "print the statements and exit");
  gate.flag("--json", options->json, "print the report as JSON");
  gate.footer(
      "Exit codes: 0 every statement held; 1 a counterexample; 2 usage; 3 environment; 4 inconclusive (nothing ran, a\n"
      "class of inputs was not reached, interrupted); 6 the candidate crashed or hung; 70 a defect of mxcheck.\n\n"
      "Examples:\n"
      "  mxcheck gate                                          the in-tree CPU library, quick suite\n"
      "  mxcheck gate --candidate ./libmine.so --junit r.xml   a library of yours, with a report for CI\n"
      "  mxcheck gate --candidate python:kernels:quantize      functions in Python (docs/python_candidates.md)\n"
      "  mxcheck gate --candidate sm90 --record h200.h5        the Hopper kernels, for a CI that has no GPU\n"
      "  mxcheck gate --soak 10                                ten minutes of repeated calls\n"
      "  mxcheck gate --only 'quantize*' --seed 7              some statements, a fixed seed");
  gate.runs([options] { return run_gate_command(*options); });
}

}  // namespace mxcheck

// mxcheck gate: a kernel library in, a verdict and the smallest counterexamples out.

#include "properties/process/candidate_process.h"
#include "tools/gate/outputs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "properties/core/operation.h"
#include "properties/gate/gate.h"
#include "properties/merge/merge.h"
#include "properties/report/report.h"
#include "tools/common/process_limits.h"
#include "tools/common/progress.h"
#include "tools/gate/shard_choice.h"
#include "tools/gate/workload.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

constexpr double kNoSoak = std::numeric_limits<double>::lowest();

struct Options {
  std::string candidate = "cpu";
  std::string suite = "quick";
  std::string only = "*";
  std::vector<std::string> claims;
  std::string seed;
  OutputOptions outputs;
  std::string shard;
  bool allow_empty_shard = false;
  bool resume = false;
  bool timings = false;
  std::string reproduce;
  std::vector<std::string> after;
  double soak = kNoSoak;  // minutes
  [[nodiscard]] bool soaks() const { return soak != kNoSoak; }
  std::string record;
  std::string save = "mxcheck-cases";
  int cases = 0;
  ProcessLimits limits;
  bool verdict_apart = false;
  bool fail_fast = false;
  bool list = false;
  int jobs = 0;
};

std::atomic<bool> interrupted{false};
void on_signal(int) { interrupted.store(true); }

Suite parse_suite(const std::string& name) {
  constexpr std::array kSuites{Suite::quick, Suite::full, Suite::exhaustive};
  const auto name_of = [](Suite suite) { return to_text(suite); };
  for (Suite suite : kSuites) {
    if (name == to_text(suite)) return suite;
  }
  throw Error(ErrorKind::usage, "unknown suite '" + name + "'" + known_names(name, kSuites, name_of));
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

int list_statements(const std::string& only, bool json) {
  std::string out = json ? "[" : "";
  bool first = true;
  for (const Statement* selected : statements_named(only)) {
    const Statement& s = *selected;
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
  options.claims = o.claims;
  options.seed = parse_seed(o.seed);
  options.cases = o.cases;
  options.time_limit = time_limits(o.limits);
  options.fail_fast = o.fail_fast;
  options.after = o.after;
  options.soak_minutes = o.soaks() ? o.soak : 0;
  options.jobs = o.jobs;
  options.record = !o.record.empty();
  options.timings = o.timings;
  options.interrupted = &interrupted;
  return options;
}

// Gives the verdict in a process that never ran beside the candidate: exec leaves nothing of this process's memory, and
// the candidate's processes have ended. It does not compare sources, because the library has just run.
[[noreturn]] void replay_apart(const std::string& record) {
  std::fputs(fmt::format("\nverdict apart: mxcheck replay --without-sources {}\n", record).c_str(), stdout);
  std::fflush(stdout);
  const std::string tool = own_executable();
  const std::string path = record.starts_with('-') ? "./" + record : record;
  execl(tool.c_str(), "mxcheck", "replay", "--without-sources", path.c_str(), static_cast<char*>(nullptr));
  throw Error(ErrorKind::environment, "mxcheck replay cannot be started as " + tool);
}

void refuse(bool wrong, const char* why) {
  if (wrong) throw Error(ErrorKind::usage, why);
}

// Checks options against one another; the command line has checked each one.
void check_options(const Options& o) {
  (void)time_limits(o.limits);
  refuse(!o.record.empty() && !o.reproduce.empty(), "--record keeps a run, not one case");
  refuse(!o.after.empty() && o.reproduce.empty(), "--after goes with --reproduce");
  refuse(o.verdict_apart && o.record.empty(), "--verdict-apart replays what --record FILE keeps: give both");
  refuse(o.verdict_apart && o.outputs.json,
         "--verdict-apart prints two reports, and --json one: gate --json --record FILE, then replay --json FILE");
  refuse(o.timings && (!o.reproduce.empty() || o.soaks()),
         "--timings belong to a suite: they do not go with --soak or --reproduce");
  refuse(!o.shard.empty() && (!o.reproduce.empty() || o.soaks()),
         "--shard splits the cases of a suite: it does not go with --soak or --reproduce");
  refuse(!o.shard.empty() && !o.record.empty(), "--record keeps a whole run, not a shard of one");
  refuse(!o.shard.empty() && o.seed.empty(), "--shard needs --seed: all shards of a run must use the same seed");
  refuse(o.resume && (o.outputs.report.empty() || o.seed.empty()),
         "--resume looks for the finished result of this run in the file of --report: give both, and --seed");
  refuse(o.resume && (!o.record.empty() || !o.reproduce.empty() || o.soaks() || o.timings),
         "--resume keeps a suite's result: it does not go with --record, --reproduce, --soak or --timings");
  if (!o.soaks()) return;
  refuse(!(o.soak >= 0.001 && o.soak <= 10'080), "--soak must be from 0.001 to 10080 minutes");
  refuse(!o.reproduce.empty(), "--soak repeats cases that it draws; --reproduce runs a given one: one of the two");
  refuse(!o.record.empty(), "--soak makes too many calls for --record to keep");
  refuse(o.cases != 0 || o.suite != Options().suite || o.outputs.coverage,
         "--soak runs for a time and covers no domain: it does not go with --suite, --cases or --coverage");
}

ShardChoice dealt_shard(const Options& o) {
  ShardChoice choice = shard_choice(o.shard, [](const char* name) { return std::getenv(name); });
  choice.shard.may_be_empty = choice.shard.may_be_empty || o.allow_empty_shard;
  if (!choice.status_file.empty()) touch(choice.status_file);
  return choice;
}

// The line of a statement; its verdict has a colour where the terminal takes one.
std::string coloured_line(const StatementResult& r) {
  const std::string line = statement_line(r);
  if (!shows_colours(STDOUT_FILENO)) return line;
  const char* const colour = r.verdict == Verdict::held ? "32" : r.verdict == Verdict::failed ? "1;31" : "33";
  const std::size_t end = line.find(' ');
  return fmt::format("\x1b[{}m{}\x1b[0m{}", colour, line.substr(0, end), line.substr(end));
}

// Shows the run: a line of progress on the terminal, and on standard output a line for each statement that has ended.
class Display {
 public:
  explicit Display(const Options& o) : o_(o) {}

  void begin(const GateReport& begun, const GateOptions& options) {
    planned_ = begun.planned;
    above([&] { std::fputs(report_header(begun).c_str(), stdout); });
    if (o_.soaks()) {
      line_.watch("soaking", [this, begun_at = std::chrono::steady_clock::now()] {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_at;
        return std::min(1.0, passed.count() / (60 * o_.soak));
      });
    } else if (planned_ > 0) {
      work_.emplace(statements_with_variants(begun), Workload::Run{parse_suite(o_.suite), o_.cases, begun.shard.count,
                                                                   jobs_of(options, begun.candidate), !o_.fail_fast});
      show();
      line_.rate("cases", 0, [this] { return static_cast<double>(cases_); });
      line_.time_left([this] { return work_->left(seconds()); });
    }
  }
  // These two come from any thread.
  void count_case(const Statement& s, const Case& c) {
    ++cases_;
    if (!work_) return;
    work_->count(s, cost_of(c));
    show();
  }
  void end(const Statement& s) {
    ++ended_;
    if (!work_) return;
    work_->end(s, seconds());
    show();
  }
  void statement(const StatementResult& r, bool finished) {
    if (!finished) {
      if (work_) work_->begin(*r.statement, seconds());
      const std::lock_guard lock(mutex_);
      last_ = r.statement->name;
    }
    if (!finished || r.verdict == Verdict::not_offered) return;
    above([&] { std::fputs(coloured_line(r).c_str(), stdout); });
  }

 private:
  // The planned statements that are about something that the candidate offers: the others take no time.
  [[nodiscard]] std::vector<const Statement*> statements_with_variants(const GateReport& begun) const {
    std::vector<const Statement*> statements = statements_named(o_.only);
    keep_those_about(begun.candidate, o_.only, statements);
    std::erase_if(statements, [&](const Statement* s) {
      return std::ranges::none_of(begun.variants, [&](const Variant& v) { return s->applies(v, begun.variants); });
    });
    return statements;
  }

  void above(const std::function<void()>& write) {
    if (o_.outputs.json) return;
    line_.above([&] {
      write();
      std::fflush(stdout);
    });
  }

  // Looked at once a second: cases are more.
  void show() {
    constexpr double kSeconds = 0.2;
    const std::lock_guard lock(mutex_);
    const double at = seconds();
    if (at < shown_ + kSeconds) return;
    shown_ = at;
    line_.now(fmt::format("{} of {} statements, {}", ended_.load(), planned_, last_), work_->share(at));
  }

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }

  const Options& o_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::size_t planned_ = 0;
  std::string_view last_;  // the statement that began last
  std::optional<Workload> work_;
  std::atomic<std::size_t> ended_{0};
  double shown_ = -1;  // seconds at which it was
  std::atomic<std::int64_t> cases_{0};
  Progress line_{"starting the candidate"};
};

// The tensors of each failure, for --save and --html. The candidate is called again for them.
std::map<std::string, ExamplePictures> pictures_of(const Options& o, GateReport& report, const GateOptions& options) {
  std::map<std::string, ExamplePictures> pictures;
  for (const StatementResult& r : report.statements) {
    if (!r.counterexample || (o.save.empty() && o.outputs.html.empty())) continue;
    ExamplePictures& example = pictures[std::string(r.statement->name)];
    attempt(report, [&] { example.minimal = tensors_of_minimal(report, *r.counterexample, options); });
    if (!o.save.empty())
      attempt(report, [&] { example.saved = save_counterexample(report, r, o.save, example.minimal); });
    if (!o.outputs.html.empty())
      attempt(report, [&] { example.original = tensors_of_original(*r.counterexample, options); });
  }
  return pictures;
}

void keep_record(const Options& o, GateReport& report) {
  if (report.record && exit_code(report) == 0) {
    attempt(report, [&] { write_record(o.record, *report.record); });
  } else if (report.record) {
    std::fputs("mxcheck: no record is written unless every statement held\n", stderr);
  }
}

// With --resume: the result of this run that the file of --report has; none where there is no file, or its run was
// interrupted.
std::optional<GateReport> finished_result(const Options& o, const GateOptions& options) {
  if (!o.resume || !path_exists(o.outputs.report)) return std::nullopt;
  ShardReport kept = read_report(o.outputs.report);
  CandidateProcess process(options.tool, options.library, options.time_limit, options.gpu_model, options.claims);
  GateOptions quiet = options;
  quiet.begun = nullptr;
  try {
    require_same_shard(kept, {"this run", begin_report(quiet, process)});
  } catch (const Error& e) {
    throw Error(ErrorKind::usage,
                std::string("--resume: ") + e.what() + "; name another file for --report, or remove it");
  }
  if (kept.report.interrupted) return std::nullopt;
  return std::move(kept.report);
}

int show_finished_result(const Options& o, GateReport report) {
  OutputOptions outputs = o.outputs;
  outputs.report.clear();  // it is as it was
  if (!outputs.json)
    std::fputs((o.outputs.report + " has the finished result of this run: nothing runs again\n").c_str(), stdout);
  print_results(outputs, report);
  write_outputs(outputs, report, {});
  return end_code(report);
}

int run_gate_command(const Options& o) {
  if (o.list) return list_statements(o.only, o.outputs.json);
  check_options(o);
  check_outputs(o.outputs);  // an unwritable path is refused before anything runs
  if (!o.record.empty()) AtomicFile probe(o.record);
  GateOptions options = gate_options(o);
  options.shard = dealt_shard(o).shard;
  if (std::optional<GateReport> result = finished_result(o, options))
    return show_finished_result(o, *std::move(result));
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  std::optional<Display> display(std::in_place, o);
  options.begun = [&](const GateReport& begun) { display->begin(begun, options); };
  options.checked = [&](const Statement& s, const Case& c) { display->count_case(s, c); };
  options.ended = [&](const Statement& s) { display->end(s); };
  const StatementWatch watch = [&](const StatementResult& r, bool finished) { display->statement(r, finished); };
  GateReport report = o.soaks()             ? run_soak(options, watch)
                      : o.reproduce.empty() ? run_gate(options, watch)
                                            : reproduce(options, o.reproduce);
  display.reset();
  // The results of the statements are printed even where their files cannot be written any more.
  if (std::ferror(stdout) != 0 && exit_code(report) == 0)
    throw Error(ErrorKind::environment, "standard output cannot be written");
  if (!o.outputs.json && !report.one_case) std::fputs(not_offered_text(report).c_str(), stdout);
  const std::map<std::string, ExamplePictures> pictures = pictures_of(o, report, options);
  keep_record(o, report);
  write_outputs(o.outputs, report, pictures);
  if (report.timings) std::fputs(timings_text(report).c_str(), o.outputs.json ? stderr : stdout);
  if (!o.outputs.json) std::fputs(busy_text(report.use).c_str(), stdout);
  if (report.unwritten.empty() && exit_code(report) == 0 && o.verdict_apart) replay_apart(o.record);
  return end_code(report);
}

}  // namespace

void add_gate(Command& app) {
  auto options = std::make_shared<Options>();
  Command gate = app.subcommand("gate", "Compare a kernel library with the reference, bit for bit");
  gate.option("--candidate", options->candidate,
              "cpu, sm90, the path of a shared library that implements kernels/candidate.h, or python:MODULE:NAME, "
              "python:FILE.py:NAME")
      .completes(tree_candidates())
      .shows_default();
  gate.option("--suite", options->suite, "quick (about a minute), full (ten times the cases), exhaustive")
      .completes({"quick", "full", "exhaustive"})
      .shows_default();
  gate.option(
          "--claim", options->claims,
          "hold products to this in place of the contract that the library names: any_order (or any_order+f13) where "
          "it promises no order of sums, as_accurate_as:CONTRACT where it promises no larger errors than a contract's; "
          "CONTRACT=CLAIM for those of one contract; OPERATION=any_order and OPERATION=as_accurate_as:exact for others")
      .not_empty();
  gate.option("--only", options->only, "run the statements whose names match this glob").shows_default();
  gate.option("--seed", options->seed, "root seed of the random cases; a fresh one is drawn and printed if not given");
  gate.option("--cases", options->cases, "random cases per statement, instead of the suite's (200 and up)")
      .between(1, 10'000'000);
  gate.option("--soak", options->soak,
              "repeat drawn cases for so many minutes (0.1 is possible), for races and faults of one call in many");
  gate.option("--reproduce", options->reproduce, "run one case: 'STATEMENT: CASE' as a report prints it").not_empty();
  gate.option("--after", options->after, "a case that is called before that one, as its report prints it; in order");
  gate.option("--shard", options->shard,
              "one of several machines' parts of the run: I/N, or slurm, slurm/N, kubernetes/N, gtest, bazel, gitlab "
              "for what they set in the environment")
      .not_empty();
  gate.flag("--allow-empty-shard", options->allow_empty_shard, "exit with 0 where no case falls to this shard");
  gate.flag("--resume", options->resume,
            "run nothing where the file of --report has this run's finished result: for jobs that are started again");
  add_outputs(gate, options->outputs);
  gate.flag("--timings", options->timings,
            "print where the time went: phases, and the statements that took longest (with --json on standard error)");
  gate.option("--record", options->record, "keep what every call returned in this HDF5 file, for mxcheck replay")
      .not_empty();
  gate.flag(
      "--verdict-apart", options->verdict_apart,
      "with --record: the exit code is that of mxcheck replay on it, in a process started after the candidate's end");
  gate.option("--save", options->save, "directory for counterexamples as tensors; '' saves none").shows_default();
  add_process_limits(gate, options->limits, "");
  gate.flag("--fail-fast", options->fail_fast, "stop at the first statement that fails");
  gate.option("--jobs", options->jobs, "statements side by side; 0: as many as the machine has cores, 4 on each GPU")
      .between(0, 256);
  gate.flag("--list", options->list, "print the statements, those of --only, and exit");
  gate.exits({{0, "every statement held"},
              {1, "a counterexample"},
              {2, "the command line, or the library is no candidate: nothing ran"},
              {3, "the machine: no memory, a device that is not there or that this build does not drive"},
              {4, "inconclusive: nothing ran, a class of inputs was not reached, or interrupted"},
              {6, "the candidate crashed or hung"}});
  gate.footer(
      "Examples:\n"
      "  mxcheck gate                                          the in-tree CPU library, quick suite\n"
      "  mxcheck gate --candidate ./libmine.so --junit r.xml   a library of yours, with a report for CI\n"
      "  mxcheck gate --candidate python:kernels:quantize      functions in Python (docs/python_candidates.md)\n"
      "  mxcheck gate --candidate sm90 --record h200.h5        the Hopper kernels, for a CI that has no GPU\n"
      "  mxcheck gate --seed 7 --shard 2/4 --report 2.json     a quarter of a run, for mxcheck merge\n"
      "  mxcheck gate --soak 10                                ten minutes of repeated calls\n"
      "  mxcheck gate --only 'quantize*' --seed 7              some statements, a fixed seed");
  gate.runs([options] { return run_gate_command(*options); });
}

namespace {

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// GitHub gives each step a file; several commands of one step add to it. Nothing where there is none.
void append_summary(const std::string& text) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || path[0] == '\0') return;
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(ErrorKind::usage, std::string("GITHUB_STEP_SUMMARY ") + path + " cannot be written");
}

}  // namespace

void add_outputs(Command& command, OutputOptions& options) {
  command.option("--junit", options.junit, "also write the results as JUnit XML to this file").not_empty();
  command
      .option("--html", options.html, "also write the results as one page, with pictures of what failed, to this file")
      .not_empty();
  command.option("--report", options.report, "also write the results as JSON to this file, for mxcheck merge")
      .not_empty();
  command.flag("--coverage,--classes", options.coverage,
               "print which bins of each operation's domain cases met, and which the candidate refused");
  command.flag("--github", options.github,
               "print annotations for GitHub Actions too, and append a summary to $GITHUB_STEP_SUMMARY");
  command.option("--source", options.source, "FILE[:LINE] that annotations and JUnit point to: where the kernel is")
      .not_empty();
  command.flag("--json", options.json, "print the report as JSON");
}

void check_outputs(const OutputOptions& o) {
  for (const std::string& path : {o.junit, o.html, o.report}) {
    if (!path.empty()) AtomicFile probe(path);
  }
  if (o.github && o.json)
    throw Error(ErrorKind::usage, "--github and --json both want standard output: --github --report FILE");
  if (o.github) append_summary("");
}

SourcePlace source_place(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto line =
      colon == std::string::npos ? std::nullopt : parse_number<int>(std::string_view(text).substr(colon + 1));
  if (!line || *line < 1 || colon == 0) return {text, 0};
  return {text.substr(0, colon), *line};
}

void attempt(GateReport& report, const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& e) {
    report.unwritten = e.what();
  }
}

void write_outputs(const OutputOptions& o, GateReport& report, const std::map<std::string, ExamplePictures>& pictures) {
  report.source = source_place(o.source);
  if (!o.junit.empty()) attempt(report, [&] { write_text(o.junit, report_junit(report)); });
  if (!o.report.empty()) attempt(report, [&] { write_text(o.report, report_json(report)); });
  if (!o.html.empty()) attempt(report, [&] { write_text(o.html, gate_page(report, pictures)); });
  if (o.github) attempt(report, [&] { append_summary(github_summary(report)); });
  if (o.json) {
    std::fputs(report_json(report).c_str(), stdout);
    return;
  }
  for (const StatementResult& r : report.statements) {
    if (!r.counterexample) continue;
    const auto found = pictures.find(std::string(r.statement->name));
    const std::string saved = found == pictures.end() ? "" : found->second.saved;
    std::fputs(counterexample_text(report, r, saved).c_str(), stdout);
  }
  std::fputs((machine_text(report) + (o.coverage ? coverage_text(report) : "") + report_summary(report)).c_str(),
             stdout);
  if (o.github) std::fputs(github_annotations(report).c_str(), stdout);
}

void print_results(const OutputOptions& o, const GateReport& report) {
  if (o.json) return;
  std::string text = report_header(report);
  for (const StatementResult& r : report.statements) {
    if (r.verdict != Verdict::not_offered) text += statement_line(r);
  }
  std::fputs((text + not_offered_text(report)).c_str(), stdout);
}

int end_code(const GateReport& report) {
  const int code = exit_code(report);
  if (report.unwritten.empty()) return code;
  if (code == spec(ErrorKind::environment).exit_code) throw Error(ErrorKind::environment, report.unwritten);
  std::fputs(fmt::format("mxcheck: error: {}\n", report.unwritten).c_str(), stderr);
  return code;
}

}  // namespace mxcheck

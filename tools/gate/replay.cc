// mxcheck replay: what a device returned, compared again with the reference on a machine that has none.

#include <malloc.h>

#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/merge/merge.h"
#include "properties/records/replay.h"
#include "properties/records/source_digest.h"
#include "properties/report/report.h"
#include "tools/common/output.h"
#include "tools/gate/outputs.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct ReplayOptions {
  std::string file;
  std::string root = ".";
  bool without_sources = false;
  bool json = false;
  int threads = 0;
};

// The kernels' sources that the record names, and how they have changed since.
struct Sources {
  std::int64_t files = 0;
  std::vector<std::string> changes;
};

Sources look_at_sources(const ReplayOptions& o, const Record& record) {
  Sources sources;
  for (const char c : record.candidate.sources) sources.files += c == '\n' ? 1 : 0;
  if (!o.without_sources) sources.changes = source_changes(o.root, record.candidate.sources);
  return sources;
}

std::string header(const Record& r) {
  std::string out = fmt::format("record of {} {}, digest {}\nmade by mxcheck {}, suite {}, seed {}\n", r.candidate.name,
                                r.candidate.version, r.candidate.digest, r.mxcheck, r.suite, r.seed);
  for (const auto& [key, value] : r.candidate.device) out += fmt::format("{:<20} {}\n", key, value);
  return out + "\n";
}

std::string line(const std::string& candidate, const ReplayedStatement& s) {
  std::string out = fmt::format("{:<9} {:<58} {:>7} cases {:>8} calls {:>8} outputs\n",
                                s.different == 0 ? "equal" : "DIFFERENT", s.name, s.cases, s.calls, s.outputs);
  for (const std::string& d : s.differences) out += "  case      " + d + "\n";
  const auto more = s.different - static_cast<std::int64_t>(s.differences.size());
  if (more > 0) out += fmt::format("  and {} cases more\n", more);
  if (s.different != 0) {
    out += fmt::format("  again     on the device: mxcheck gate --candidate {} --reproduce '{}: {}'\n", candidate,
                       s.name, s.differences.front().substr(0, s.differences.front().find('\n')));
  }
  return out;
}

int exit_code(const ReplayOptions& o, const ReplayReport& report, const Sources& sources) {
  if (!report.equal() || !sources.changes.empty()) return 1;
  return report.cases() == 0 || (sources.files == 0 && !o.without_sources) ? 4 : 0;
}

std::string verdict(const ReplayOptions& o, const ReplayReport& report, const Sources& sources) {
  std::string out;
  for (const std::string& name : report.unknown) out += "statement " + name + " is none of this mxcheck's\n";
  for (const std::string& change : sources.changes) out += "source " + change + "\n";
  if (!sources.changes.empty()) {
    out += "the record is of other sources: it has to be made again on the device (mxcheck gate --record)\n";
  } else if (o.without_sources) {
    out += "sources: not looked at\n";
  } else if (sources.files == 0) {
    out += "the record names no sources: whether the kernels have changed since is unknown (--without-sources)\n";
  } else {
    out += fmt::format("sources: {} files, none changed\n", sources.files);
  }
  std::int64_t outputs = 0;
  std::int64_t different = 0;
  for (const ReplayedStatement& s : report.statements) outputs += s.outputs, different += s.different;
  return out + fmt::format("{} statements, {} cases, {} outputs compared, {} cases differ; {:.1f} s\nexit code {}\n",
                           report.statements.size(), report.cases(), outputs, different, report.seconds,
                           exit_code(o, report, sources));
}

std::string as_json(const ReplayOptions& o, const Record& record, const ReplayReport& report, const Sources& sources) {
  Json j{{"candidate", record.candidate.name},
         {"version", record.candidate.version},
         {"library_digest", record.candidate.digest},
         {"mxcheck", record.mxcheck},
         {"suite", record.suite},
         {"seed", record.seed},
         {"seconds", report.seconds},
         {"source_files", sources.files},
         {"source_changes", sources.changes},
         {"unknown_statements", report.unknown},
         {"exit_code", exit_code(o, report, sources)}};
  for (const auto& [key, value] : record.candidate.device) j["device"][key] = value;
  for (const ReplayedStatement& s : report.statements) {
    j["statements"].push_back({{"name", s.name},
                               {"cases", s.cases},
                               {"calls", s.calls},
                               {"outputs", s.outputs},
                               {"different", s.different},
                               {"differences", s.differences}});
  }
  return to_text(j, {2, JsonOrder::by_name}) + "\n";
}

// Memory that one case frees is kept for the next one. Otherwise every large tensor takes new pages from the operating
// system, which for cases of 2^24 elements took a third of the time.
void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kLargest = 1 << 30;
  mallopt(M_ARENA_MAX, 1);  // the others' heaps hold no more than 64 MiB
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, kLargest);
#endif
}

int run_replay(const ReplayOptions& o) {
  keep_freed_memory();
  const Record record = read_record(o.file);
  if (!o.json) {
    std::fputs(header(record).c_str(), stdout);
    std::fflush(stdout);
  }
  const Sources sources = look_at_sources(o, record);
  const ReplayReport report = replay(record, o.threads, [&](const ReplayedStatement& s) {
    if (o.json) return;
    std::fputs(line(record.candidate.name, s).c_str(), stdout);
    std::fflush(stdout);
  });
  std::fputs(o.json ? as_json(o, record, report, sources).c_str() : ("\n" + verdict(o, report, sources)).c_str(),
             stdout);
  return exit_code(o, report, sources);
}

}  // namespace

void add_replay(Command& app) {
  auto options = std::make_shared<ReplayOptions>();
  Command replay =
      app.subcommand("replay", "Compare a record of a gate's run on a GPU with the reference, without a GPU");
  replay.option("record", options->file, "what mxcheck gate --record wrote").required();
  replay.option("--root", options->root, "folder under which the kernels' sources lie, as the record names them")
      .shows_default();
  replay.flag("--without-sources", options->without_sources, "do not ask whether the kernels have changed since");
  replay.option("--threads", options->threads, "0 for the machine's").between(0, 1024);
  replay.flag("--json", options->json, "print the report as JSON");
  replay.exits({{0, "every output is the reference's and no source has changed"},
                {1, "a difference, or changed sources"},
                {4, "inconclusive: no cases, or the record names no sources"},
                {5, "not a record, or a damaged one"}});
  replay.footer(
      "Examples:\n"
      "  mxcheck replay goldens/records/h200_quick.h5          in a checkout of the kernels that it is of\n"
      "  mxcheck replay theirs.h5 --without-sources            the answers alone");
  replay.runs([options] { return run_replay(*options); });
}

// mxcheck merge: the reports of a run's shards, one verdict out.

namespace {

struct MergeOptions {
  std::vector<std::string> files;
  OutputOptions outputs;
};

int run_merge(const MergeOptions& o) {
  check_outputs(o.outputs);
  GateReport report = merged(read_reports(o.files));
  print_results(o.outputs, report);
  write_outputs(o.outputs, report, {});
  return end_code(report);
}

}  // namespace

void add_merge(Command& app) {
  auto options = std::make_shared<MergeOptions>();
  Command merge = app.subcommand("merge", "Merge the shards of a run into one verdict");
  merge.option("reports", options->files, "the file that mxcheck gate --shard I/N --report FILE wrote, for every shard")
      .required();
  add_outputs(merge, options->outputs);
  merge.exits({{0, "every statement held"},
               {1, "a counterexample"},
               {2,
                "the command line, or reports that are not of one run: of another mxcheck, library, suite, seed or\n"
                "       selection, or of one shard twice"},
               {4, "inconclusive, as the gate is, or a shard is missing"},
               {6, "the candidate crashed or hung"}});
  merge.footer(
      "Example:\n"
      "  mxcheck gate --candidate ./libmine.so --seed 7 --shard 1/2 --report 1.json     on one machine\n"
      "  mxcheck gate --candidate ./libmine.so --seed 7 --shard 2/2 --report 2.json     on another\n"
      "  mxcheck merge 1.json 2.json --html run.html");
  merge.runs([options] { return run_merge(*options); });
}

}  // namespace mxcheck

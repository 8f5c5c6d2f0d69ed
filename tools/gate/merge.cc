// mxcheck merge: the reports of a run's shards, one verdict out.

#include <cstdio>
#include <memory>

#include "goldens/io/byte_source.h"
#include "numerics/error.h"
#include "properties/merge/merge.h"
#include "properties/merge/report_reader.h"
#include "properties/report/report.h"
#include "tools/gate/outputs.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

struct Options {
  std::vector<std::string> files;
  OutputOptions outputs;
};

int run_merge(const Options& o) {
  check_outputs(o.outputs);
  std::vector<ShardReport> shards;
  for (const std::string& file : o.files) {
    const FileSource source(file);
    if (source.size() > kMostBytes) throw Error(ErrorKind::input, file + ": larger than any report, 1 GiB");
    shards.push_back({file, report_from_json(source.text(), file)});
  }
  GateReport report = merged(std::move(shards));
  if (!o.outputs.json) {
    std::fputs(report_header(report).c_str(), stdout);
    for (const StatementResult& r : report.statements) std::fputs(statement_line(r).c_str(), stdout);
  }
  write_outputs(o.outputs, report, {});
  return end_code(report);
}

}  // namespace

void add_merge(Command& app) {
  auto options = std::make_shared<Options>();
  Command merge = app.subcommand("merge", "The verdict of a run whose shards were gated apart");
  merge.option("reports", options->files, "what mxcheck gate --shard I/N --report FILE wrote, of every shard")
      .required();
  add_outputs(merge, options->outputs);
  merge.footer(
      "Exit codes: those of the gate; 4 too where a shard is missing. 2 for reports that are not of one run: of "
      "another\n"
      "mxcheck, library, suite, seed or selection, or of one shard twice.\n\n"
      "Example:\n"
      "  mxcheck gate --candidate ./libmine.so --seed 7 --shard 1/2 --report 1.json     on one machine\n"
      "  mxcheck gate --candidate ./libmine.so --seed 7 --shard 2/2 --report 2.json     on another\n"
      "  mxcheck merge 1.json 2.json --html run.html");
  merge.runs([options] { return run_merge(*options); });
}

}  // namespace mxcheck

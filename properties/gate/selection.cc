#include "properties/gate/selection.h"

#include <fnmatch.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/gate/variants.h"
#include "properties/process/machine.h"

namespace mxcheck {
namespace {

constexpr int kHostJobs = 16;
constexpr int kCudaJobs = 4;  // processes that share a device

// The options with which a run is made again.
std::string arguments_of(const GateOptions& options) {
  std::string text = options.soak_minutes > 0 ? fmt::format("--soak {}", options.soak_minutes)
                                              : fmt::format("--suite {}", to_text(options.suite));
  text += fmt::format(" --seed {}", options.seed);
  if (options.only != "*") text += fmt::format(" --only '{}'", options.only);
  if (options.cases != 0) text += fmt::format(" --cases {}", options.cases);
  return options.jobs != 0 ? text + fmt::format(" --jobs {}", options.jobs) : text;
}

}  // namespace

std::vector<const Statement*> statements_named(const std::string& only) {
  std::vector<const Statement*> selected;
  for (const Statement& s : all_statements()) {
    if (fnmatch(only.c_str(), std::string(s.name).c_str(), 0) == 0) selected.push_back(&s);
  }
  if (!selected.empty()) return selected;
  throw Error(ErrorKind::usage, "--only '" + only + "' selects no statement; mxcheck gate --list prints them");
}

bool is_about(const Statement& s, const CandidateInfo& candidate) {
  if (s.of_the_interface && candidate.adapted) return false;
  return s.device == Statement::Device::any || (s.device == Statement::Device::cuda) == candidate.cuda;
}

void keep_those_about(const CandidateInfo& candidate, const std::string& only,
                      std::vector<const Statement*>& statements) {
  std::erase_if(statements, [&](const Statement* s) { return !is_about(*s, candidate); });
  if (!statements.empty()) return;
  throw Error(ErrorKind::usage,
              "--only '" + only + "' selects no statement about " + (candidate.cuda ? "CUDA" : "host") + " libraries");
}

int jobs_of(const GateOptions& options, const CandidateInfo& candidate) {
  if (options.jobs > 0) return options.jobs;
  return std::max(
      1, std::min(candidate.cuda ? kCudaJobs : kHostJobs, static_cast<int>(std::thread::hardware_concurrency())));
}

GateReport begin_report(const GateOptions& options, CandidateProcess& process) {
  GateReport report;
  report.arguments = arguments_of(options);
  report.candidate = process.info();
  report.suite = options.soak_minutes > 0 ? "soak" : to_text(options.suite);
  report.seed = options.seed;
  report.shard = options.shard;
  report.random_cases = options.cases;
  report.selective = options.only != "*";
  report.machine = build_and_machine(report.candidate);
  report.variants = offered_variants(process);
  if (options.begun) options.begun(report);
  return report;
}

}  // namespace mxcheck

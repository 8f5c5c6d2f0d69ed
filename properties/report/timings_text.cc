#include "properties/report/timings_text.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace mxcheck {
namespace {

constexpr std::size_t kStatements = 10;

double percent(double part, double all) { return all > 0 ? 100 * part / all : 0; }

std::string row(std::string_view name, PhaseTimes::Seconds seconds, PhaseTimes::Seconds all) {
  return fmt::format("  {:<16} {:>9.2f} {:>5.1f} % {:>9.2f} {:>5.1f} %\n", name, seconds.wall,
                     percent(seconds.wall, all.wall), seconds.cpu, percent(seconds.cpu, all.cpu));
}

}  // namespace

std::string timings_text(const GateReport& report) {
  const GateTimings& t = *report.timings;
  const PhaseTimes::Seconds known = t.phases.sum();
  const PhaseTimes::Seconds all{std::max(known.wall, report.seconds * t.jobs), std::max(known.cpu, report.use.own_cpu)};
  std::string out = fmt::format("\nwhere the time went: {} {}, {:.2f} s\n  {:<16} {:>9} {:>17}\n", t.jobs,
                                t.jobs == 1 ? "job" : "jobs", report.seconds, "", "wall s", "CPU s");
  for (std::size_t i = 0; i < kPhaseNames.size(); ++i) {
    PhaseTimes::Seconds seconds = t.phases.of(static_cast<Phase>(i));
    // Jobs begin when the first process has answered, and end one after the other.
    if (static_cast<Phase>(i) == Phase::idle) seconds.wall += all.wall - known.wall;
    out += row(kPhaseNames[i], seconds, all);
  }
  // Threads that draw or compute for a job, and processes on their way out, use CPU that is no job's.
  out += row("other threads", {0, all.cpu - known.cpu}, all);
  out += row("together", all, all);
  std::vector<GateTimings::OfStatement> longest = t.statements;
  std::stable_sort(longest.begin(), longest.end(),
                   [](const auto& a, const auto& b) { return a.seconds.wall > b.seconds.wall; });
  if (longest.size() > kStatements) longest.resize(kStatements);
  out += "statements that took longest\n";
  for (const GateTimings::OfStatement& s : longest) {
    std::string line = row("", s.seconds, all);
    line.insert(line.size() - 1, fmt::format("  {}", s.statement->name));
    out += line;
  }
  return out;
}

std::string busy_text(const MachineUse& use) {
  const double had = use.wall * use.cores;
  const bool is_full = use.own_cpu + use.other_cpu >= 0.8 * had;
  if (use.wall < kLeastToJudge || !is_full || use.other_cpu < 0.1 * had) return "";
  return fmt::format(
      "the machine was busy: {:.0f} s of wall for {:.0f} s of CPU on {} cores; other processes took {:.0f} s\n",
      use.wall, use.own_cpu, use.cores, use.other_cpu);
}

}  // namespace mxcheck

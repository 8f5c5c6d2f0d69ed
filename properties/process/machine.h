#pragma once
// Build and machine, as reports name them.

#include <string>
#include <utility>
#include <vector>

#include "properties/process/candidate_process.h"

namespace mxcheck {

// Pairs such as {"mxcheck", "0.1.0 commit 0123abcd"}, {"compiler", ...}, {"cpu", ...}, {"system", ...}.
std::vector<std::pair<std::string, std::string>> build_and_machine(const CandidateInfo& candidate);

// CPU seconds so far: of this process and of those that it has waited for, and of all processes on the machine with
// what other virtual machines took (steal). Where /proc/stat cannot be read, the latter is 0.
struct CpuSeconds {
  double own = 0;
  double machine = 0;
};
CpuSeconds cpu_seconds();

}  // namespace mxcheck

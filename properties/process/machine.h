#pragma once
// Build and machine, as reports name them.

#include <string>
#include <utility>
#include <vector>

#include "properties/process/candidate_process.h"

namespace mxcheck {

// Pairs such as {"mxcheck", "0.1.0 commit 0123abcd"}, {"compiler", ...}, {"cpu", ...}, {"system", ...}.
std::vector<std::pair<std::string, std::string>> build_and_machine(const CandidateInfo& candidate);

}  // namespace mxcheck

#pragma once
// The definitions that each policy of a candidate library (kernels/candidate.h) follows, whether declared or not:
// docs/identify.md.
//
//   CandidateProcess process(own_executable(), "libmine.so", std::chrono::seconds(20));
//   const LibraryReport r = identify_library(process, {}, [](const PolicyReport& p) { print(to_text(p)); });
//   summary_text(r);
//
// The library runs in a process of its own, as under the gate. One that crashes, does not return or refuses is
// reported, and the next policy is asked in a fresh process; an operation that has done so three times is not asked any
// more.
//
// Errors: Error{usage} for an operation that is none. Does not promise: groups, biases, offsets, layouts of scales,
// alpha and C, and operations other than products, quantizations, casts and token choice.

#include <functional>
#include <string>
#include <vector>

#include "goldens/json/json.h"
#include "properties/identify/library/boxes.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

struct LibraryReport {
  CandidateInfo candidate;
  std::size_t offered = 0;  // variants
  std::vector<PolicyReport> policies;
  std::vector<std::string> not_asked;  // operations of the table, and why

  [[nodiscard]] std::size_t holding() const;
  [[nodiscard]] std::size_t ended() const;
};

LibraryReport identify_library(CandidateProcess& process, const LibraryQuestion& question,
                               const std::function<void(const PolicyReport&)>& each = {});

// Error{usage} for an operation that is none.
void check_operation(const LibraryQuestion& question);

// The candidate in a line; a policy in a line where what it declares holds, else with all that was found; all together.
std::string header_text(const CandidateInfo& candidate);
std::string to_text(const PolicyReport& report);
std::string summary_text(const LibraryReport& report);
// {"candidate": {...}, "policies": [{"operation", "policy", "holds", "ended", "trouble", "match", "scales",
// "elements"}], ...}
Json to_json(const LibraryReport& report);

}  // namespace mxcheck

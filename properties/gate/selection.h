#pragma once
// Which statements a run is about, and the beginning of its report.

#include <string>
#include <vector>

#include "properties/gate/gate.h"

namespace mxcheck {

// By --only. Error{usage} where it selects none.
std::vector<const Statement*> statements_named(const std::string& only);
// Keeps the statements among them that are about the candidate's device. Error{usage} where there are none.
void keep_those_about(const CandidateInfo& candidate, const std::string& only,
                      std::vector<const Statement*>& statements);
bool is_about(const Statement& s, const CandidateInfo& candidate);

// Processes of the candidate, side by side.
int jobs_of(const GateOptions& options, const CandidateInfo& candidate);

// The candidate and what it offers; options.begun is told.
GateReport begin_report(const GateOptions& options, CandidateProcess& process);

}  // namespace mxcheck

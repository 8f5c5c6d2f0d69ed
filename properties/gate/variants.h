#pragma once
// What a candidate can be asked, and which kinds of cases a statement about it has to have seen.

#include <set>
#include <string>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/statement.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

// Every variant that the candidate says it supports: all of each known operation, and of each contract of matmul, is
// asked for.
std::vector<Variant> offered_variants(CandidateProcess& process);

// Classes (case.h) that a statement's random cases must reach: each value of each dimension that it draws from.
// `refused`: options that the candidate does not offer.
std::set<std::string> required_classes(const Statement& s, const std::vector<Variant>& variants,
                                       const CandidateRunner& process, const std::set<std::string>& refused);

}  // namespace mxcheck

#pragma once
// What a candidate can be asked, how cases of it are drawn, and which kinds of cases a statement has to have seen.

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "properties/core/operation.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

// Every variant that the candidate says it supports: all of each known operation, and of each contract of matmul, is
// asked for. Those of one operation follow one another, in the registry's order.
std::vector<Variant> offered_variants(CandidateProcess& process);

// Classes (case.h) that a statement's random cases must reach: each value of each dimension that it draws from.
// `refused`: options that the candidate does not offer.
std::set<std::string> required_classes(const Statement& s, const std::vector<Variant>& variants,
                                       const CandidateRunner& process, const std::set<std::string>& refused);

// The variants of one operation, in variants that are ordered as those of offered_variants.
std::span<const Variant> variants_of(std::span<const Variant> variants, const Operation& operation);

// How many draws the variants are worth together (Operation::fixed_weight), and one of them, drawn by those weights.
std::size_t weight_of(std::span<const Variant> variants);
const Variant& draw_variant(std::span<const Variant> variants, Draw& draw);

// A random case of a statement for one of the variants; shapes favour block edges, honour the operation's limits, and
// hold at most about 50,000 elements.
Case draw_case(const Statement& statement, std::span<const Variant> variants, const CandidateRunner& process,
               Draw& draw);

}  // namespace mxcheck

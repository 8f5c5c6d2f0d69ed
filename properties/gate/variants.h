#pragma once
// What a candidate can be asked, and how often each variant is drawn.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "properties/core/operation.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

// Every variant that the candidate says it supports: all of each known operation, and of each contract of matmul, is
// asked for. Those of one operation follow one another, in the registry's order.
std::vector<Variant> offered_variants(CandidateProcess& process);

// The variants of one operation, in variants that are ordered as those of offered_variants.
std::span<const Variant> variants_of(std::span<const Variant> variants, const Operation& operation);

// How many draws the variants are worth together (Operation::fixed_weight), and one of them, drawn by those weights.
std::size_t weight_of(std::span<const Variant> variants);
const Variant& draw_variant(std::span<const Variant> variants, Draw& draw);

}  // namespace mxcheck

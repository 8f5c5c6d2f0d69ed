#pragma once
// A soak: the same calls again and again for a given time, for races and for faults of one call in many, which a suite
// meets by luck alone.
//
// Cases of the statements that outputs are Problem::answer(), of every variant that is offered, are drawn; the
// reference answers each once. Some are in hand at a time, and bursts of one to 32 calls of one of them follow bursts
// of another in random order. Every call has tensors of its own, filled anew; each burst comes from one of the
// process's three threads. On a device each call is made in a stream of its own, in the default one, or three times at
// once.

#include <cstdint>

#include "properties/gate/gate.h"

namespace mxcheck {

// Runs for options.soak_minutes. GateReport::soak is set; a statement of which a variant was not met is inconclusive.
// Error{usage} for a library that is no candidate or an --only that selects no statement of this kind.
GateReport run_soak(const GateOptions& options, const StatementWatch& watch);

// After n calls without a failure: the rate of failures that n calls would have shown at least once in 95 % of all
// such runs, if calls fail independently: 1 - 0.05^(1/n), which is below 3/n ("If nothing goes wrong, is everything all
// right?", Hanley and Lippman-Hand, JAMA 249, 1983). Returned: 3/n, 1 at most.
double rule_of_three(std::int64_t calls);

}  // namespace mxcheck

#pragma once
// The faults of routers, as hypotheses for goldens of the kinds route and route_round.

#include <span>
#include <vector>

#include "properties/diagnosis/cause.h"
#include "properties/diagnosis/golden_verdict.h"

namespace mxcheck {

// The hypotheses refer to golden, which must outlive them. None for other kinds. Error{golden} for attributes or
// datasets that no such golden has.
std::vector<Hypothesis> route_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset);

// The gradient of a layer golden's logits from that of each slot's weight, of token choice.
std::vector<float> logits_gradient_of(const GoldenTensors& golden, std::span<const float> slot_gradient);

}  // namespace mxcheck

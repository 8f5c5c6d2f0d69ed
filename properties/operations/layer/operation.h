#pragma once
// swiglu: H to A, its codes and their transposes. swiglu_backward: its gradient. aggregate: rows to tokens.
// quantize_transposed: codes along tokens, as the gradients of weights read them.

#include "properties/core/operation.h"
#include "properties/operations/layer/fields.h"

namespace mxcheck {

OperationModule layer_module();

// Everything that could be asked of "swiglu", "swiglu_backward" or "aggregate".
std::vector<Variant> askable_steps(const std::string& operation);
// Error{usage} for a case of those that no call could pose.
void check_step(const Case& c);

// Cases of those, of any variant.
Case step_corner(const Variant& v, std::int64_t rows, std::int64_t cols, Data data, std::uint64_t seed);
std::unique_ptr<Domain> swiglu_domain(const DomainRequest& request);
std::unique_ptr<Domain> aggregate_domain(const DomainRequest& request);
std::vector<Case> simpler_steps(const Case& c, const Finding& finding);
std::vector<InvalidCall> invalid_steps(std::string_view operation);
std::vector<InvalidCall> invalid_transposes();

const Operation& quantize_transposed_operation();

}  // namespace mxcheck

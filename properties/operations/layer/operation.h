#pragma once
// swiglu: H to A, its codes and their transposes. swiglu_backward: its gradient. aggregate: rows to tokens.
// quantize_transposed: codes along tokens, as the gradients of weights read them.

#include <optional>
#include <string_view>
#include <vector>

#include "properties/core/law.h"
#include "properties/core/operation.h"
#include "properties/operations/layer/fields.h"

namespace mxcheck {

OperationModule layer_module();

// Everything that could be asked of "swiglu" or "swiglu_backward", and of "aggregate".
std::vector<Variant> askable_swiglus(const std::string& operation);
std::vector<Variant> askable_aggregates(const std::string& operation);
// Error{usage} for a case of those that no call could pose.
void check_swiglu(const Case& c);
void check_aggregate(const Case& c);

// Cases of those, of any variant.
Case step_corner(const Variant& v, std::int64_t rows, std::int64_t cols, Data data, std::uint64_t seed);
std::unique_ptr<Domain> swiglu_domain(const DomainRequest& request);
std::unique_ptr<Domain> aggregate_domain(const DomainRequest& request);
std::vector<Case> simpler_steps(const Case& c, const Finding& finding);
std::vector<InvalidCall> invalid_swiglus();
std::vector<InvalidCall> invalid_aggregates();
std::vector<InvalidCall> invalid_transposes();

const Operation& quantize_transposed_operation();

// Helpers shared by the statements about the steps of a layer.

// The families (equality.cc, claims.cc, swiglu_laws.cc).
std::vector<Statement> step_equality_statements();
std::vector<Statement> step_claim_statements(const std::vector<Statement>& equality);
std::vector<Statement> swiglu_law_statements();
std::vector<Statement> expert_law_statements();
std::vector<Statement> aggregate_law_statements();

using Applies = bool(const Variant&, std::span<const Variant>);

// A statement about drawn cases.
Statement step_law(std::string_view name, std::string_view sentence, Applies* applies, LawCheck* check);

// One of each kind among variants that differ by recipe, format and block: those that every suite gives more.
bool is_usual(const Variant& v);

// Lines of a tensor moved: line i of what is returned was line (i + by) % lines.
std::vector<std::byte> rotated(std::span<const std::byte> from, std::int64_t lines, std::int64_t by);

}  // namespace mxcheck

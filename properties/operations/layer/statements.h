#pragma once
// Helpers shared by the statements about the steps of a layer.

#include <optional>
#include <string_view>
#include <vector>

#include "properties/core/check.h"
#include "properties/operations/layer/operation.h"

namespace mxcheck {

// The families (equality.cc, swiglu_laws.cc, expert_laws.cc, aggregate_laws.cc).
std::vector<Statement> step_equality_statements();
std::vector<Statement> swiglu_law_statements();
std::vector<Statement> expert_law_statements();
std::vector<Statement> aggregate_law_statements();

using Check = std::optional<Finding>(CheckContext&, const Case&);
using Applies = bool(const Variant&, std::span<const Variant>);

// A statement about drawn cases.
Statement step_law(std::string_view name, std::string_view sentence, Applies* applies, Check* check);

// One of each kind among variants that differ by recipe, format and block: those that every suite gives more.
bool is_usual(const Variant& v);

// Lines of a tensor moved: line i of what is returned was line (i + by) % lines.
std::vector<std::byte> rotated(std::span<const std::byte> from, std::int64_t lines, std::int64_t by);

}  // namespace mxcheck

#pragma once
// Helpers shared by the statements about whole layers.

#include <optional>
#include <string_view>
#include <vector>

#include "properties/core/check.h"
#include "properties/operations/moe/operation.h"
#include "properties/operations/moe/problem.h"

namespace mxcheck {

std::vector<Statement> moe_equality_statements();
std::vector<Statement> moe_token_law_statements();
std::vector<Statement> moe_expert_law_statements();
std::vector<Statement> moe_order_law_statements();

using MoeCheck = std::optional<Finding>(CheckContext&, const Case&);

// A statement about drawn cases.
Statement moe_law(std::string_view name, std::string_view sentence, bool (*applies)(const Variant&), MoeCheck* check);

// The outputs of two problems, or the finding that stopped one of them, or neither: not offered.
struct MoePair {
  CallOutputs before, after;
  bool usable = false;
  std::optional<Finding> finding;
};
MoePair run_both(CheckContext& context, const Problem& one, const Problem& other);

}  // namespace mxcheck

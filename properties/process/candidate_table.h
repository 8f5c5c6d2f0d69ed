#pragma once
// The operations of a candidate's table, as its process describes them: known to the gate, each once, with limits that
// can be, and held to what the caller claims in place of their own contracts. And the variants of them that it
// supports.
//
//   const auto operations = operations_in(reply_operations, {"aggregate=any_order"}, "./libmine.so");

#include <span>
#include <string>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/operation.h"
#include "properties/process/candidate_process.h"
#include "properties/process/wire.h"

namespace mxcheck {

// claims: as CandidateProcess takes them; library: for messages. Error{usage} for a table that cannot be, and for a
// claim that is of none of its operations. Limits are not clamped to what makes sense: the gate would check less, or
// other shapes, than the library says.
std::vector<OperationInfo> operations_in(std::span<const wire::Operation> table, const std::vector<std::string>& claims,
                                         const std::string& library);

// The variants that the candidate says it supports, of variants that all have one operation's name.
std::vector<Variant> supported_of(CandidateProcess& process, const Operation& operation, std::vector<Variant> variants);

}  // namespace mxcheck

#pragma once
// matmul: D = alpha A B^T + C under an accumulation contract, dense or grouped along rows or depth.

#include "properties/core/operation.h"
#include "properties/operations/matmul/fields.h"

namespace mxcheck {

OperationModule matmul_module();

// The families of its statements (equality.cc, large.cc).
std::vector<Statement> matmul_statements();
std::vector<Statement> large_matmul_statements();

// Everything that could be asked of a matmul under this contract; `operation` is "matmul:" and the contract.
std::vector<Variant> askable_matmuls(const std::string& operation);

// A case of the variant with groups that are one third, none, and the rest of what they divide.
Case matmul_corner(const Variant& v, std::int64_t rows, std::int64_t cols, std::int64_t depth, Data data,
                   std::uint64_t seed);

std::unique_ptr<Domain> matmul_domain(const DomainRequest& request);
std::vector<Case> simpler_matmuls(const Case& c, const Finding& finding);

// True if any NaN in D equals any other: everywhere but where a tensor core's own result reaches D.
bool any_nan_in_d_is_equal(std::string_view operation);

}  // namespace mxcheck

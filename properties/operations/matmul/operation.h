#pragma once
// matmul: D = alpha A B^T + C under an accumulation contract, dense or grouped along rows or depth.

#include <span>
#include <string_view>
#include <vector>

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

// Cases that are there in every run (corners.cc): of a variant; of each kind of kernel; sums of single steps; special
// scales of A by those of B, everywhere and in one block of k.
std::vector<Case> usual_matmuls(const Variant& v, Suite suite);
std::vector<Case> matmuls_of_each_kind(std::span<const Variant> variants, Suite suite);
std::vector<Case> many_sums_of_steps(const Variant& v, Suite suite);
std::vector<Case> matmuls_of_special_scales(const Variant& v, Suite suite);
std::vector<Case> matmuls_of_special_blocks(std::span<const Variant> variants, Suite suite);

std::unique_ptr<Domain> matmul_domain(const DomainRequest& request);
std::vector<Case> simpler_matmuls(const Case& c, const Finding& finding);

// True if any NaN in D equals any other: everywhere but where a tensor core's own result reaches D. Of a case also
// where alpha or C come after that result.
bool any_nan_in_d_is_equal(std::string_view operation);
bool any_nan_in_d_is_equal(const Case& c);

}  // namespace mxcheck
